package fleetview

import (
	"cmp"
	"slices"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard"
)

// A copy of the fleet is used for fleetAgeMin at least, and for fleetRest times as
// long as making it took with the shard locked.
const (
	fleetAgeMin = 900 * time.Millisecond
	fleetRest   = 20
)

// domainKeysMax bounds the keys that machines are grouped by.
const domainKeysMax = 8

// fleet is a copy of the machines of all shards as columns, and of what the clusters ask
// for. It does not change.
type fleet struct {
	made  time.Time
	took  time.Duration // with a shard locked
	now   int64         // Unix nanoseconds
	names []string      // of clusters and groups; 0 = ""

	// By machine, in the order of ids of each shard.
	ids         []string
	state       []model.State
	capacity    []model.CapacityType
	cluster     []uint32 // in names
	group       []uint32 // in names
	priority    []int32
	fingerprint []uint64
	penalty     []model.Bucket // interruption
	idleSince   []int64
	class       []uint32 // in classes
	// slots are Idle machines that are late-bound: not made yet.
	slots    map[int]bool
	reserved map[int32]model.Reservation
	domains  map[string][]uint32 // by key: number in values

	classes  []class
	values   []string // of domains; 0 = ""
	keys     []string // that domains has, the narrowest first
	demand   []clusterDemand
	byName   map[string]int // of demand
	tenants  []engine.Tenant
	rowCount int
}

// class is what machines have in common.
type class struct {
	instanceType string
	price        float64 // USD an hour
	probability  float64 // of an interruption in an hour
	offers       model.Resources
}

// clusterDemand is what one cluster asks for.
type clusterDemand struct {
	cluster string
	rows    int
	wants   model.Resources
}

// fleetBuilder adds the shards one after the other.
type fleetBuilder struct {
	f       *fleet
	nameOf  map[string]uint32
	valueOf map[string]uint32
	keyUse  map[string]bool
}

func newFleetBuilder() *fleetBuilder {
	return &fleetBuilder{
		f:      &fleet{names: []string{""}, values: []string{""}, slots: map[int]bool{}, reserved: map[int32]model.Reservation{}, domains: map[string][]uint32{}, byName: map[string]int{}},
		nameOf: map[string]uint32{"": 0}, valueOf: map[string]uint32{"": 0}, keyUse: map[string]bool{},
	}
}

// number returns the number of a text in a list, a new one when it has none.
func number(text string, of map[string]uint32, list *[]string) uint32 {
	n, ok := of[text]
	if !ok {
		n = uint32(len(*list))
		of[text] = n
		*list = append(*list, text)
	}
	return n
}

// add copies one shard. It runs with the shard locked.
func (b *fleetBuilder) add(in engine.Input, opts engine.Options, _ *shard.HeldBack) error {
	f, t := b.f, in.Supply
	f.now = max(f.now, in.Now)
	f.tenants = opts.Tenancy.Tenants // the same of all shards
	b.addDemand(in)
	names := make([]uint32, t.NameIDMax())
	for i := range names {
		names[i] = number(t.Name(uint32(i)), b.nameOf, &f.names)
	}
	classes := b.addClasses(t)
	order, view, base := t.Order(), t.View(), len(f.ids)
	for _, r := range order {
		if t.IsLateBound(r) {
			f.slots[len(f.ids)] = true
		}
		f.ids = append(f.ids, t.ID(r))
		f.state = append(f.state, view.State[r])
		f.capacity = append(f.capacity, view.Capacity[r])
		f.cluster = append(f.cluster, names[view.Cluster[r]])
		f.group = append(f.group, names[view.Group[r]])
		f.priority = append(f.priority, view.Priority[r])
		f.fingerprint = append(f.fingerprint, view.Fingerprint[r])
		f.penalty = append(f.penalty, view.Interruption[r])
		f.idleSince = append(f.idleSince, view.IdleSince[r])
		f.class = append(f.class, classes[view.Class[r]])
	}
	b.addReservations(t, order, base)
	for _, key := range domainKeys(in, &opts) {
		b.addDomains(t, key, order, base)
	}
	return nil
}

func (b *fleetBuilder) addClasses(t *supply.Table) []uint32 {
	out := make([]uint32, t.ClassMax())
	for i := range out {
		c := t.ClassInfo(uint32(i))
		if c.Count == 0 {
			continue
		}
		out[i] = uint32(len(b.f.classes))
		b.f.classes = append(b.f.classes, class{
			instanceType: c.InstanceType, price: c.Price, probability: c.Probability, offers: amountsOf(t.Dims(), c.Vector),
		})
	}
	return out
}

