package engine

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// kind is what needs have in common that are served by the same machines: all
// but how much they want, for whom, and since when. A fleet has hundreds of
// thousands of needs and a few hundred kinds, so what is decided per kind
// costs nothing.
type kind struct {
	// What the credit looks at comes first, to lie in one cache line.
	fingerprint uint64
	mask        uint64   // dimensions that are wanted, a bit each
	accepts     []uint64 // classes as a set; see classes
	matcher     uint32
	priority    int32
	penalty     model.Bucket // interruption
	same        bool
	// mayAcquire says that there were free machines when the cycle began.
	mayAcquire bool
	// ready says that what follows from classes has been filled, as it is when a
	// need of the kind first looks for machines.
	ready bool

	profile          *model.Profile // of a fold, what Same says of one machine instead of Same
	worth            uint64         // what comes before the arrival in the order
	spread           []model.Spread // that binds: none with Same, none for a fold
	unit             []int64        // the minimum unit
	classes          []uint32       // that match and suit, ascending; not to be modified
	suit             int32          // how many they are
	ladders          [2]*ladder
	tuples           *tupleLayout // of hard spread; nil: the rows are dealt one by one
	victims          *victimPool
	domainTotals     domainTotalsBound
	candidateDomains *domainBounds // nil = not formed in this cycle
}

// worth packs what comes before the arrival; smaller goes first.
func worth(priority int32, interruption, reclamation model.Bucket) uint64 {
	return uint64(math.MaxInt32-int64(priority))<<16 | uint64(^uint8(interruption))<<8 | uint64(^uint8(reclamation))
}

// kinds numbers the kinds. Workers look them up at the same time; each
// remembers the last of a profile, so that they seldom meet.
type kinds struct {
	mu   sync.Mutex
	list []kind
	// first is 1 + the first kind of a key, next chains the others: those of a profile
	// that had the number before, and of units that only seem to be the same.
	first map[kindKey]uint32
	next  []uint32
	// after is how many there were when numbering began anew.
	after   int
	ladders map[ladderKey]*ladder
	layouts map[ladderKey][]spreadLayout
	offers  [model.NumBuckets]offerRanks // by penalty
}

// kindKey is what kinds are found by. A profile may have very many minimum units.
type kindKey struct {
	profile uint32
	fold    bool
	mask    uint64
	unit    uint64 // a hash of it
}

func (k *kinds) reset() {
	clear(k.list)
	k.list, k.next, k.after = k.list[:0], k.next[:0], 0
	if k.first == nil {
		k.first = map[kindKey]uint32{}
	}
	clear(k.first)
	k.offers = [model.NumBuckets]offerRanks{}
	k.ladders, k.layouts = map[ladderKey]*ladder{}, map[ladderKey][]spreadLayout{}
}

// kindsKept is how many kinds that nobody may be of any more are kept.
const kindsKept = 1 << 12

// many reports whether so many kinds have come that most may be of profiles that
// are gone.
func (k *kinds) many() bool { return k.after > 0 && len(k.list) > 2*k.after+kindsKept }

// ofRow returns the kind of a row.
func (k *kinds) ofRow(s *snapshot.Snapshot, profile uint32, unit []int64, mask uint64) uint32 {
	return k.find(s, kindKey{profile: profile, mask: mask, unit: hashOf(unit)}, unit)
}

// ofFold returns the kind of a fold of rows with the profile.
func (k *kinds) ofFold(s *snapshot.Snapshot, profile uint32, unit []int64, mask uint64) uint32 {
	return k.find(s, kindKey{profile: profile, fold: true, mask: mask, unit: hashOf(unit)}, unit)
}

// mixer spreads what is hashed: 2⁶⁴ by the golden ratio, odd (Knuth, The Art of Computer
// Programming 3, 6.4).
const mixer = 0x9e3779b97f4a7c15

// hashOf returns a hash of a vector.
func hashOf(v []int64) uint64 {
	h := uint64(len(v))
	for _, x := range v {
		h = bits.RotateLeft64((h^uint64(x))*mixer, 29)
	}
	return h
}

