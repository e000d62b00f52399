package kube

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tonnage/tonnage/provider/kubeconfig"
)

const (
	// UserAgent is what API servers know the provider by, in their audit logs for instance.
	UserAgent = "tonnage-provider"
	// RefreshEvery is how often a kubeconfig is read again.
	RefreshEvery = 10 * time.Second
	// refreshLeast is the shortest time between two readings after refused credentials.
	refreshLeast = time.Second
	// readTimeout is how long one reading may take.
	readTimeout = 10 * time.Second
	// queriesPerSecond and queryBurst are of one endpoint; a machine's life takes some six writes.
	queriesPerSecond, queryBurst = 200, 400
)

// Clients are what speaks to an API server with credentials of one time.
type Clients struct {
	Dynamic   dynamic.Interface
	Metadata  metadata.Interface
	Discovery *discovery.DiscoveryClient
	Host      string // URL of the API server
	// Stale is closed when the credentials have changed.
	Stale <-chan struct{}
}

// Endpoint is an API server and where the credentials for it are. Safe for concurrent use.
type Endpoint struct {
	name string // for people: where the credentials are
	load func(ctx context.Context) (*rest.Config, kubeconfig.Digest, error)

	refreshing sync.Mutex // one at a time
	mu         sync.Mutex
	digest     kubeconfig.Digest
	looked     time.Time
	clients    *Clients
	stale      chan struct{}
}

// InCluster is the API server of the cluster that the process is a pod of.
func InCluster() *Endpoint {
	return &Endpoint{name: "the pod's service account", load: func(context.Context) (*rest.Config, kubeconfig.Digest, error) {
		c, err := kubeconfig.InCluster()
		return c, kubeconfig.Digest{}, err
	}}
}

// File is the API server that a kubeconfig file names. An empty name of a context is the file's current one.
func File(path, contextName string) *Endpoint {
	return &Endpoint{name: "kubeconfig " + path, load: func(context.Context) (*rest.Config, kubeconfig.Digest, error) {
		return kubeconfig.Read(path, contextName)
	}}
}

// Fixed is an API server with credentials that do not change.
func Fixed(name string, c *rest.Config) *Endpoint {
	return &Endpoint{name: name, load: func(context.Context) (*rest.Config, kubeconfig.Digest, error) {
		return rest.CopyConfig(c), kubeconfig.Digest{}, nil
	}}
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// Secret is the API server that a kubeconfig in a Secret names, under a key of its data. in is where
// the Secret is.
func Secret(in *Endpoint, namespace, name, key string) *Endpoint {
	return &Endpoint{name: fmt.Sprintf("Secret %s/%s", namespace, name), load: func(ctx context.Context) (*rest.Config, kubeconfig.Digest, error) {
		text, err := secret(ctx, in, namespace, name, key)
		if err != nil {
			return nil, kubeconfig.Digest{}, err
		}
		k, err := clientcmd.Load(text)
		if err != nil {
			return nil, kubeconfig.Digest{}, err
		}
		if err := harmless(k); err != nil {
			return nil, kubeconfig.Digest{}, err
		}
		c, err := clientcmd.NewDefaultClientConfig(*k, nil).ClientConfig()
		return c, sha256.Sum256(text), err
	}}
}

// secret returns what a Secret has under a key.
func secret(ctx context.Context, in *Endpoint, namespace, name, key string) ([]byte, error) {
	c, err := in.Clients(ctx)
	if err != nil {
		return nil, err
	}
	o, err := c.Dynamic.Resource(secrets).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, in.Explain(err)
	}
	coded, found, err := unstructured.NestedString(o.Object, "data", key)
	if err != nil || !found {
		return nil, fmt.Errorf("it has no kubeconfig under the key %s", key)
	}
	return base64.StdEncoding.DecodeString(coded)
}

