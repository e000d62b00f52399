package assign

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Rows of one stamp share their machines: a stamp does not tell which row acquired which. Walked in keep
// order, as a Need's own machines are, small ones that a lower row had acquired would go to the first row,
// together with a large one that it needs anyway. So a row below which others have its stamp takes what
// fits it best.

// shared are machines that are own ones of several rows, grouped by class: those of a class are alike, so a
// row looks at the first of each.
type shared struct {
	list []sharedMachine
	runs []sharedRun
	left []sharedRun // of the Need at work
	took []sharedMachine
}

// sharedMachine is a machine by its place in the list that is walked.
type sharedMachine struct{ place, class uint32 }

// sharedRun is the machines of one class that are left, as a range of shared.list, in the order of places.
type sharedRun struct {
	at, end int32
	users   int32 // rows below the Need at work, of its stamp, that can use one; for shared.left
}

// reset forgets all machines.
func (x *shared) reset() { x.list, x.runs = x.list[:0], x.runs[:0] }

// group appends the runs of the machines from the given one on.
func (x *shared) group(from int) {
	slices.SortFunc(x.list[from:], func(a, b sharedMachine) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.place, b.place))
	})
	for i := from; i < len(x.list); i++ {
		if i == from || x.list[i].class != x.list[i-1].class {
			x.runs = append(x.runs, sharedRun{at: int32(i), end: int32(i)})
		}
		x.runs[len(x.runs)-1].end = int32(i + 1)
	}
}

