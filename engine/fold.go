package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// fold is several rows of one cluster that are decided as one Need. They agree in aggregate, and in
// what their profiles fold to.
type fold struct {
	row     int32 // the line that stands for them, the lowest; of an unused number 1 + the next unused one
	first   int32 // the first of them in rank order
	rows    int32 // how many they are; 0 = the number is unused
	arrival int64 // of first
	due     bool  // rows came or left: settle is still to be called
	recount bool  // row, first and what is parked are to be found among the rows
}

// folds are the folds of one cluster, by number.
type folds struct {
	list   []fold
	sums   []int64 // of the aggregates of a fold's rows: pass.dims for each number
	unused int32   // 1 + the first unused number; 0 = none
}

func (x *folds) reset() { x.list, x.sums, x.unused = x.list[:0], x.sums[:0], 0 }

func (x *folds) sum(number uint32, dims int) []int64 { return x.sums[int(number)*dims:][:dims:dims] }

// start returns the number of a fold that has no rows yet.
func (x *folds) start(a *alloc.Arena, dims int) uint32 {
	if x.unused > 0 {
		number := uint32(x.unused - 1)
		x.unused = x.list[number].row
		x.list[number] = fold{}
		return number
	}
	x.list = alloc.Append(a, x.list, fold{})
	for range dims {
		x.sums = alloc.Append(a, x.sums, 0)
	}
	return uint32(len(x.list) - 1)
}

// kindOfFold returns the kind of a fold of rows with a profile and an aggregate, memoized by profile.
func (f *folder) kindOfFold(profile, aggregate uint32) uint32 {
	last := &f.foldKinds[profile]
	if last.kind == 0 || last.unit != aggregate {
		member := f.p.s.Demand.Vector(aggregate)
		mask := positive(member)
		*last = lastKind{mask, aggregate, 1 + f.p.e.store.kinds.OfFold(f.p.s, profile, member, mask)}
	}
	return last.kind - 1
}

// fold returns the number of the fold that a row belongs to, starting it if it is new.
func (f *folder) fold(x *clusterState, profile, aggregate uint32) uint32 {
	if !f.listed {
		f.listed = true
		f.folds.reset()
		for i := range x.folds.list {
			if d := &x.folds.list[i]; d.rows > 0 {
				row := int(d.row - f.base)
				e, _ := f.folds.find(f.profiles.of(f.p, f.block.Profile(row)).number, f.block.AggregateIDs()[row])
				e.value = int32(i)
			}
		}
	}
	e, found := f.folds.find(f.profiles.of(f.p, profile).number, aggregate)
	if !found {
		e.value = int32(x.folds.start(f.sums, f.p.dims))
	}
	return uint32(e.value)
}

// foldDue returns a fold that rows come to or leave; settleFolds must follow. The fold's Need is to be
// credited again.
func (f *folder) foldDue(x *clusterState, number uint32) *fold {
	d := &x.folds.list[number]
	if d.due {
		return d
	}
	d.due = true
	f.dueFolds = append(f.dueFolds, number)
	if d.rows > 0 {
		f.moves.touched = append(f.moves.touched, d.first-f.base)
		if n := &f.p.lines[d.row]; n.Is(state.IsSatisfied) {
			n.Status &^= state.IsSatisfied
			x.satisfied -= d.rows
		}
	}
	return d
}

// join adds a row to a fold.
func (f *folder) join(x *clusterState, number uint32, row int) {
	d, line, arrival := f.foldDue(x, number), f.base+int32(row), f.block.Arrival(row)
	n := &f.p.lines[line]
	n.Group = number
	if d.rows++; d.rows == 1 {
		d.row, d.first, d.arrival = line, line, arrival
		f.standFor(n, row)
	} else {
		n.Status, n.Domain = state.IsMember, uint32(d.row)
		d.recount = d.recount || line < d.row
		d.place(line, arrival)
	}
	if !f.block.Parked(row) {
		f.p.lines[d.row].Status &^= state.IsParked
	}
}

// place notes a row that may be the first in rank order: rows of a fold differ only in arrival and number.
func (d *fold) place(line int32, arrival int64) {
	if arrival < d.arrival || arrival == d.arrival && line < d.first {
		d.first, d.arrival = line, arrival
	}
}

