package victims

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// gangFinder is one worker's state for finding gangs.
type gangFinder struct {
	found []units.Gang // by cluster, ascending
	// numbered is how many of these gangs have a number in gangTable.
	numbered int
	known    []int32        // needs marked in gangTable.looked
	single   []columnar.Row // machines marked ofNoGang in gangTable.Of

	// Scratch of one cluster.
	keys  []int32 // by group id: 1 + index in draft
	draft []gangDraft
	folds []int32 // the folds that were met
	// foldDraft is, by index of a fold's row, 2 + the draft that all its members belong to; 1 =
	// they belong to several drafts, or to none; 0 = the fold has not been met.
	foldDraft []int32
	matchers  []uint32
}

// gangDraft is a set of rows that are a gang if they need several machines.
type gangDraft struct {
	group    uint32 // 0 = none: one row
	rows     []int32
	needs    []int32
	together bool // at least one row has a Same requirement
	unfolded bool // a row has Same and is not folded: no single machine could hold it
}

// forget clears the table's marks and what was found, for the next pass.
func (x *gangFinder) forget(t *gangTable) {
	for _, need := range x.known {
		t.looked[need] = false
	}
	for _, r := range x.single {
		t.Of[r] = 0
	}
	clear(x.found)
	x.known, x.single, x.found, x.numbered = x.known[:0], x.single[:0], x.found[:0], 0
}

// look records that a need was examined.
func (x *gangFinder) look(t *gangTable, need int32) {
	if !t.looked[need] {
		t.looked[need] = true
		x.known = append(x.known, need)
	}
}

// numberGangs numbers the gangs that all workers found. It merges their lists by cluster, so
// the numbers do not depend on which worker found what.
func (p *Pass) numberGangs() {
	t := &p.st.Gangs
	for {
		var next *gangFinder
		for _, l := range p.st.Workers {
			if x := &l.finder; x.numbered < len(x.found) && (next == nil || x.found[x.numbered].Cluster < next.found[next.numbered].Cluster) {
				next = x
			}
		}
		if next == nil {
			return
		}
		t.add(&next.found[next.numbered])
		next.numbered++
	}
}

// add gives a gang the next number.
func (t *gangTable) add(g *units.Gang) {
	t.List = append(t.List, *g)
	for _, r := range g.Members {
		t.Of[r] = int32(len(t.List))
		t.inGang = append(t.inGang, r)
	}
}

// findVictimGangs finds, with all workers, the gangs of the machines that may be preempted.
func (p *Pass) findVictimGangs() {
	p.Crew.Each(len(p.st.Clusters), cycle.ClustersPerChunk, p.st.tasks.gangs)
	p.numberGangs()
}

// findGangsOfVictims is findVictimGangs for one cluster. most is, by class, the highest
// priority that asks for machines of it: only machines below that can be victims.
func (l *Worker) findGangsOfVictims(c int, most []int32) {
	bound, configured := l.p.Snap.BoundOf(c), uint32(l.p.Snap.Configured(c))
	cheapest, priority, t := l.p.st.Clusters[c].Cheapest, l.p.st.Priority, &l.p.st.Gangs
	for i, g := range l.p.Snap.GroupsOf(c) {
		if cheapest[i].Priority >= most[g.Class] {
			continue
		}
		for at := g.First + 1; at != 0 && at <= configured; at = bound[at-1].Next {
			r := bound[at-1].Row
			switch need := l.p.Claims.Of(r); {
			case need == state.Unclaimed || priority[r] >= most[g.Class]:
			case !l.p.mayBeOfGang(need):
				t.Of[r] = ofNoGang
				l.finder.single = append(l.finder.single, r)
			case !t.looked[need]:
				l.Finding.Vecs.Empty()
				l.findGang(need)
			}
		}
	}
}

// mayBeOfGang reports whether a need may be part of a gang: it has a group, asks for one
// domain, never folds, or is a fold.
func (p *Pass) mayBeOfGang(need int32) bool {
	n := &p.Lines[need]
	return n.Group != 0 || n.Status&(state.HasSame|state.NeverFolds|state.IsFold) != 0
}

// findGang finds the gang that a need is part of, if any. If rows of its group are folded, it
// finds all gangs of the cluster, since a fold may join rows of several groups.
func (l *Worker) findGang(need int32) {
	x, src := &l.finder, l.p.SourceOf(need)
	x.draft = x.draft[:0]
	d := &x.draft[x.newDraft()]
	whole := false
	if group := src.Block.GroupID(int(need - src.Base)); group == 0 {
		whole = !d.draftRow(l.p, need)
		d.together = false // a single row without group is a gang only if it is not folded
	} else {
		for i, g := range src.Block.GroupIDs() {
			whole = whole || g == group && !d.draftRow(l.p, src.Base+int32(i))
		}
	}
	if whole {
		l.findGangs(l.p.ClusterOf(need))
	} else {
		l.judge(l.p.ClusterOf(need), d)
	}
	x.look(&l.p.st.Gangs, need)
}

