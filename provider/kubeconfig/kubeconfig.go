// Package kubeconfig reads how a Kubernetes API server is reached, with credentials that may be replaced
// while a process runs: a kubeconfig file is read again when its content changes, and so is its file of
// certificate authorities. What a kubeconfig refers to otherwise is client-go's matter, which reads tokens and client
// certificates in files again and runs exec plugins when a credential has expired.
//
// Source keeps the newest configuration of a file. A caller that keeps more than that, such as clients, calls
// Read.
package kubeconfig

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Source is where the configuration of clients comes from. Safe for concurrent use.
type Source struct {
	path  string
	agent string
	log   *slog.Logger

	mu      sync.Mutex
	digest  Digest
	config  *rest.Config // nil = none was read yet
	changes uint64
	fault   string // of the newest content, "" = it was taken over
}

// New returns the source of a kubeconfig file, or of the pod's own service account when path is empty. agent is
// the user agent of its clients. log may be nil.
func New(path, agent string, log *slog.Logger) *Source {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{path: path, agent: agent, log: log}
}

// Config returns a copy of the newest configuration, and a number that rises with each change of the file: a
// client of an older number is replaced. A content that cannot be used changes nothing and is logged once; an error is
// returned only while there was never one that could.
func (s *Source) Config() (*rest.Config, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == "" {
		if s.config == nil {
			config, err := InCluster()
			if err != nil {
				return nil, 0, err
			}
			s.take(config)
		}
		return rest.CopyConfig(s.config), s.changes, nil
	}
	config, digest, err := Read(s.path, "")
	if err != nil {
		err = fmt.Errorf("kubeconfig %s: %w", s.path, err)
	}
	switch {
	case err == nil && (s.config == nil || digest != s.digest):
		if s.config != nil {
			s.log.Info("kubeconfig has changed and is taken over", "file", s.path, "server", config.Host)
		}
		s.digest = digest
		s.take(config)
	case err == nil:
		s.fault = ""
	case s.config == nil:
		return nil, 0, err
	case err.Error() != s.fault:
		s.fault = err.Error()
		s.log.Error("kubeconfig is not taken over; the one before stays in force", "error", err)
	}
	return rest.CopyConfig(s.config), s.changes, nil
}

func (s *Source) take(config *rest.Config) {
	config.UserAgent = s.agent
	s.config, s.fault = config, ""
	s.changes++
}

// InCluster returns the configuration of the pod that the process is in. client-go reads its token again.
func InCluster() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("there is no service account: %w; outside of a cluster name a kubeconfig file", err)
	}
	return config, nil
}

// Digest is of all in a kubeconfig that client-go does not read again by itself: two that are the same need no new
// clients.
type Digest [sha256.Size]byte

// Read reads a kubeconfig file. An empty name of a context is the file's current one.
func Read(path, contextName string) (*rest.Config, Digest, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Digest{}, err
	}
	rules := clientcmd.ClientConfigLoadingRules{ExplicitPath: path} // they resolve paths against the file's folder
	loaded, err := rules.Load()
	if err != nil {
		return nil, Digest{}, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{CurrentContext: contextName}).ClientConfig()
	if err == nil && config.Host == "" {
		err = errors.New("names no server")
	}
	if err != nil {
		return nil, Digest{}, err
	}
	sum := sha256.New()
	_, _ = sum.Write(text)
	if ca := config.CAFile; ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, Digest{}, err
		}
		_, _ = sum.Write(pem)
	}
	return config, Digest(sum.Sum(nil)), nil
}
