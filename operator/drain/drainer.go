package drain

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/mirror"
	"github.com/tonnage/tonnage/operator/telemetry"
)

const (
	// GraceDefault is the grace of a drain that nobody gave one.
	GraceDefault = 30 * time.Second
	// round is how long a drain waits between two looks at a node.
	round = 2 * time.Second
	// evictionTimeout is how long one eviction may take.
	evictionTimeout = 10 * time.Second
	// listed is how many pods that were left an error names.
	listed = 5
	// ProviderIndex is the field by which nodes are indexed in the cache.
	ProviderIndex = "spec.providerID"
)

// Config is what a Drainer is made of.
type Config struct {
	// Client writes; its reads of nodes come from a cache with ProviderIndex.
	Client client.Client
	// Pods reads pods from the API server itself.
	Pods  client.Reader
	Nodes *mirror.Nodes
	// Event tells about a drain in the cluster.
	Event   func(node *api.UpcomingNode, warning bool, reason, note string)
	Log     *slog.Logger
	Metrics *telemetry.Metrics // may be nil
	Now     func() time.Time
}

// Drainer runs the drains of a cluster. The methods may be called concurrently,
// but not for one machine.
type Drainer struct {
	cfg Config
	ctx context.Context // of the workers

	mu      sync.Mutex
	running map[string]*worker // by machine
	wg      sync.WaitGroup
}

// worker empties one node.
type worker struct {
	machine  string
	node     string // "" = there is none
	deadline time.Time
	cancel   context.CancelFunc
	done     chan struct{}
}

// New returns a drainer whose drains last no longer than ctx.
func New(ctx context.Context, cfg Config) *Drainer {
	return &Drainer{cfg: cfg, ctx: ctx, running: map[string]*worker{}}
}

// Wait returns when the context has ended and no drain is running.
func (d *Drainer) Wait() { d.wg.Wait() }

// Resume goes on with the drains that are written down.
func (d *Drainer) Resume(ctx context.Context) error {
	all, err := d.cfg.Nodes.Load(ctx)
	if err != nil {
		return err
	}
	for _, n := range all {
		machine := n.Annotations[api.AnnotationMachine]
		if !Known(n) || machine == "" || n.Status.Phase != api.NodeDraining {
			continue
		}
		node, err := d.find(ctx, machine, n)
		if err != nil {
			return err
		}
		if node != nil {
			if err := d.cordon(ctx, node); err != nil {
				return err
			}
		}
		now := d.cfg.Now()
		d.start(machine, nameOf(node), now.Add(left(n, now)))
	}
	return nil
}

// Start begins a drain, or hastens one that is running. It returns when nothing
// new is scheduled on the node; false if the cluster has no node of the machine.
func (d *Drainer) Start(ctx context.Context, machine string, grace time.Duration) (bool, error) {
	if grace <= 0 {
		grace = GraceDefault
	}
	had, err := d.cfg.Nodes.Get(ctx, machine)
	if err != nil {
		return false, err
	}
	node, err := d.find(ctx, machine, had)
	if err != nil {
		return false, err
	}
	now := d.cfg.Now()
	was, running := d.begun(machine, had, now)
	deadline, goesOn := now.Add(grace), running && was.Before(now.Add(grace))
	if goesOn {
		deadline = was
	}
	err = d.cfg.Nodes.Update(ctx, machine, func(n *api.UpcomingNode) {
		n.Annotations[api.AnnotationDrainDeadline] = deadline.UTC().Format(time.RFC3339Nano)
		n.Annotations[api.AnnotationDrainGrace] = graceInAll(n.Annotations[api.AnnotationDrainGrace], goesOn, deadline.Sub(now))
		n.Annotations[api.AnnotationDrainNode] = nameOf(node)
		n.Status.Phase = api.NodeDraining
	})
	if err != nil {
		return false, err
	}
	if node != nil {
		if err := d.cordon(ctx, node); err != nil {
			return false, err
		}
	}
	d.start(machine, nameOf(node), deadline)
	return node != nil, nil
}