// draftRow adds a row, which is also its need, to a draft; false when the row is folded.
func (d *gangDraft) draftRow(p *Pass, row int32) bool {
	if p.Lines[row].Status&(state.IsMember|state.IsFold) != 0 {
		return false
	}
	d.addRow(p, row, row)
	d.needs = append(d.needs, row)
	return true
}

// addRow adds a row to a draft; need is the need that stands for the row.
func (d *gangDraft) addRow(p *Pass, row, need int32) {
	d.rows = append(d.rows, row)
	d.together = d.together || p.Lines[row].Status&(state.HasSame|state.NeverFolds) != 0
	d.unfolded = d.unfolded || p.KindOf(need).Same
}

// findGangs finds the gangs of a cluster that have not been found yet.
func (l *Worker) findGangs(c int32) {
	x := &l.finder
	l.draftGangs(&l.p.Sources[c])
	for i := range x.draft {
		if d := &x.draft[i]; len(d.needs) > 0 && !l.p.st.Gangs.looked[d.needs[0]] {
			l.judge(c, d)
		}
	}
}

// judge makes a draft a gang if no single machine can hold it.
func (l *Worker) judge(c int32, d *gangDraft) {
	for _, need := range d.needs {
		l.finder.look(&l.p.st.Gangs, need)
	}
	if d.unfolded || d.together && len(d.rows) > 1 && !l.oneMachineHolds(c, d) {
		l.addGang(c, d)
	}
}

// draftGangs groups the rows of a cluster into drafts. A need is a role of a gang only if all
// its rows are in the gang's draft. Members of a fold that come from several gangs, or from
// none, share their machines, so a machine of that fold belongs to no gang in particular.
func (l *Worker) draftGangs(src *state.Source) {
	x := &l.finder
	x.folds, x.foldDraft = x.folds[:0], reuse.Resize(x.foldDraft, src.Rows)
	x.draft = x.draft[:0]
	groups := src.Block.GroupIDs()
	for i := range src.Rows {
		row := src.Base + int32(i)
		n := &l.p.Lines[row]
		same := n.Status&(state.HasSame|state.NeverFolds) != 0
		if !same && groups == nil {
			continue
		}
		need := l.p.NeedOf(row)
		at := l.draftOf(src, int32(i), need, same)
		if at >= 0 {
			x.draft[at].addRow(l.p, row, need)
		}
		if !l.p.Lines[need].Is(state.IsFold) {
			if at >= 0 {
				x.draft[at].needs = append(x.draft[at].needs, need)
			}
		} else if was := &x.foldDraft[need-src.Base]; *was == 0 {
			*was, x.folds = at+2, append(x.folds, need)
		} else if *was != at+2 {
			*was = 1
		}
	}
	for _, need := range x.folds {
		if at := x.foldDraft[need-src.Base] - 2; at >= 0 {
			x.draft[at].needs = append(x.draft[at].needs, need)
		}
	}
}

// draftOf returns the index of the draft that a row belongs to; −1 = none.
func (l *Worker) draftOf(src *state.Source, i, need int32, same bool) int32 {
	x := &l.finder
	group := src.Block.GroupID(int(i))
	switch {
	case group == 0 && same && l.p.KindOf(need).Same:
		return x.newDraft()
	case group == 0:
		return -1
	}
	if int(group) >= len(x.keys) {
		x.keys = append(x.keys, make([]int32, int(l.p.Snap.Demand.GroupIDMax())-len(x.keys))...)
	}
	// Group ids are numbered across clusters, and keys keeps entries of other clusters. So the
	// group of the entry is checked.
	if at := x.keys[group] - 1; at >= 0 && int(at) < len(x.draft) && x.draft[at].group == group {
		return at
	}
	at := x.newDraft()
	x.draft[at].group = group
	x.keys[group] = at + 1
	return at
}

// newDraft returns the index of an empty draft, with the memory of an earlier one if there is
// one.
func (x *gangFinder) newDraft() int32 {
	if len(x.draft) < cap(x.draft) {
		x.draft = x.draft[:len(x.draft)+1]
		d := &x.draft[len(x.draft)-1]
		*d = gangDraft{rows: d.rows[:0], needs: d.needs[:0]}
	} else {
		x.draft = append(x.draft, gangDraft{})
	}
	return int32(len(x.draft)) - 1
}

