package engine

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// A Need whose credit waits for its turn is credited what the other Needs of its cluster have left.
// That is little. It is listed once, at the end of the cluster's credit or when the first waiting Need
// has its turn, so that these Needs visit a few machines instead of all of the cluster. They come in
// rank order, each from another cluster, so the fields that they read are copied into one contiguous
// list.

// spare is an unclaimed machine of a cluster.
type spare struct {
	snapshot.Bound
	place uint32 // in the cluster's list
	value uint32 // the machine's value of spares.key
	owner int32  // the Need that owns it by its stamp, or unclaimed
}

// spares are the unclaimed machines of a cluster, as far as waiting Needs accept their classes.
type spares struct {
	list    []spare
	classes []uint64 // the classes of list, as a set
	key     int32    // a Same key of the waiting Needs, the one with the largest number; −1 = none
	listed  bool
}

// makeRoomForSpares allocates a list for each cluster.
func (p *pass) makeRoomForSpares() {
	st := &p.e.store
	st.spares = reuse.Resize(st.spares, len(p.s.Clusters))
	p.spares = st.spares
}

// listSpares lists the spares of a cluster if some Need waits for them: the unclaimed machines whose class
// a waiting Need accepts.
func (l *worker) listSpares(c int) {
	if len(l.p.e.store.clusters[c].uncredited) == 0 {
		return
	}
	x, waits := &l.p.spares[c], &l.p.e.store.clusters[c]
	x.key = -1
	for _, kind := range waits.waitKinds {
		x.key = max(x.key, int32(l.p.s.Supply.SameKey(l.p.kinds[kind].Matcher)))
	}
	left := l.sharing.left[:0]
	for place, b := range l.p.s.BoundOf(c) {
		if waits.waiting[b.Class>>6]>>(b.Class&63)&1 == 0 || l.p.claimed(b.Row) {
			continue
		}
		s := spare{Bound: b, place: uint32(place), owner: l.p.e.store.owner[b.Row]}
		if x.key >= 0 {
			s.value = l.p.s.Supply.Values(int(x.key))[b.Row]
		}
		left = append(left, s)
	}
	l.sharing.left = left
	x.list = alloc.MakeDirty[spare](l.arena, len(left))
	copy(x.list, left)
	x.classes = alloc.MakeDirty[uint64](l.arena, len(waits.waiting))
	x.listed = true
	x.note()
}

// note recomputes which classes the list contains.
func (x *spares) note() {
	clear(x.classes)
	for i := range x.list {
		class := x.list[i].Class
		x.classes[class>>6] |= 1 << (class & 63)
	}
}

// hasNoSpares reports whether the cluster has no spare that a Need of this kind could be credited: one
// bitmap test. Spares only become fewer, so the answer stays true for the pass.
func (p *pass) hasNoSpares(need int32, kind uint32) bool {
	x, k := &p.spares[p.atlas.ClusterOf(need)], &p.kinds[kind]
	return x.listed && k.Mask != 0 && !meet(x.classes, k.Accepts)
}

// domain returns the domain of a spare for a kind with Same, as supply.Table.Domain does.
func (x *spares) domain(l *worker, s *spare, k *state.Kind) (uint32, bool) {
	if int32(l.p.s.Supply.SameKey(k.Matcher)) == x.key {
		return l.p.s.Supply.DomainOf(k.Matcher, s.value)
	}
	return l.p.s.Supply.Domain(k.Matcher, s.Row)
}

// catchUp is the turn of a Need whose credit had to wait: it is credited, then acquires.
func (l *worker) catchUp(need, rank int32, k *state.Kind) {
	n := &l.p.lines[need]
	x := &l.p.spares[n.Cluster]
	if !x.listed {
		l.listSpares(int(n.Cluster))
	}
	l.start(need)
	l.sharing.picked = l.sharing.picked[:0]
	if !k.Same || l.domainAtTurn(need, k) {
		had := len(x.list)
		l.creditLeftOwn(x, need, k)
		early := len(l.sharing.picked) > 0
		l.creditLeft(x, need, k, isUnownedSpare)
		l.pickHeld(need, k)
		left := len(x.list)
		if !n.Is(state.IsParked) || l.lowerLeftCovers(x, need, k) {
			l.creditLeftLower(x, need, k)
		}
		l.sharing.creditedLate = early || len(x.list) < left
		l.acquirePicked(need)
		if len(x.list) < had {
			x.note()
		}
		if n.Status&state.SitsOut == 0 {
			l.acquire(need, k)
		}
		l.sharing.creditedLate = false
	}
	l.voidTaken(need)
	l.finishTurn(need, rank)
	if l.lacks != 0 && !l.p.anyFree(k) {
		l.p.spend(n.Kind)
	}
}

// groupOfSpare is where a spare stands in the order of a Need's credit.
type groupOfSpare uint8

const (
	isOwnSpare groupOfSpare = iota
	isUnownedSpare
	isLowerSpare
	isAnothersSpare // being created for another Need
)