// standFor makes the line of a row stand for its fold. The fold is parked unless one of its rows is not.
func (f *folder) standFor(n *state.Line, row int) {
	n.Kind = f.kindOfFold(f.block.Profile(row), f.block.AggregateIDs()[row])
	n.Status, n.Domain = state.IsFold|state.IsParked|state.HasSame, 0
}

// leave takes a row out of its fold. What the fold's Need claims stays on the line until credit
// lets go of it.
func (f *folder) leave(x *clusterState, row int) {
	line := f.base + int32(row)
	n := &f.p.lines[line]
	d := f.foldDue(x, n.Group)
	d.rows--
	n.Status &^= state.IsFold | state.IsMember
	d.recount = d.recount || line == d.row || line == d.first || f.anyParked()
}

// anyParked reports whether a row of the cluster at work is parked.
func (f *folder) anyParked() bool {
	return slices.ContainsFunc(f.block.ParkedWords(), func(word uint64) bool { return word != 0 })
}

// recount finds among the rows of the cluster at work what has changed of folds beyond their number of
// rows: the line that stands for them, the first row, and whether all are parked.
func (f *folder) recount(x *clusterState) {
	list, none := x.folds.list, true
	for _, number := range f.dueFolds {
		if d := &list[number]; d.recount {
			d.row, none = order.None, false
		}
	}
	if none {
		return
	}
	lines := f.p.lines[f.base:][:f.block.Len()]
	for row := range lines {
		n := &lines[row]
		if n.Status&(state.IsFold|state.IsMember) == 0 || !list[n.Group].recount {
			continue
		}
		d, line, arrival := &list[n.Group], f.base+int32(row), f.block.Arrival(row)
		if d.row == order.None {
			d.row, d.first, d.arrival = line, line, arrival
			f.standFor(n, row)
		} else {
			if n.Is(state.IsFold) {
				x.letGo = append(x.letGo, line)
			}
			n.Status, n.Domain = state.IsMember|state.HasSame, uint32(d.row)
			d.place(line, arrival)
		}
		if !f.block.Parked(row) {
			lines[d.row-f.base].Status &^= state.IsParked
		}
	}
	for _, number := range f.dueFolds {
		list[number].recount = false
	}
}

// settleFolds brings the folds up to date that rows have come to or left.
func (f *folder) settleFolds(x *clusterState) {
	for _, number := range f.dueFolds {
		d := &x.folds.list[number]
		if d.due = false; d.rows == 0 {
			d.row, x.folds.unused = x.folds.unused, int32(number)+1
			continue
		}
		sum := x.folds.sum(number, f.p.dims)
		clear(sum)
		columnar.SatAddScaled(sum, f.block.Aggregate(int(d.row-f.base)), int64(d.rows))
		f.moves.touched = append(f.moves.touched, d.first-f.base)
		if x.replay {
			f.p.lines[d.row].Status |= state.IsStale | state.IsChanged
		}
	}
	f.dueFolds = f.dueFolds[:0]
}

// Whether a Same-row folds depends on which machines could hold it whole. Of free machines only their
// classes matter, and of these only such as no other free class covers.

// The answers of supplySays about Same-rows of one profile and aggregate.
const (
	// neverFits: no class covers the aggregate. It holds for as long as the classes do.
	neverFits int32 = iota + 1
	// fitsNot: some class covers it, but no machine that the row could have now.
	fitsNot
	// fitsOne: a machine that is free, or bound to the cluster, covers it.
	fitsOne
)

// supplySays tells whether one machine could hold the aggregate of a Same-row: any that is Idle or
// Speculative and not held for a higher priority, or one that is bound to the cluster. It does not look at the
// row's own stamp; see foldable.
func (f *folder) supplySays(profile, aggregate uint32) int32 {
	e, _ := f.decided.find(profile, aggregate)
	if e.value == 0 {
		full := f.p.s.Demand.Profile(profile)
		e.value = f.fits(f.p.s.Supply.Matcher(full), full.Priority(), aggregate)
	}
	return e.value
}

