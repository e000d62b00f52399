package engine

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// gang is demand that is served as a whole or loses its use: the Needs of one group of a
// cluster, which are its roles, or one Same-Need that no machine holds whole. Its members are
// the machines that its Needs claim.
type gang struct {
	cluster int32
	state   gangState // as measured; stateOf also looks at plans and reservations
	// watched: something was reserved for it, or of it, when phase 2 began, so stateOf must
	// look at reservations.
	watched bool
	round   uint32 // mark: the last round in which it was listed; see gangTable.round
	// now memoizes stateOf for the turn of one need; see stateInTurn.
	turn    uint32
	now     gangState
	lostAt  int // 1 + the index of the last plan that took a member; see lose
	group   string
	roles   []gangRole
	members []columnar.Row // Configured ones, by id
}

// gangRole is one Need of a gang.
type gangRole struct {
	need    int32
	surplus bool // it has more than its minimum, or may have
}

// gangState says what may be taken of a gang.
type gangState uint8

const (
	gangSound  gangState = iota // its surplus machine by machine, or all of it
	gangBroken                  // short for shortSecondsBroken with nothing on its way: each member by itself
	gangAlone                   // nothing: it is assembling, or short for less
)

// shortSecondsBroken is how many seconds a gang must be short, with nothing on its way to it,
// before it counts as broken.
const shortSecondsBroken = 60

// gangTable is the gangs that phase 2 has found in this cycle.
type gangTable struct {
	list   []gang
	looked []bool  // by need: whether it is part of a gang is known
	of     []int32 // by row of a Configured machine: 1 + its gang; ofNoGang; 0 = not known
	// inGang are the machines with an entry in of; begin clears those of the last cycle.
	inGang []columnar.Row
	// rest are the machines that were broken off a gang and that the plan did not use. Some may
	// have been used by a later plan since: takenBy tells.
	rest []columnar.Row

	// Memory that passes reuse.
	pools   map[victimPoolKey]*unitPool
	plans   []plan
	planned []planned
	scopes  []*unitScope
	domains map[poolDomain]*unitScope // the scopes on loan

	round   uint32       // counter that dates marks on gangs and replaces clearing them
	turn    uint32       // number of the need's turn that is planned for
	dealt   []*unitScope // scratch, by index in a victim group
	byValue []*unitScope // scratch of deal, by domain; all nil between two calls
	victims victimTable
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

// minimum returns the least that a need can use: the sum of its rows' minima.
func (l *worker) minimum(need int32) []int64 {
	sum := l.vecs.take(l.dims)
	l.eachRow(need, func(src *rowSource, i int) { l.addMinimum(sum, src.block, i) })
	return sum
}

// addMinimum adds a row's minimum: MinAggregate, or the whole aggregate if that is unset or the
// row asks for something that no machine offers.
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

// shortSince returns the time since which a need has been short, the earliest of its rows, in
// Unix nanoseconds. A row that does not say counts as short since now.
func (l *worker) shortSince(need int32) int64 {
	since := l.s.Now
	l.eachRow(need, func(src *rowSource, i int) {
		if s := src.block.ShortSince(i); s != 0 {
			since = min(since, s)
		}
	})
	return since
}

// eachRow calls f for the rows that a need stands for: itself, or the members of a fold.
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

// stateInTurn is stateOf, memoized for the turn of one need: nothing changes until the need's
// plan is carried out.
func (l *worker) stateInTurn(g *gang) gangState {
	if turn := l.e.store.gangs.turn; g.turn != turn {
		g.turn, g.now = turn, l.stateOf(g)
	}
	return g.now
}

// isHeld reports whether a machine reserved for the gang is on its way to it, or a member is
// reserved for another owner and will leave.
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
