package order

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// kindOfFold returns the kind of a fold of rows with a profile and an aggregate, memoized by profile.
func (f *Folder) kindOfFold(profile, aggregate uint32) uint32 {
	last := &f.foldKinds[profile]
	if last.kind == 0 || last.unit != aggregate {
		member := f.p.Snap.Demand.Vector(aggregate)
		mask := cycle.PositiveDims(member)
		*last = lastKind{mask, aggregate, 1 + f.p.st.Kinds.OfFold(f.p.Snap, profile, member, mask)}
	}
	return last.kind - 1
}

// fold returns the number of the fold that a row belongs to, starting it if it is new.
func (f *Folder) fold(x *cycle.ClusterState, profile, aggregate uint32) uint32 {
	if !f.listed {
		f.listed = true
		f.folds.reset()
		for i := range x.Folds.List {
			if d := &x.Folds.List[i]; d.Rows > 0 {
				row := int(d.Row - f.base)
				e, _ := f.folds.find(f.profiles.of(f.p, f.block.Profile(row)).number, f.block.AggregateIDs()[row])
				e.value = int32(i)
			}
		}
	}
	e, found := f.folds.find(f.profiles.of(f.p, profile).number, aggregate)
	if !found {
		e.value = int32(x.Folds.Start(f.sums, f.p.Dims))
	}
	return uint32(e.value)
}

// foldDue returns a fold that rows come to or leave; settleFolds must follow. The fold's Need is to be
// credited again.
func (f *Folder) foldDue(x *cycle.ClusterState, number uint32) *cycle.Fold {
	d := &x.Folds.List[number]
	if d.Due {
		return d
	}
	d.Due = true
	f.dueFolds = append(f.dueFolds, number)
	if d.Rows > 0 {
		f.moves.touched = append(f.moves.touched, d.First-f.base)
		if n := &f.p.Lines[d.Row]; n.Is(state.IsSatisfied) {
			n.Status &^= state.IsSatisfied
			x.Satisfied -= d.Rows
		}
	}
	return d
}

// join adds a row to a fold.
func (f *Folder) join(x *cycle.ClusterState, number uint32, row int) {
	d, line, arrival := f.foldDue(x, number), f.base+int32(row), f.block.Arrival(row)
	n := &f.p.Lines[line]
	n.Group = number
	if d.Rows++; d.Rows == 1 {
		d.Row, d.First, d.Arrival = line, line, arrival
		f.standFor(n, row)
	} else {
		n.Status, n.Domain = state.IsMember, uint32(d.Row)
		d.Recount = d.Recount || line < d.Row
		d.Place(line, arrival)
	}
	if !f.block.Parked(row) {
		f.p.Lines[d.Row].Status &^= state.IsParked
	}
}

// standFor makes the line of a row stand for its fold. The fold is parked unless one of its rows is not.
func (f *Folder) standFor(n *state.Line, row int) {
	n.Kind = f.kindOfFold(f.block.Profile(row), f.block.AggregateIDs()[row])
	n.Status, n.Domain = state.IsFold|state.IsParked|state.HasSame, 0
}

// leave takes a row out of its fold. What the fold's Need claims stays on the line until credit
// lets go of it.
func (f *Folder) leave(x *cycle.ClusterState, row int) {
	line := f.base + int32(row)
	n := &f.p.Lines[line]
	d := f.foldDue(x, n.Group)
	d.Rows--
	n.Status &^= state.IsFold | state.IsMember
	d.Recount = d.Recount || line == d.Row || line == d.First || f.anyParked()
}

// anyParked reports whether a row of the cluster at work is parked.
func (f *Folder) anyParked() bool {
	return slices.ContainsFunc(f.block.ParkedWords(), func(word uint64) bool { return word != 0 })
}

// recount finds among the rows of the cluster at work what has changed of folds beyond their number of
// rows: the line that stands for them, the first row, and whether all are parked.
func (f *Folder) recount(x *cycle.ClusterState) {
	list, none := x.Folds.List, true
	for _, number := range f.dueFolds {
		if d := &list[number]; d.Recount {
			d.Row, none = ranks.None, false
		}
	}
	if none {
		return
	}
	lines := f.p.Lines[f.base:][:f.block.Len()]
	for row := range lines {
		n := &lines[row]
		if n.Status&(state.IsFold|state.IsMember) == 0 || !list[n.Group].Recount {
			continue
		}
		d, line, arrival := &list[n.Group], f.base+int32(row), f.block.Arrival(row)
		if d.Row == ranks.None {
			d.Row, d.First, d.Arrival = line, line, arrival
			f.standFor(n, row)
		} else {
			if n.Is(state.IsFold) {
				x.LetGo = reuse.Append(x.LetGo, cycle.LetGoRoom, line)
			}
			n.Status, n.Domain = state.IsMember|state.HasSame, uint32(d.Row)
			d.Place(line, arrival)
		}
		if !f.block.Parked(row) {
			lines[d.Row-f.base].Status &^= state.IsParked
		}
	}
	for _, number := range f.dueFolds {
		list[number].Recount = false
	}
}