// begun returns the deadline of a drain that was begun already, by this process or by
// an earlier one.
func (d *Drainer) begun(machine string, had *api.UpcomingNode, now time.Time) (time.Time, bool) {
	d.mu.Lock()
	w := d.running[machine]
	d.mu.Unlock()
	switch {
	case w != nil:
		return w.deadline, true
	case had != nil && had.Status.Phase == api.NodeDraining && Known(had):
		return now.Add(left(had, now)), true
	}
	return time.Time{}, false
}

// Cancel ends a drain whose machine stays, and lets the scheduler use the node
// again. The caller changes the phase.
func (d *Drainer) Cancel(ctx context.Context, machine string, had *api.UpcomingNode) error {
	d.Forget(machine)
	node, err := d.find(ctx, machine, had)
	if err != nil {
		return err
	}
	if node != nil {
		if err := d.uncordon(ctx, node); err != nil {
			return err
		}
	}
	if had.Status.Phase == api.NodeDraining {
		d.cfg.Metrics.Drain("canceled")
	}
	d.cfg.Event(had, false, "DrainCanceled", "the machine stays in the cluster")
	d.cfg.Log.Info("drain canceled, the machine stays", "machine", machine, "node", nameOf(node))
	return nil
}

// Forget ends a drain without a word; the machine is gone.
func (d *Drainer) Forget(machine string) {
	d.mu.Lock()
	w := d.running[machine]
	d.mu.Unlock()
	if w != nil {
		w.cancel()
		<-w.done
	}
}

// start runs the worker of a machine, in place of one that is running.
func (d *Drainer) start(machine, node string, deadline time.Time) {
	d.Forget(machine)
	ctx, cancel := context.WithCancel(d.ctx)
	w := &worker{machine: machine, node: node, deadline: deadline, cancel: cancel, done: make(chan struct{})}
	d.mu.Lock()
	d.running[machine] = w
	d.mu.Unlock()
	d.cfg.Log.Info("drain", "machine", machine, "node", node, "deadline", deadline)
	d.wg.Go(func() {
		d.work(ctx, w)
		d.mu.Lock()
		if d.running[machine] == w {
			delete(d.running, machine)
		}
		d.mu.Unlock()
		cancel()
		close(w.done)
	})
}

// Known tells whether a drain of the machine is written down.
func Known(n *api.UpcomingNode) bool {
	_, ok := deadlineOf(n)
	return ok
}

// Clear takes what is written down of a drain off the object.
func Clear(n *api.UpcomingNode) {
	delete(n.Annotations, api.AnnotationDrainDeadline)
	delete(n.Annotations, api.AnnotationDrainGrace)
	delete(n.Annotations, api.AnnotationDrainNode)
}

func deadlineOf(n *api.UpcomingNode) (time.Time, bool) {
	if n == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, n.Annotations[api.AnnotationDrainDeadline])
	return at, err == nil
}

// graceInAll returns how long a drain is to take in all, as it is written down: of one that goes on
// by an earlier deadline what was written before, of any other what it takes from now on.
func graceInAll(written string, goesOn bool, takes time.Duration) string {
	if goesOn && written != "" {
		return written
	}
	return max(takes, 0).Round(time.Millisecond).String()
}

// left returns how long a drain lasts yet that is written down. Its deadline is of the wall
// clock of the process that wrote it, which may have been set since: a drain never lasts
// longer than it was to take in all, and after a restart at least that or GraceDefault,
// whichever is less.
func left(n *api.UpcomingNode, now time.Time) time.Duration {
	at, _ := deadlineOf(n)
	remains := at.Sub(now)
	grace, err := time.ParseDuration(n.Annotations[api.AnnotationDrainGrace])
	if err != nil || grace < 0 { // of a version that wrote none
		return max(remains, GraceDefault)
	}
	return min(max(remains, GraceDefault), grace)
}

func nameOf(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	return node.Name
}

// errLeft says which pods were not gone in time.
func errLeft(pods []string) string {
	n := len(pods)
	if n > listed {
		pods = append(pods[:listed:listed], fmt.Sprintf("and %d more", n-listed))
	}
	return fmt.Sprintf("drain: %d pods were left at the end of the grace: %v", n, pods)
}
