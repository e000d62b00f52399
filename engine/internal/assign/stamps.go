package assign

import (
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// The credit of a Need takes machines of its cluster in this order: its own machines; those that
// belong, by their stamps, to no Need of lower rank; Idle machines that are held for the Need; and last
// those that belong to Needs of lower rank, the lowest first. Two indexes of the cluster's machines
// serve the walk:
//
//	stampLists   the machines of each stamp, in the order of the cluster's list, and who owns it
//	classLists   by class: machines without an owner, or whose owner has had its turn; and the others,
//	             those of the owner of lowest rank first. A class is listed when a Need first asks for it.
//
// A machine moves from the second list of its class to the first when its owner's turn comes.

// stampEntry is one stamp that machines of the open cluster carry.
type stampEntry struct {
	fingerprint uint64
	group       uint32
	next        uint32 // 1 + the next entry of its bucket
	first, last uint32 // 1 + places of its machines; first skips those that are gone
	// owner is the last Need in rank order with this stamp, rank its place in the order; unclaimed and −1
	// when no Need has the stamp. Both are valid if known; else Store.Owner has the owner.
	owner, rank int32
	known       bool
	changed     bool // some machine with this stamp, or its owner, differs from the last cycle
	// runs are those of the stamp's machines in sharing.shared, if grouped.
	runs    sharedRun
	grouped bool
}

// stampLists are the machines of the open cluster by stamp: chains of places, with 0 as their end.
type stampLists struct {
	buckets []uint32 // 1 + the first entry of each
	shift   uint8
	entries []stampEntry
	of      []uint32 // by place: 1 + the entry of the machine's stamp; 0 = it has none
	next    []uint32 // by place: 1 + the next place with the stamp
	// sought has the hash of the fingerprint of each stamp whose owner is sought; see seek.
	sought [64]uint64
}

// index groups a cluster's machines by stamp. O(machines).
func (x *stampLists) index(bound []snapshot.Bound) {
	logSize := 1
	for 1<<logSize < len(bound)+1 {
		logSize++
	}
	x.buckets, x.next, x.of = reuse.Resize(x.buckets, 1<<logSize), reuse.Resize(x.next, len(bound)), reuse.Grown(x.of, len(bound))
	x.shift = uint8(64 - logSize)
	x.entries = x.entries[:0]
	var e *stampEntry
	at := uint32(0)
	for i := range bound {
		b := &bound[i]
		if b.Fingerprint == 0 {
			x.of[i] = 0
			continue
		}
		if at == 0 || e.fingerprint != b.Fingerprint || e.group != b.Group { // neighbours often serve one Need
			if at = x.find(b.Fingerprint, b.Group); at == 0 {
				at = x.add(b.Fingerprint, b.Group)
			}
			e = &x.entries[at-1]
		}
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
	x.entries = append(x.entries, stampEntry{fingerprint: fingerprint, group: group, next: *bucket, owner: state.Unclaimed, rank: -1})
	*bucket = uint32(len(x.entries))
	return *bucket
}

func (x *stampLists) bucket(fingerprint uint64, group uint32) *uint32 {
	hash := (fingerprint ^ uint64(group)*0xd6e8feb86659fd93) * 0xa0761d6478bd642f
	return &x.buckets[hash>>x.shift]
}

// seek begins the search for the owners of all stamps, or of those that changed; listWork finds them.
func (x *stampLists) seek(all bool) {
	clear(x.sought[:])
	for i := range x.entries {
		if e := &x.entries[i]; all || e.changed {
			e.known = true
			hash := soughtHash(e.fingerprint)
			x.sought[hash>>6] |= 1 << (hash & 63)
		}
	}
}

// soughtHash returns the number of a fingerprint's bit in stampLists.sought.
func soughtHash(fingerprint uint64) uint16 { return uint16(fingerprint * exact.Mixer >> 52) }

// mayBeSought reports whether the owner of a stamp may be sought whose fingerprint has this hash.
func (x *stampLists) mayBeSought(hash uint16) bool { return x.sought[hash>>6]>>(hash&63)&1 != 0 }

// own makes a Need the owner of a stamp if the owner is sought. Callers go in rank order, so that the
// last Need wins.
func (x *stampLists) own(at uint32, need, rank int32) {
	if e := &x.entries[at-1]; e.known && rank > e.rank {
		e.owner, e.rank = need, rank
	}
}

// ownForMembers makes folds the owners of their members' stamps.
func (l *Worker) ownForMembers(c int) {
	x, src := &l.Crediting.stamps, &l.p.Sources[c]
	groups, profiles := src.Block.GroupIDs(), src.Block.Profiles()
	last, fingerprint, sought := -1, uint64(0), false // of the profile of the row before: members of a fold often stand together
	lines := l.p.Lines[src.Base:][:src.Rows]
	for row := range lines {
		if lines[row].Status&(state.IsFold|state.IsMember) == 0 {
			continue
		}
		if profile := int(profiles[row]); profile != last {
			fingerprint = l.Folder.ProfileOf(profiles[row]).Stamp
			last, sought = profile, x.mayBeSought(soughtHash(fingerprint))
		}
		if !sought {
			continue
		}
		group := uint32(0)
		if groups != nil && groups[row] != 0 {
			group = l.Folder.Groups.Number(l.p.Snap, groups[row])
		}
		if at := x.find(fingerprint, group); at != 0 {
			need := l.p.NeedOf(src.Base + int32(row))
			x.own(at, need, l.p.RankOf[need])
		}
	}
}

// noteOwners notes the owners that were sought, by machine, for later cycles. It reports whether a stamp has
// another owner than before: the rows that have it may share its machines now, or no more.
func (l *Worker) noteOwners() (moved bool) {
	x, owners := &l.Crediting.stamps, l.p.st.Owner
	for i := range x.entries {
		if e := &x.entries[i]; e.known {
			for at := e.first; at != 0; at = x.next[at-1] {
				was := &owners[l.Crediting.bound[at-1].Row]
				if *was != e.owner {
					if !e.changed && *was != state.Unclaimed && e.owner != state.Unclaimed {
						e.changed, moved = true, true
					}
					*was = e.owner
				}
			}
		}
	}
	return moved
}

// ownerOf returns the rank of the owner of an entry, given one of its machines; −1 when there is none.
func (p *Pass) ownerOf(e *stampEntry, r columnar.Row) int32 {
	if !e.known {
		e.known = true
		if e.owner = p.st.Owner[r]; e.owner != state.Unclaimed {
			e.rank = p.RankOf[e.owner]
		}
	}
	return e.rank
}

// ownerAt returns the rank of the Need that owns the machine at a place by its stamp; −1 when none does.
func (l *Worker) ownerAt(place uint32) int32 {
	at := l.Crediting.stamps.of[place]
	if at == 0 {
		return -1
	}
	return l.p.ownerOf(&l.Crediting.stamps.entries[at-1], l.Crediting.bound[place].Row)
}

// classLists are the machines of the open cluster by class. Machines that are being created stand in
// none: they count only for the Need that they are created for.
type classLists struct {
	listed []uint64 // the classes that are listed, as a set
	// unowned are chains of places through chain, in the order of places, with 0 as their end.
	unowned, chain []uint32
	// lower are the others: those of class c at words[from[c]:to[c]], as ^rank of the owner above the
	// place. Those before are gone, those behind have moved to unowned.
	from, to []int32
	words    []uint64
	anyOf    []uint64 // the classes of which a machine may be left in either list, as a set
	inside   []uint32 // heads of unowned in the domain of the Need at work
}

func (x *classLists) begin(classes, machines int) {
	words := (classes + 63) / 64
	x.listed, x.anyOf = reuse.Resize(x.listed, words), reuse.Resize(x.anyOf, words)
	x.unowned, x.from, x.to = reuse.Grown(x.unowned, classes), reuse.Grown(x.from, classes), reuse.Grown(x.to, classes)
	x.chain, x.words = reuse.Grown(x.chain, machines), x.words[:0]
}

// waitsForOthers reports whether a Need that waits could claim a machine that this one may be credited: one of a class
// that both accept is left for it. It lists these classes.
func (l *Worker) waitsForOthers(x *cycle.ClusterState, k *state.Kind) bool {
	lists, creates := &l.Crediting.lists, int(l.Crediting.creatingFrom) < len(l.Crediting.bound)
	for i, waiting := range x.Waiting {
		both := waiting & k.Accepts[i]
		if both != 0 && creates {
			return true // no list has machines that are being created
		}
		for both &= l.Crediting.live[i]; both != 0; both &= both - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(both))
			if lists.listed[i]>>(class&63)&1 == 0 {
				l.listClass(class)
			}
			for lists.unowned[class] != 0 && l.gone(lists.unowned[class]-1) {
				lists.unowned[class] = lists.chain[lists.unowned[class]-1]
			}
			if lists.unowned[class] != 0 || l.skipGone(class) {
				return true
			}
		}
	}
	return false
}

