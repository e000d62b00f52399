package engine

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// shortSecondsBroken is how many seconds a gang must be short, with nothing on its way to it,
// before it counts as broken.
const shortSecondsBroken = 60

// gangTable is the gangs that phase 2 has found in this cycle.
type gangTable struct {
	list   []units.Gang
	looked []bool  // by need: whether it is part of a gang is known
	of     []int32 // by row of a Configured machine: 1 + its gang; ofNoGang; 0 = not known
	// inGang are the machines with an entry in of; begin clears those of the last cycle.
	inGang []columnar.Row
	// rest are the machines that were broken off a gang and that the plan did not use. Some may
	// have been used by a later plan since: takenBy tells.
	rest []columnar.Row

	// Memory that passes reuse.
	pools   map[victimPoolKey]*unitPool
	plans   []gangPlan
	planned []planned
	scopes  []*unitScope
	domains map[poolDomain]*unitScope // the scopes on loan

	round   uint32       // counter that dates marks on gangs and replaces clearing them
	turn    uint32       // number of the need's turn that is planned for
	dealt   []*unitScope // scratch, by index in a victim group
	byValue []*unitScope // scratch of deal, by domain; all nil between two calls
	victims units.VictimTable
}

// poolDomain names a scope: the number of its pool, and its domain.
type poolDomain struct{ pool, value uint32 }

// scopesByValue returns a slice with an entry for each domain below n.
func (t *gangTable) scopesByValue(n int) []*unitScope {
	if len(t.byValue) < n {
		t.byValue = make([]*unitScope, n+n/8)
	}
	return t.byValue
}

// begin prepares the table for a pass.
func (t *gangTable) begin(p *pass) {
	if t.pools == nil {
		t.pools = map[victimPoolKey]*unitPool{}
	}
	clear(t.pools)
	p.candidates.unitPools, p.preempted.plans, p.preempted.planned = t.pools, t.plans[:0], t.planned[:0]
	clear(t.list)
	t.list, t.rest = t.list[:0], t.rest[:0]
	p.e.store.lent.noUnits.anywhere.begin(0)
	t.victims.Forget()
	for _, l := range p.e.workers {
		l.finder.forget(t)
	}
	for _, r := range t.inGang {
		t.of[r] = 0
	}
	t.inGang = t.inGang[:0]
}

// lay allocates the columns of the table, for all passes until the store is rebuilt.
func (t *gangTable) lay(p *pass, rows, machines int) {
	t.looked, t.of, t.inGang = alloc.Make[bool](p.e.store.arena, rows), alloc.Make[int32](p.e.store.arena, machines), t.inGang[:0]
	for _, l := range p.e.workers {
		l.finder.known, l.finder.single = l.finder.known[:0], l.finder.single[:0]
	}
}

// ofNoGang marks, in gangTable.of, machines that are known to serve no gang.
const ofNoGang = -1

// gangOf returns 1 + the index of the gang that a Configured machine serves, 0 = none. It finds
// the gang on first use.
func (l *worker) gangOf(r columnar.Row) int32 {
	t := &l.p.e.store.gangs
	if at := t.of[r]; at != 0 {
		return max(at, 0)
	}
	if need := l.p.claims.Of(r); need != state.Unclaimed && l.p.mayBeOfGang(need) && !t.looked[need] {
		l.findGang(need)
		l.p.numberGangs()
	}
	return t.of[r]
}

// minimum returns the least that a need can use: the sum of its rows' minima.
func (l *worker) minimum(need int32) []int64 {
	sum := l.search.vecs.Take(l.p.dims)
	l.p.eachRow(need, func(src *state.Source, i int) { l.p.addMinimum(sum, src.Block, i) })
	return sum
}

// addMinimum adds a row's minimum: MinAggregate, or the whole aggregate if that is unset or the
// row asks for something that no machine offers.
func (fl *fleet) addMinimum(sum []int64, b *demand.Block, row int) {
	least := b.MinAggregate(row)
	if len(least) == 0 || b.Unoffered(row).Some() {
		columnar.SatAdd(sum, b.Aggregate(row))
		return
	}
	for _, a := range least {
		if d := slices.Index(fl.s.Dims[:fl.dims], a.Name); d >= 0 {
			columnar.SatAdd(sum[d:d+1], []int64{a.Value})
		}
	}
}

// shortSince returns the time since which a need has been short, the earliest of its rows, in
// Unix nanoseconds. A row that does not say counts as short since now.
func (p *pass) shortSince(need int32) int64 {
	since := p.s.Now
	p.eachRow(need, func(src *state.Source, i int) {
		if s := src.Block.ShortSince(i); s != 0 {
			since = min(since, s)
		}
	})
	return since
}

// eachRow calls f for the rows that a need stands for: itself, or the members of a fold.
func (nt *needTable) eachRow(need int32, f func(src *state.Source, i int)) {
	src := &nt.sources[nt.lines[need].Cluster]
	if !nt.lines[need].Is(state.IsFold) {
		f(src, int(need-src.Base))
		return
	}
	for i := range src.Rows {
		if nt.needOf(src.Base+int32(i)) == need {
			f(src, i)
		}
	}
}

// stateOf says what may be taken of a gang now.
func (p *pass) stateOf(g *units.Gang) units.GangState {
	if g.State == units.GangAlone {
		return units.GangAlone
	}
	for i := range g.Roles {
		if p.lines[g.Roles[i].Need].Is(state.HasPlan) {
			return units.GangAlone
		}
	}
	if g.Watched && p.isHeld(g) {
		return units.GangAlone
	}
	return g.State
}

// stateInTurn is stateOf, memoized for the turn of one need: nothing changes until the need's
// plan is carried out.
func (p *pass) stateInTurn(g *units.Gang) units.GangState {
	if turn := p.e.store.gangs.turn; g.Turn != turn {
		g.Turn, g.Now = turn, p.stateOf(g)
	}
	return g.Now
}

// isHeld reports whether a machine reserved for the gang is on its way to it, or a member is
// reserved for another owner and will leave.
func (p *pass) isHeld(g *units.Gang) bool {
	for _, r := range g.Members {
		if p.reserved.Live(r) {
			return true
		}
	}
	for i := range g.Roles {
		for _, r := range p.reserved.Of(g.Roles[i].Need) {
			if p.s.View.State[r] != model.Configured || p.s.ClusterOf[p.s.View.Cluster[r]] != g.Cluster {
				return true
			}
		}
	}
	return false
}
