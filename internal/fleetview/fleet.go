package fleetview

import (
	"cmp"
	"runtime"
	"slices"
	"sort"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard"
)

// A copy of the fleet is used for fleetAgeMin at least, and for fleetRest times as
// long as making it took with the shard locked. It is made in parts, each of which locks the shard for fleetPart.
const (
	fleetAgeMin = 900 * time.Millisecond
	fleetRest   = 20
	fleetPart   = 500 * time.Microsecond
)

// domainKeysMax bounds the keys that machines are grouped by.
const domainKeysMax = 8

// fleet is a copy of the machines of all shards as columns, and of what the clusters ask
// for. It does not change.
// Each machine is as it was at some moment while the copy was made.
type fleet struct {
	made  time.Time
	took  time.Duration // with a shard locked, all parts together
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
}

func newFleetBuilder() *fleetBuilder {
	return &fleetBuilder{
		f:      &fleet{names: []string{""}, values: []string{""}, slots: map[int]bool{}, reserved: map[int32]model.Reservation{}, domains: map[string][]uint32{}, byName: map[string]int{}},
		nameOf: map[string]uint32{"": 0}, valueOf: map[string]uint32{"": 0},
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

// shardCopier adds one shard in parts. Machines are taken in the order of their ids, so each is there once, whatever comes and
// goes between two parts; each is as it was when its part was copied.
type shardCopier struct {
	*fleetBuilder
	room     int      // for how many machines room is made
	clusters []string // whose demand is still to be added
	keys     []string // of domains
	last     string   // id of the last machine that was added
	done     bool

	// What numbers of the table mean here: one more than the number, 0 = not known. Names and values hold for as long as the table
	// has given none another number.
	names, values             []uint32
	nameSequence, valSequence uint64
	classes                   []copiedClass
}

// copiedClass is what a class of the table is here. The table gives a number to another class when all machines of the first are gone.
type copiedClass struct {
	born   uint64
	number uint32 // one more than in fleet.classes, 0 = not known
}

// fleetStep is how many machines are added between two looks at the clock.
const fleetStep = 256

// begin looks at what there is to copy. It runs with the shard locked.
func (c *shardCopier) begin(in engine.Input, opts *engine.Options) {
	c.f.tenants = opts.Tenancy.Tenants // the same of all shards
	c.clusters = slices.Clone(in.Demand.Clusters())
	c.keys, c.room = domainKeys(in, opts), in.Supply.Len()
}

// makeRoom makes the room that the machines will take, so that no part of the copy has to move what is there.
func (c *shardCopier) makeRoom() {
	f, n := c.f, c.room+c.room/64
	f.ids, f.state, f.capacity = slices.Grow(f.ids, n), slices.Grow(f.state, n), slices.Grow(f.capacity, n)
	f.cluster, f.group, f.priority = slices.Grow(f.cluster, n), slices.Grow(f.group, n), slices.Grow(f.priority, n)
	f.fingerprint, f.penalty = slices.Grow(f.fingerprint, n), slices.Grow(f.penalty, n)
	f.idleSince, f.class = slices.Grow(f.idleSince, n), slices.Grow(f.class, n)
	for _, key := range c.keys {
		there := len(f.domains[key]) // shards before this one may not use the key
		f.domains[key] = append(slices.Grow(f.domains[key], len(f.ids)-there+n), make([]uint32, len(f.ids)-there)...)
	}
}

// add copies for as long as a shard may be locked. It runs with the shard locked.
func (c *shardCopier) add(in engine.Input, until time.Time) {
	c.f.now = max(c.f.now, in.Now)
	for len(c.clusters) > 0 {
		c.addDemand(in, c.clusters[0])
		if c.clusters = c.clusters[1:]; !time.Now().Before(until) {
			return
		}
	}
	c.addMachines(in.Supply, until)
}

// addMachines goes on behind the machine that was added last.
func (c *shardCopier) addMachines(t *supply.Table, until time.Time) {
	order := t.Order()
	next := sort.Search(len(order), func(i int) bool { return t.ID(order[i]) > c.last })
	c.refresh(t)
	columns := make([]domainColumn, len(c.keys))
	for i, key := range c.keys {
		columns[i] = domainColumn{key, t.Key(key)}
	}
	for {
		rows := order[next:min(next+fleetStep, len(order))]
		next += len(rows)
		c.addRows(t, rows)
		for _, column := range columns {
			c.addDomain(t, column, rows)
		}
		if next == len(order) {
			c.done = true
			return
		}
		c.last = t.ID(order[next-1])
		if !time.Now().Before(until) {
			return
		}
	}
}

// refresh forgets what numbers may no longer mean.
func (c *shardCopier) refresh(t *supply.Table) {
	if now := t.NameSequence(); c.names == nil || c.nameSequence != now {
		c.names, c.nameSequence = make([]uint32, t.NameIDMax()), now
	}
	if now := t.ValueSequence(); c.values == nil || c.valSequence != now {
		c.values, c.valSequence = make([]uint32, t.ValueIDMax()), now
	}
	c.classes = append(c.classes, make([]copiedClass, max(t.ClassMax()-len(c.classes), 0))...)
}

// addRows copies the columns of some machines.
func (c *shardCopier) addRows(t *supply.Table, rows []columnar.Row) {
	f, view, reserved := c.f, t.View(), t.ReservationCount() > 0
	for _, r := range rows {
		if t.IsLateBound(r) {
			f.slots[len(f.ids)] = true
		}
		if reserved {
			if res := t.Reservation(r); res.Active() {
				f.reserved[int32(len(f.ids))] = res
			}
		}
		f.ids = append(f.ids, t.ID(r))
		f.state = append(f.state, view.State[r])
		f.capacity = append(f.capacity, view.Capacity[r])
		f.cluster = append(f.cluster, c.name(t, view.Cluster[r]))
		f.group = append(f.group, c.name(t, view.Group[r]))
		f.priority = append(f.priority, view.Priority(r))
		f.fingerprint = append(f.fingerprint, view.Fingerprint(r))
		f.penalty = append(f.penalty, view.Interruption[r])
		f.idleSince = append(f.idleSince, view.IdleSince[r])
		f.class = append(f.class, c.class(t, view.Class[r]))
	}
}

// name returns the number of a name of the table.
func (c *shardCopier) name(t *supply.Table, id uint32) uint32 {
	if c.names[id] == 0 {
		c.names[id] = 1 + number(t.Name(id), c.nameOf, &c.f.names)
	}
	return c.names[id] - 1
}

// class returns the number of a class of the table.
func (c *shardCopier) class(t *supply.Table, id uint32) uint32 {
	born := t.ClassBorn(id)
	if x := &c.classes[id]; x.number == 0 || x.born != born {
		info := t.ClassInfo(id)
		c.f.classes = append(c.f.classes, class{
			instanceType: info.InstanceType, price: info.Price, probability: info.Probability, offers: amountsOf(t.Dims(), info.Vector),
		})
		*x = copiedClass{born, uint32(len(c.f.classes))}
	}
	return c.classes[id].number - 1
}

// domainColumn is a key of domains and its column in the table, −1 when no demand has made the table keep one.
type domainColumn struct {
	key    string
	column int
}

// addDomain copies the values of a key.
func (c *shardCopier) addDomain(t *supply.Table, d domainColumn, rows []columnar.Row) {
	out := c.f.domains[d.key]
	switch {
	case d.column >= 0:
		for _, r := range rows {
			id := t.Value(d.column, r)
			if c.values[id] == 0 {
				c.values[id] = 1 + number(t.ValueString(id), c.valueOf, &c.f.values)
			}
			out = append(out, c.values[id]-1)
		}
	case d.key == model.KeyZone:
		for _, r := range rows {
			out = append(out, number(t.Zone(r), c.valueOf, &c.f.values))
		}
	default:
		for _, r := range rows {
			out = append(out, number(t.Label(r, d.key), c.valueOf, &c.f.values))
		}
	}
	c.f.domains[d.key] = out
}

// addDemand sums up what a cluster asks for.
func (c *shardCopier) addDemand(in engine.Input, cluster string) {
	block := in.Demand.Block(cluster)
	if block == nil { // it has gone since
		return
	}
	dims := in.Demand.Dims()
	sum := make([]int64, len(dims))
	for _, id := range block.AggregateIDs() {
		for d, v := range in.Demand.Vector(id) {
			sum[d] = model.SatAdd(sum[d], v)
		}
	}
	c.f.byName[cluster] = len(c.f.demand)
	c.f.demand = append(c.f.demand, clusterDemand{cluster, block.Len(), amountsOf(dims, sum)})
	c.f.rowCount += block.Len()
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

// complete returns the copy.
func (b *fleetBuilder) complete() *fleet {
	f := b.f
	spread := map[string]int{} // different values of a key
	for key, column := range f.domains {
		column = append(column, make([]uint32, len(f.ids)-len(column))...)
		f.domains[key] = column
		seen := make([]bool, len(f.values))
		for _, v := range column {
			if v != 0 && !seen[v] {
				seen[v] = true
				spread[key]++
			}
		}
		if spread[key] == 0 {
			delete(f.domains, key)
			continue
		}
		f.keys = append(f.keys, key)
	}
	slices.SortFunc(f.keys, func(a, b string) int { return cmp.Or(cmp.Compare(spread[b], spread[a]), cmp.Compare(a, b)) })
	f.made = time.Now()
	return f
}

// copyFleet copies the machines of all shards. A shard is locked for fleetPart at a time, and longer where the copy had to wait for a
// cycle: for a fleetRest-th of that.
func copyFleet(parts []Part) (*fleet, error) {
	b := newFleetBuilder()
	for _, p := range parts {
		c := shardCopier{fleetBuilder: b}
		err := p.Inspect(func(in engine.Input, opts engine.Options, _ *shard.HeldBack) error {
			c.begin(in, &opts)
			return nil
		})
		if err != nil {
			return nil, err
		}
		for c.makeRoom(); !c.done; {
			asked := time.Now()
			err := p.Inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
				locked := time.Now()
				c.add(in, locked.Add(max(fleetPart, locked.Sub(asked)/fleetRest)))
				b.f.took += time.Since(locked)
				return nil
			})
			if err != nil {
				return nil, err
			}
			runtime.Gosched() // a cycle that waits for the lock goes first
		}
	}
	return b.complete(), nil
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