// listFor lists the classes that a kind accepts. It reports whether a machine of one of them may be
// left.
func (l *Worker) listFor(k *state.Kind) bool {
	x, left := &l.Crediting.lists, uint64(0)
	for i, live := range l.Crediting.live {
		for missing := live & k.Accepts[i] &^ x.listed[i]; missing != 0; missing &= missing - 1 {
			l.listClass(uint32(i<<6 + bits.TrailingZeros64(missing)))
		}
		left |= x.anyOf[i] & k.Accepts[i]
	}
	return left != 0
}

// listClass lists the machines of a class that are not gone.
func (l *Worker) listClass(class uint32) {
	x := &l.Crediting.lists
	x.listed[class>>6] |= 1 << (class & 63)
	from, last := len(x.words), &x.unowned[class]
	for at := l.Crediting.heads[class]; at != 0; at = l.Crediting.bound[at-1].Next {
		if l.gone(at - 1) {
			continue
		}
		if rank := l.ownerAt(at - 1); rank > l.Crediting.work.rank {
			x.words = append(x.words, uint64(^uint32(rank))<<32|uint64(at-1))
			continue
		}
		*last = at
		last = &x.chain[at-1]
	}
	*last = 0
	slices.Sort(x.words[from:])
	x.from[class], x.to[class] = int32(from), int32(len(x.words))
	if x.unowned[class] != 0 || from < len(x.words) {
		x.anyOf[class>>6] |= 1 << (class & 63)
	}
}

