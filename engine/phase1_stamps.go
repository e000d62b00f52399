package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// The credit walk of a need goes through its own machines, those that no need of
// the cluster ranked below it has by their stamps, what is Idle and held for it,
// and last those that needs of lower rank have, the lowest first. Three lists of the
// cluster's machines serve that, each in the order of the walk:
//
//	by stamp   the machines of each stamp, in the order of the cluster's list
//	unowned    by class, those whose owner has had its turn, or that have none
//	lower      by class, the others: the owner of lowest rank first
//
// A machine moves from lower to unowned when its owner's turn comes.

// stampEntry is a stamp that machines of the open cluster carry.
type stampEntry struct {
	fingerprint uint64
	group       uint32
	next        uint32 // 1 + the next entry of its bucket
	first, last uint32 // 1 + places of its machines; first goes on as these are gone
	// owner is the last need in rank order with the stamp, rank its place in the
	// order: unheld and −1 when there is none.
	owner, rank int32
	changed     bool // some machine that carries it was not like that in the cycle before
}

// stampLists are the lists by stamp and class of the open cluster.
type stampLists struct {
	buckets []uint32 // 1 + the first entry of each
	shift   uint8
	entries []stampEntry
	of      []uint32 // by place: 1 + the entry of the machine's stamp; 0 = it has none
	next    []uint32 // by place: 1 + the next place with the stamp
	// byOwner are the owned entries by rank, rank<<32|entry; those before merged have
	// gone to unowned.
	byOwner []uint64
	merged  int

	unowned, lower classChains
	// In the order of the lists by class, 1 + the next place of the class. A machine
	// is in one of the two: who comes to one that has left the lower list is at its end.
	chain  []uint32
	inside []uint32 // heads in the domain of the need at work
	places []uint32 // scratch
}

// classChains are the first machines of lists by class: 1 + a place.
type classChains struct {
	heads []uint32
	live  []uint64 // the classes that have one, a bit each
}

func (x *classChains) begin(classes int) {
	x.heads, x.live = resize(x.heads, classes), resize(x.live, (classes+63)/64)
}

func (x *classChains) set(class, at uint32) {
	x.heads[class] = at
	x.live[class>>6] |= 1 << (class & 63)
}

// index finds the stamps of a cluster's machines.
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

// own says that a need has a stamp; needs come in rank order.
func (x *stampLists) own(at uint32, need, rank int32) {
	e := &x.entries[at-1]
	e.owner, e.rank = need, rank
}

// layLists makes the lists by class.
// Machines that are being created count for nobody but who they are created for, and
// stand in no list by class.
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
		// Entries of one owner, a fold's and its members', are one in the walk.
		end := i + 1
		for end < len(x.byOwner) && x.byOwner[end]>>32 == x.byOwner[i]>>32 {
			end++
		}
		x.prependLower(bound, creatingFrom, x.byOwner[i:end])
		i = end
	}
}

// prependLower puts the machines of one owner before those of owners ranked above it.
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

// lowerThan reports whether the machine at a place has, by its stamp, an owner that
// ranks below a place in the order.
func (x *stampLists) lowerThan(place uint32, rank int32) bool {
	at := x.of[place]
	return at != 0 && x.entries[at-1].rank > rank
}

// mergeUpTo moves what owners up to a rank have not claimed to the unowned machines.
func (l *worker) mergeUpTo(rank int32) {
	x := &l.stamps
	for ; x.merged < len(x.byOwner) && int32(x.byOwner[x.merged]>>32) <= rank; x.merged++ {
		class, after := uint32(0), uint32(0) // where the one before was put
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

// insert puts a machine into its class's unowned ones, somewhere after one of these
// if there is one given; both are 1 + a place.
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

// findStampOwners finds out who has the stamps of the open cluster's machines, and
// notes it by machine.
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

// ownForMembers says that folds have the stamps of their members.
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

// ownerRank returns the rank of the need that has a machine by its stamp, −1 when
// none of its cluster has.
func (p *pass) ownerRank(r columnar.Row) int32 {
	if owner := p.e.store.owner[r]; owner != unheld {
		return p.rankOf[owner]
	}
	return -1
}

// stampHash returns one of 64 numbers for a stamp.
func stampHash(fingerprint uint64, group uint32) uint64 {
	return (fingerprint ^ uint64(group)*0xd6e8feb86659fd93) >> 58
}
