package victims

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// shortSecondsBroken is how many seconds a gang must be short, with nothing on its way to it,
// before it counts as broken.
const shortSecondsBroken = 60

// gangTable is the gangs that phase 2 has found in this cycle.
type gangTable struct {
	List   []units.Gang
	looked []bool  // by need: whether it is part of a gang is known
	Of     []int32 // by row of a Configured machine: 1 + its gang; ofNoGang; 0 = not known
	// inGang are the machines with an entry in of; begin clears those of the last cycle.
	inGang []columnar.Row
	// Rest are the machines that were broken off a gang and that the plan did not use. Some may
	// have been used by a later plan since: TakenBy tells.
	Rest []columnar.Row

	// memory that passes reuse.
	pools   map[victimPoolKey]*UnitPool
	plans   []GangPlan
	planned []Planned
	scopes  []*UnitScope
	domains map[poolDomain]*UnitScope // the scopes on loan
	// dealtPools are the pools whose units are dealt into domains.
	dealtPools []*UnitPool

	Round   uint32       // counter that dates marks on gangs and replaces clearing them
	Turn    uint32       // number of the need's turn that is planned for
	dealt   []*UnitScope // scratch, by index in a victim group
	byValue []*UnitScope // scratch of deal, by domain; all nil between two calls
	Victims units.VictimTable
	classes classSets
}

// poolDomain names a scope: the number of its pool, and its domain.
type poolDomain struct{ pool, value uint32 }

// scopesByValue returns a slice with an entry for each domain below n.
func (t *gangTable) scopesByValue(n int) []*UnitScope {
	if len(t.byValue) < n {
		t.byValue = make([]*UnitScope, n+n/8)
	}
	return t.byValue
}

// begin prepares the table for a pass.
func (t *gangTable) begin(p *Pass) {
	if t.pools == nil {
		t.pools, t.classes = map[victimPoolKey]*UnitPool{}, classSets{}
	}
	clear(t.pools)
	clear(t.classes)
	p.Candidates.UnitPools, p.Preempted.Plans, p.Preempted.Planned = t.pools, t.plans[:0], t.planned[:0]
	clear(t.List)
	t.List, t.Rest = t.List[:0], t.Rest[:0]
	p.st.lent.noUnits.Anywhere.begin(0)
	t.Victims.Forget()
	for _, l := range p.st.Workers {
		l.finder.forget(t)
	}
	for _, r := range t.inGang {
		t.Of[r] = 0
	}
	t.inGang = t.inGang[:0]
}

// lay allocates the columns of the table, for all passes until the store is rebuilt.
func (t *gangTable) lay(p *Pass, rows, machines int) {
	t.looked, t.Of, t.inGang = alloc.Make[bool](p.st.Arena, rows), alloc.Make[int32](p.st.Arena, machines), t.inGang[:0]
	for _, l := range p.st.Workers {
		l.finder.known, l.finder.single = l.finder.known[:0], l.finder.single[:0]
	}
}

// ofNoGang marks, in gangTable.Of, machines that are known to serve no gang.
const ofNoGang = -1

// GangOf returns 1 + the index of the gang that a Configured machine serves, 0 = none. It finds
// the gang on first use.
func (l *Worker) GangOf(r columnar.Row) int32 {
	t := &l.p.st.Gangs
	if at := t.Of[r]; at != 0 {
		return max(at, 0)
	}
	if need := l.p.Claims.Of(r); need != state.Unclaimed && l.p.mayBeOfGang(need) && !t.looked[need] {
		l.findGang(need)
		l.p.numberGangs()
	}
	return t.Of[r]
}

// MembersWith returns the members of the gang that a need is a role of; nil if there is none, or it has not been found. O(rows of the
// cluster).
func MembersWith(p *Pass, need int32) []columnar.Row {
	if !p.mayBeOfGang(need) {
		return nil
	}
	of := func(need int32) []columnar.Row {
		if r := p.Claims.First(&p.Lines[need]); r != columnar.None && p.st.Gangs.Of[r] > 0 {
			return p.st.Gangs.List[p.st.Gangs.Of[r]-1].Members
		}
		return nil
	}
	if members := of(need); members != nil {
		return members
	}
	group := uint32(0)
	p.EachRow(need, func(src *state.Source, row int) { group = src.Block.GroupID(row) })
	if group == 0 {
		return nil
	}
	src := p.SourceOf(need)
	for row, g := range src.Block.GroupIDs() { // it has no machine: those of other roles tell
		if g != group {
			continue
		}
		if members := of(p.NeedOf(src.Base + int32(row))); members != nil {
			return members
		}
	}
	return nil
}

// Minimum returns the least that a need can use: the sum of its rows' minima.
func (l *Worker) Minimum(need int32) []int64 {
	sum := l.Finding.Vecs.Take(l.p.Dims)
	l.p.EachRow(need, func(src *state.Source, i int) { l.p.AddMinimum(sum, src.Block, i) })
	return sum
}

// shortSince returns the time since which a need has been short, the earliest of its rows, in
// Unix nanoseconds. A row that does not say counts as short since now.
func (p *Pass) shortSince(need int32) int64 {
	since := p.Snap.Now
	p.EachRow(need, func(src *state.Source, i int) {
		if s := src.Block.ShortSince(i); s != 0 {
			since = min(since, s)
		}
	})
	return since
}

// EachRow calls f for the rows that a need stands for: itself, or the members of a fold.
func (p *Pass) EachRow(need int32, f func(src *state.Source, i int)) {
	src := p.SourceOf(need)
	if !p.Lines[need].Is(state.IsFold) {
		f(src, int(need-src.Base))
		return
	}
	for i := range src.Rows {
		if p.NeedOf(src.Base+int32(i)) == need {
			f(src, i)
		}
	}
}

// StateOf says what may be taken of a gang now.
func (p *Pass) StateOf(g *units.Gang) units.GangState {
	if g.State == units.GangAlone {
		return units.GangAlone
	}
	for i := range g.Roles {
		if p.Lines[g.Roles[i].Need].Is(state.HasPlan) {
			return units.GangAlone
		}
	}
	if g.Watched && p.isHeld(g) {
		return units.GangAlone
	}
	return g.State
}

// StateInTurn is StateOf, memoized for the turn of one need: nothing changes until the need's
// plan is carried out.
func (p *Pass) StateInTurn(g *units.Gang) units.GangState {
	if turn := p.st.Gangs.Turn; g.Turn != turn {
		g.Turn, g.Now = turn, p.StateOf(g)
	}
	return g.Now
}

// isHeld reports whether a machine reserved for the gang is on its way to it, or a member is
// reserved for another owner and will leave.
func (p *Pass) isHeld(g *units.Gang) bool {
	for _, r := range g.Members {
		if p.Reserved.Live(r) {
			return true
		}
	}
	for i := range g.Roles {
		for _, r := range p.Reserved.Of(g.Roles[i].Need) {
			if p.Snap.View.State[r] != model.Configured || p.Snap.ClusterOf[p.Snap.View.Cluster[r]] != g.Cluster {
				return true
			}
		}
	}
	return false
}
