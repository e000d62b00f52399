package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// The credit of a Need takes machines of its cluster in this order: its own machines; those that
// belong, by their stamps, to no Need of lower rank; Idle machines that are held for the Need; and last
// those that belong to Needs of lower rank, the lowest first. Three lists of the cluster's machines
// serve the walk:
//
//	by stamp   the machines of each stamp, in the order of the cluster's list
//	unowned    by class: machines without an owner, or whose owner has had its turn
//	lower      by class: the others, those of the owner of lowest rank first
//
// A machine moves from lower to unowned when its owner's turn comes.

// stampEntry is one stamp that machines of the open cluster carry.
type stampEntry struct {
	fingerprint uint64
	group       uint32
	next        uint32 // 1 + the next entry of its bucket
	first, last uint32 // 1 + places of its machines; first skips those that are gone
	// owner is the last Need in rank order with this stamp, rank its place in the order; unheld and −1
	// when no Need has the stamp.
	owner, rank int32
	changed     bool // some machine with this stamp differs from the last cycle
}

// stampLists are the lists of the open cluster. All are chains of places, with 0 as their end.
type stampLists struct {
	buckets []uint32 // 1 + the first entry of each
	shift   uint8
	entries []stampEntry
	of      []uint32 // by place: 1 + the entry of the machine's stamp; 0 = it has none
	next    []uint32 // by place: 1 + the next place with the stamp
	// byOwner are the entries with an owner, sorted by rank, as rank<<32 | entry. The machines of the
	// first merged of them have moved to unowned.
	byOwner []uint64
	merged  int

	unowned, lower classChains
	// chain links the lists by class: 1 + the next place of the class. A machine is in at most one of
	// the two lists. A walk of lower that reaches a machine which moved to unowned has reached its end.
	chain  []uint32
	inside []uint32 // heads of unowned in the domain of the Need at work
	places []uint32 // scratch
}

// classChains are the heads of chains by class: 1 + a place.
type classChains struct {
	heads []uint32
	live  []uint64 // the classes whose chain is not empty, as a set
}

func (x *classChains) begin(classes int) {
	x.heads, x.live = resize(x.heads, classes), resize(x.live, (classes+63)/64)
}

func (x *classChains) set(class, at uint32) {
	x.heads[class] = at
	x.live[class>>6] |= 1 << (class & 63)
}

// index groups a cluster's machines by stamp. O(machines).
func (x *stampLists) index(bound []snapshot.Bound) {
	logSize := 1
	for 1<<logSize < len(bound)+1 {
		logSize++
	}
	x.buckets, x.next, x.of = resize(x.buckets, 1<<logSize), resize(x.next, len(bound)), grown(x.of, len(bound))
	x.shift = uint8(64 - logSize)
	x.entries = x.entries[:0]
	for i := range bound {
		b := &bound[i]
		if b.Fingerprint == 0 {
			x.of[i] = 0
			continue
		}
		at := x.find(b.Fingerprint, b.Group)
		if at == 0 {
			at = x.add(b.Fingerprint, b.Group)
		}
		e := &x.entries[at-1]
		if e.first == 0 {
			e.first = uint32(i) + 1
		} else {
			x.next[e.last-1] = uint32(i) + 1
		}
		e.last = uint32(i) + 1
		x.of[i] = at
	}
}

// find returns 1 + the entry of a stamp, 0 when no machine of the cluster has it.
func (x *stampLists) find(fingerprint uint64, group uint32) uint32 {
	for at := *x.bucket(fingerprint, group); at != 0; at = x.entries[at-1].next {
		if e := &x.entries[at-1]; e.fingerprint == fingerprint && e.group == group {
			return at
		}
	}
	return 0
}

func (x *stampLists) add(fingerprint uint64, group uint32) uint32 {
	bucket := x.bucket(fingerprint, group)
	x.entries = append(x.entries, stampEntry{fingerprint: fingerprint, group: group, next: *bucket, owner: unheld, rank: -1})
	*bucket = uint32(len(x.entries))
	return *bucket
}

func (x *stampLists) bucket(fingerprint uint64, group uint32) *uint32 {
	hash := (fingerprint ^ uint64(group)*0xd6e8feb86659fd93) * 0xa0761d6478bd642f
	return &x.buckets[hash>>x.shift]
}

// own makes a Need the owner of a stamp. Callers go in rank order, so the last Need wins.
func (x *stampLists) own(at uint32, need, rank int32) {
	e := &x.entries[at-1]
	e.owner, e.rank = need, rank
}

// layLists builds the lists by class. Machines that are being created stand in none: they count only
// for the Need that they are created for.
func (x *stampLists) layLists(bound []snapshot.Bound, creatingFrom uint32, classes int) {
	x.unowned.begin(classes)
	x.lower.begin(classes)
	x.chain = resize(x.chain, len(bound))
	for i := int(creatingFrom) - 1; i >= 0; i-- {
		if at := x.of[i]; at == 0 || x.entries[at-1].owner == unheld {
			class := bound[i].Class
			x.chain[i] = x.unowned.heads[class]
			x.unowned.set(class, uint32(i)+1)
		}
	}
	x.byOwner, x.merged = x.byOwner[:0], 0
	for i := range x.entries {
		if e := &x.entries[i]; e.owner != unheld {
			x.byOwner = append(x.byOwner, uint64(e.rank)<<32|uint64(i))
		}
	}
	slices.Sort(x.byOwner)
	for i := 0; i < len(x.byOwner); {
		// Entries of one owner (a fold has its own stamp and those of its members) form one list.
		end := i + 1
		for end < len(x.byOwner) && x.byOwner[end]>>32 == x.byOwner[i]>>32 {
			end++
		}
		x.prependLower(bound, creatingFrom, x.byOwner[i:end])
		i = end
	}
}

