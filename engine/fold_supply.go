package engine

import (
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

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
// Speculative, or one that is bound to the cluster. It does not look at the row's own stamp; see
// foldable.
func (f *folder) supplySays(profile, aggregate uint32) int32 {
	e, _ := f.decided.find(profile, aggregate)
	if e.value == 0 {
		e.value = f.fits(f.p.s.Supply.Matcher(f.p.s.Demand.Profile(profile)), aggregate)
	}
	return e.value
}

// fits is supplySays without its memory.
func (f *folder) fits(matcher, aggregate uint32) int32 {
	p, s := f.p, f.p.s
	want := s.Demand.Vector(aggregate)
	says := neverFits
	for _, c := range p.classesOf[matcher] {
		if columnar.Covers(p.vector(c), want) {
			if p.isFreeFor(matcher, c) {
				return fitsOne
			}
			says = fitsNot
		}
	}
	if says == neverFits {
		return says
	}
	for i, g := range s.GroupsOf(int(f.c)) {
		if p.matches(g.Class, matcher) && columnar.Covers(p.vector(g.Class), want) && f.boundInDomain(i, matcher) {
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

func (p *pass) anyInDomain(matcher uint32, rows []columnar.Row) bool {
	return slices.ContainsFunc(rows, func(r columnar.Row) bool { return p.inAnyDomain(matcher, r) })
}

// freeFor returns the set of classes of which a free machine lies in a domain that the matcher, one
// with Same, permits.
func (p *pass) freeFor(matcher uint32) []uint64 {
	words := (len(p.s.Classes) + 63) / 64
	return p.e.store.freeIn[int(matcher)*words:][:words]
}

func (p *pass) isFreeFor(matcher, class uint32) bool {
	return p.freeFor(matcher)[class>>6]>>(class&63)&1 != 0
}

// findFree updates store.freeIn, and sets freeMoved if it differs from the last cycle. foldsMoved is set
// if some vector may be covered, or may have been, by nothing but what differs. O(pairs of matcher with
// Same and class), and as many looks at free machines as it takes to find one in a permitted domain.
func (p *pass) findFree() {
	st, s := &p.e.store, p.s
	words := (len(s.Classes) + 63) / 64
	if p.renumbered || len(st.freeIn) != len(p.classesOf)*words {
		st.freeIn = resize(st.freeIn, len(p.classesOf)*words)
		p.freeMoved, p.foldsMoved = true, true
	}
	now, both := alloc.MakeDirty[uint64](p.e.arena, words), alloc.MakeDirty[uint64](p.e.arena, words)
	for m, classes := range p.classesOf {
		if s.Supply.SameKey(uint32(m)) < 0 {
			continue
		}
		clear(now)
		for _, c := range classes {
			if p.anyInDomain(uint32(m), s.Idle.At(int(c))) || p.anyInDomain(uint32(m), s.Speculative.At(int(c))) {
				now[c>>6] |= 1 << (c & 63)
			}
		}
		was := p.freeFor(uint32(m))
		if slices.Equal(was, now) {
			continue
		}
		p.freeMoved = true
		for i := range was {
			both[i], was[i], now[i] = was[i]&now[i], now[i], was[i]^now[i]
		}
		for _, c := range classes {
			p.foldsMoved = p.foldsMoved || now[c>>6]>>(c&63)&1 != 0 && !p.isCovered(c, both)
		}
	}
}

// isCovered reports whether some class of a set offers no less than a class in any dimension.
func (p *pass) isCovered(class uint32, set []uint64) bool {
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			if columnar.Covers(p.vector(uint32(w<<6+bits.TrailingZeros64(word))), p.vector(class)) {
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
			p.anySame = true
			p.sameStamps.add(profile.Fingerprint())
		}
	}
	p.decides = alloc.Make[bool](p.e.arena, len(p.s.Classes))
	if !p.anySame {
		return
	}
	seen := alloc.Make[bool](p.e.arena, len(p.s.Classes))
	for i := range p.moves {
		c := p.moves[i].class
		if seen[c] {
			continue
		}
		seen[c] = true
		for _, m := range p.s.Classes[c].Matchers {
			if p.s.Supply.SameKey(m) >= 0 && !p.isFreeFor(m, c) && !p.isCovered(c, p.freeFor(m)) {
				p.decides[c] = true
			}
		}
	}
}
