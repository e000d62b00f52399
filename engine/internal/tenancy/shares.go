// Package tenancy has the shares of tenants, what each tenant has of the fleet, and the ledger of a
// plan that takes from tenants above their share.
package tenancy

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// None is the number of no tenant: that of clusters, and of machines, that the policy does not name.
const None int32 = -1

// Shares is which tenant has what. A policy has at least one tenant; nil is no policy.
type Shares struct {
	Policy []plan.Tenant
	// clusters are those of all tenants, also clusters that the snapshot does not know.
	clusters map[string]bool
	Of       []int32 // by cluster: its tenant, or None
	Taker    int32   // the tenant whose turn it is

	s      *snapshot.Snapshot
	dims   int          // number of dimensions that a share names and some machine has
	dimsAt []int        // the dimensions' indices in the snapshot's
	share  []int64      // by tenant, dims values each; 0 = the share does not name the dimension
	vecs   []int64      // by class, dims values each: what a machine offers
	sums   []exact.Wide // by tenant, dims values each: what the tenant has, exactly
	has    []int64      // the same, saturated
	above  []bool       // by tenant: it has more than its share in some dimension
	givers int          // number of tenants that are above
	holder []int32      // by row: 1 + the tenant that has the machine; 0 = none
	full   []bool       // by class: one machine more would bring the taker above its share
	fullOf fullness     // what full was computed for
	// Changes counts the machines that went from one tenant to another. Raised counts how often a tenant came to have more than its share.
	Changes, Raised int
}

// fullness is what Shares.full depends on: a taker, and Shares.Changes.
type fullness struct {
	taker   int32
	changes int
	known   bool
}

// New prepares what a policy looks at.
func New(a *alloc.Arena, policy []plan.Tenant, s *snapshot.Snapshot) *Shares {
	t := &Shares{Policy: policy, s: s, clusters: map[string]bool{}, Of: alloc.MakeDirty[int32](a, len(s.Clusters))}
	for c := range t.Of {
		t.Of[c] = None
	}
	named := map[string]bool{}
	for i := range policy {
		for _, id := range policy[i].Clusters {
			t.clusters[id] = true
			if c := s.ClusterByName(id); c >= 0 {
				t.Of[c] = int32(i)
			}
		}
		for _, a := range policy[i].Share {
			named[a.Name] = true
		}
	}
	for d, name := range s.Dims {
		if named[name] {
			t.dimsAt = append(t.dimsAt, d)
		}
	}
	t.dims = len(t.dimsAt)
	t.share = alloc.Make[int64](a, len(policy)*t.dims)
	t.vecs = alloc.MakeDirty[int64](a, len(s.Classes)*t.dims)
	for d, from := range t.dimsAt {
		for i := range policy {
			t.share[i*t.dims+d] = policy[i].Share.Get(s.Dims[from])
		}
		for c := range s.Classes {
			t.vecs[c*t.dims+d] = s.Vector(uint32(c))[from]
		}
	}
	return t
}

// Holds reports whether a reservation belongs to a plan for a tenant.
func (t *Shares) Holds(res *model.Reservation) bool {
	return t != nil && res.Plan != 0 && t.clusters[res.Owner.Cluster]
}

// Vec returns what a machine of a class offers in the dimensions of shares.
func (t *Shares) Vec(class uint32) []int64 { return t.vecs[int(class)*t.dims:][:t.dims:t.dims] }

// Dims returns the number of dimensions of shares.
func (t *Shares) Dims() int { return t.dims }

// ShareOf returns a tenant's share.
func (t *Shares) ShareOf(tenant int32) []int64 { return t.share[int(tenant)*t.dims:][:t.dims:t.dims] }

// HasOf returns what a tenant has.
func (t *Shares) HasOf(tenant int32) []int64 { return t.has[int(tenant)*t.dims:][:t.dims:t.dims] }

// Gives reports whether units of a tenant may be taken in this turn.
func (t *Shares) Gives(tenant int32) bool {
	return tenant != None && tenant != t.Taker && t.above[tenant]
}

// AnyGives reports whether some tenant's units may be taken in this turn.
func (t *Shares) AnyGives() bool {
	return t.givers > 1 || t.givers == 1 && !t.above[t.Taker]
}

