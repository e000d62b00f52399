package mirror

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// Capacities are the AvailableCapacities. All methods may be called
// concurrently; Apply not for one hint.
type Capacities struct {
	client client.Client

	mu        sync.Mutex
	loaded    bool
	book      map[string]*api.AvailableCapacity
	mentioned map[string]bool
	demanded  map[string]bool // shapes of the last roll-up; nil before the first
}

// NewCapacities returns the AvailableCapacities of a cluster. The client's reads
// must be of the API server itself.
func NewCapacities(c client.Client) *Capacities {
	return &Capacities{client: c, mentioned: map[string]bool{}}
}

// Begin says that every hint will be told anew.
func (c *Capacities) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mentioned, c.loaded = map[string]bool{}, false
}

// load reads what there is, unless it is known.
func (c *Capacities) load(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		return nil
	}
	book := map[string]*api.AvailableCapacity{}
	var page api.AvailableCapacityList
	for {
		if err := c.client.List(ctx, &page, client.Limit(listPage), client.Continue(page.Continue)); err != nil {
			return fmt.Errorf("listing AvailableCapacities: %w", err)
		}
		for i := range page.Items {
			book[page.Items[i].Name] = page.Items[i].DeepCopy()
		}
		if page.Continue == "" {
			break
		}
	}
	c.book, c.loaded = book, true
	return nil
}

// Apply makes the object of a hint what it says.
func (c *Capacities) Apply(ctx context.Context, u *bigfleet.AvailableCapacityUpdate) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	want := &api.AvailableCapacity{Spec: api.AvailableCapacitySpec{
		Availability: api.AvailabilityNone, AvailableCount: max(u.AvailableCount, 0), Cost: costOf(u.CostPerHour),
		Resources: resourcesOf(u.Resources), Requirements: requirementsOf(u.Requirements),
	}}
	if a, ok := availabilities[u.Confidence]; ok {
		want.Spec.Availability = a
	}
	want.Name = CapacityName(u.SupersedesKey)
	c.mu.Lock()
	c.mentioned[want.Name] = true
	had := c.book[want.Name]
	c.mu.Unlock()
	if had != nil && equality.Semantic.DeepEqual(had.Spec, want.Spec) {
		return nil
	}
	if err := apply(ctx, c.client, "AvailableCapacity", want, "spec"); err != nil {
		return fmt.Errorf("AvailableCapacity %s: %w", want.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book[want.Name] = want
	return nil
}

// Demanded says what the cluster asks for now.
func (c *Capacities) Demanded(needs []*bigfleet.CapacityNeed) {
	demanded := make(map[string]bool, len(needs))
	for _, n := range needs {
		demanded[shape(requirementsOf(n.Requirements))] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.demanded = demanded
}

// Collect removes hints for which there is no demand any more; once the
// session has settled, also those that it never mentioned.
func (c *Capacities) Collect(ctx context.Context, settled bool) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	for _, had := range c.stale(settled) {
		err := c.client.Delete(ctx, had, client.Preconditions{UID: &had.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("AvailableCapacity %s: %w", had.Name, err)
		}
		c.mu.Lock()
		delete(c.book, had.Name)
		c.mu.Unlock()
	}
	return nil
}

func (c *Capacities) stale(settled bool) []*api.AvailableCapacity {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*api.AvailableCapacity
	for name, had := range c.book {
		if c.demanded != nil && !c.demanded[shape(had.Spec.Requirements)] || settled && !c.mentioned[name] {
			out = append(out, had)
		}
	}
	return out
}
