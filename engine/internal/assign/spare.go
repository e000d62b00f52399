package assign

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
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
func (p *Pass) makeRoomForSpares() {
	st := p.st
	st.spares = reuse.Resize(st.spares, len(p.Snap.Clusters))
	p.spares = st.spares
}

// listSpares lists the spares of a cluster if some Need waits for them: the unclaimed machines whose class
// a waiting Need accepts.
func (l *Worker) listSpares(c int) {
	if len(l.p.st.Clusters[c].Uncredited) == 0 {
		return
	}
	x, waits := &l.p.spares[c], &l.p.st.Clusters[c]
	x.key = -1
	for _, kind := range waits.WaitKinds {
		x.key = max(x.key, int32(l.p.Snap.Supply.SameKey(l.p.Kinds[kind].Matcher)))
	}
	left := l.sharing.left[:0]
	for place, b := range l.p.Snap.BoundOf(c) {
		if waits.Waiting[b.Class>>6]>>(b.Class&63)&1 == 0 || l.p.Claimed(b.Row) {
			continue
		}
		s := spare{Bound: b, place: uint32(place), owner: l.p.st.Owner[b.Row]}
		if x.key >= 0 {
			s.value = l.p.Snap.Supply.Values(int(x.key))[b.Row]
		}
		left = append(left, s)
	}
	l.sharing.left = left
	x.list = alloc.MakeDirty[spare](l.Arena, len(left))
	copy(x.list, left)
	x.classes = alloc.MakeDirty[uint64](l.Arena, len(waits.Waiting))
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
func (p *Pass) hasNoSpares(need int32, kind uint32) bool {
	x, k := &p.spares[p.ClusterOf(need)], &p.Kinds[kind]
	return x.listed && k.Mask != 0 && !cycle.Meet(x.classes, k.Accepts)
}

// domain returns the domain of a spare for a kind with Same, as supply.Table.Domain does.
func (x *spares) domain(l *Worker, s *spare, k *state.Kind) (uint32, bool) {
	if int32(l.p.Snap.Supply.SameKey(k.Matcher)) == x.key {
		return l.p.Snap.Supply.DomainOf(k.Matcher, s.value)
	}
	return l.p.Snap.Supply.Domain(k.Matcher, s.Row)
}

// catchUp is the turn of a Need whose credit had to wait: it is credited, then acquires.
func (l *Worker) catchUp(need, rank int32, k *state.Kind) {
	n := &l.p.Lines[need]
	c := l.p.ClusterOf(need)
	x := &l.p.spares[c]
	if !x.listed {
		l.listSpares(int(c))
	}
	l.Start(need)
	l.sharing.picked = l.sharing.picked[:0]
	if !k.Same || l.domainAtTurn(need, k) {
		had := len(x.list)
		x.creditLeftOwn(l, need, k)
		early := len(l.sharing.picked) > 0
		x.creditLeft(l, need, k, isUnownedSpare)
		l.pickHeld(need, k)
		left := len(x.list)
		if !n.Is(state.IsParked) || x.lowerLeftCovers(l, need, k) {
			x.creditLeftLower(l, need, k)
		}
		l.Acquiring.CreditedLate = early || len(x.list) < left
		l.acquirePicked(need)
		if len(x.list) < had {
			x.note()
		}
		if n.Status&state.SitsOut == 0 {
			l.Acquire(need, k)
		}
		l.Acquiring.CreditedLate = false
	}
	l.VoidTaken(need)
	l.FinishTurn(need, rank)
	if l.Lacks != 0 && !l.p.AnyFree(k) {
		l.p.Spent[n.Kind] = true
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

func (p *Pass) groupOfSpare(s *spare, need int32, k *state.Kind) groupOfSpare {
	switch {
	case s.Fingerprint == k.Fingerprint && s.Group == p.GroupOf(need):
		return isOwnSpare
	case s.place >= uint32(p.Snap.CreatingFrom(int(p.ClusterOf(need)))) && !p.IsCreatedFor(s.Row, need):
		return isAnothersSpare
	case s.owner != state.Unclaimed && p.RankOf[s.owner] > p.RankOf[need]:
		return isLowerSpare
	}
	return isUnownedSpare
}

// creditLeft claims spares of one group, in the order of the cluster's list, and removes them from it.
func (x *spares) creditLeft(l *Worker, need int32, k *state.Kind, group groupOfSpare) {
	left := x.list[:0]
	for i := range x.list {
		s := &x.list[i]
		if l.Lacks == 0 {
			left = append(left, x.list[i:]...)
			break
		}
		if !x.isLeftFor(l, s, need, k) || l.p.groupOfSpare(s, need, k) != group {
			left = append(left, *s)
			continue
		}
		l.claimSpare(s, need, group)
	}
	x.list = left
}

// creditLeftLower claims spares that belong, by their stamps, to Needs of lower rank: those of the
// lowest first.
func (x *spares) creditLeftLower(l *Worker, need int32, k *state.Kind) {
	for l.Lacks != 0 {
		best := -1
		for i := range x.list {
			s := &x.list[i]
			if x.isLowerLeftFor(l, s, need, k) && (best < 0 || l.p.RankOf[s.owner] > l.p.RankOf[x.list[best].owner]) {
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
func (x *spares) isLowerLeftFor(l *Worker, s *spare, need int32, k *state.Kind) bool {
	return x.isLeftFor(l, s, need, k) && l.p.groupOfSpare(s, need, k) == isLowerSpare && !l.p.leavesSpare(s, need, k)
}

// leavesSpare is leavesToEqual for spares.
func (p *Pass) leavesSpare(s *spare, need int32, k *state.Kind) bool {
	return k.Leaves && s.place < uint32(p.Snap.CreatingFrom(int(p.ClusterOf(need)))) && p.leavesTo(k, p.KindOf(s.owner), s.Class, s.Row)
}

// lowerLeftCovers is lowerCovers for spares.
func (x *spares) lowerLeftCovers(l *Worker, need int32, k *state.Kind) bool {
	l.sharing.uncovered = append(l.sharing.uncovered[:0], l.Missing...)
	for i := range x.list {
		if s := &x.list[i]; x.isLowerLeftFor(l, s, need, k) {
			columnar.SubClamp(l.sharing.uncovered, l.p.Vector(s.Class))
		}
	}
	return columnar.IsZero(l.sharing.uncovered)
}

// isLeftFor reports whether a spare helps the Need at work: class, something that it lacks, and domain.
func (x *spares) isLeftFor(l *Worker, s *spare, need int32, k *state.Kind) bool {
	return l.p.ClassMask[s.Class]&l.Lacks != 0 && k.AcceptsClass(s.Class) && (!k.Same || x.isIn(l, s, need, k))
}

func (l *Worker) claimSpare(s *spare, need int32, group groupOfSpare) {
	l.Figures.Probes++
	if group != isOwnSpare && l.p.Snap.View.State[s.Row] != model.Creating {
		l.noteForeignStamp(&s.Bound, need)
	}
	l.Claim(s.Row, s.Class, need)
}

// pickHeld picks the Idle machines that are held for the Need, before the Need is credited machines of
// lower ranks. acquirePicked claims them afterwards, so that they stand behind all credited ones in the
// chain.
func (l *Worker) pickHeld(need int32, k *state.Kind) {
	if l.Lacks == 0 || l.p.Lines[need].Status&state.SitsOut != 0 {
		return
	}
	for _, r := range l.p.Reserved.Of(need) {
		if l.CanTakeHeld(r, need, k) && !slices.Contains(l.sharing.picked, r) {
			l.Subtract(l.p.Snap.View.Class[r])
			l.sharing.picked = append(l.sharing.picked, r)
		}
	}
}

func (l *Worker) acquirePicked(need int32) {
	for _, r := range l.sharing.picked {
		l.Pick(r, need, 0)
	}
}

// isIn reports whether a spare lies in the domain that the Need has chosen.
func (x *spares) isIn(l *Worker, s *spare, need int32, k *state.Kind) bool {
	v, ok := x.domain(l, s, k)
	return ok && v == l.p.Lines[need].Domain
}

// sumLeft adds the spares that the Need could be credited to the totals of their domains.
func (l *Worker) sumLeft(need int32, k *state.Kind) {
	c := l.p.ClusterOf(need)
	x, group, creating := &l.p.spares[c], l.p.GroupOf(need), uint32(l.p.Snap.CreatingFrom(int(c)))
	for i := range x.list {
		s := &x.list[i]
		own := s.Fingerprint == k.Fingerprint && s.Group == group
		if !k.AcceptsClass(s.Class) || !own && s.place >= creating {
			continue
		}
		l.Figures.Probes++
		if v, ok := x.domain(l, s, k); ok {
			l.addCreditable(v, s.Class, own)
		}
	}
}
