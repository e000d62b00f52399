package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
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
	of     []int32 // by row: 1 + the gang of a Configured machine, 0 = none
	// rest are the machines that went with a gang and that the plan had no use
	// for; those that another has used since are passed over.
	rest []columnar.Row

	// Memory of the pass, to be used again.
	pools   map[victimPoolKey]*unitPool
	plans   []plan
	planned []planned
	scopes  []*unitScope

	round   uint32       // of pools
	turn    uint32       // of the need that is planned for
	dealt   []*unitScope // scratch, by place in a flavour
	victims preyTable

	// Scratch of one cluster.
	keys  []int32 // by number of a group: 1 + place in draft
	draft []gangDraft
	folds []int32 // the folds met
	// foldDraft is, by place of a fold, 2 + the draft of all its rows; 1 = they
	// are of several, or of none; 0 = it has not been met.
	foldDraft []int32
}

// gangDraft is rows that are a gang if they need several machines.
type gangDraft struct {
	group    uint32 // 0 = none: one row
	rows     []int32
	needs    []int32
	together bool // one of them asks for one domain
	unfolded bool // and no machine could hold that one
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
	t.looked = alloc.Make[bool](p.e.arena, len(p.lines))
	t.of = alloc.Make[int32](p.e.arena, p.s.Supply.RowMax())
	t.keys = resize(t.keys, int(p.s.Demand.GroupIDMax()))
}

// gangOf returns 1 + the gang that a Configured machine serves, 0 = none.
func (l *lane) gangOf(r columnar.Row) int32 {
	t := &l.e.store.gangs
	if need := l.held[r].need; need != unheld && l.mayBeOfGang(need) && !t.looked[need] {
		l.findGang(need)
	}
	return t.of[r]
}

// mayBeOfGang reports whether a need may be part of a gang.
func (l *lane) mayBeOfGang(need int32) bool {
	n := &l.lines[need]
	return n.group != 0 || n.status&(hasSame|neverFolds|isFold) != 0
}

// findGang finds the gang that a need is part of, if there is one. Where rows of
// its group are folded, all gangs of the cluster are found.
func (l *lane) findGang(need int32) {
	t, src := &l.e.store.gangs, &l.sources[l.lines[need].cluster]
	t.draft = t.draft[:0]
	d := &t.draft[t.newDraft()]
	whole := false
	if group := src.block.GroupID(int(need - src.base)); group == 0 {
		whole = !l.draftRow(d, need)
		d.together = false // by itself it is one only if it is not folded
	} else {
		for i, g := range src.block.GroupIDs() {
			whole = whole || g == group && !l.draftRow(d, src.base+int32(i))
		}
	}
	if whole {
		l.findGangs(l.lines[need].cluster)
	} else {
		l.judge(l.lines[need].cluster, d)
	}
	t.looked[need] = true
}

// draftRow adds a row, and the need that it is, to a draft; false when it is
// folded.
func (l *lane) draftRow(d *gangDraft, row int32) bool {
	if l.lines[row].status&(isMember|isFold) != 0 {
		return false
	}
	l.addRow(d, row, row)
	d.needs = append(d.needs, row)
	return true
}

// addRow adds a row that is walked as a need to a draft.
func (l *lane) addRow(d *gangDraft, row, need int32) {
	d.rows = append(d.rows, row)
	d.together = d.together || l.lines[row].status&(hasSame|neverFolds) != 0
	d.unfolded = d.unfolded || l.kindOf(need).same
}

// findGangs finds the gangs of a cluster that have not been found.
func (l *lane) findGangs(c int32) {
	t := &l.e.store.gangs
	l.draftGangs(&l.sources[c])
	for i := range t.draft {
		if d := &t.draft[i]; len(d.needs) > 0 && !t.looked[d.needs[0]] {
			l.judge(c, d)
		}
	}
}

// judge makes a draft a gang if no machine holds it.
func (l *lane) judge(c int32, d *gangDraft) {
	for _, need := range d.needs {
		l.e.store.gangs.looked[need] = true
	}
	if d.unfolded || d.together && !l.oneMachineHolds(c, d) {
		l.addGang(c, d)
	}
}

