package shard

import (
	"hash/maphash"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// A Same-Need that was unsatisfied for ParkAfterCycles cycles in a row, with
// nothing acquired and no domain that could cover it, is parked; it is tried
// again whenever its age is a multiple of RetryEveryCycles.
const (
	ParkAfterCycles  = 8
	RetryEveryCycles = 32
)

// gangKey identifies a Same-Need across cycles and roll-ups. The size is part
// of it: rows of one group may differ in size alone, and a gang that changes
// its size is worth a new try. Rows that agree in all of it share their fate.
type gangKey struct {
	cluster     string
	fingerprint uint64 // of the whole profile
	group       string
	size        uint64 // hash of the aggregate
}

func keyOf(b *demand.Block, row int, p *model.Profile) gangKey {
	var h maphash.Hash
	h.SetSeed(sizeSeed)
	for dim, v := range b.Aggregate(row) {
		if v != 0 { // a dimension that came later is zero
			maphash.WriteComparable(&h, [2]int64{int64(dim), v})
		}
	}
	return gangKey{b.Cluster(), p.Fingerprint(), b.Group(row), h.Sum64()}
}

// sizeSeed is one of a process: keys are compared, not kept.
var sizeSeed = maphash.MakeSeed()

// waiting is a Same-Need that is short.
type waiting struct {
	age   int   // cycles in which nothing could be done for it
	since int64 // Unix nanoseconds
	seen  uint64
}

// parking is the ledger of Same-Needs that are short. It holds no more entries
// than there are unsatisfied rows.
type parking struct {
	waiting map[gangKey]*waiting
	cycle   uint64
	// stamped are the clusters in which rows may carry a stamp.
	stamped map[string]struct{}
}

func newParking() parking {
	return parking{waiting: map[gangKey]*waiting{}, stamped: map[string]struct{}{}}
}

// parked tells whether a gang of this age rests.
func (w *waiting) parked() bool { return w.age >= ParkAfterCycles && w.age%RetryEveryCycles != 0 }

// stampParked marks, before the decision, the rows that are parked and since
// when gangs are short. A gang that newly available supply suits is tried at
// once.
func (s *Shard) stampParked() (parked int) {
	clusters := s.parking.stamped
	for k := range s.parking.waiting {
		clusters[k.cluster] = struct{}{}
	}
	for c := range clusters {
		n, listed := s.stampCluster(c)
		parked += n
		if !listed {
			delete(clusters, c)
		}
	}
	s.added, s.addedOverflow = s.added[:0], false
	return parked
}

// stampCluster stamps the rows of one cluster; listed tells whether a row of it
// is in the ledger.
func (s *Shard) stampCluster(cluster string) (parked int, listed bool) {
	b := s.demand.Block(cluster)
	if b == nil {
		return 0, false
	}
	for i := range b.Len() {
		p := s.demand.Profile(b.Profile(i))
		if p.Same() == nil {
			continue
		}
		w := s.parking.waiting[keyOf(b, i, p)]
		if w == nil {
			s.demand.SetParked(cluster, i, false)
			continue
		}
		listed = true
		rest := w.parked() && !s.suits(p, s.demand.Row(b, i).MinUnit)
		s.demand.SetParked(cluster, i, rest)
		s.demand.SetShortSince(cluster, i, w.since)
		if rest {
			parked++
		}
	}
	return parked, listed
}

// suits tells whether a machine that became available since the last decision
// is one that the Need could use.
func (s *Shard) suits(p *model.Profile, minUnit model.Resources) bool {
	if s.addedOverflow {
		return true
	}
	for _, id := range s.added {
		r, ok := s.machines.Lookup(id)
		if !ok {
			continue
		}
		m := s.machines.Get(r)
		if m.EffectiveAllocatable().Covers(minUnit) && p.Matches(&m) {
			return true
		}
	}
	return false
}

// recordParking ages the gangs that this plan left short.
func (s *Shard) recordParking(plan *engine.Plan) {
	l := &s.parking
	l.cycle++
	for i := range plan.Needs {
		n := &plan.Needs[i]
		if n.Satisfied || n.Profile.Same() == nil {
			continue // a fold is plain demand
		}
		l.note(keyOf(s.demand.Block(n.Cluster), n.Row, n.Profile), n, s.now)
	}
	for k, w := range l.waiting {
		if w.seen != l.cycle {
			delete(l.waiting, k)
		}
	}
}

// note ages one unsatisfied gang by one cycle. Getting something, or a domain
// that could hold it, starts anew: its shortage is not structural. Cycles in
// which it has a plan or waits for drains do not count.
func (l *parking) note(k gangKey, n *engine.NeedResult, now int64) {
	w := l.waiting[k]
	if w == nil {
		w = &waiting{since: now}
		l.waiting[k] = w
	}
	first := w.seen != l.cycle
	w.seen = l.cycle
	switch {
	case n.Bootstrap+n.Provision > 0 || n.CouldCover:
		w.age = 0
	case n.Preempt > 0 || !n.InFlight.IsZero():
	case first:
		w.age++
	}
}
