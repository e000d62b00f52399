package engine

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Needs whose credit waits for their turn are credited what the others of their
// cluster have left. That is little: it is listed at the end of the credit, or when
// the first of them has its turn, so that these needs look at a few machines, not at
// all that are bound to the cluster. They come in rank order, each from another
// cluster, so what they look at is copied to where it lies together.

// spare is a machine of a cluster that is left.
type spare struct {
	snapshot.Bound
	place uint32 // in the cluster's list
	value uint32 // of the cluster's Same key
	owner int32  // the need that has it by its stamp, or unheld
}

// spares are what is left of a cluster.
type spares struct {
	list    []spare
	classes []uint64 // that these are of, a bit each
	key     int32    // the Same key that the needs ask for, or one of these; −1 = none
	listed  bool
}

// makeRoomForSpares makes room for the lists.
func (p *pass) makeRoomForSpares() {
	st := &p.e.store
	st.spares = resize(st.spares, len(p.s.Clusters))
	p.spares = st.spares
}

// listSpares lists what is left of the open cluster, if anybody waits for it. Who
// claims what is at hand in replay.owner.
func (l *worker) listSpares(c int) {
	if len(l.e.store.clusters[c].uncredited) > 0 {
		l.list(c, func(place int) bool { return l.replay.owner[place] >= nobodysNow })
	}
}

// list lists what is left of a cluster.
func (l *worker) list(c int, isLeft func(place int) bool) {
	x, waits := &l.spares[c], &l.e.store.clusters[c]
	x.key = -1
	for _, kind := range waits.waitKinds {
		x.key = max(x.key, int32(l.s.Supply.SameKey(l.kinds[kind].matcher)))
	}
	left := l.left[:0]
	for place, b := range l.s.BoundOf(c) {
		if waits.waiting[b.Class>>6]>>(b.Class&63)&1 == 0 || !isLeft(place) {
			continue
		}
		s := spare{Bound: b, place: uint32(place), owner: l.e.store.owner[b.Row]}
		if x.key >= 0 {
			s.value = l.s.Supply.Values(int(x.key))[b.Row]
		}
		left = append(left, s)
	}
	l.left = left
	x.list = alloc.MakeDirty[spare](l.arena, len(left))
	copy(x.list, left)
	x.classes = alloc.MakeDirty[uint64](l.arena, len(waits.waiting))
	x.listed = true
	x.note()
}

// note notes which classes the list is of.
func (x *spares) note() {
	clear(x.classes)
	for i := range x.list {
		class := x.list[i].Class
		x.classes[class>>6] |= 1 << (class & 63)
	}
}

// hasNoSpares reports whether nothing is left in its cluster that a need of a kind
// could be credited. There will only be less.
func (p *pass) hasNoSpares(need int32, kind uint32) bool {
	x, k := &p.spares[p.atlas.clusterOf(need)], &p.kinds[kind]
	return x.listed && k.mask != 0 && !meet(x.classes, k.accepts)
}

// domain returns the domain of a machine that is left for a kind that asks for one,
// as supply.Table.Domain does.
func (x *spares) domain(l *worker, s *spare, k *kind) (uint32, bool) {
	if int32(l.s.Supply.SameKey(k.matcher)) == x.key {
		return l.s.Supply.DomainOf(k.matcher, s.value)
	}
	return l.s.Supply.Domain(k.matcher, s.Row)
}

// catchUp credits a need whose credit had to wait for its turn, and lets it
// acquire.
func (l *worker) catchUp(need, rank int32, k *kind) {
	n := &l.lines[need]
	x := &l.spares[n.cluster]
	if !x.listed {
		bound := l.s.BoundOf(int(n.cluster))
		l.list(int(n.cluster), func(place int) bool { return !l.claimed(bound[place].Row) })
	}
	l.start(need)
	if !k.same || l.domainAtTurn(need, k) {
		had := len(x.list)
		l.creditLeft(x, need, k, isOwnSpare)
		l.creditLeft(x, need, k, isUnownedSpare)
		l.pickHeld(need, k)
		left := len(x.list)
		l.creditLeftLower(x, need, k)
		l.creditedLate = len(x.list) < left
		l.acquirePicked(need)
		if len(x.list) < had {
			x.note()
		}
		if n.status&sitsOut == 0 {
			l.acquire(need, k)
		}
		l.creditedLate = false
	}
	l.voidTaken(need)
	l.finishTurn(need, rank)
	if l.lacks != 0 && !l.anyFree(k) {
		l.spend(n.kind)
	}
}

