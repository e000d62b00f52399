package ledgers

import (
	"hash/maphash"
	"slices"
	"strings"

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

// AddedMax is how many machines that became available, or were bound, the shard remembers
// for parked gangs; beyond it, every gang is tried again.
const AddedMax = 4096

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
	age   int    // cycles in which nothing could be done for it
	since int64  // Unix nanoseconds
	first uint64 // cycle of the ledger in which it was short first
	seen  uint64
}

// parking is the ledger of Same-Needs that are short. It holds no more entries
// than there are unsatisfied rows.
type parking struct {
	waiting map[gangKey]*waiting
	cycle   uint64
	// stamped are the clusters in which rows may carry a stamp.
	stamped map[string]struct{}
	// added are the machines that became available since the last decision, or that were bound and
	// can be preempted from now on; overflow says that there are more.
	added    []string
	overflow bool
	// stampedAt is when StampParked was called last, in Unix nanoseconds.
	stampedAt int64
}

// add remembers that a machine became available, or was bound.
func (l *parking) add(machine string) {
	if len(l.added) < AddedMax {
		l.added = append(l.added, strings.Clone(machine)) // it may be part of a listing
	} else {
		l.overflow = true
	}
}

func newParking() parking {
	return parking{waiting: map[gangKey]*waiting{}, stamped: map[string]struct{}{}}
}

// parked tells whether a gang of this age rests.
func (w *waiting) parked() bool { return w.age >= ParkAfterCycles && w.age%RetryEveryCycles != 0 }

// StampParked marks, before the decision, the rows that are parked and since
// when gangs are short. A gang that newly available supply suits is tried at
// once.
func (l *Ledgers) StampParked() (parked int) {
	clusters := l.parking.stamped
	for k := range l.parking.waiting {
		clusters[k.cluster] = struct{}{}
	}
	l.addExpired()
	since := arrivals{table: l.machines, ids: l.parking.added, worth: map[rowKind]worth{}}
	for c := range clusters {
		n, listed := l.stampCluster(c, &since)
		parked += n
		if !listed {
			delete(clusters, c)
		}
	}
	l.parking.added, l.parking.overflow = l.parking.added[:0], false
	return parked
}

// addExpired adds the Idle machines whose reservations have run out since the last decision: they are free in this one. A machine
// of a plan may be held for longer, by the deadlines of the others.
func (l *Ledgers) addExpired() {
	x := &l.parking
	if len(x.waiting) > 0 {
		for r, res := range l.machines.Reservations() {
			if res.Deadline >= x.stampedAt && res.Deadline < l.pace.Now && res.Deadline != 0 && l.machines.State(r) == model.Idle {
				x.add(l.machines.ID(r))
			}
		}
	}
	x.stampedAt = l.pace.Now
}

// stampCluster stamps the rows of one cluster; listed tells whether a row of it
// is in the ledger.
func (l *Ledgers) stampCluster(cluster string, since *arrivals) (parked int, listed bool) {
	b := l.demand.Block(cluster)
	if b == nil {
		return 0, false
	}
	for i := range b.Len() {
		p := l.demand.Profile(b.Profile(i))
		if p.Same() == nil {
			continue
		}
		w := l.parking.waiting[keyOf(b, i, p)]
		if w == nil {
			l.demand.SetParked(cluster, i, false)
			continue
		}
		listed = true
		rest := w.parked() && !l.suits(b, i, p, since)
		l.demand.SetParked(cluster, i, rest)
		l.demand.SetShortSince(cluster, i, w.since)
		if rest {
			parked++
		}
	}
	return parked, listed
}

// suits tells whether a machine that became available since the last decision is one that
// the row's Need could use, or one that was bound is one that it could preempt.
func (l *Ledgers) suits(b *demand.Block, row int, p *model.Profile, since *arrivals) bool {
	if l.parking.overflow {
		return true
	}
	if len(b.Unoffered(row).MinUnit) > 0 { // not a part of the unit's number
		w := since.of(p, l.demand.Row(b, row).MinUnit)
		return w.suits(b.Cluster())
	}
	k := rowKind{b.Profile(row), b.UnitIDs()[row]}
	w, known := since.worth[k]
	if !known {
		w = since.of(p, l.demand.Row(b, row).MinUnit)
		since.worth[k] = w
	}
	return w.suits(b.Cluster())
}

// deeds are what a plan does for a Need.
type deeds uint8

const (
	acquires deeds = 1 << iota // binds or buys
	preempts
)

// deedsOf returns the deeds of a plan by the number of the row; those of a fold
// are at its first member. It uses the memory of into when it suffices.
func deedsOf(actions []engine.Action, rows int, into []deeds) []deeds {
	into = slices.Grow(into[:0], rows)[:rows]
	clear(into)
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case engine.Bootstrap, engine.Provision:
			into[a.Need] |= acquires
		case engine.Preempt:
			into[a.Need] |= preempts
		}
	}
	return into
}

// progress is what a cycle brought a gang that it left short.
type progress uint8

const (
	none    progress = iota
	waits            // it has a plan, or waits for drains, or for what no machine offers
	engaged          // it got something, or some domain could hold it
)

// gangs is what parking reads of a plan.
type gangs interface {
	CouldCover(i int) bool
	Need(i int) engine.NeedResult
}

// progressOf tells what a plan brought a row. held says that something may be
// draining for it: reading that costs memory, and few gangs have it.
func progressOf(plan gangs, i int, did deeds, held bool) progress {
	switch {
	case did&acquires != 0 || plan.CouldCover(i):
		return engaged
	case did&preempts != 0:
		return waits
	case held && !plan.Need(i).InFlight.IsZero():
		return waits
	}
	return none
}

// owners returns the Needs that machines are held for.
func (l *Ledgers) owners() map[model.Owner]struct{} {
	out := make(map[model.Owner]struct{})
	for _, res := range l.machines.Reservations() {
		out[res.Owner] = struct{}{}
	}
	return out
}

// recordParking ages the gangs that this plan left short. The machines must be
// those that it was made for.
func (l *Ledgers) recordParking(plan *engine.Plan) {
	x := &l.parking
	x.cycle++
	owners := l.owners()
	var b *demand.Block // of the last gang's cluster
	for i := range plan.Len() {
		if plan.Satisfied(i) || plan.Profile(i).Same() == nil {
			continue // a fold is plain demand
		}
		cluster, row := plan.Identity(i)
		if b == nil || b.Cluster() != cluster {
			b = l.demand.Block(cluster)
		}
		p := plan.Profile(i)
		k := keyOf(b, row, p)
		_, held := owners[model.Owner{Cluster: cluster, Fingerprint: p.WithoutSame().Fingerprint(), Group: k.group}]
		got := progressOf(plan, i, l.deeds[i], held)
		if len(plan.Unoffered(i)) > 0 {
			got = waits // for supply of another kind: it is tried as soon as that is there
		}
		x.note(k, got, l.pace.Now)
	}
	for k, w := range x.waiting {
		if w.seen != x.cycle {
			delete(x.waiting, k)
		}
	}
}

// note ages one unsatisfied gang by one cycle. Getting something, or a domain
// that could hold it, starts anew: its shortage is not structural. Cycles in
// which it has a plan or waits for drains do not count.
func (l *parking) note(k gangKey, got progress, now int64) {
	w := l.waiting[k]
	if w == nil {
		w = &waiting{since: now, first: l.cycle}
		l.waiting[k] = w
	}
	first := w.seen != l.cycle
	w.seen = l.cycle
	switch {
	case got == engaged:
		w.age = 0
	case got == none && first:
		w.age++
	}
}
