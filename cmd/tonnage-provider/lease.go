package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/tonnage/tonnage/provider/kubeconfig"
)

const (
	// userAgent is how API servers know this program, in their audit logs too.
	userAgent = "tonnage-provider"
	// leaseDurationMin and leaseDurationMax bound --lease-duration.
	leaseDurationMin, leaseDurationMax = 3 * time.Second, 5 * time.Minute
	// annotationRecords on the Lease names the records that the last leader used.
	annotationRecords = "tonnage.dev/records"
	// labelLeads on a pod says whether it leads; a Service selects by it.
	labelLeads = "tonnage.dev/leads"
)

// leaseFlags are the flags of the election, as given.
type leaseFlags struct {
	lease      string // NAMESPACE/NAME, empty = there is no election
	pod        string // in the lease's namespace
	duration   time.Duration
	kubeconfig string
}

// check returns every fault of the flags.
func (f *leaseFlags) check(standby bool) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if f.lease == "" {
		if f.pod != "" {
			fault("--lease-pod needs --lease NAMESPACE/NAME")
		}
		return errors.Join(faults...)
	}
	namespace, name, ok := strings.Cut(f.lease, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		fault("--lease must be NAMESPACE/NAME, got %q", f.lease)
	}
	if standby {
		fault("--standby waits for the lock of a folder and --lease for a Lease; give one of them")
	}
	if f.duration < leaseDurationMin || f.duration > leaseDurationMax {
		fault("--lease-duration must be %v to %v, got %v", leaseDurationMin, leaseDurationMax, f.duration)
	}
	return errors.Join(faults...)
}

// candidate takes part in the election of one process that leads.
type candidate struct {
	flags           *leaseFlags
	namespace, name string
	identity        string // as the Lease names its holder
	source          *kubeconfig.Source
	log             *slog.Logger

	mu      sync.Mutex
	client  kubernetes.Interface
	changes uint64 // of the source, when the client was made
}

// newCandidate reaches the API server's configuration, and not yet the server.
func newCandidate(f *leaseFlags, log *slog.Logger) (*candidate, error) {
	c := &candidate{flags: f, source: kubeconfig.New(f.kubeconfig, userAgent, log), log: log}
	c.namespace, c.name, _ = strings.Cut(f.lease, "/")
	holder := f.pod
	if holder == "" {
		var err error
		if holder, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	// A process that is started again is another one: it waits for the end of what it held before.
	c.identity = holder + "_" + strconv.FormatUint(rand.Uint64(), 36)
	klog.SetSlogLogger(log) // client-go tells of elections through it
	_, err := c.api()
	return c, err
}

// api returns a client with the newest credentials.
func (c *candidate) api() (kubernetes.Interface, error) {
	config, changes, err := c.source.Config()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil && changes == c.changes {
		return c.client, nil
	}
	// A server that does not answer must not use up the time in which the lease is to be renewed.
	config.Timeout = c.flags.duration / 3
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	c.client, c.changes = client, changes
	return client, nil
}

// Leases implements LeasesGetter with the newest client.
func (c *candidate) Leases(namespace string) coordinationv1.LeaseInterface {
	client, err := c.api()
	if err != nil { // newCandidate had one, and the source keeps the last that worked
		c.log.Error("kubeconfig cannot be used; the client before it is kept", "error", err)
		c.mu.Lock()
		client = c.client
		c.mu.Unlock()
	}
	return client.CoordinationV1().Leases(namespace)
}

// mark sets the pod's label, if there is a pod to label.
func (c *candidate) mark(ctx context.Context, leads bool) error {
	if c.flags.pod == "" {
		return nil
	}
	client, err := c.api()
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, labelLeads, strconv.FormatBool(leads))
	_, err = client.CoreV1().Pods(c.namespace).Patch(ctx, c.flags.pod, types.MergePatchType, patch, metav1.PatchOptions{}, "")
	if err != nil {
		return fmt.Errorf("label %s of pod %s/%s: %w", labelLeads, c.namespace, c.flags.pod, err)
	}
	return nil
}

// records returns the name of the records that the last leader used, empty = none.
func (c *candidate) records(ctx context.Context) (string, error) {
	lease, err := c.Leases(c.namespace).Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("lease %s: %w", c.flags.lease, err)
	}
	return lease.Annotations[annotationRecords], nil
}

// use writes to the Lease which record file the leader uses. It fails if another process holds the Lease by now.
func (c *candidate) use(ctx context.Context, records string) error {
	return c.edit(ctx, func(lease *coordination.Lease) {
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		lease.Annotations[annotationRecords] = records
	})
}

// release gives the Lease back, so that another process need not wait until it has run out.
func (c *candidate) release(ctx context.Context) error {
	return c.edit(ctx, func(lease *coordination.Lease) {
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	})
}

// edit changes the Lease while this process holds it.
func (c *candidate) edit(ctx context.Context, change func(*coordination.Lease)) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := c.Leases(c.namespace).Get(ctx, c.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if holder := lease.Spec.HolderIdentity; holder == nil || *holder != c.identity {
			return errors.New("another process leads by now")
		}
		change(lease)
		_, err = c.Leases(c.namespace).Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("lease %s: %w", c.flags.lease, err)
	}
	return nil
}

// errLeaseLost ends a process that leads no more.
var errLeaseLost = errors.New("the lease is lost; this process ends, so that nothing of it goes on beside the new leader")

// lead waits until this process leads and does the work then, with a context that ends when it leads no
// more. The Lease is given back after the work has ended. There is no error when ctx ends while it waits.
func (c *candidate) lead(ctx context.Context, work func(context.Context) error) error {
	if err := c.mark(ctx, false); err != nil {
		return err
	}
	began, over := make(chan context.Context, 1), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name}, Client: c,
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.identity},
		},
		LeaseDuration: c.flags.duration, RenewDeadline: c.flags.duration * 2 / 3, RetryPeriod: c.flags.duration * 2 / 15,
		Name: c.name, // it would be given back before the work has ended; see release
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { began <- ctx },
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity != c.identity {
					c.log.Info("stands by: another process leads", "lease", c.flags.lease, "leader", identity)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	election, resign := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(over)
		elector.Run(election)
	}()
	stop := func() { resign(); <-over }
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case <-over:
		return errLeaseLost
	case leading := <-began:
		err := c.work(ctx, leading, work)
		if leading.Err() != nil {
			return errors.Join(errLeaseLost, err)
		}
		stop()
		c.tidy(ctx)
		return err
	}
}

// work does the work while the context of the election lasts.
func (c *candidate) work(ctx, leading context.Context, work func(context.Context) error) error {
	c.log.Info("leads", "lease", c.flags.lease, "as", c.identity)
	both, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(leading, stop)()
	return work(both)
}

// tidy lets another process lead at once. Where that fails, it waits until the Lease has run out.
func (c *candidate) tidy(ctx context.Context) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), c.flags.duration/3)
	defer done()
	if err := errors.Join(c.mark(ctx, false), c.release(ctx)); err != nil {
		c.log.Warn("the lease is not given back; another process leads when it has run out", "error", err)
	}
}

var _ coordinationv1.LeasesGetter = (*candidate)(nil)