func (b *fleetBuilder) addReservations(t *supply.Table, order []columnar.Row, base int) {
	if t.ReservationCount() == 0 {
		return
	}
	for i, r := range order {
		if res := t.Reservation(r); res.Active() {
			b.f.reserved[int32(base+i)] = res
		}
	}
}

// addDomains copies the values of a key.
func (b *fleetBuilder) addDomains(t *supply.Table, key string, order []columnar.Row, base int) {
	f := b.f
	column := f.domains[key]
	column = append(column, make([]uint32, base-len(column))...) // shards that do not use the key
	if key == model.KeyZone {
		for _, r := range order {
			column = append(column, number(t.Zone(r), b.valueOf, &f.values))
		}
	} else {
		rows, texts := t.Attributes(key)
		numbers := make([]uint32, len(texts)+1)
		for i, text := range texts {
			numbers[i+1] = number(text, b.valueOf, &f.values)
		}
		for _, r := range order {
			column = append(column, numbers[rows[r]])
		}
	}
	f.domains[key] = column
}

// addDemand sums up what clusters ask for.
func (b *fleetBuilder) addDemand(in engine.Input) {
	dims := in.Demand.Dims()
	sum := make([]int64, len(dims))
	for _, cluster := range in.Demand.Clusters() {
		block := in.Demand.Block(cluster)
		clear(sum)
		for _, id := range block.AggregateIDs() {
			for d, v := range in.Demand.Vector(id) {
				sum[d] = model.SatAdd(sum[d], v)
			}
		}
		b.f.byName[cluster] = len(b.f.demand)
		b.f.demand = append(b.f.demand, clusterDemand{cluster, block.Len(), amountsOf(dims, sum)})
		b.f.rowCount += block.Len()
	}
}

// domainKeys are the keys that demand co-locates or spreads by, those of the
// options, and the zone.
func domainKeys(in engine.Input, opts *engine.Options) []string {
	keys := append([]string{model.KeyZone}, opts.Nested...)
	for id := range in.Demand.ProfileIDMax() {
		p := in.Demand.Profile(id)
		if p == nil {
			continue
		}
		if same := p.Same(); same != nil {
			keys = append(keys, same.Key)
		}
		for _, s := range p.Spread() {
			keys = append(keys, s.Key)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == model.KeyCapacityType || k == model.KeyInstanceType })
	return keys[:min(len(keys), domainKeysMax)]
}

// done completes the copy.
func (b *fleetBuilder) done() *fleet {
	f := b.f
	spread := map[string]int{} // different values of a key
	for key, column := range f.domains {
		column = append(column, make([]uint32, len(f.ids)-len(column))...)
		f.domains[key] = column
		seen := map[uint32]bool{}
		for _, v := range column {
			seen[v] = true
		}
		delete(seen, 0)
		if len(seen) == 0 {
			delete(f.domains, key)
			continue
		}
		spread[key] = len(seen)
		f.keys = append(f.keys, key)
	}
	slices.SortFunc(f.keys, func(a, b string) int { return cmp.Or(cmp.Compare(spread[b], spread[a]), cmp.Compare(a, b)) })
	return f
}

// copyFleet copies the machines of all shards.
func copyFleet(parts []Part) (*fleet, error) {
	b := newFleetBuilder()
	for _, p := range parts {
		began := time.Now()
		if err := p.Inspect(b.add); err != nil {
			return nil, err
		}
		b.f.took = max(b.f.took, time.Since(began))
	}
	f := b.done()
	f.made = time.Now()
	return f, nil
}

// rested tells whether it is time for another copy.
func (f *fleet) rested() bool {
	return time.Since(f.made) >= max(fleetAgeMin, fleetRest*f.took)
}

// countedAs is the state as which a machine counts where money and room are summed up: one that is Idle and
// late-bound is a slot of quota.
func (f *fleet) countedAs(i int) model.State {
	if f.slots[i] {
		return model.Speculative
	}
	return f.state[i]
}

// paid tells whether a machine in a state has a host or is getting one.
func paid(s model.State) bool {
	return s != model.Speculative && s != model.Failed && s != model.StateUnspecified
}

// serves tells whether a machine counts for its cluster.
func serves(s model.State) bool { return s == model.Configured || s == model.Configuring }

// effective is what a machine really costs an hour: the price and what interruptions cost the workload that
// it serves. Of a workload that may not be interrupted only the price is known.
func (f *fleet) effective(i int) float64 {
	c := &f.classes[f.class[i]]
	if f.penalty[i] == model.BucketPinned {
		return c.price
	}
	return c.price + c.probability*f.penalty[i].Dollars()
}