// harmless refuses a kubeconfig that has programs run or files read.
func harmless(k *clientcmdapi.Config) error {
	for name, u := range k.AuthInfos {
		if u.Exec != nil || u.AuthProvider != nil {
			return fmt.Errorf("user %q has a program run for its credentials; only a kubeconfig in a file may", name)
		}
		if u.ClientCertificate != "" || u.ClientKey != "" || u.TokenFile != "" {
			return fmt.Errorf("user %q names files; a kubeconfig in a Secret must hold its credentials itself", name)
		}
	}
	for name, c := range k.Clusters {
		if c.CertificateAuthority != "" {
			return fmt.Errorf("cluster %q names a file; a kubeconfig in a Secret must hold the authority's certificate itself", name)
		}
	}
	return nil
}

// String says where the credentials are.
func (e *Endpoint) String() string { return e.name }

// Clients returns the newest clients. The first call reads the kubeconfig.
func (e *Endpoint) Clients(ctx context.Context) (*Clients, error) {
	e.mu.Lock()
	c := e.clients
	e.mu.Unlock()
	if c != nil {
		return c, nil
	}
	if err := e.refresh(ctx, 0); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.clients, nil
}

// Run reads the kubeconfig again and again, until the context ends.
func (e *Endpoint) Run(ctx context.Context) {
	ticker := time.NewTicker(RefreshEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = e.refresh(ctx, 0) // the clients before stay in use; who uses them hears what is wrong
		case <-ctx.Done():
			return
		}
	}
}

// refresh reads the kubeconfig unless that was done less than least ago.
func (e *Endpoint) refresh(ctx context.Context, least time.Duration) error {
	e.refreshing.Lock()
	defer e.refreshing.Unlock()
	e.mu.Lock()
	have, recent := e.clients != nil, time.Since(e.looked) < least
	e.looked = time.Now()
	e.mu.Unlock()
	if have && recent {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	config, digest, err := e.load(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	e.mu.Lock()
	same := e.clients != nil && digest == e.digest
	e.mu.Unlock()
	if same {
		return nil
	}
	clients, err := connect(config)
	if err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	stale := make(chan struct{})
	clients.Stale = stale
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stale != nil {
		close(e.stale)
	}
	e.digest, e.clients, e.stale = digest, clients, stale
	return nil
}

// connect makes clients that share their connections.
func connect(config *rest.Config) (*Clients, error) {
	config.UserAgent = UserAgent
	config.QPS, config.Burst = queriesPerSecond, queryBurst
	config.WarningHandler = rest.NoWarnings{}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c := &Clients{Host: config.Host}
	var errs [3]error
	c.Dynamic, errs[0] = dynamic.NewForConfigAndClient(config, h)
	c.Metadata, errs[1] = metadata.NewForConfigAndClient(metadata.ConfigFor(config), h)
	c.Discovery, errs[2] = discovery.NewDiscoveryClientForConfigAndClient(config, h)
	return c, errors.Join(errs[:]...)
}

// Explain says in an error of a call where it came from and, where the credentials were refused, what to do. It
// has these be read again soon. The error stays what it is for errors.Is and errors.As.
func (e *Endpoint) Explain(err error) error {
	if err == nil {
		return nil
	}
	host := "its API server"
	e.mu.Lock()
	if e.clients != nil {
		host = e.clients.Host
	}
	e.mu.Unlock()
	switch {
	case apierrors.IsUnauthorized(err):
		go func() { _ = e.refresh(context.Background(), refreshLeast) }()
		return fmt.Errorf("%s refuses the credentials of %s; have they expired? New ones are taken over within %v: %w", host, e.name, RefreshEvery, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s does not allow this to the credentials of %s: %w", host, e.name, err)
	case statusOf(err) == 0:
		return fmt.Errorf("%s, as %s names it, cannot be asked: %w", host, e.name, err)
	}
	return err
}

// statusOf returns the HTTP status of a server's answer, 0 = there was none.
func statusOf(err error) int32 {
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		return max(s.Status().Code, http.StatusContinue)
	}
	return 0
}