// bestShared returns the run whose first machine is the best of those left for the Need at work: of those that the fewest rows
// below can use the one that exceeds what is missing the least of those that cover it, or where none does the one that has the
// most of it; of equal ones the first; nil when none helps. O(classes).
func (l *Worker) bestShared() *sharedRun {
	x, best := &l.sharing.shared, -1
	for i, run := range x.left {
		if run.at == run.end || l.p.ClassMask[x.list[run.at].class]&l.Lacks == 0 {
			continue
		}
		l.Figures.Probes++
		if best < 0 || run.users < x.left[best].users || run.users == x.left[best].users && l.fitsBetter(x.list[run.at], x.list[x.left[best].at]) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return &x.left[best]
}

// takeShared picks machines of those left for the Need at work, of which nothing is claimed yet, until it lacks nothing or
// none helps, and drops those without which it lacks no more, the last picked first. skip passes over machines of a
// run that others have. O(classes × machines picked).
func (l *Worker) takeShared(need int32, skip func(*sharedRun)) []sharedMachine {
	x := &l.sharing.shared
	x.took = x.took[:0]
	for i := range x.left {
		skip(&x.left[i])
	}
	for l.Lacks != 0 {
		run := l.bestShared()
		if run == nil {
			break
		}
		m := x.list[run.at]
		run.at++
		skip(run)
		l.Subtract(m.class)
		x.took = append(x.took, m)
	}
	if n := len(x.took); n > 0 {
		// The last one was needed when it was taken, so it and those of its class are.
		last := x.took[n-1].class
		if slices.ContainsFunc(x.took[:n-1], func(m sharedMachine) bool { return m.class != last }) {
			l.dropSuperfluous(need)
		}
	}
	return x.took
}

// dropSuperfluous drops of shared.took what the Need lacks no more without.
func (l *Worker) dropSuperfluous(need int32) {
	x, spare, want := &l.sharing.shared, &l.Acquiring.Surplus, l.p.Aggregate(need)
	spare.Hi, spare.Lo = reuse.Resize(spare.Hi, l.p.Dims), reuse.Resize(spare.Lo, l.p.Dims)
	for _, m := range x.took {
		spare.Add(l.p.Vector(m.class))
	}
	spare.Sub(want)
	took := len(x.took)
	kept := took
	for i := len(x.took) - 1; i >= 0; i-- {
		if v := l.p.Vector(x.took[i].class); spare.Spares(v, want) {
			spare.Sub(v)
			kept--
			copy(x.took[i:kept], x.took[i+1:kept+1])
		}
	}
	x.took = x.took[:kept]
	if kept < took {
		l.p.Lines[need].Status |= state.LeftSuperfluous
	}
}

// fitsBetter reports whether a machine is picked before another one.
func (l *Worker) fitsBetter(a, b sharedMachine) bool {
	x, y := l.p.Vector(a.class), l.p.Vector(b.class)
	covers := columnar.Covers(x, l.Missing)
	if covers != columnar.Covers(y, l.Missing) {
		return covers
	}
	c := exact.CompareScores(x, y, l.Missing, !covers)
	if covers {
		c = -c // the smaller one
	}
	return c > 0 || c == 0 && a.place < b.place
}

// sharesOwn reports whether a row that ranks below the Need at work has the stamp of the entry.
func (e *stampEntry) sharesOwn(l *Worker) bool {
	return e.first != 0 && l.p.ownerOf(e, l.Crediting.bound[e.first-1].Row) > l.Crediting.work.rank
}

// creditShared is creditOwn where a row that ranks below the Need has the same stamp. The machines of the stamp are
// grouped once; those that are gone for one row are gone for those below.
func (l *Worker) creditShared(need int32, e *stampEntry, k *state.Kind) {
	x := &l.sharing.shared
	if !e.grouped {
		e.grouped = true
		from := len(x.list)
		e.runs.at = int32(len(x.runs))
		for at := e.first; at != 0; at = l.Crediting.stamps.next[at-1] {
			if !l.gone(at - 1) {
				x.list = append(x.list, sharedMachine{at - 1, l.Crediting.bound[at-1].Class})
			}
		}
		x.group(from)
		e.runs.end = int32(len(x.runs))
	}
	x.left = x.left[:0]
	for i := e.runs.at; i < e.runs.end; i++ {
		run := &x.runs[i]
		for run.at < run.end && l.gone(x.list[run.at].place) {
			run.at++
		}
		if run.at < run.end && k.AcceptsClass(x.list[run.at].class) {
			x.left = append(x.left, *run)
		}
	}
	l.countUsers(need)
	took := l.takeShared(need, func(run *sharedRun) { run.skipGone(l, need) })
	for _, m := range took {
		l.seizeTaken(m.place, need, k)
	}
}

// skipGone passes over machines of a class that are out of reach of the Need at work, or outside of its domain.
func (run *sharedRun) skipGone(l *Worker, need int32) {
	for run.at < run.end && (l.gone(l.sharing.shared.list[run.at].place) || !l.p.InDomain(l.Crediting.bound[l.sharing.shared.list[run.at].place].Row, need)) {
		run.at++
	}
}

// twinRows are the rows of one stamp without Same.
type twinRows struct {
	known          bool
	cluster        int32
	profile, group uint32
	rows           []twinRow // by kind and rank
}

// twinRow is one of them.
type twinRow struct {
	kind uint32
	rank int32
}

// countUsers counts, for the machines left for the Need at work, the rows below it that have its stamp and can use
// them. Only rows without Same count, for such a row.
func (l *Worker) countUsers(need int32) {
	x := &l.sharing.twins
	if !l.findTwins(need) {
		return
	}
	for from := 0; from < len(x.rows); {
		to := from + 1
		for to < len(x.rows) && x.rows[to].kind == x.rows[from].kind {
			to++
		}
		first, _ := slices.BinarySearchFunc(x.rows[from:to], l.p.RankOf[need]+1, func(r twinRow, rank int32) int { return cmp.Compare(r.rank, rank) })
		if k := &l.p.Kinds[x.rows[from].kind]; k.Mask != 0 && from+first < to {
			for i := range l.sharing.shared.left {
				if run := &l.sharing.shared.left[i]; run.at < run.end && k.AcceptsClass(l.sharing.shared.list[run.at].class) {
					run.users += int32(to - from - first)
				}
			}
		}
		from = to
	}
}

// findTwins finds the rows of the stamp of a Need; false when it has none beside it.
func (l *Worker) findTwins(need int32) bool {
	n, x := &l.p.Lines[need], &l.sharing.twins
	c := l.p.ClusterOf(need)
	src := &l.p.Sources[c]
	if len(src.Block.Twins()) == 0 || n.Is(state.IsFold) || l.p.Kinds[n.Kind].Same {
		return false
	}
	b, row := src.Block, int(need-src.Base)
	profile, group := b.Profile(row), b.GroupID(row)
	if x.known && x.cluster == c && x.profile == profile && x.group == group {
		return len(x.rows) > 0
	}
	x.known, x.cluster, x.profile, x.group, x.rows = true, c, profile, group, x.rows[:0]
	for _, other := range b.TwinsOf(row) {
		line := src.Base + int32(other)
		x.rows = append(x.rows, twinRow{l.p.Lines[line].Kind, l.p.RankOf[line]})
	}
	slices.SortFunc(x.rows, func(a, b twinRow) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.rank, b.rank)) })
	return len(x.rows) > 0
}

