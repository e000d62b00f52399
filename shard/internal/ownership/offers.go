package ownership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// The limits of what a shard offers at a time.
const (
	OffersMax          = 256
	OfferedMachinesMax = 200 // named in one offer
	// OfferedRowsMax is how many machines are looked at for offers at a time. In a
	// larger fleet the next offers are of others.
	OfferedRowsMax = 1 << 16
	// offeredRowsLocked is how many are looked at without letting go of the lock.
	offeredRowsLocked = 512
	// ArrivedCycles is how long a machine that came from another shard is not
	// offered.
	ArrivedCycles = 8
)

// labelHostname is a label that no two machines share.
const labelHostname = "kubernetes.io/hostname"

// OfferedValuesMax is how many values a label may have among the machines
// offered. Labels with more, such as racks, do not part kinds: each would be too
// small to give anything of. Of those an offer tells that they are there, not
// their values.
const OfferedValuesMax = 16

// Offer is machines of one kind that this shard could give to another: Idle and
// Speculative ones that it does without, Configured ones that serve demand of
// the priority and penalty given.
type Offer struct {
	Machine  model.Machine // one of them; only what all have in common counts
	Varied   []string      // keys of labels that each has, whose values are not told; sorted
	Count    int
	Machines []string // at most OfferedMachinesMax
}

// Offers is shard.Offers; mu guards the ownership. It lets go of it in between.
func (o *Ownership) Offers(mu sync.Locker) []Offer {
	by := gathered{offers: map[string]*Offer{}, values: map[string]map[string]bool{}}
	mu.Lock()
	from := o.offeredUpTo
	maps.DeleteFunc(o.arrived, func(_ string, cycle uint64) bool { return o.pace.Cycle >= cycle+ArrivedCycles })
	mu.Unlock()
	looked, at := 0, from
	for more := true; more && looked < OfferedRowsMax; {
		mu.Lock()
		at, more = o.offerSome(at, &looked, by)
		mu.Unlock()
	}
	mu.Lock()
	o.offeredUpTo = at
	mu.Unlock()
	kinds := by.coarse()
	out := make([]Offer, 0, len(kinds))
	for _, key := range slices.Sorted(maps.Keys(kinds)) {
		out = append(out, *kinds[key])
	}
	slices.SortStableFunc(out, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Machine.State, b.Machine.State), cmp.Compare(b.Count, a.Count))
	})
	return out[:min(len(out), OffersMax)]
}

// offerSome looks at some rows from one on, and returns where to go on; false
// says that the table ends there, and what follows begins anew.
func (o *Ownership) offerSome(at columnar.Row, looked *int, by gathered) (columnar.Row, bool) {
	table := o.inventory.Table
	for range offeredRowsLocked {
		if at++; int(at) >= table.RowMax() {
			return columnar.None, false
		}
		if !table.Has(at) {
			continue
		}
		*looked++
		o.offerRow(at, by)
	}
	return at, true
}

func (o *Ownership) offerRow(r columnar.Row, by gathered) {
	switch o.inventory.Table.State(r) {
	case model.Idle, model.Speculative, model.Configured:
	default:
		return
	}
	if o.inventory.Table.IsLateBound(r) { // it is bound or given back at once
		return
	}
	if o.inventory.Table.Reservation(r).Active() || o.inFlight.Busy(o.inventory.Table.ID(r)) {
		return
	}
	m := o.inventory.Table.Get(r)
	if _, fresh := o.arrived[m.ID]; fresh {
		return
	}
	delete(m.Labels, labelHostname)
	by.add(&Offer{Machine: m, Count: 1, Machines: []string{strings.Clone(m.ID)}})
}

// gathered are offers by kind, and the values of each label among them, up to
// one more than OfferedValuesMax.
type gathered struct {
	offers map[string]*Offer
	values map[string]map[string]bool
}

func (g gathered) add(o *Offer) {
	for k, v := range o.Machine.Labels {
		if g.values[k] == nil {
			g.values[k] = map[string]bool{}
		}
		if len(g.values[k]) <= OfferedValuesMax {
			g.values[k][v] = true
		}
	}
	merge(g.offers, o)
}

// merge puts an offer to those of its kind.
func merge(into map[string]*Offer, o *Offer) {
	key := offerKey(o)
	of := into[key]
	if of == nil {
		into[key] = o
		return
	}
	of.Count += o.Count
	of.Machines = append(of.Machines, o.Machines[:min(len(o.Machines), OfferedMachinesMax-len(of.Machines))]...)
}

// coarse returns the offers without the values of labels that have too many.
func (g gathered) coarse() map[string]*Offer {
	out := map[string]*Offer{}
	for _, key := range slices.Sorted(maps.Keys(g.offers)) {
		o := g.offers[key]
		maps.DeleteFunc(o.Machine.Labels, func(k, _ string) bool {
			many := len(g.values[k]) > OfferedValuesMax
			if many {
				o.Varied = append(o.Varied, k)
			}
			return many
		})
		slices.Sort(o.Varied)
		slices.Sort(o.Machines)
		merge(out, o)
	}
	return out
}

// offerKey is equal for machines of one offer.
func offerKey(o *Offer) string {
	var b strings.Builder
	m := &o.Machine
	fmt.Fprintf(&b, "%d\x00%d\x00%s\x00%s\x00%s\x00", m.State, m.CapacityType, m.InstanceType, m.Zone, strconv.FormatFloat(m.PricePerHour, 'g', -1, 64))
	if m.State == model.Configured {
		fmt.Fprintf(&b, "%d\x00%d\x00", m.Assigned.Priority, m.Assigned.Interruption)
	}
	for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
		b.WriteString(k + "\x00" + m.Labels[k] + "\x00")
	}
	for _, k := range o.Varied {
		b.WriteString(k + "\x00\x00")
	}
	for _, a := range m.EffectiveAllocatable() {
		fmt.Fprintf(&b, "%s\x00%d\x00", a.Name, a.Value)
	}
	return b.String()
}