// fits is supplySays without its memory.
func (f *folder) fits(matcher uint32, priority int32, aggregate uint32) int32 {
	p, s := f.p, f.p.s
	want := s.Demand.Vector(aggregate)
	says := neverFits
	for _, c := range p.classesOf[matcher] {
		if columnar.Covers(p.vector(c), want) {
			if p.isFreeFor(matcher, c, priority) {
				return fitsOne
			}
			says = fitsNot
		}
	}
	if says == neverFits {
		return says
	}
	for i, g := range s.GroupsOf(int(f.c)) {
		if p.s.Classes[g.Class].Matches(matcher) && columnar.Covers(p.vector(g.Class), want) && f.boundInDomain(i, matcher) {
			return fitsOne
		}
	}
	return says
}

// boundInDomain reports whether some machine of one of the cluster's groups lies in a domain that the
// matcher permits.
func (f *folder) boundInDomain(group int, matcher uint32) bool {
	bound := f.p.s.BoundOf(int(f.c))
	for at := f.p.s.GroupsOf(int(f.c))[group].First + 1; at != 0; at = bound[at-1].Next {
		if f.p.inAnyDomain(matcher, bound[at-1].Row) {
			return true
		}
	}
	return false
}

func (fl *fleet) anyInDomain(matcher uint32, rows []columnar.Row) bool {
	return slices.ContainsFunc(rows, func(r columnar.Row) bool { return fl.inAnyDomain(matcher, r) })
}

// heldClass is a class of which all free machines that lie in domains that a matcher permits are held. priority is the
// lowest that one of them is held for: to Needs of that priority and of higher ones it counts as free.
type heldClass struct {
	matcher, class uint32
	priority       int32
}

func compareHeld(a, b heldClass) int {
	return cmp.Or(cmp.Compare(a.matcher, b.matcher), cmp.Compare(a.class, b.class))
}

// lowestHold returns the lowest priority that one of some free machines in domains that the matcher permits is
// held for: math.MinInt32 if nobody holds it; false if none lies there. O(machines), if all of them are held.
func (p *pass) lowestHold(matcher uint32, rows []columnar.Row) (lowest int32, found bool) {
	if p.s.Supply.ReservationCount() == 0 {
		return math.MinInt32, p.anyInDomain(matcher, rows)
	}
	lowest = math.MaxInt32
	for _, r := range rows {
		if !p.inAnyDomain(matcher, r) {
			continue
		}
		res := p.s.Supply.Reservation(r)
		if !res.Active() || !p.mayHold(r, &res) {
			return math.MinInt32, true
		}
		lowest, found = min(lowest, res.Priority), true
	}
	return lowest, found
}

// freeFor returns the set of classes of which a free machine that nobody holds lies in a domain that the matcher,
// one with Same, permits.
func (p *pass) freeFor(matcher uint32) []uint64 {
	words := (len(p.s.Classes) + 63) / 64
	return p.e.store.classes.freeIn[int(matcher)*words:][:words]
}

// isFreeFor reports whether a machine of a class in a domain that the matcher, one with Same, permits is free and not
// held for a higher priority than the given one.
func (p *pass) isFreeFor(matcher, class uint32, priority int32) bool {
	if p.freeFor(matcher)[class>>6]>>(class&63)&1 != 0 {
		return true
	}
	held := p.e.store.classes.heldIn
	at, found := slices.BinarySearchFunc(held, heldClass{matcher: matcher, class: class}, compareHeld)
	return found && held[at].priority <= priority
}

