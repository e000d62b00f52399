package mirror

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// listPage is how many objects are read at a time.
const listPage = 500

// Nodes are the UpcomingNodes. All methods may be called concurrently; changes of
// one machine's object wait for each other.
type Nodes struct {
	client    client.Client
	clusterID string
	metrics   *telemetry.Metrics
	now       func() time.Time

	mu        sync.Mutex
	loaded    bool
	book      map[string]*api.UpcomingNode // by name; what lies in it is not modified
	mentioned map[string]bool              // by name: told in this session
	turns     map[string]*turn             // by name: whose object is being changed
}

// turn is a lock that goes away when nobody wants it.
type turn struct {
	mu   sync.Mutex
	want int
}

// lock waits for the turn to change an object.
func (n *Nodes) lock(name string) (unlock func()) {
	n.mu.Lock()
	t := n.turns[name]
	if t == nil {
		t = &turn{}
		n.turns[name] = t
	}
	t.want++
	n.mu.Unlock()
	t.mu.Lock()
	return func() {
		t.mu.Unlock()
		n.mu.Lock()
		defer n.mu.Unlock()
		if t.want--; t.want == 0 {
			delete(n.turns, name)
		}
	}
}

// NewNodes returns the UpcomingNodes of a cluster. The client's reads must be
// of the API server itself.
func NewNodes(c client.Client, clusterID string, m *telemetry.Metrics, now func() time.Time) *Nodes {
	return &Nodes{client: c, clusterID: clusterID, metrics: m, now: now, mentioned: map[string]bool{}, turns: map[string]*turn{}}
}

// Begin says that every machine will be told anew.
func (n *Nodes) Begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mentioned = map[string]bool{}
	n.loaded = false // somebody may have removed some
}

// Load reads what there is, unless it is known. It returns all objects.
func (n *Nodes) Load(ctx context.Context) ([]*api.UpcomingNode, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.loaded {
		book := map[string]*api.UpcomingNode{}
		var page api.UpcomingNodeList
		for {
			if err := n.client.List(ctx, &page, client.Limit(listPage), client.Continue(page.Continue)); err != nil {
				return nil, fmt.Errorf("listing UpcomingNodes: %w", err)
			}
			for i := range page.Items {
				book[page.Items[i].Name] = page.Items[i].DeepCopy()
			}
			if page.Continue == "" {
				break
			}
		}
		n.book, n.loaded = book, true
	}
	return slices.Collect(maps.Values(n.book)), nil
}