// oneMachineHolds reports whether a machine that the cluster has, or could acquire, matches all
// rows of a draft and covers their sum.
func (l *Worker) oneMachineHolds(c int32, d *gangDraft) bool {
	sum := l.Finding.Vecs.Take(l.p.Dims)
	matchers := l.finder.matchers[:0]
	block, base := l.p.Sources[c].Block, l.p.Sources[c].Base
	for _, row := range d.rows {
		columnar.SatAdd(sum, block.Aggregate(int(row-base)))
		matchers = append(matchers, l.p.Snap.Supply.Matcher(l.p.Snap.Demand.Profile(block.Profile(int(row-base)))))
	}
	l.finder.matchers = matchers
	matches := func(r columnar.Row) bool {
		return !slices.ContainsFunc(matchers, func(m uint32) bool { return !l.p.InAnyDomain(m, r) })
	}
	for _, class := range l.p.ClassesOf[matchers[0]] {
		if !columnar.Covers(l.p.Vector(class), sum) || slices.ContainsFunc(matchers, func(m uint32) bool { return !l.p.Snap.Classes[class].Matches(m) }) {
			continue
		}
		if slices.ContainsFunc(l.p.Snap.Idle.At(int(class)), matches) || slices.ContainsFunc(l.p.Snap.Speculative.At(int(class)), matches) {
			return true
		}
		bound := l.p.Snap.BoundOf(int(c))
		for _, g := range l.p.Snap.GroupsOf(int(c)) {
			for at := g.First + 1; g.Class == class && at != 0; at = bound[at-1].Next {
				if matches(bound[at-1].Row) {
					return true
				}
			}
		}
	}
	return false
}

// addGang makes a draft a gang: its roles in rank order, its members by id, and its state.
func (l *Worker) addGang(c int32, d *gangDraft) {
	count := 0
	for _, need := range d.needs {
		for n, r := l.p.Claims.Walk(&l.p.Lines[need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
			count++
		}
	}
	g := units.Gang{Cluster: c, Members: alloc.MakeDirty[columnar.Row](l.Arena, count)[:0], Roles: alloc.MakeDirty[units.GangRole](l.Arena, len(d.needs))[:0]}
	if block := l.p.Sources[c].Block; len(d.rows) > 0 {
		g.Group = block.Group(int(d.rows[0] - l.p.Sources[c].Base))
	}
	slices.SortFunc(d.needs, func(a, b int32) int { return cmp.Compare(l.p.RankOf[a], l.p.RankOf[b]) })
	short, since := false, l.p.Snap.Now
	for _, need := range d.needs {
		role := units.GangRole{Need: need}
		lacks := l.measureRole(&g, &role)
		if lacks {
			short, since = true, min(since, l.p.shortSince(need))
		}
		g.Roles = append(g.Roles, role)
	}
	slices.SortFunc(g.Members, func(a, b columnar.Row) int { return cmp.Compare(l.p.Snap.IDRank(a), l.p.Snap.IDRank(b)) })
	if g.State != units.GangAlone && short {
		if g.State = units.GangAlone; (l.p.Snap.Now-since)/1e9 >= shortSecondsBroken {
			g.State = units.GangBroken
		}
	}
	for i := range g.Roles {
		g.Watched = g.Watched || l.p.Reserved.Has(g.Roles[i].Need)
	}
	l.finder.found = append(l.finder.found, g)
}

// measureRole adds to a gang the Configured machines that a role's need claims, and reports
// whether everything that it claims is below its minimum. If a plan of this cycle has taken a machine that the role had
// acquired, the gang counts as assembling: the next cycle decides on it again.
func (l *Worker) measureRole(g *units.Gang, role *units.GangRole) (short bool) {
	least := l.Minimum(role.Need)
	sum := l.Finding.Vecs.Take(l.p.Dims)
	if l.p.Lines[role.Need].Is(state.LostAcquired) {
		g.State = units.GangAlone
	}
	from := len(g.Members)
	for n, r := l.p.Claims.Walk(&l.p.Lines[role.Need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
		columnar.SatAdd(sum, l.p.Vec(r))
		if l.p.Snap.View.State[r] != model.Configured {
			g.State = units.GangAlone // assembling
			continue
		}
		g.Watched = g.Watched || l.p.Reserved.Live(r)
		g.Members = append(g.Members, r)
	}
	role.Surplus = slices.Contains(sum, math.MaxInt64) // saturated: assume a surplus
	for _, r := range g.Members[from:] {
		if !role.Surplus {
			rest := l.CopyForPlan(sum)
			columnar.SubClamp(rest, l.p.Vec(r))
			role.Surplus = columnar.Covers(rest, least)
		}
	}
	return !columnar.Covers(sum, least)
}