// Measure adds up what every tenant has, given the tenant of each machine.
func (t *Shares) Measure(a *alloc.Arena, tenantOf func(columnar.Row) int32) {
	n := len(t.Policy)
	t.sums = alloc.Make[exact.Wide](a, n*t.dims)
	t.has, t.above = alloc.Make[int64](a, n*t.dims), alloc.Make[bool](a, n)
	t.full = alloc.MakeDirty[bool](a, len(t.s.Classes))
	t.holder = alloc.Make[int32](a, t.s.Supply.RowMax())
	for _, r := range t.s.Order {
		if tenant := tenantOf(r); tenant != None {
			t.holder[r] = tenant + 1
			t.add(tenant, r)
		}
	}
	for i := range t.Policy {
		t.settle(int32(i))
	}
}

func (t *Shares) add(tenant int32, r columnar.Row) {
	for d, v := range t.Vec(t.s.View.Class[r]) {
		t.sums[int(tenant)*t.dims+d].Add(v)
	}
}

func (t *Shares) sub(tenant int32, r columnar.Row) {
	for d, v := range t.Vec(t.s.View.Class[r]) {
		t.sums[int(tenant)*t.dims+d].Sub(v)
	}
}

// settle recomputes whether a tenant is above its share.
func (t *Shares) settle(tenant int32) {
	above := false
	has, share := t.HasOf(tenant), t.ShareOf(tenant)
	for d := range has {
		has[d] = t.sums[int(tenant)*t.dims+d].Value()
		above = above || share[d] > 0 && has[d] > share[d]
	}
	if above != t.above[tenant] {
		t.above[tenant] = above
		if t.givers--; above {
			t.givers += 2
			t.Raised++
		}
	}
}

// Move updates the sums when another tenant may have a machine.
func (t *Shares) Move(r columnar.Row, to int32) {
	was := t.holder[r] - 1
	if was == to {
		return
	}
	t.holder[r] = to + 1
	t.Changes++
	if was != None {
		t.sub(was, r)
		t.settle(was)
	}
	if to != None {
		t.add(to, r)
		t.settle(to)
	}
}

// IsFull reports whether one machine more of a class would bring the taker above its share. The answer
// by class is memoized; see fullness.
func (t *Shares) IsFull(class uint32) bool {
	t.findFull()
	return t.full[class]
}

// SomeGives reports whether a tenant, whose units may be taken in this turn, keeps its share without a machine of a class.
func (t *Shares) SomeGives(class uint32) bool {
	for i := range t.Policy {
		if t.Gives(int32(i)) && t.canSpare(int32(i), t.Vec(class)) {
			return true
		}
	}
	return false
}

// canSpare reports whether a tenant keeps its share without what is taken, in the dimensions in which something is.
func (t *Shares) canSpare(tenant int32, takes []int64) bool {
	has, share := t.HasOf(tenant), t.ShareOf(tenant)
	for d, v := range takes {
		if share[d] > 0 && v > 0 && has[d]-v < share[d] {
			return false
		}
	}
	return true
}

// AllFull reports whether one machine more of any of some classes would bring the taker above its share.
func (t *Shares) AllFull(classes []uint32) bool {
	t.findFull()
	return !slices.ContainsFunc(classes, func(c uint32) bool { return !t.full[c] })
}

func (t *Shares) findFull() {
	x := fullness{t.Taker, t.Changes, true}
	if t.fullOf == x {
		return
	}
	t.fullOf = x
	for c := range t.full {
		t.full[c] = !t.Within(t.Taker, t.Vec(uint32(c)))
	}
}

// Within reports whether taking more keeps a tenant within its share, in the dimensions in which it
// takes something.
func (t *Shares) Within(tenant int32, takes []int64) bool {
	has, share := t.HasOf(tenant), t.ShareOf(tenant)
	for d, v := range takes {
		if share[d] > 0 && v > 0 && exact.SatSum(has[d], v) > share[d] {
			return false
		}
	}
	return true
}

// Explain converts a vector in the dimensions of shares to named amounts.
func (t *Shares) Explain(v []int64) model.Resources {
	amounts := make([]model.Amount, 0, len(v))
	for d, x := range v {
		if x > 0 {
			amounts = append(amounts, model.Amount{Name: t.s.Dims[t.dimsAt[d]], Value: x})
		}
	}
	return model.NewResources(amounts...)
}