// skipGone skips machines of owners of lower rank that are gone, for every Need that comes after, too. It reports whether one is
// left, and notes when the class has none of others either.
func (l *Worker) skipGone(class uint32) bool {
	x := &l.Crediting.lists
	for x.from[class] < x.to[class] && l.gone(uint32(x.words[x.from[class]])) {
		x.from[class]++
	}
	if x.from[class] < x.to[class] {
		return true
	}
	if x.unowned[class] == 0 {
		x.anyOf[class>>6] &^= 1 << (class & 63)
	}
	return false
}

// rankOfWord returns the rank of the owner in a word of classLists.words.
func rankOfWord(w uint64) int32 { return int32(^uint32(w >> 32)) }

// mergeClass moves the machines of a class whose owners rank no lower than the Need at work from lower to
// unowned.
func (l *Worker) mergeClass(class uint32) {
	x := &l.Crediting.lists
	for x.to[class] > x.from[class] {
		end, rank := x.to[class], rankOfWord(x.words[x.to[class]-1])
		if rank > l.Crediting.work.rank {
			return
		}
		start := end - 1
		for start > x.from[class] && rankOfWord(x.words[start-1]) == rank {
			start--
		}
		after := uint32(0)
		for _, w := range x.words[start:end] {
			if place := uint32(w); !l.gone(place) {
				x.insert(class, place+1, after)
				after = place + 1
			}
		}
		x.to[class] = start
	}
}

// insert puts a machine into the unowned chain of its class, in the order of places. The search begins
// at after, a machine of the chain that comes before it, or at the head when after is 0. Both are 1 + a
// place.
func (x *classLists) insert(class, at, after uint32) {
	link := &x.unowned[class]
	if after != 0 {
		link = &x.chain[after-1]
	}
	for *link != 0 && *link < at {
		link = &x.chain[*link-1]
	}
	x.chain[at-1] = *link
	*link = at
}

// OwnerRank returns the rank of the Need that owns a machine by its stamp; −1 when no Need of its
// cluster does.
func (p *Pass) OwnerRank(r columnar.Row) int32 {
	if owner := p.st.Owner[r]; owner != state.Unclaimed {
		return p.RankOf[owner]
	}
	return -1
}