func (k *kinds) find(s *snapshot.Snapshot, key kindKey, unit []int64) uint32 {
	p := s.Demand.Profile(key.profile)
	if key.fold {
		p = p.Folded()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := k.first[key]; i != 0; i = k.next[i-1] {
		if x := &k.list[i-1]; slices.Equal(x.unit, unit) && x.profile.Equal(p) {
			return i - 1
		}
	}
	x := kind{worth: worth(p.Priority(), p.Interruption(), p.Reclamation()), unit: slices.Clone(unit), mask: key.mask}
	if !key.fold { // Same wins over spread, and has won for the members of a fold
		x.spread = p.HardSpread()
	}
	x.profile, x.fingerprint, x.matcher = p, p.Fingerprint(), s.Supply.Matcher(p)
	x.priority, x.penalty, x.same = p.Priority(), p.Interruption(), p.Same() != nil
	k.list = append(k.list, x)
	k.next = append(k.next, k.first[key])
	k.first[key] = uint32(len(k.list))
	return uint32(len(k.list)) - 1
}

// positive returns the dimensions in which a vector is positive, a bit each.
// Demand names at most 64 dimensions, and its own come first.
func positive(v []int64) uint64 {
	mask := uint64(0)
	for d, x := range v {
		if x > 0 {
			mask |= 1 << d
		}
	}
	return mask
}

// suits reports whether machines of a class can serve a kind at all, apart from
// what the matcher looks at: each covers the minimum unit and has something of
// what is wanted.
func (p *pass) suits(class uint32, k *kind) bool {
	return p.classMask[class]&k.mask != 0 && columnar.Covers(p.vector(class), k.unit)
}

// makeRoomForClasses makes room for what the kinds accept that have none yet, for as
// long as there are these kinds.
func (p *pass) makeRoomForClasses() {
	for i := range p.kinds {
		if k := &p.kinds[i]; !k.ready {
			k.accepts = alloc.Make[uint64](p.e.store.arena, (len(p.s.Classes)+63)/64)
		}
	}
}

// prepare finds the classes that can serve the kind, and whether something is free of
// them.
func (p *pass) prepare(k *kind) {
	if !k.ready {
		k.ready = true
		for _, c := range p.classesOf[k.matcher] {
			if p.suits(c, k) {
				k.suit++
				k.accepts[c>>6] |= 1 << (c & 63)
			}
		}
	}
	k.victims, k.mayAcquire = nil, meet(p.freeOf, k.accepts)
	k.domainTotals.epoch, k.candidateDomains = 0, nil
}

// listClasses lists the classes of the kinds that have no list yet. Most kinds suit all
// that their matcher accepts, and share the matcher's list: machines may differ by what
// little their systems keep for themselves, each of them a class of its own.
func (p *pass) listClasses() {
	for i := range p.kinds {
		k := &p.kinds[i]
		if len(k.classes) == int(k.suit) {
			continue
		}
		if all := p.classesOf[k.matcher]; len(all) == int(k.suit) {
			k.classes = all
			continue
		}
		k.classes = alloc.MakeDirty[uint32](p.e.store.arena, int(k.suit))[:0]
		for w, word := range k.accepts {
			for ; word != 0; word &= word - 1 {
				k.classes = append(k.classes, uint32(w<<6+bits.TrailingZeros64(word)))
			}
		}
	}
}

// findFreeClasses finds the classes of which some machine is free.
func (p *pass) findFreeClasses() {
	p.freeOf = alloc.Make[uint64](p.e.arena, (len(p.s.Classes)+63)/64)
	for c := range p.s.Classes {
		if p.s.Idle.Off[c] < p.s.Idle.Off[c+1] || p.s.Speculative.Off[c] < p.s.Speculative.Off[c+1] {
			p.freeOf[c>>6] |= 1 << (c & 63)
		}
	}
}

// layLadders gives every kind its ladders.
func (p *pass) layLadders() {
	p.e.store.epoch++
	p.epoch = p.e.store.epoch // all of them begin at the lowest step
	for i := range p.kinds {
		k := &p.kinds[i]
		if k.ladders[0] != nil {
			continue
		}
		p.offerRanks(k.penalty) // before several workers ask for them
		for stage := range k.ladders {
			k.ladders[stage] = p.ladderFor(k, stage)
		}
		if len(k.spread) > 0 {
			k.tuples = p.layoutFor(k)
		}
	}
}

// isSpent reports whether no free machine is left that could serve a kind. It
// is asked for every need that lacks something, by the worker that gathers too:
// so there is a small table of it.
func (p *pass) isSpent(kind uint32) bool { return atomic.LoadUint32(&p.spent[kind]) != 0 }

// spend notes that none is left.
func (p *pass) spend(kind uint32) { atomic.StoreUint32(&p.spent[kind], 1) }

func (k *kind) acceptsClass(c uint32) bool { return k.accepts[c>>6]>>(c&63)&1 == 1 }