// listTwins makes the rows of a cluster stale that share a stamp: what one takes depends on the others' kinds and ranks.
func (p *Pass) listTwins(c int) {
	src := &p.Sources[c]
	for _, row := range src.Block.Twins() {
		p.Lines[src.Base+int32(row)].Status |= state.IsStale
	}
}

// hasHeldWithTwins reports whether an Idle machine that helps is held for a Need that was credited nothing yet, and for a row
// of its stamp that ranks below it; neither is a fold or has Same. Then what is held counts among the machines that
// the Need takes by what fits, as it does once it is bound, and the Need is credited at its turn.
func (l *Worker) hasHeldWithTwins(need int32, k *state.Kind) bool {
	n := &l.p.Lines[need]
	if k.Same || len(l.p.SourceOf(need).Block.Twins()) == 0 || n.Status&(state.SitsOut|state.IsFold) != 0 || !l.p.Reserved.Has(need) {
		return false
	}
	l.Start(need)
	return slices.ContainsFunc(l.p.Reserved.Of(need), func(r columnar.Row) bool {
		return l.CanTakeHeld(r, need, k) && slices.ContainsFunc(l.p.Reserved.Members(r), func(other int32) bool {
			o := l.p.KindOf(other)
			return l.p.RankOf[other] > l.p.RankOf[need] && !o.Same && !l.p.Lines[other].Is(state.IsFold) && o.Fingerprint == k.Fingerprint && l.p.GroupOf(other) == l.p.GroupOf(need)
		})
	})
}

// creditLeftOwn claims own spares, and picks, with them, what is held for a row that shares its stamp.
func (x *spares) creditLeftOwn(l *Worker, need int32, k *state.Kind) {
	own, isShared := &l.sharing.shared, false
	own.reset()
	l.sharing.picked = l.sharing.picked[:0]
	for i := range x.list {
		if s := &x.list[i]; x.isLeftFor(l, s, need, k) && l.p.groupOfSpare(s, need, k) == isOwnSpare {
			own.list = append(own.list, sharedMachine{uint32(i), s.Class})
			isShared = isShared || s.owner != state.Unclaimed && l.p.RankOf[s.owner] > l.p.RankOf[need]
		}
	}
	bound := uint32(len(x.list))
	held := l.sharing.left[:0] // scratch
	if l.hasHeldWithTwins(need, k) {
		isShared = true
		for _, r := range l.p.Reserved.Of(need) {
			if l.CanTakeHeld(r, need, k) {
				own.list = append(own.list, sharedMachine{bound + uint32(len(held)), l.p.Snap.View.Class[r]})
				held = append(held, spare{Bound: snapshot.Bound{Row: r}})
			}
		}
	}
	l.sharing.left = held
	if !isShared {
		x.creditLeft(l, need, k, isOwnSpare)
		return
	}
	own.group(0)
	own.left = append(own.left[:0], own.runs...)
	l.countUsers(need)
	took := l.takeShared(need, func(*sharedRun) {})
	l.Start(need)
	places := l.sharing.sharedPlaces[:0]
	for _, m := range took {
		if m.place >= bound {
			r := held[m.place-bound].Row
			l.Subtract(l.p.Snap.View.Class[r])
			l.sharing.picked = append(l.sharing.picked, r)
			continue
		}
		l.claimSpare(&x.list[m.place], need, isOwnSpare)
		places = append(places, m.place)
	}
	slices.Sort(places)
	for _, at := range slices.Backward(places) {
		x.list = slices.Delete(x.list, int(at), int(at)+1)
	}
	l.sharing.sharedPlaces = places
}