// findFree updates classColumns.freeIn and heldIn, and sets freeMoved if they differ from the last cycle. foldsMoved is set
// if some vector may be covered, or may have been, by nothing but what differs. O(pairs of matcher with
// Same and class), and as many looks at free machines as it takes to find one in a permitted domain that nobody holds.
func (p *pass) findFree() {
	st, s := &p.e.store, p.s
	words := (len(s.Classes) + 63) / 64
	if p.changed.renumbered || len(st.classes.freeIn) != len(p.classesOf)*words {
		st.classes.freeIn = reuse.Resize(st.classes.freeIn, len(p.classesOf)*words)
		p.folding.freeMoved, p.folding.foldsMoved = true, true
	}
	held := alloc.MakeDirty[heldClass](p.e.arena, 8)[:0]
	now, both := alloc.MakeDirty[uint64](p.e.arena, words), alloc.MakeDirty[uint64](p.e.arena, words)
	for m, classes := range p.classesOf {
		if s.Supply.SameKey(uint32(m)) < 0 {
			continue
		}
		clear(now)
		from := len(held)
		held = p.findFreeFor(uint32(m), now, held)
		heldWas := st.classes.heldFor(uint32(m))
		was, isHeldAlike := p.freeFor(uint32(m)), slices.Equal(heldWas, held[from:])
		if slices.Equal(was, now) && isHeldAlike {
			continue
		}
		p.folding.freeMoved = true
		for i := range was {
			both[i], was[i], now[i] = was[i]&now[i], now[i], was[i]^now[i]
		}
		for _, c := range classes {
			p.folding.foldsMoved = p.folding.foldsMoved || now[c>>6]>>(c&63)&1 != 0 && !p.isCovered(c, both, p.e.opts.Acquire == AcquireFit)
		}
		if !isHeldAlike {
			for _, x := range slices.Concat(heldWas, held[from:]) {
				p.folding.foldsMoved = p.folding.foldsMoved || !p.isCovered(x.class, both, p.e.opts.Acquire == AcquireFit)
			}
		}
	}
	st.classes.heldIn = append(st.classes.heldIn[:0], held...)
}

// findFreeFor adds the classes to a set of which a free machine that nobody holds lies in a domain that the matcher permits, and
// those to a list of which there are only held ones.
func (p *pass) findFreeFor(matcher uint32, now []uint64, held []heldClass) []heldClass {
	from := len(held)
	for _, c := range p.classesOf[matcher] {
		lowest, found := p.lowestHold(matcher, p.s.Idle.At(int(c)))
		if !found || lowest != math.MinInt32 {
			if l, is := p.lowestHold(matcher, p.s.Speculative.At(int(c))); is {
				lowest, found = min(lowest, l), true
			}
		}
		switch {
		case found && lowest == math.MinInt32:
			now[c>>6] |= 1 << (c & 63)
		case found:
			held = alloc.Append(p.e.arena, held, heldClass{matcher, c, lowest})
		}
	}
	slices.SortFunc(held[from:], compareHeld)
	return held
}

// heldFor returns the part of heldIn that is a matcher's.
func (x *classColumns) heldFor(matcher uint32) []heldClass {
	from, _ := slices.BinarySearchFunc(x.heldIn, heldClass{matcher: matcher}, compareHeld)
	to, _ := slices.BinarySearchFunc(x.heldIn, heldClass{matcher: matcher + 1}, compareHeld)
	return x.heldIn[from:to]
}

// isCovered reports whether some class of a set offers no less than a class in any dimension. Where prices
// matter, it also costs no more.
func (fl *fleet) isCovered(class uint32, set []uint64, byPrice bool) bool {
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			c := uint32(w<<6 + bits.TrailingZeros64(word))
			if columnar.Covers(fl.vector(c), fl.vector(class)) && (!byPrice || isNoDearer(&fl.s.Classes[c], &fl.s.Classes[class])) {
				return true
			}
		}
	}
	return false
}

// findDeciding prepares noteStamps: it collects the fingerprints of profiles with Same, and finds the
// classes of changed machines that decide, for some matcher with Same, whether a row folds: no free
// machine covers what they cover.
func (p *pass) findDeciding() {
	for id := range p.s.Demand.ProfileIDMax() {
		if profile := p.s.Demand.Profile(id); profile != nil && profile.Same() != nil {
			p.folding.anySame = true
			p.folding.sameStamps.add(profile.Fingerprint())
			if p.e.opts.Acquire == AcquireFit {
				p.folding.sameStamps.add(profile.Folded().Fingerprint())
			}
		}
	}
	p.folding.decides = alloc.Make[bool](p.e.arena, len(p.s.Classes))
	if !p.folding.anySame {
		return
	}
	seen := alloc.Make[bool](p.e.arena, len(p.s.Classes))
	for i := range p.changed.moves {
		c := p.changed.moves[i].class
		if seen[c] {
			continue
		}
		seen[c] = true
		for _, m := range p.s.Classes[c].Matchers {
			if p.s.Supply.SameKey(m) >= 0 && !p.isFreeFor(m, c, math.MinInt32) && !p.isCovered(c, p.freeFor(m), false) {
				p.folding.decides[c] = true
			}
		}
	}
}