// prependLower puts the machines of one owner before those of owners of higher rank.
func (x *stampLists) prependLower(bound []snapshot.Bound, creatingFrom uint32, entries []uint64) {
	places := x.places[:0]
	for _, w := range entries {
		for at := x.entries[uint32(w)].first; at != 0 && at <= creatingFrom; at = x.next[at-1] {
			places = append(places, at-1)
		}
	}
	if len(entries) > 1 {
		slices.Sort(places)
	}
	for i := len(places) - 1; i >= 0; i-- {
		class := bound[places[i]].Class
		x.chain[places[i]] = x.lower.heads[class]
		x.lower.set(class, places[i]+1)
	}
	x.places = places
}

// lowerThan reports whether the owner of the machine at a place, by its stamp, ranks below rank.
func (x *stampLists) lowerThan(place uint32, rank int32) bool {
	at := x.of[place]
	return at != 0 && x.entries[at-1].rank > rank
}

// mergeUpTo moves the unclaimed machines of owners up to a rank from lower to unowned.
func (l *worker) mergeUpTo(rank int32) {
	x := &l.stamps
	for ; x.merged < len(x.byOwner) && int32(x.byOwner[x.merged]>>32) <= rank; x.merged++ {
		class, after := uint32(0), uint32(0) // after is where the machine before was put
		for at := x.entries[uint32(x.byOwner[x.merged])].first; at != 0 && at <= l.creatingFrom; at = x.next[at-1] {
			if l.gone(at - 1) {
				continue
			}
			if c := l.bound[at-1].Class; after == 0 || c != class {
				class, after = c, 0
			}
			x.insert(class, at, after)
			after = at
		}
	}
}

// insert puts a machine into the unowned chain of its class, in the order of places. The search begins
// at after, a machine of the chain that comes before it, or at the head when after is 0. Both are 1 + a
// place.
func (x *stampLists) insert(class, at, after uint32) {
	next := x.unowned.heads[class]
	if after != 0 {
		next = x.chain[after-1]
	}
	for next != 0 && next < at {
		after, next = next, x.chain[next-1]
	}
	x.chain[at-1] = next
	if after == 0 {
		x.unowned.set(class, at)
	} else {
		x.chain[after-1] = at
	}
}

// findStampOwners finds the owner of each stamp of the open cluster's machines, and notes it by machine
// in store.owner.
func (l *worker) findStampOwners(c int) {
	x := &l.stamps
	x.index(l.bound)
	if len(x.entries) > 0 {
		l.stampOf = grown(l.stampOf, len(l.needs))
		for i, need := range l.needs {
			at := x.find(l.kindOf(need).fingerprint, l.groupOf(need))
			if l.stampOf[i] = at; at != 0 {
				x.own(at, need, l.rankOf[need])
			}
		}
		if l.e.store.clusters[c].hasSame {
			l.ownForMembers(c)
		}
	} else {
		l.stampOf = resize(l.stampOf, len(l.needs))
	}
	x.layLists(l.bound, l.creatingFrom, len(l.s.Classes))
	owners := l.e.store.owner
	for i := range l.bound {
		owner := unheld
		if at := x.of[i]; at != 0 {
			owner = x.entries[at-1].owner
		}
		owners[l.bound[i].Row] = owner
	}
}

// ownForMembers makes folds the owners of their members' stamps.
func (l *worker) ownForMembers(c int) {
	x, src := &l.stamps, &l.sources[c]
	groups := src.block.GroupIDs()
	for row := range src.rows {
		line := src.base + int32(row)
		if l.lines[line].status&(isFold|isMember) == 0 {
			continue
		}
		group := uint32(0)
		if groups != nil && groups[row] != 0 {
			group = l.folder.groups.number(l.s, groups[row])
		}
		at := x.find(l.s.Demand.Profile(src.block.Profile(row)).Fingerprint(), group)
		if at == 0 {
			continue
		}
		if need := l.needOf(line); l.rankOf[need] > x.entries[at-1].rank {
			x.own(at, need, l.rankOf[need])
		}
	}
}

// ownerRank returns the rank of the Need that owns a machine by its stamp; −1 when no Need of its
// cluster does.
func (p *pass) ownerRank(r columnar.Row) int32 {
	if owner := p.e.store.owner[r]; owner != unheld {
		return p.rankOf[owner]
	}
	return -1
}

// stampHash returns a hash of a stamp, 0 to 63: the number of its bit in a 64-bit filter.
func stampHash(fingerprint uint64, group uint32) uint64 {
	return (fingerprint ^ uint64(group)*0xd6e8feb86659fd93) >> 58
}
