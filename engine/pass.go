package engine

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// unheld is the holder of a machine that no need claims.
const unheld int32 = -1

// ranked is a need in its place in the order, and what becomes of it. The
// upper fields are written by rank and only read from then on; the lower ones
// by the phase that is named.
type ranked struct {
	need
	groupID    uint32 // the group's name number in the supply
	groupKnown bool   // some machine carries the group

	// Phase 1.
	claimFrom   int   // its claims are pass.claims[claimFrom:claimTo]
	acquireFrom int   // of these the acquired ones from here on
	claimTo     int   //
	bootstrap   int32 // acquired Idle machines
	provision   int32 // acquired Speculative machines
	domain      uint32
	pinned      bool // a live reservation chose the domain
	satisfied   bool
	couldCover  bool
	skewBlocked bool // hard spread left free candidates alone

	// Phase 2.
	victimFrom int // pass.victims[victimFrom:victimTo]
	victimTo   int
	withheld   bool // the plan goes to another domain: acquisitions are off
	found      bool // there were candidates to preempt
	awaiting   bool // what drains for it covers the rest
}

// pass is the state of one cycle's walk. Phase 1 fills claims and holder,
// phase 2 victims; phase 3 reads both.
type pass struct {
	e    *Engine
	s    *snapshot.Snapshot
	in   *Input
	f    *folded
	dims int

	needs   []ranked // in rank order
	rankOf  []int32  // by number in folded: the place in needs
	vectors struct{ aggregate, minUnit, deficit, inFlight []int64 }

	taken   bitmap.Dense // claimed, or reserved for somebody ranked higher
	claimed bitmap.Dense
	holder  []int32        // by row: the place in needs of who claims it
	claims  []columnar.Row // all claims, need after need

	idleAt, speculativeAt, groupAt []uint32 // how much of a list's head is taken for good
	own                            ownIndex
	reserved                       reservations
	domains                        []*domainIndex // by key column, built when first needed
	flat                           map[flatKey]*flatList
	live                           map[liveKey][]uint32

	victims  []victim
	victimOf bitmap.Dense // preempted in this cycle
	flying   bitmap.Dense // already drains for the need that counts on it
	pools    map[victimPoolKey]*victimPool
	// withheldBy remembers who had acquired a machine before its plan went to
	// another domain; tried is where phase 2 looked. Both are for Explain.
	withheldBy map[columnar.Row]int32
	tried      []tried
	reclaims   []columnar.Row
	deletes    []columnar.Row

	missing []int64 // scratch: what the need at work still lacks
	sources []source
	probes  int64
	scratch scratch
	usable  map[uint32][]uint32 // by matcher: classes with machines in a usable state
}

// newPass ranks the needs and lays out what the phases write.
func (e *Engine) newPass(s *snapshot.Snapshot, f *folded, in *Input) *pass {
	rows, n, dims := s.Supply.RowMax(), len(f.needs), len(s.Dims)
	p := &pass{e: e, s: s, in: in, f: f, dims: dims}
	e.ranked = resize(e.ranked, n)
	p.needs = e.ranked
	p.rankOf = alloc.Make[int32](e.arena, n)
	p.vectors.aggregate = alloc.MakeDirty[int64](e.arena, n*dims)
	p.vectors.minUnit = alloc.MakeDirty[int64](e.arena, n*dims)
	p.vectors.deficit = alloc.Make[int64](e.arena, n*dims)
	p.vectors.inFlight = alloc.Make[int64](e.arena, n*dims)
	for at, key := range e.rank(f) {
		from := key.need
		p.rankOf[from] = int32(at)
		r := &p.needs[at]
		r.need, r.couldCover = f.needs[from], true
		r.groupID, r.groupKnown = s.Supply.NameID(r.group)
		copy(p.vectors.aggregate[at*dims:(at+1)*dims], f.aggregate[int(from)*dims:])
		copy(p.vectors.minUnit[at*dims:(at+1)*dims], f.minUnit[int(from)*dims:])
	}
	p.taken = bitmap.DenseIn(e.arena, rows)
	p.claimed = bitmap.DenseIn(e.arena, rows)
	p.victimOf = bitmap.DenseIn(e.arena, rows)
	p.flying = bitmap.DenseIn(e.arena, rows)
	p.holder = alloc.MakeDirty[int32](e.arena, rows)
	for i := range p.holder {
		p.holder[i] = unheld
	}
	p.idleAt = alloc.Make[uint32](e.arena, len(s.Classes))
	p.speculativeAt = alloc.Make[uint32](e.arena, len(s.Classes))
	p.groupAt = alloc.Make[uint32](e.arena, len(s.Groups))
	p.missing = alloc.Make[int64](e.arena, dims)
	p.scratch.suits = alloc.Make[uint64](e.arena, len(s.Classes))
	p.own = p.indexOwn()
	p.reserved = p.indexReservations()
	p.pools = map[victimPoolKey]*victimPool{}
	p.withheldBy = map[columnar.Row]int32{}
	p.flat = map[flatKey]*flatList{}
	p.live = map[liveKey][]uint32{}
	return p
}