// Get returns a machine's object, nil if there is none. It must not be modified.
func (n *Nodes) Get(ctx context.Context, machine string) (*api.UpcomingNode, error) {
	if _, err := n.Load(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.book[NodeName(machine)], nil
}

// Update changes a machine's object, or makes it, and writes what is different.
// The machine counts as mentioned.
func (n *Nodes) Update(ctx context.Context, machine string, change func(*api.UpcomingNode)) error {
	name := NodeName(machine)
	defer n.lock(name)()
	had, err := n.Get(ctx, machine)
	if err != nil {
		return err
	}
	want := &api.UpcomingNode{Spec: api.UpcomingNodeSpec{Resources: corev1.ResourceList{}}, Status: api.UpcomingNodeStatus{Phase: api.NodeProvisioning}}
	if had != nil {
		want = had.DeepCopy()
	}
	want.Name = name
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[api.AnnotationMachine] = machine
	change(want)
	if err := n.save(ctx, had, want); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mentioned[name] = true
	return nil
}

// Amend changes the object of a machine that is being drained. It does nothing
// when there is none, or it is no longer Draining.
func (n *Nodes) Amend(ctx context.Context, machine string, change func(*api.UpcomingNode)) error {
	defer n.lock(NodeName(machine))()
	had, err := n.Get(ctx, machine)
	if err != nil || had == nil || had.Status.Phase != api.NodeDraining {
		return err
	}
	want := had.DeepCopy()
	change(want)
	return n.save(ctx, had, want)
}

// save writes what is different.
func (n *Nodes) save(ctx context.Context, had, want *api.UpcomingNode) error {
	if want.Status.ProvisioningStartTime == nil {
		want.Status.ProvisioningStartTime = &metav1.Time{Time: n.now().Truncate(time.Second)}
	}
	status := want.Status
	if had == nil || !sameSpec(had, want) {
		if err := n.write(ctx, opOf(had), want, "spec"); err != nil {
			return err
		}
	}
	want.Status = status
	if had == nil || !equality.Semantic.DeepEqual(had.Status, status) {
		if err := n.write(ctx, "status_update", want, "status"); err != nil {
			return err
		}
	} else {
		n.metrics.NodeWrite("status_update", "noop")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.loaded {
		n.book[want.Name] = want
	}
	return nil
}

func opOf(had *api.UpcomingNode) string {
	if had == nil {
		return "create"
	}
	return "spec_update"
}

// write applies one part and counts how it went. If the object turns out to be
// another one, the book is read anew before the next try.
func (n *Nodes) write(ctx context.Context, op string, want *api.UpcomingNode, part string) error {
	err := apply(ctx, n.client, "UpcomingNode", want, part)
	switch {
	case err == nil:
		n.metrics.NodeWrite(op, "success")
		return nil
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		n.metrics.NodeWrite(op, "conflict")
		n.mu.Lock()
		n.loaded = false
		n.mu.Unlock()
	default:
		n.metrics.NodeWrite(op, "error")
	}
	return fmt.Errorf("UpcomingNode %s: %w", want.Name, err)
}

func sameSpec(a, b *api.UpcomingNode) bool {
	return maps.Equal(a.Annotations, b.Annotations) && maps.Equal(a.Spec.Labels, b.Spec.Labels) &&
		sameResources(a.Spec.Resources, b.Spec.Resources) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}

// Remove deletes a machine's object.
func (n *Nodes) Remove(ctx context.Context, machine string) error {
	defer n.lock(NodeName(machine))()
	had, err := n.Get(ctx, machine)
	if err != nil || had == nil {
		return err
	}
	return n.remove(ctx, had)
}

// Discard deletes an object that Unmentioned returned.
func (n *Nodes) Discard(ctx context.Context, stale *api.UpcomingNode) error {
	defer n.lock(stale.Name)()
	return n.remove(ctx, stale)
}

func (n *Nodes) remove(ctx context.Context, had *api.UpcomingNode) error {
	err := n.client.Delete(ctx, had, client.Preconditions{UID: &had.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		n.metrics.NodeWrite("delete", "error")
		return fmt.Errorf("UpcomingNode %s: %w", had.Name, err)
	}
	n.metrics.NodeWrite("delete", "success")
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.book, had.Name)
	return nil
}

// Unmentioned returns what no update of this session was about.
func (n *Nodes) Unmentioned(ctx context.Context) ([]*api.UpcomingNode, error) {
	all, err := n.Load(ctx)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(all, func(u *api.UpcomingNode) bool { return n.mentioned[u.Name] }), nil
}

// Fill makes the object what an update says, but for its phase.
func Fill(node *api.UpcomingNode, u *bigfleet.NodeStateUpdate) {
	node.Spec.Labels = u.Labels
	// News that say nothing of resources change none: to apply an empty map over one
	// that was not leaves null, which the API server refuses.
	if resources := resourcesOf(u.Resources); len(resources) > 0 {
		node.Spec.Resources = resources
	}
	node.Spec.Taints = taintsOf(u.Taints)
	node.Status.ProviderID = u.ProviderId
	node.Status.LastError = u.LastError
	if u.NodeName != "" {
		node.Status.NodeRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: u.NodeName}
	}
}

// Ours tells whether an update is of a machine that is bound to this cluster.
// Shards that do not name the cluster speak of nobody else's.
func (n *Nodes) Ours(u *bigfleet.NodeStateUpdate) bool {
	return u.ClusterId == "" || u.ClusterId == n.clusterID
}

// Phase is what an update makes of the object's phase. gone: the machine has
// left the cluster, and so does its object.
func Phase(had *api.UpcomingNode, u *bigfleet.NodeStateUpdate) (phase api.NodePhase, gone bool) {
	phase = phaseOf(u.State)
	if phase != api.NodeLaunched && phase != api.NodeProvisioning {
		return phase, false
	}
	if u.State == bigfleet.MachineState_MACHINE_STATE_DELETING {
		return phase, true
	}
	if had == nil {
		return phase, false
	}
	switch had.Status.Phase {
	case api.NodeProvisioning, api.NodeLaunched:
		return phase, false
	}
	return phase, true // it was further already: it is on its way out
}
