// Package tally sums up machines and demand, so that no cycle walks the fleet to report on it.
package tally

import (
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// MicroDollars is the unit of sums of prices: whole numbers can be taken off
// again without drift.
const MicroDollars = 1e6

// Machines holds sums over the machines, kept with every change, so that no cycle
// walks the fleet to report on it.
type Machines struct {
	Machines [model.NumStates][model.NumCapacityTypes][model.NumBuckets]int32
	Spend    [model.NumCapacityTypes]int64 // micro-dollars per hour, of machines that are paid for
	Bound    Sums                          // what bound machines offer
	Free     Sums                          // what Idle machines offer, without late-bound ones
}

// Add counts a machine as it is after a change; isSlot = it is Idle and late-bound.
func (t *Machines) Add(m *model.Machine, isSlot bool) { t.count(m, isSlot, 1) }

// Sub takes a machine off as it was before a change.
func (t *Machines) Sub(m *model.Machine, isSlot bool) { t.count(m, isSlot, -1) }

func (t *Machines) count(m *model.Machine, isSlot bool, n int32) {
	t.Machines[m.State][m.CapacityType][m.Assigned.Interruption] += n
	if isSlot {
		return // it costs nothing and is not there
	}
	if m.State.Paid() {
		t.Spend[m.CapacityType] += int64(n) * int64(math.Round(min(m.PricePerHour, math.MaxInt32)*MicroDollars))
	}
	switch {
	case m.State.Bound():
		t.Bound.Change(m.EffectiveAllocatable(), n > 0)
	case m.State == model.Idle:
		t.Free.Change(m.EffectiveAllocatable(), n > 0)
	}
}

// Demand holds sums over the demand, by cluster and in all.
type Demand struct {
	Rows     [model.NumBuckets]int
	Total    Sums
	clusters map[string]*clusterDemand
}

type clusterDemand struct {
	rows  [model.NumBuckets]int
	total Sums
}

// Replace takes the cluster's old demand off and adds the one in the table.
func (t *Demand) Replace(table *demand.Table, cluster string) {
	if old := t.clusters[cluster]; old != nil {
		for b, n := range old.rows {
			t.Rows[b] -= n
		}
		t.Total.merge(&old.total, false)
		delete(t.clusters, cluster)
	}
	b := table.Block(cluster)
	if b == nil {
		return
	}
	c := &clusterDemand{}
	for _, p := range b.Profiles() {
		c.rows[table.Profile(p).Interruption()]++
	}
	dims := table.Dims()
	sum := make([]wide, len(dims))
	for row := range b.Len() {
		for d, v := range b.Aggregate(row) {
			sum[d].change(wide{0, uint64(v)}, true)
		}
	}
	for d, v := range sum {
		if v != (wide{}) {
			*c.total.at(dims[d]) = v
		}
	}
	for b, n := range c.rows {
		t.Rows[b] += n
	}
	t.Total.merge(&c.total, true)
	if t.clusters == nil {
		t.clusters = map[string]*clusterDemand{}
	}
	t.clusters[cluster] = c
}

// Sums adds up resource vectors in 128 bits, so that what saturates in a
// report can still be taken off again exactly.
type Sums struct {
	names  []string
	values []wide
}

type wide struct{ hi, lo uint64 }

func (s *Sums) at(name string) *wide {
	for i, n := range s.names {
		if n == name {
			return &s.values[i]
		}
	}
	s.names = append(s.names, name)
	s.values = append(s.values, wide{})
	return &s.values[len(s.values)-1]
}

// Change adds resources, or takes off what was added.
func (s *Sums) Change(r model.Resources, plus bool) {
	for _, a := range r {
		s.at(a.Name).change(wide{0, uint64(a.Value)}, plus)
		s.dropZero(a.Name, plus)
	}
}

func (s *Sums) merge(o *Sums, plus bool) {
	for i, n := range o.names {
		s.at(n).change(o.values[i], plus)
		s.dropZero(n, plus)
	}
}

// dropZero forgets a name of which nothing is left after a subtraction, so that
// names that come and go leave nothing behind.
func (s *Sums) dropZero(name string, plus bool) {
	if plus || *s.at(name) != (wide{}) {
		return
	}
	i, last := slices.Index(s.names, name), len(s.names)-1
	s.names[i], s.values[i] = s.names[last], s.values[last]
	s.names[last] = ""
	s.names, s.values = s.names[:last], s.values[:last]
}

func (w *wide) change(o wide, plus bool) {
	var carry uint64
	if plus {
		w.lo, carry = bits.Add64(w.lo, o.lo, 0)
		w.hi, _ = bits.Add64(w.hi, o.hi, carry)
	} else {
		w.lo, carry = bits.Sub64(w.lo, o.lo, 0)
		w.hi, _ = bits.Sub64(w.hi, o.hi, carry)
	}
}

// Resources returns the sums as a vector, saturating.
func (s *Sums) Resources() model.Resources {
	out := make([]model.Amount, 0, len(s.names))
	for i, n := range s.names {
		v := s.values[i].lo
		if s.values[i].hi != 0 || v > math.MaxInt64 {
			v = math.MaxInt64
		}
		out = append(out, model.Amount{Name: n, Value: int64(v)})
	}
	return model.NewResources(out...)
}
