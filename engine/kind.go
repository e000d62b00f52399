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

// kind is what Needs share that the same machines can serve: profile, minimum unit and wanted
// dimensions, but not how much they want, for whom, and since when. A fleet has hundreds of thousands
// of Needs and a few hundred kinds, so decisions per kind are nearly free.
type kind struct {
	// The fields that credit reads come first and share a cache line.
	fingerprint uint64
	mask        uint64   // wanted dimensions, as a set
	accepts     []uint64 // accepted classes, as a bitmap: those that match and suit
	matcher     uint32
	priority    int32
	penalty     model.Bucket // interruption
	same        bool
	// mayAcquire says that some accepted class had a free machine when the cycle began.
	mayAcquire bool
	// ready says that accepts and suit are filled.
	ready bool

	profile          *model.Profile // a fold's: Same is replaced by what it demands of one machine
	worth            uint64         // the part of the sort key before the arrival; see worth
	spread           []model.Spread // hard spread constraints; none with Same, none for a fold
	unit             []int64        // the minimum unit
	classes          []uint32       // accepted classes, ascending; read-only, may be shared between kinds
	suit             int32          // how many classes are accepted
	ladders          [2]*ladder     // for Idle and for Speculative machines
	tuples           *tupleLayout   // for hard spread; nil: machines are dealt one by one
	victims          *victimPool
	domainTotals     domainTotalsBound
	candidateDomains *domainBounds // nil = not computed in this cycle
}

// worth packs what precedes the arrival in the rank; a smaller worth ranks higher.
func worth(priority int32, interruption, reclamation model.Bucket) uint64 {
	return uint64(math.MaxInt32-int64(priority))<<16 | uint64(^uint8(interruption))<<8 | uint64(^uint8(reclamation))
}

// kinds is the table of kinds. Workers look kinds up concurrently under one lock. Each worker memoizes
// the last kind of each profile (folder.kinds), so the lock is seldom contended.
type kinds struct {
	mu   sync.Mutex
	list []kind
	// first is 1 + the newest kind with a key, next chains the others: kinds of a profile that had the
	// same number earlier, and of units with the same hash.
	first map[kindKey]uint32
	next  []uint32
	// after is the number of kinds after the last cycle that built on nothing.
	after   int
	ladders map[ladderKey]*ladder
	layouts map[ladderKey][]spreadLayout
	offers  [model.NumBuckets]offerRanks // by penalty
}

// kindKey is the key under which kinds are found. One profile may have very many minimum units.
type kindKey struct {
	profile uint32
	fold    bool
	mask    uint64
	unit    uint64 // hashOf the unit
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

// kindsKept is the slack of many: so many kinds without Needs are tolerated.
const kindsKept = 1 << 12

// many reports whether so many kinds have been added that most may be of profiles that are gone. The
// store then starts over.
func (k *kinds) many() bool { return k.after > 0 && len(k.list) > 2*k.after+kindsKept }

// ofRow returns the kind of a row, adding it if it is new.
func (k *kinds) ofRow(s *snapshot.Snapshot, profile uint32, unit []int64, mask uint64) uint32 {
	return k.find(s, kindKey{profile: profile, mask: mask, unit: hashOf(unit)}, unit)
}

// ofFold returns the kind of a fold of rows with the profile, adding it if it is new.
func (k *kinds) ofFold(s *snapshot.Snapshot, profile uint32, unit []int64, mask uint64) uint32 {
	return k.find(s, kindKey{profile: profile, fold: true, mask: mask, unit: hashOf(unit)}, unit)
}

// mixer is the odd multiplier of the hashes: 2⁶⁴ divided by the golden ratio (Knuth, The Art of
// Computer Programming 3, 6.4).
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

// positive returns the set of dimensions in which a vector is positive. Demand names at most 64
// dimensions, and they precede those that only supply names.
func positive(v []int64) uint64 {
	mask := uint64(0)
	for d, x := range v {
		if x > 0 {
			mask |= 1 << d
		}
	}
	return mask
}

// suits reports whether machines of a class can serve a kind, requirements aside: each covers the
// minimum unit and offers something that is wanted.
func (p *pass) suits(class uint32, k *kind) bool {
	return p.classMask[class]&k.mask != 0 && columnar.Covers(p.vector(class), k.unit)
}

// makeRoomForClasses allocates the bitmaps of kinds that are new. They live as long as the kinds.
func (p *pass) makeRoomForClasses() {
	for i := range p.kinds {
		if k := &p.kinds[i]; !k.ready {
			k.accepts = alloc.Make[uint64](p.e.store.arena, (len(p.s.Classes)+63)/64)
		}
	}
}

// prepare fills accepts of a new kind, tells whether something is free for the kind, and resets what is
// memoized per cycle.
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

// listClasses fills the lists of classes of new kinds. Most kinds suit every class that their matcher
// accepts, and share the matcher's list. Such lists can be long: machines that differ only in what
// their systems reserve are of different classes.
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

// findFreeClasses computes the set of classes that have a free machine.
func (p *pass) findFreeClasses() {
	p.freeOf = alloc.Make[uint64](p.e.arena, (len(p.s.Classes)+63)/64)
	for c := range p.s.Classes {
		if p.s.Idle.Off[c] < p.s.Idle.Off[c+1] || p.s.Speculative.Off[c] < p.s.Speculative.Off[c+1] {
			p.freeOf[c>>6] |= 1 << (c & 63)
		}
	}
}

// layLadders gives each new kind its ladders, and reopens all ladders by a new epoch.
func (p *pass) layLadders() {
	p.e.store.epoch++
	p.epoch = p.e.store.epoch // a new epoch: every ladder begins at its lowest step
	for i := range p.kinds {
		k := &p.kinds[i]
		if k.ladders[0] != nil {
			continue
		}
		p.offerRanks(k.penalty) // compute them before workers ask concurrently
		for stage := range k.ladders {
			k.ladders[stage] = p.ladderFor(k, stage)
		}
		if len(k.spread) > 0 {
			k.tuples = p.layoutFor(k)
		}
	}
}

// isSpent reports whether no free machine is left that could serve a kind. It is read for every Need
// that lacks something, also by the worker that gathers ahead: hence a small table, with atomic access.
func (p *pass) isSpent(kind uint32) bool { return atomic.LoadUint32(&p.spent[kind]) != 0 }

// spend notes that no free machine is left for a kind.
func (p *pass) spend(kind uint32) { atomic.StoreUint32(&p.spent[kind], 1) }

func (k *kind) acceptsClass(c uint32) bool { return k.accepts[c>>6]>>(c&63)&1 == 1 }