// draftGangs deals the rows of a cluster by who they would be a gang with. A
// need is part of one when all of its rows are: members of a fold that come
// from several gangs, or from none, share their machines, and nobody can say
// whose one of them is.
func (l *lane) draftGangs(src *rowSource) {
	t := &l.e.store.gangs
	t.folds, t.foldDraft = t.folds[:0], resize(t.foldDraft, src.rows)
	t.draft = t.draft[:0]
	groups := src.block.GroupIDs()
	for i := range src.rows {
		row := src.base + int32(i)
		n := &l.lines[row]
		same := n.status&(hasSame|neverFolds) != 0
		if !same && groups == nil {
			continue
		}
		need := l.needOf(row)
		at := l.draftOf(src, int32(i), need, same)
		if at >= 0 {
			l.addRow(&t.draft[at], row, need)
		}
		if !l.lines[need].is(isFold) {
			if at >= 0 {
				t.draft[at].needs = append(t.draft[at].needs, need)
			}
		} else if was := &t.foldDraft[need-src.base]; *was == 0 {
			*was, t.folds = at+2, append(t.folds, need)
		} else if *was != at+2 {
			*was = 1
		}
	}
	for _, need := range t.folds {
		if at := t.foldDraft[need-src.base] - 2; at >= 0 {
			t.draft[at].needs = append(t.draft[at].needs, need)
		}
	}
}

// draftOf returns the place of the draft that a row belongs to, −1 = none.
func (l *lane) draftOf(src *rowSource, i, need int32, same bool) int32 {
	t := &l.e.store.gangs
	group := src.block.GroupID(int(i))
	switch {
	case group == 0 && same && l.kindOf(need).same:
		return t.newDraft()
	case group == 0:
		return -1
	}
	// Numbers of groups are the table's, and other clusters have left theirs.
	if at := t.keys[group] - 1; at >= 0 && int(at) < len(t.draft) && t.draft[at].group == group {
		return at
	}
	at := t.newDraft()
	t.draft[at].group = group
	t.keys[group] = at + 1
	return at
}

// newDraft returns the place of an empty draft.
func (t *gangTable) newDraft() int32 {
	if len(t.draft) < cap(t.draft) {
		t.draft = t.draft[:len(t.draft)+1]
		d := &t.draft[len(t.draft)-1]
		*d = gangDraft{rows: d.rows[:0], needs: d.needs[:0]}
	} else {
		t.draft = append(t.draft, gangDraft{})
	}
	return int32(len(t.draft)) - 1
}

// oneMachineHolds reports whether a machine that could be theirs, bound or free,
// matches all rows of a draft and covers their sum.
func (l *lane) oneMachineHolds(c int32, d *gangDraft) bool {
	sum := l.vecs.take(l.dims)
	matchers := make([]uint32, 0, len(d.rows))
	block, base := l.sources[c].block, l.sources[c].base
	for _, row := range d.rows {
		columnar.SatAdd(sum, block.Aggregate(int(row-base)))
		matchers = append(matchers, l.s.Supply.Matcher(l.s.Demand.Profile(block.Profile(int(row-base)))))
	}
	matches := func(r columnar.Row) bool {
		return !slices.ContainsFunc(matchers, func(m uint32) bool { return !l.inAnyDomain(m, r) })
	}
	for _, class := range l.classesOf[matchers[0]] {
		if !columnar.Covers(l.vector(class), sum) || slices.ContainsFunc(matchers, func(m uint32) bool { return !l.matches(class, m) }) {
			continue
		}
		if slices.ContainsFunc(l.s.Idle.At(int(class)), matches) || slices.ContainsFunc(l.s.Speculative.At(int(class)), matches) {
			return true
		}
		bound := l.s.BoundOf(int(c))
		for _, g := range l.s.GroupsOf(int(c)) {
			for at := g.First + 1; g.Class == class && at != 0; at = bound[at-1].Next {
				if matches(bound[at-1].Row) {
					return true
				}
			}
		}
	}
	return false
}

