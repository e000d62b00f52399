package engine

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// gang is demand that lives and dies together: the needs of one group of a
// cluster are its roles, or it is one Same-Need that no machine holds whole. Its
// members are the machines that its needs claim.
type gang struct {
	cluster int32
	state   gangState // but for what is held; see stateOf
	// watched says that something was held for it, or of it, when the phase
	// began.
	watched bool
	round   uint32 // of the last pool that it was added to
	// What stateOf has said since plans last changed something; see turn.
	turn    uint32
	now     gangState
	lostAt  int // 1 + the number of the last plan that has taken of it
	group   string
	roles   []gangRole
	members []columnar.Row // those that are Configured, by id
}

// gangRole is one need of a gang.
type gangRole struct {
	need    int32
	surplus bool // it has, or may have, more than its minimum
}

// gangState says what may be taken of a gang.
type gangState uint8

const (
	gangSound  gangState = iota // what is above its minimum, or all of it
	gangBroken                  // short for a minute with nothing on its way: each member by itself
	gangAlone                   // nothing: it is assembling, or short for less
)

// shortSecondsBroken is for how many seconds a gang must have been short, with
// nothing on its way to it, before it counts as broken.
const shortSecondsBroken = 60

// gangTable is the gangs that phase 2 has come upon in this cycle.
type gangTable struct {
	list   []gang
	looked []bool  // by line: whether the need is part of one is known
	of     []int32 // by row: 1 + the gang of a Configured machine, ofNoGang, or 0 = not known
	// inGang are the machines of gangs, of the cycle before until begin.
	inGang []columnar.Row
	// rest are the machines that went with a gang and that the plan had no use
	// for; those that another has used since are passed over.
	rest []columnar.Row

	// Memory of the pass, to be used again.
	pools   map[victimPoolKey]*unitPool
	plans   []plan
	planned []planned
	scopes  []*unitScope
	domains map[poolDomain]*unitScope // those that are lent

	round   uint32       // of pools
	turn    uint32       // of the need that is planned for
	dealt   []*unitScope // scratch, by place in a victim group
	byValue []*unitScope // scratch of deal, by domain; nil between two
	victims victimTable
}

// poolDomain names a scope: the number of its pool, and its domain.
type poolDomain struct{ pool, value uint32 }

// scopesByValue returns room for a scope of each domain below a number.
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
	p.unitPools, p.plans, p.planned = t.pools, t.plans[:0], t.planned[:0]
	clear(t.list)
	t.list, t.rest = t.list[:0], t.rest[:0]
	p.e.store.noUnits.anywhere.begin(0)
	t.victims.forget()
	for _, l := range p.e.workers {
		l.finder.forget(t)
	}
	for _, r := range t.inGang {
		t.of[r] = 0
	}
	t.inGang = t.inGang[:0]
}

// lay makes the columns of the table, for all passes until everything is
// forgotten.
func (t *gangTable) lay(p *pass, rows, machines int) {
	t.looked, t.of, t.inGang = alloc.Make[bool](p.e.store.arena, rows), alloc.Make[int32](p.e.store.arena, machines), t.inGang[:0]
	for _, l := range p.e.workers {
		l.finder.known, l.finder.single = l.finder.known[:0], l.finder.single[:0]
	}
}

// ofNoGang stands in gangTable.of for machines that are known to serve none.
const ofNoGang = -1

// gangOf returns 1 + the gang that a Configured machine serves, 0 = none.
func (l *worker) gangOf(r columnar.Row) int32 {
	t := &l.e.store.gangs
	if at := t.of[r]; at != 0 {
		return max(at, 0)
	}
	if need := l.held[r].need; need != unheld && l.mayBeOfGang(need) && !t.looked[need] {
		l.findGang(need)
		l.numberGangs()
	}
	return t.of[r]
}

// minimum is what a need can live with: the sum of its rows' minima.
func (l *worker) minimum(need int32) []int64 {
	sum := l.vecs.take(l.dims)
	l.eachRow(need, func(src *rowSource, i int) { l.addMinimum(sum, src.block, i) })
	return sum
}

// addMinimum adds what a row can live with.
func (p *pass) addMinimum(sum []int64, b *demand.Block, row int) {
	least := b.MinAggregate(row)
	if len(least) == 0 || b.Unoffered(row).Some() {
		columnar.SatAdd(sum, b.Aggregate(row))
		return
	}
	for _, a := range least {
		if d := slices.Index(p.s.Dims[:p.dims], a.Name); d >= 0 {
			columnar.SatAdd(sum[d:d+1], []int64{a.Value})
		}
	}
}

// shortSince is since when a need has been short, by the earliest of its rows;
// one that does not say is short since now.
func (l *worker) shortSince(need int32) int64 {
	since := l.s.Now
	l.eachRow(need, func(src *rowSource, i int) {
		if s := src.block.ShortSince(i); s != 0 {
			since = min(since, s)
		}
	})
	return since
}

// eachRow calls f for the rows that a need stands for.
func (p *pass) eachRow(need int32, f func(src *rowSource, i int)) {
	src := &p.sources[p.lines[need].cluster]
	if !p.lines[need].is(isFold) {
		f(src, int(need-src.base))
		return
	}
	for i := range src.rows {
		if p.needOf(src.base+int32(i)) == need {
			f(src, i)
		}
	}
}

// stateOf says what may be taken of a gang now.
func (l *worker) stateOf(g *gang) gangState {
	if g.state == gangAlone {
		return gangAlone
	}
	for i := range g.roles {
		if l.lines[g.roles[i].need].is(hasPlan) {
			return gangAlone
		}
	}
	if g.watched && l.isHeld(g) {
		return gangAlone
	}
	return g.state
}

// stateInTurn is stateOf for who asks often before a need's plan is carried out:
// until then nothing changes.
func (l *worker) stateInTurn(g *gang) gangState {
	if turn := l.e.store.gangs.turn; g.turn != turn {
		g.turn, g.now = turn, l.stateOf(g)
	}
	return g.now
}

// isHeld reports whether something is held for a gang that is on its way to it,
// or a member is held for another and about to leave.
func (l *worker) isHeld(g *gang) bool {
	for _, r := range g.members {
		if l.reserved.live(r) {
			return true
		}
	}
	for i := range g.roles {
		for _, r := range l.reserved.of(g.roles[i].need) {
			if l.s.View.State[r] != model.Configured || l.s.ClusterOf[l.s.View.Cluster[r]] != g.cluster {
				return true
			}
		}
	}
	return false
}