// groupOfSpare is where a machine that is left stands in the walk of a need.
type groupOfSpare uint8

const (
	isOwnSpare groupOfSpare = iota
	isUnownedSpare
	isLowerSpare
	isAnothersSpare // being created for another need
)

func (l *worker) groupOfSpare(s *spare, need int32, k *kind) groupOfSpare {
	switch {
	case s.Fingerprint == k.fingerprint && s.Group == l.groupOf(need):
		return isOwnSpare
	case s.place >= uint32(l.s.CreatingFrom(int(l.lines[need].cluster))) && !l.isCreatedFor(s.Row, need):
		return isAnothersSpare
	case s.owner != unheld && l.rankOf[s.owner] > l.rankOf[need]:
		return isLowerSpare
	}
	return isUnownedSpare
}

// creditLeft claims machines of a group that are left, as they stand in the cluster's
// list.
func (l *worker) creditLeft(x *spares, need int32, k *kind, group groupOfSpare) {
	left := x.list[:0]
	for i := range x.list {
		s := &x.list[i]
		if l.lacks == 0 {
			left = append(left, x.list[i:]...)
			break
		}
		if !l.isLeftFor(x, s, need, k) || l.groupOfSpare(s, need, k) != group {
			left = append(left, *s)
			continue
		}
		l.claimSpare(s, need, group)
	}
	x.list = left
}

// creditLeftLower claims machines that needs of lower rank have, by their stamps: those
// of the lowest first.
func (l *worker) creditLeftLower(x *spares, need int32, k *kind) {
	for l.lacks != 0 {
		best := -1
		for i := range x.list {
			s := &x.list[i]
			if !l.isLeftFor(x, s, need, k) || l.groupOfSpare(s, need, k) != isLowerSpare {
				continue
			}
			if best < 0 || l.rankOf[s.owner] > l.rankOf[x.list[best].owner] {
				best = i
			}
		}
		if best < 0 {
			return
		}
		l.claimSpare(&x.list[best], need, isLowerSpare)
		x.list = slices.Delete(x.list, best, best+1)
	}
}

// isLeftFor reports whether a machine that is left is of use for the need at work.
func (l *worker) isLeftFor(x *spares, s *spare, need int32, k *kind) bool {
	return l.classMask[s.Class]&l.lacks != 0 && k.acceptsClass(s.Class) && (!k.same || x.isIn(l, s, need, k))
}

func (l *worker) claimSpare(s *spare, need int32, group groupOfSpare) {
	l.probes++
	if group != isOwnSpare && l.s.View.State[s.Row] != model.Creating {
		l.noteForeignStamp(&s.Bound, need)
	}
	l.claim(s.Row, s.Class, need)
}

// pickHeld takes what is Idle and held for the need, before it is credited what needs
// of lower rank have; acquirePicked claims it after that, behind what is credited.
func (l *worker) pickHeld(need int32, k *kind) {
	l.picked = l.picked[:0]
	if l.lacks == 0 || l.lines[need].status&sitsOut != 0 {
		return
	}
	for _, r := range l.reserved.of(need) {
		if l.canTakeHeld(r, need, k) {
			l.subtract(l.s.View.Class[r])
			l.picked = append(l.picked, r)
		}
	}
}

func (l *worker) acquirePicked(need int32) {
	for _, r := range l.picked {
		l.pick(r, need, 0)
	}
}

// isIn reports whether a machine that is left lies in the domain that the need has
// chosen.
func (x *spares) isIn(l *worker, s *spare, need int32, k *kind) bool {
	v, ok := x.domain(l, s, k)
	return ok && v == l.lines[need].domain
}

// sumLeft adds what is left that the need could be credited, by domain.
func (l *worker) sumLeft(need int32, k *kind) {
	c := l.lines[need].cluster
	x, group, creating := &l.spares[c], l.groupOf(need), uint32(l.s.CreatingFrom(int(c)))
	for i := range x.list {
		s := &x.list[i]
		own := s.Fingerprint == k.fingerprint && s.Group == group
		if !k.acceptsClass(s.Class) || !own && s.place >= creating {
			continue
		}
		l.probes++
		if v, ok := x.domain(l, s, k); ok {
			l.addCreditable(v, s.Class, own)
		}
	}
}