// addGang makes a draft a gang.
func (l *lane) addGang(c int32, d *gangDraft) {
	t := &l.e.store.gangs
	number := int32(len(t.list)) + 1
	count := 0
	for _, need := range d.needs {
		for r := l.lines[need].head; r != columnar.None; r = l.held[r].next {
			count++
		}
	}
	g := gang{cluster: c, members: alloc.MakeDirty[columnar.Row](l.arena, count)[:0], roles: alloc.MakeDirty[gangRole](l.arena, len(d.needs))[:0]}
	if block := l.sources[c].block; len(d.rows) > 0 {
		g.group = block.Group(int(d.rows[0] - l.sources[c].base))
	}
	slices.SortFunc(d.needs, func(a, b int32) int { return cmp.Compare(l.rankOf[a], l.rankOf[b]) })
	short, since := false, l.s.Now
	for _, need := range d.needs {
		role := gangRole{need: need}
		lacks := l.measureRole(&g, &role, number)
		if lacks {
			short, since = true, min(since, l.shortSince(need))
		}
		g.roles = append(g.roles, role)
	}
	slices.SortFunc(g.members, func(a, b columnar.Row) int { return cmp.Compare(l.s.IDRank[a], l.s.IDRank[b]) })
	if g.state != gangAlone && short {
		if g.state = gangAlone; (l.s.Now-since)/1e9 >= shortSecondsBroken {
			g.state = gangBroken
		}
	}
	for i := range g.roles {
		g.watched = g.watched || l.reserved.has(g.roles[i].need)
	}
	t.list = append(t.list, g)
}

// measureRole adds what a need claims to its gang, and reports whether that is
// below its minimum.
func (l *lane) measureRole(g *gang, role *gangRole, number int32) (short bool) {
	t := &l.e.store.gangs
	least := l.minimum(role.need)
	sum := l.vecs.take(l.dims)
	from := len(g.members)
	for r := l.lines[role.need].head; r != columnar.None; r = l.held[r].next {
		columnar.SatAdd(sum, l.vec(r))
		if l.s.View.State[r] != model.Configured {
			g.state = gangAlone // it is assembling
			continue
		}
		g.watched = g.watched || l.reserved.live(r)
		g.members = append(g.members, r)
		t.of[r] = number
	}
	role.surplus = slices.Contains(sum, math.MaxInt64) // it may be, and is not known from this sum
	for _, r := range g.members[from:] {
		if !role.surplus {
			rest := l.copyOf(sum)
			columnar.SubClamp(rest, l.vec(r))
			role.surplus = columnar.Covers(rest, least)
		}
	}
	return !columnar.Covers(sum, least)
}

// minimum is what a need can live with: the sum of its rows' minima.
func (l *lane) minimum(need int32) []int64 {
	sum := l.vecs.take(l.dims)
	l.eachRow(need, func(src *rowSource, i int) {
		least := src.block.MinAggregate(i)
		if len(least) == 0 {
			columnar.SatAdd(sum, src.block.Aggregate(i))
			return
		}
		v := l.vecs.take(l.dims)
		for _, a := range least {
			if d := slices.Index(l.s.Dims[:l.dims], a.Name); d >= 0 {
				v[d] = a.Value
			}
		}
		columnar.SatAdd(sum, v)
	})
	return sum
}

// shortSince is since when a need has been short, by the earliest of its rows;
// one that does not say is short since now.
func (l *lane) shortSince(need int32) int64 {
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
func (l *lane) stateOf(g *gang) gangState {
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
func (l *lane) stateInTurn(g *gang) gangState {
	if turn := l.e.store.gangs.turn; g.turn != turn {
		g.turn, g.now = turn, l.stateOf(g)
	}
	return g.now
}

// isHeld reports whether something is held for a gang that is on its way to it,
// or a member is held for another and about to leave.
func (l *lane) isHeld(g *gang) bool {
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
