package state

import (
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Kind is what Needs share that the same machines can serve: profile, minimum unit and wanted
// dimensions, but not how much they want, for whom, and since when. A fleet has hundreds of thousands
// of Needs and a few hundred kinds, so decisions per kind are nearly free.
type Kind struct {
	// The fields that credit reads come first and share a cache line.
	Fingerprint uint64
	Mask        uint64   // wanted dimensions, as a set
	Accepts     []uint64 // accepted classes, as a bitmap: those that match and suit
	Matcher     uint32
	Priority    int32
	Penalty     model.Bucket // interruption
	Same        bool
	// MayAcquire says that some accepted class had a free machine when the cycle began.
	MayAcquire bool
	// Leaves says that the kind has no Same, and that some accepted class offers what it does not want; see LeavesTo.
	Leaves bool
	// Ready says that Accepts, Suit and Leaves are filled.
	Ready bool

	Profile *model.Profile // a fold's: Same is replaced by what it demands of one machine
	Worth   uint64         // the part of the sort key before the arrival; see Worth
	Spread  []model.Spread // hard spread constraints; none with Same, none for a fold
	Unit    []int64        // the minimum unit
	Classes []uint32       // accepted classes, ascending; read-only, may be shared between kinds
	Suit    int32          // how many classes are accepted
	Number  uint32         // index in the table of kinds
}

// Worth packs what precedes the arrival in the rank; a smaller worth ranks higher.
func Worth(priority int32, interruption, reclamation model.Bucket) uint64 {
	return uint64(math.MaxInt32-int64(priority))<<16 | uint64(^uint8(interruption))<<8 | uint64(^uint8(reclamation))
}

// Kinds is the table of kinds. Workers look kinds up concurrently under one lock. Each worker memoizes
// the last kind of each profile (folder.kinds in the engine), so the lock is seldom contended.
type Kinds struct {
	mu   sync.Mutex
	List []Kind
	// first is 1 + the newest kind with a key, next chains the others: kinds of a profile that had the
	// same number earlier, and of units with the same hash.
	first map[kindKey]uint32
	next  []uint32
	// After is the number of kinds after the last cycle that built on nothing.
	After int
}

// kindKey is the key under which kinds are found. One profile may have very many minimum units.
type kindKey struct {
	profile uint32
	fold    bool
	mask    uint64
	unit    uint64 // Hash of the unit
}

// Reset forgets all kinds and keeps their memory.
func (k *Kinds) Reset() {
	clear(k.List)
	k.List, k.next, k.After = k.List[:0], k.next[:0], 0
	if k.first == nil {
		k.first = map[kindKey]uint32{}
	}
	clear(k.first)
}

// kindsKept is the slack of many: so many kinds without Needs are tolerated.
const kindsKept = 1 << 12

// Many reports whether so many kinds have been added that most may be of profiles that are gone. The
// store then starts over.
func (k *Kinds) Many() bool { return k.After > 0 && len(k.List) > 2*k.After+kindsKept }

// OfRow returns the kind of a row, adding it if it is new.
func (k *Kinds) OfRow(s *snapshot.Snapshot, profile uint32, unit []int64, mask uint64) uint32 {
	return k.find(s, kindKey{profile: profile, mask: mask, unit: Hash(unit)}, unit)
}

// OfFold returns the kind of a fold of rows with the profile, adding it if it is new.
func (k *Kinds) OfFold(s *snapshot.Snapshot, profile uint32, unit []int64, mask uint64) uint32 {
	return k.find(s, kindKey{profile: profile, fold: true, mask: mask, unit: Hash(unit)}, unit)
}

// WorthOf returns a kind's worth, also while other workers add kinds.
func (k *Kinds) WorthOf(kind uint32) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.List[kind].Worth
}

// Hash returns a hash of a vector.
func Hash(v []int64) uint64 {
	h := uint64(len(v))
	for _, x := range v {
		h = bits.RotateLeft64((h^uint64(x))*exact.Mixer, 29)
	}
	return h
}

func (k *Kinds) find(s *snapshot.Snapshot, key kindKey, unit []int64) uint32 {
	p := s.Demand.Profile(key.profile)
	if key.fold {
		p = p.Folded()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := k.first[key]; i != 0; i = k.next[i-1] {
		if x := &k.List[i-1]; slices.Equal(x.Unit, unit) && x.Profile.Equal(p) {
			return i - 1
		}
	}
	x := Kind{Worth: Worth(p.Priority(), p.Interruption(), p.Reclamation()), Unit: slices.Clone(unit), Mask: key.mask}
	if !key.fold { // Same wins over spread, and has won for the members of a fold
		x.Spread = p.HardSpread()
	}
	x.Profile, x.Fingerprint, x.Matcher = p, p.Fingerprint(), s.Supply.Matcher(p)
	x.Priority, x.Penalty, x.Same = p.Priority(), p.Interruption(), p.Same() != nil
	x.Number = uint32(len(k.List))
	k.List = append(k.List, x)
	k.next = append(k.next, k.first[key])
	k.first[key] = uint32(len(k.List))
	return x.Number
}

// AcceptsClass reports whether a machine of a class suits the kind.
func (k *Kind) AcceptsClass(c uint32) bool { return k.Accepts[c>>6]>>(c&63)&1 == 1 }

// LeavesTo reports whether a Need of the kind is credited no bound machine that, by its stamp, a Need of lower rank and of
// another kind has: that one has the same priority, and wants something that the machine has and of which this one wants nothing. A
// Need with Same leaves nothing. offers are the dimensions that the machine has, as a set.
func (k *Kind) LeavesTo(owner *Kind, offers uint64) bool {
	return k.Leaves && owner.Priority == k.Priority && offers&owner.Mask&^k.Mask != 0
}