func (p *pass) groupOfSpare(s *spare, need int32, k *state.Kind) groupOfSpare {
	switch {
	case s.Fingerprint == k.Fingerprint && s.Group == p.groupOf(need):
		return isOwnSpare
	case s.place >= uint32(p.s.CreatingFrom(int(p.lines[need].Cluster))) && !p.isCreatedFor(s.Row, need):
		return isAnothersSpare
	case s.owner != state.Unclaimed && p.rankOf[s.owner] > p.rankOf[need]:
		return isLowerSpare
	}
	return isUnownedSpare
}

// creditLeft claims spares of one group, in the order of the cluster's list, and removes them from it.
func (l *worker) creditLeft(x *spares, need int32, k *state.Kind, group groupOfSpare) {
	left := x.list[:0]
	for i := range x.list {
		s := &x.list[i]
		if l.lacks == 0 {
			left = append(left, x.list[i:]...)
			break
		}
		if !l.isLeftFor(x, s, need, k) || l.p.groupOfSpare(s, need, k) != group {
			left = append(left, *s)
			continue
		}
		l.claimSpare(s, need, group)
	}
	x.list = left
}

// creditLeftLower claims spares that belong, by their stamps, to Needs of lower rank: those of the
// lowest first.
func (l *worker) creditLeftLower(x *spares, need int32, k *state.Kind) {
	for l.lacks != 0 {
		best := -1
		for i := range x.list {
			s := &x.list[i]
			if l.isLowerLeftFor(x, s, need, k) && (best < 0 || l.p.rankOf[s.owner] > l.p.rankOf[x.list[best].owner]) {
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

// isLowerLeftFor reports whether a spare is left for a Need, belongs to one of lower rank, and is not left to that one.
func (l *worker) isLowerLeftFor(x *spares, s *spare, need int32, k *state.Kind) bool {
	return l.isLeftFor(x, s, need, k) && l.p.groupOfSpare(s, need, k) == isLowerSpare && !l.p.leavesSpare(s, need, k)
}

// leavesSpare is leavesToEqual for spares.
func (p *pass) leavesSpare(s *spare, need int32, k *state.Kind) bool {
	return k.Leaves && s.place < uint32(p.s.CreatingFrom(int(p.lines[need].Cluster))) && p.leavesTo(k, p.kindOf(s.owner), s.Class, s.Row)
}

// lowerLeftCovers is lowerCovers for spares.
func (l *worker) lowerLeftCovers(x *spares, need int32, k *state.Kind) bool {
	l.sharing.uncovered = append(l.sharing.uncovered[:0], l.missing...)
	for i := range x.list {
		if s := &x.list[i]; l.isLowerLeftFor(x, s, need, k) {
			columnar.SubClamp(l.sharing.uncovered, l.p.vector(s.Class))
		}
	}
	return columnar.IsZero(l.sharing.uncovered)
}

// isLeftFor reports whether a spare helps the Need at work: class, something that it lacks, and domain.
func (l *worker) isLeftFor(x *spares, s *spare, need int32, k *state.Kind) bool {
	return l.p.classMask[s.Class]&l.lacks != 0 && k.AcceptsClass(s.Class) && (!k.Same || x.isIn(l, s, need, k))
}

func (l *worker) claimSpare(s *spare, need int32, group groupOfSpare) {
	l.figures.probes++
	if group != isOwnSpare && l.p.s.View.State[s.Row] != model.Creating {
		l.noteForeignStamp(&s.Bound, need)
	}
	l.claim(s.Row, s.Class, need)
}

// pickHeld picks the Idle machines that are held for the Need, before the Need is credited machines of
// lower ranks. acquirePicked claims them afterwards, so that they stand behind all credited ones in the
// chain.
func (l *worker) pickHeld(need int32, k *state.Kind) {
	if l.lacks == 0 || l.p.lines[need].Status&state.SitsOut != 0 {
		return
	}
	for _, r := range l.p.reserved.Of(need) {
		if l.canTakeHeld(r, need, k) && !slices.Contains(l.sharing.picked, r) {
			l.subtract(l.p.s.View.Class[r])
			l.sharing.picked = append(l.sharing.picked, r)
		}
	}
}

func (l *worker) acquirePicked(need int32) {
	for _, r := range l.sharing.picked {
		l.pick(r, need, 0)
	}
}

// isIn reports whether a spare lies in the domain that the Need has chosen.
func (x *spares) isIn(l *worker, s *spare, need int32, k *state.Kind) bool {
	v, ok := x.domain(l, s, k)
	return ok && v == l.p.lines[need].Domain
}

// sumLeft adds the spares that the Need could be credited to the totals of their domains.
func (l *worker) sumLeft(need int32, k *state.Kind) {
	c := l.p.lines[need].Cluster
	x, group, creating := &l.p.spares[c], l.p.groupOf(need), uint32(l.p.s.CreatingFrom(int(c)))
	for i := range x.list {
		s := &x.list[i]
		own := s.Fingerprint == k.Fingerprint && s.Group == group
		if !k.AcceptsClass(s.Class) || !own && s.place >= creating {
			continue
		}
		l.figures.probes++
		if v, ok := x.domain(l, s, k); ok {
			l.addCreditable(v, s.Class, own)
		}
	}
}