// settleFolds brings the folds up to date that rows have come to or left.
func (f *Folder) settleFolds(x *cycle.ClusterState) {
	for _, number := range f.dueFolds {
		d := &x.Folds.List[number]
		if d.Due = false; d.Rows == 0 {
			d.Row, x.Folds.Unused = x.Folds.Unused, int32(number)+1
			continue
		}
		sum := x.Folds.Sum(number, f.p.Dims)
		clear(sum)
		columnar.SatAddScaled(sum, f.block.Aggregate(int(d.Row-f.base)), int64(d.Rows))
		f.moves.touched = append(f.moves.touched, d.First-f.base)
		if x.Replay {
			f.p.Lines[d.Row].Status |= state.IsStale | state.IsChanged
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
func (f *Folder) supplySays(profile, aggregate uint32) int32 {
	e, _ := f.decided.find(profile, aggregate)
	if e.value == 0 {
		full := f.p.Snap.Demand.Profile(profile)
		e.value = f.fits(f.p.Snap.Supply.Matcher(full), full.Priority(), aggregate)
	}
	return e.value
}

// fits is supplySays without its memory.
func (f *Folder) fits(matcher uint32, priority int32, aggregate uint32) int32 {
	p, s := f.p, f.p.Snap
	want := s.Demand.Vector(aggregate)
	says := neverFits
	for _, c := range p.ClassesOf[matcher] {
		if columnar.Covers(p.Vector(c), want) {
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
		if p.Snap.Classes[g.Class].Matches(matcher) && columnar.Covers(p.Vector(g.Class), want) && f.boundInDomain(i, matcher) {
			return fitsOne
		}
	}
	return says
}

// boundInDomain reports whether some machine of one of the cluster's groups lies in a domain that the
// matcher permits.
func (f *Folder) boundInDomain(group int, matcher uint32) bool {
	bound := f.p.Snap.BoundOf(int(f.c))
	for at := f.p.Snap.GroupsOf(int(f.c))[group].First + 1; at != 0; at = bound[at-1].Next {
		if f.p.InAnyDomain(matcher, bound[at-1].Row) {
			return true
		}
	}
	return false
}

func (p *Pass) anyInDomain(matcher uint32, rows []columnar.Row) bool {
	return slices.ContainsFunc(rows, func(r columnar.Row) bool { return p.InAnyDomain(matcher, r) })
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
func (p *Pass) lowestHold(matcher uint32, rows []columnar.Row) (lowest int32, found bool) {
	if p.Snap.Supply.ReservationCount() == 0 {
		return math.MinInt32, p.anyInDomain(matcher, rows)
	}
	lowest = math.MaxInt32
	for _, r := range rows {
		if !p.InAnyDomain(matcher, r) {
			continue
		}
		res := p.Snap.Supply.Reservation(r)
		if !res.Active() || !p.MayHold(r, &res) {
			return math.MinInt32, true
		}
		lowest, found = min(lowest, res.Priority), true
	}
	return lowest, found
}

// freeFor returns the set of classes of which a free machine that nobody holds lies in a domain that the matcher,
// one with Same, permits.
func (p *Pass) freeFor(matcher uint32) []uint64 {
	words := (len(p.Snap.Classes) + 63) / 64
	return p.st.freeIn[int(matcher)*words:][:words]
}

// isFreeFor reports whether a machine of a class in a domain that the matcher, one with Same, permits is free and not
// held for a higher priority than the given one.
func (p *Pass) isFreeFor(matcher, class uint32, priority int32) bool {
	if p.freeFor(matcher)[class>>6]>>(class&63)&1 != 0 {
		return true
	}
	held := p.st.heldIn
	at, found := slices.BinarySearchFunc(held, heldClass{matcher: matcher, class: class}, compareHeld)
	return found && held[at].priority <= priority
}

// findFree updates Store.freeIn and heldIn, and sets freeMoved if they differ from the last cycle. foldsMoved is set
// if some vector may be covered, or may have been, by nothing but what differs. O(pairs of matcher with
// Same and class), and as many looks at free machines as it takes to find one in a permitted domain that nobody holds.
func (p *Pass) findFree() {
	st, s := p.st, p.Snap
	words := (len(s.Classes) + 63) / 64
	if p.Changed.Renumbered || len(st.freeIn) != len(p.ClassesOf)*words {
		st.freeIn = reuse.Resize(st.freeIn, len(p.ClassesOf)*words)
		p.folding.freeMoved, p.folding.foldsMoved = true, true
	}
	held := alloc.MakeDirty[heldClass](p.Arena, 8)[:0]
	now, both := alloc.MakeDirty[uint64](p.Arena, words), alloc.MakeDirty[uint64](p.Arena, words)
	for m, classes := range p.ClassesOf {
		if s.Supply.SameKey(uint32(m)) < 0 {
			continue
		}
		clear(now)
		from := len(held)
		held = p.findFreeFor(uint32(m), now, held)
		heldWas := st.heldFor(uint32(m))
		was, isHeldAlike := p.freeFor(uint32(m)), slices.Equal(heldWas, held[from:])
		if slices.Equal(was, now) && isHeldAlike {
			continue
		}
		p.folding.freeMoved = true
		for i := range was {
			both[i], was[i], now[i] = was[i]&now[i], now[i], was[i]^now[i]
		}
		for _, c := range classes {
			p.folding.foldsMoved = p.folding.foldsMoved || now[c>>6]>>(c&63)&1 != 0 && !p.isCovered(c, both, p.Opts.Acquire == plan.AcquireFit)
		}
		if !isHeldAlike {
			for _, x := range slices.Concat(heldWas, held[from:]) {
				p.folding.foldsMoved = p.folding.foldsMoved || !p.isCovered(x.class, both, p.Opts.Acquire == plan.AcquireFit)
			}
		}
	}
	st.heldIn = append(st.heldIn[:0], held...)
}

// findFreeFor adds the classes to a set of which a free machine that nobody holds lies in a domain that the matcher permits, and
// those to a list of which there are only held ones.
func (p *Pass) findFreeFor(matcher uint32, now []uint64, held []heldClass) []heldClass {
	from := len(held)
	for _, c := range p.ClassesOf[matcher] {
		lowest, found := p.lowestHold(matcher, p.Snap.Idle.At(int(c)))
		if !found || lowest != math.MinInt32 {
			if l, is := p.lowestHold(matcher, p.Snap.Speculative.At(int(c))); is {
				lowest, found = min(lowest, l), true
			}
		}
		switch {
		case found && lowest == math.MinInt32:
			now[c>>6] |= 1 << (c & 63)
		case found:
			held = alloc.Append(p.Arena, held, heldClass{matcher, c, lowest})
		}
	}
	slices.SortFunc(held[from:], compareHeld)
	return held
}

// heldFor returns the part of heldIn that is a matcher's.
func (st *Store) heldFor(matcher uint32) []heldClass {
	from, _ := slices.BinarySearchFunc(st.heldIn, heldClass{matcher: matcher}, compareHeld)
	to, _ := slices.BinarySearchFunc(st.heldIn, heldClass{matcher: matcher + 1}, compareHeld)
	return st.heldIn[from:to]
}

// isCovered reports whether some class of a set offers no less than a class in any dimension. Where prices
// matter, it also costs no more.
func (p *Pass) isCovered(class uint32, set []uint64, byPrice bool) bool {
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			c := uint32(w<<6 + bits.TrailingZeros64(word))
			if columnar.Covers(p.Vector(c), p.Vector(class)) && (!byPrice || isNoDearer(&p.Snap.Classes[c], &p.Snap.Classes[class])) {
				return true
			}
		}
	}
	return false
}

// findDeciding prepares noteStamps: it collects the fingerprints of profiles with Same, and finds the
// classes of changed machines that decide, for some matcher with Same, whether a row folds: no free
// machine covers what they cover.
func (p *Pass) findDeciding() {
	for id := range p.Snap.Demand.ProfileIDMax() {
		if profile := p.Snap.Demand.Profile(id); profile != nil && profile.Same() != nil {
			p.folding.anySame = true
			p.folding.sameStamps.Add(profile.Fingerprint())
			if p.Opts.Acquire == plan.AcquireFit {
				p.folding.sameStamps.Add(profile.Folded().Fingerprint())
			}
		}
	}
	p.folding.decides = alloc.Make[bool](p.Arena, len(p.Snap.Classes))
	if !p.folding.anySame {
		return
	}
	seen := alloc.Make[bool](p.Arena, len(p.Snap.Classes))
	for i := range p.Changed.Moves {
		c := p.Changed.Moves[i].Class
		if seen[c] {
			continue
		}
		seen[c] = true
		for _, m := range p.Snap.Classes[c].Matchers {
			if p.Snap.Supply.SameKey(m) >= 0 && !p.isFreeFor(m, c, math.MinInt32) && !p.isCovered(c, p.freeFor(m), false) {
				p.folding.decides[c] = true
			}
		}
	}
}