func (p *pass) vector(all []int64, need int) []int64 {
	return all[need*p.dims:][:p.dims:p.dims]
}

func (p *pass) aggregate(need int) []int64 { return p.vector(p.vectors.aggregate, need) }
func (p *pass) minUnit(need int) []int64   { return p.vector(p.vectors.minUnit, need) }
func (p *pass) deficit(need int) []int64   { return p.vector(p.vectors.deficit, need) }

// vec returns what a machine offers.
func (p *pass) vec(r columnar.Row) []int64 { return p.s.Vector(p.s.View.Class[r]) }

// suits reports whether machines of a class can serve a need at all, apart
// from topology: each covers the minimum unit and has something of what the
// need asks for. That the matcher accepts the class is the caller's business.
func (p *pass) suits(class uint32, need int) bool {
	v := p.s.Vector(class)
	return columnar.Covers(v, p.minUnit(need)) && columnar.Helps(v, p.aggregate(need))
}

// suitsClass is suits with a memory for the need at work.
func (p *pass) suitsClass(class uint32, need int) bool {
	memo := &p.scratch.suits[class]
	if key := uint64(need+1) << 1; *memo&^1 != key {
		*memo = key
		if p.suits(class, need) {
			*memo |= 1
		}
	}
	return *memo&1 == 1
}

// accepts reports whether a machine can serve a need: it matches, in a
// permitted domain if the need has one, and is of a class that suits.
func (p *pass) accepts(r columnar.Row, need int) bool {
	n := &p.needs[need]
	class := p.s.View.Class[r]
	return p.matches(class, n.matcher) && p.suits(class, need) && p.inAnyDomain(n.matcher, r)
}

func (p *pass) inAnyDomain(matcher uint32, r columnar.Row) bool {
	_, ok := p.s.Supply.Domain(matcher, r)
	return ok
}

// matches reports whether a matcher accepts a class.
func (p *pass) matches(class, matcher uint32) bool {
	for _, m := range p.s.Classes[class].Matchers {
		if m >= matcher {
			return m == matcher
		}
	}
	return false
}

// claim attributes a machine to a need and takes off what it covers.
func (p *pass) claim(r columnar.Row, need int) {
	p.claimed.Set(uint32(r))
	p.holder[r] = int32(need)
	p.claims = append(p.claims, r)
	columnar.SubClamp(p.missing, p.vec(r))
	p.take(r)
	switch p.s.View.State[r] {
	case model.Idle:
		p.needs[need].bootstrap++
	case model.Speculative:
		p.needs[need].provision++
	}
}

// take removes a machine from what others may still acquire.
func (p *pass) take(r columnar.Row) {
	if p.taken.Has(uint32(r)) {
		return
	}
	p.taken.Set(uint32(r))
	for _, d := range p.domains {
		if d != nil {
			d.take(r)
		}
	}
}

// putBack makes a machine available again that nobody claims any more.
func (p *pass) putBack(r columnar.Row) {
	if !p.taken.Has(uint32(r)) {
		return
	}
	p.taken.Clear(uint32(r))
	for _, d := range p.domains {
		if d != nil {
			d.putBack(r)
		}
	}
}

// reopen lets phase 2 begin at the head of the order again: what is reserved
// for somebody is a candidate for those who rank above the owner.
func (p *pass) reopen() {
	for _, b := range p.reserved.blocks {
		if !p.claimed.Has(uint32(b.row)) {
			p.putBack(b.row)
		}
	}
	p.reserved.nextBlock = 0
	p.rewind()
}

// rewind forgets how much of each class's head is taken.
func (p *pass) rewind() {
	clear(p.live)
	for _, l := range p.flat {
		l.at = 0
	}
	clear(p.idleAt)
	clear(p.speculativeAt)
}

// resize returns n zeroed elements in the memory of s where that suffices.
func resize[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}
