package assign

import (
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Credit is the first half of phase 1: a Need claims machines that are bound to its cluster already.
// Only Needs of the same cluster compete for these, so workers credit clusters independently.
//
// Two things reach across clusters. A Same-Need with machines in several domains, none of which covers
// it, chooses among them by what is free there. And an Idle machine that is held for a Need comes
// before machines that Needs of lower rank have. Such a Need waits: it is credited in its turn in the
// walk in rank order. Needs below it in its cluster wait too if it could claim a class that they
// accept, and of which a machine is left for them.

// openCluster makes a cluster the one at work.
func (l *Worker) openCluster(c int) {
	l.Crediting.bound = l.p.Snap.BoundOf(c)
	l.Crediting.heads, l.Crediting.live = reuse.Grown(l.Crediting.heads, len(l.p.Snap.Classes)), reuse.Resize(l.Crediting.live, (len(l.p.Snap.Classes)+63)/64)
	for _, g := range l.p.Snap.GroupsOf(c) {
		l.Crediting.heads[g.Class] = g.First + 1
		l.Crediting.live[g.Class>>6] |= 1 << (g.Class & 63)
	}
	l.Crediting.creatingFrom = uint32(l.p.Snap.CreatingFrom(c))
	l.Crediting.stamps.index(l.Crediting.bound)
	l.sharing.shared.reset()
	l.Crediting.lists.begin(len(l.p.Snap.Classes), len(l.Crediting.bound))
}

// creditNeed credits one Need, given 1 + the entry of its stamp. It lets the Need wait for its turn
// when its choice of a domain depends on what is free, when a waiting Need could claim a machine that
// this one may be credited, or when an Idle machine that is held for it comes before machines of lower ranks.
func (l *Worker) creditNeed(x *cycle.ClusterState, need int32, stamp uint32, k *state.Kind) {
	l.Figures.Credited++
	l.Crediting.seized, l.Crediting.foreignStampsBefore = l.Crediting.seized[:0], len(l.Crediting.ForeignStamps)
	if l.waitsForOthers(x, k) || k.Same && !l.settleDomain(need, k) {
		l.p.letWait(x, need, k)
		return
	}
	if k.Same && l.p.Lines[need].Domain == 0 {
		l.leave(need) // nothing bound fits: the Need chooses its domain by what is free
		return
	}
	if l.hasHeldWithTwins(need, k) {
		l.p.letWait(x, need, k)
		return
	}
	if stamp == 0 && int(l.Crediting.creatingFrom) == len(l.Crediting.bound) && !l.listFor(k) {
		l.leave(need)
		return
	}
	l.Start(need)
	l.creditOwn(need, stamp, k)
	if l.Lacks != 0 {
		l.listFor(k)
		l.creditUnowned(need, k)
		l.creditCreated(need, k)
	}
	if l.Lacks != 0 && l.mayTakeHeld(need, k) && l.firstLower(need, k) != 0 {
		l.letGo(need)
		l.p.letWait(x, need, k)
		return
	}
	if !l.p.Lines[need].Is(state.IsParked) || l.lowerCovers(need, k) {
		l.creditLower(need, k)
	}
	l.Finish(need)
	if l.Lacks != 0 {
		l.leave(need)
	}
}

// letWait postpones a Need's credit to its turn.
func (p *Pass) letWait(x *cycle.ClusterState, need int32, k *state.Kind) {
	x.Wait(need, p.Lines[need].Kind, k)
	p.Lines[need].Status |= state.IsUncredited
	p.mark(need)
}

// readAhead prefetches a cluster's lines, their ranks and the numbers of their aggregates, sequentially: one read
// per cache line. The credit visits them in rank order, which the hardware prefetcher cannot predict.
func (l *Worker) readAhead(src *state.Source) {
	if src.Block == nil {
		return
	}
	lines := l.p.Lines[src.Base:][:src.Rows]
	for i := 0; i < len(lines); i += 2 {
		l.reads += uint64(lines[i].Status)
	}
	aggregates, ranks := src.Aggregates, l.p.RankOf[src.Base:][:src.Rows]
	for i := 0; i < len(aggregates); i += 16 {
		l.reads += uint64(aggregates[i]) + uint64(ranks[i])
	}
}

// leaveAll leaves all Needs of a cluster without machines to the acquisition. Their order does not
// matter.
func (l *Worker) leaveAll(c int) {
	src := &l.p.Sources[c]
	if src.Block == nil {
		return
	}
	for i := range l.p.Lines[src.Base:][:src.Block.Len()] {
		need := src.Base + int32(i)
		if l.p.Lines[need].Is(state.IsMember) {
			continue
		}
		if k := l.p.KindOf(need); k.Same && l.p.Reserved.Has(need) || l.hasHeldWithTwins(need, k) {
			l.p.letWait(&l.p.st.Clusters[c], need, k)
			continue
		}
		l.p.Lacking[l.p.RankOf[need]] = false
		l.leave(need)
	}
}

// leave leaves a Need to the acquisition, or marks it as satisfied if it wants nothing.
func (l *Worker) leave(need int32) {
	n := &l.p.Lines[need]
	k := &l.p.Kinds[n.Kind]
	if k.Mask == 0 && (n.Domain != 0 || !k.Same || !k.MayAcquire) {
		n.Status = n.Status&^state.IsUncoverable | state.IsSatisfied // it wants nothing
		l.Figures.Satisfied += l.p.Weight(need)
		return
	}
	l.p.mark(need)
}

// mark notes that a Need still lacks something after credit.
func (p *Pass) mark(need int32) { p.Lacking[p.RankOf[need]] = true }

// creditOwn claims machines that carry the Need's stamp. stamp is 1 + the entry of that stamp, 0 =
// none.
func (l *Worker) creditOwn(need int32, stamp uint32, k *state.Kind) {
	if stamp == 0 {
		return
	}
	x := &l.Crediting.stamps
	e := &x.entries[stamp-1]
	for e.first != 0 && l.gone(e.first-1) {
		e.first = x.next[e.first-1]
	}
	if e.sharesOwn(l) {
		l.creditShared(need, e, k)
		return
	}
	for at := e.first; at != 0 && l.Lacks != 0; at = x.next[at-1] {
		b := &l.Crediting.bound[at-1]
		l.Figures.Probes++
		if !l.gone(at-1) && l.p.ClassMask[b.Class]&l.Lacks != 0 && k.AcceptsClass(b.Class) && l.p.InDomain(b.Row, need) {
			l.seize(at-1, need, k)
		}
	}
}

// creditUnowned claims machines that belong, by their stamps, to no Need of lower rank, in the order of
// the cluster's list. Runs of that list are mostly of one class, so it takes from one class until the
// head of another class comes first.
func (l *Worker) creditUnowned(need int32, k *state.Kind) {
	x := &l.Crediting.lists
	heads := x.unowned
	if k.Same { // where a domain's machines begin holds for this Need only: use a copy
		heads = append(x.inside[:0], heads...)
		x.inside = heads
	}
	for i, live := range x.anyOf {
		for left := live & k.Accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			l.mergeClass(class)
			if heads[class] = x.unowned[class]; heads[class] != 0 {
				l.Figures.Probes++
			}
		}
	}
	for l.Lacks != 0 {
		class, end := l.firstUnowned(heads, need, k)
		if end == 0 {
			break
		}
		for heads[class] != 0 && heads[class] < end && l.Lacks&l.p.ClassMask[class] != 0 {
			place := heads[class] - 1
			l.seizeForeignStamp(place, need, k)
			heads[class] = l.nextSuiting(x.chain[place], need, k)
		}
	}
}

// creditCreated claims machines that are being created for members of the fold that the Need is, unless
// they belong by their stamps to a Need of lower rank.
func (l *Worker) creditCreated(need int32, k *state.Kind) {
	if !l.p.Lines[need].Is(state.IsFold) {
		return
	}
	for at := l.Crediting.creatingFrom; int(at) < len(l.Crediting.bound) && l.Lacks != 0; at++ {
		if l.ownerAt(at) <= l.Crediting.work.rank && l.suitsCreated(at, need, k) {
			l.p.Lines[need].Status |= state.HasForeignStamp
			l.seize(at, need, k)
		}
	}
}

// suitsCreated reports whether a machine that is being created is unclaimed, helps the fold at work,
// and is created for one of the fold's members.
func (l *Worker) suitsCreated(place uint32, need int32, k *state.Kind) bool {
	b := &l.Crediting.bound[place]
	return !l.gone(place) && l.p.ClassMask[b.Class]&l.Lacks != 0 && k.AcceptsClass(b.Class) && l.p.IsCreatedFor(b.Row, need)
}

// firstUnowned returns the class, of those that help, whose next unowned machine has the smallest
// place. end is 1 + the place at which another class may come first; 0 when no machine is left. A
// machine that is gone for a higher rank is gone for every lower one, so the search resumes at each
// class's head.
func (l *Worker) firstUnowned(heads []uint32, need int32, k *state.Kind) (best, end uint32) {
	first := ^uint32(0)
	for i, live := range l.Crediting.lists.anyOf {
		for left := live & k.Accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			if l.p.ClassMask[class]&l.Lacks == 0 {
				continue
			}
			at := l.nextSuiting(heads[class], need, k)
			heads[class] = at
			switch {
			case at == 0:
			case end == 0:
				best, first, end = class, at, ^uint32(0)
			case at < first:
				best, first, end = class, at, first
			default:
				end = min(end, at)
			}
		}
	}
	return best, end
}

// nextSuiting returns the first machine of a class's chain, from at on, that is unclaimed and lies in
// the Need's domain; at and the result are 1 + a place, 0 = none.
func (l *Worker) nextSuiting(at uint32, need int32, k *state.Kind) uint32 {
	for at != 0 && (l.gone(at-1) || k.Same && !l.p.InDomain(l.Crediting.bound[at-1].Row, need)) {
		at = l.Crediting.lists.chain[at-1]
	}
	return at
}

// creditLower claims machines that belong, by their stamps, to Needs of lower rank: those of the lowest
// first.
func (l *Worker) creditLower(need int32, k *state.Kind) {
	for l.Lacks != 0 {
		at := l.firstLower(need, k)
		if at == 0 {
			return
		}
		l.seizeForeignStamp(at-1, need, k)
	}
}

// lowerCovers reports whether what creditLower would claim covers all that the Need at work lacks. A
// parked Need takes nothing otherwise: it would still be short, and Needs of lower rank would be, too.
func (l *Worker) lowerCovers(need int32, k *state.Kind) bool {
	if l.Lacks == 0 || l.firstLower(need, k) == 0 {
		return false
	}
	l.sharing.uncovered = append(l.sharing.uncovered[:0], l.Missing...)
	x := &l.Crediting.lists
	for i, live := range x.anyOf {
		for left := live & k.Accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			for _, w := range x.words[x.from[class]:x.to[class]] {
				if place := uint32(w); !l.gone(place) && (!k.Same || l.p.InDomain(l.Crediting.bound[place].Row, need)) && !(k.Leaves && l.leavesToEqual(need, rankOfWord(w), place, k)) {
					columnar.SubClamp(l.sharing.uncovered, l.p.Vector(class))
				}
			}
		}
	}
	if l.p.Lines[need].Is(state.IsFold) {
		for place := l.Crediting.creatingFrom; int(place) < len(l.Crediting.bound); place++ {
			if l.ownerAt(place) > l.Crediting.work.rank && l.suitsCreated(place, need, k) {
				columnar.SubClamp(l.sharing.uncovered, l.p.Vector(l.Crediting.bound[place].Class))
			}
		}
	}
	return columnar.IsZero(l.sharing.uncovered)
}

// firstLower returns 1 + the place of the machine that creditLower claims next; 0 when none is left.
func (l *Worker) firstLower(need int32, k *state.Kind) uint32 {
	best, lowest := uint32(0), int32(0)
	for i, live := range l.Crediting.lists.anyOf {
		for left := live & k.Accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			l.Figures.Probes++
			if l.p.ClassMask[class]&l.Lacks == 0 {
				continue
			}
			if at, rank := l.nextOfLower(class, need, k); at != 0 && (best == 0 || rank > lowest || rank == lowest && at < best) {
				best, lowest = at, rank
			}
		}
	}
	if !l.p.Lines[need].Is(state.IsFold) {
		return best
	}
	for place := l.Crediting.creatingFrom; int(place) < len(l.Crediting.bound); place++ {
		rank := l.ownerAt(place)
		if rank > l.Crediting.work.rank && l.suitsCreated(place, need, k) && (best == 0 || rank > lowest) {
			best, lowest = place+1, rank
		}
	}
	return best
}

// nextOfLower returns 1 + the place of the first unclaimed machine of a class that belongs to a Need of
// lower rank and lies in the Need's domain, and the rank of its owner; 0 when there is none. mergeClass
// has taken out those of other owners.
func (l *Worker) nextOfLower(class uint32, need int32, k *state.Kind) (at uint32, owner int32) {
	x := &l.Crediting.lists
	l.skipGone(class)
	for i, w := range x.words[x.from[class]:x.to[class]] {
		if place := uint32(w); (i == 0 || !l.gone(place)) && (!k.Same || l.p.InDomain(l.Crediting.bound[place].Row, need)) {
			if k.Leaves && l.leavesToEqual(need, rankOfWord(w), place, k) {
				continue
			}
			return place + 1, rankOfWord(w)
		}
	}
	return 0, 0
}

// leavesToEqual reports whether the Need at work is not credited the machine at a place, which an owner of lower rank has, and notes
// that it left one. The rank is the owner's.
func (l *Worker) leavesToEqual(need, rank int32, place uint32, k *state.Kind) bool {
	if b := &l.Crediting.bound[place]; !l.p.leavesTo(k, &l.p.Kinds[l.p.KindAt[rank]], b.Class, b.Row) {
		return false
	}
	l.p.Lines[need].Status |= state.LeavesToEqual
	return true
}

// leavesTo reports whether Needs of a kind leave a machine to its owner of lower rank, which can use it.
func (p *Pass) leavesTo(k, owner *state.Kind, class uint32, r columnar.Row) bool {
	return k.LeavesTo(owner, p.ClassMask[class]) && owner.AcceptsClass(class) && (!owner.Same || p.InAnyDomain(owner.Matcher, r))
}

// seizeForeignStamp claims a machine that does not carry the Need's stamp.
func (l *Worker) seizeForeignStamp(place uint32, need int32, k *state.Kind) {
	l.p.Lines[need].Status |= state.HasForeignStamp
	if place < l.Crediting.creatingFrom {
		l.noteForeignStamp(&l.Crediting.bound[place], need)
	}
	l.seize(place, need, k)
}

// mayTakeHeld reports whether an Idle machine is held for the Need at work that it may acquire and that
// helps.
func (l *Worker) mayTakeHeld(need int32, k *state.Kind) bool {
	if l.p.Lines[need].Status&state.SitsOut != 0 {
		return false
	}
	return slices.ContainsFunc(l.p.Reserved.Of(need), func(r columnar.Row) bool { return l.CanTakeHeld(r, need, k) })
}

// letGo releases all that the Need at work has been credited in this turn. A Need of lower rank that had
// one of the machines may not get it again.
func (l *Worker) letGo(need int32) {
	for _, place := range l.Crediting.seized {
		b := &l.Crediting.bound[place]
		l.p.Claims.Release(b.Row)
		l.release(b.Row, b.Class)
		l.Crediting.lists.listed[b.Class>>6] &^= 1 << (b.Class & 63) // the lists of its class have passed it
	}
	n := &l.p.Lines[need]
	l.Crediting.seized = l.Crediting.seized[:0]
	n.Empty()
	n.Status &^= state.HasForeignStamp
	l.Crediting.ForeignStamps = l.Crediting.ForeignStamps[:l.Crediting.foreignStampsBefore]
}

// foreignStampsRoom is the initial capacity of Crediting.ForeignStamps.
const foreignStampsRoom = 1 << 11

// foreignStamp is a bound machine that was credited to a Need whose stamp it does not carry; named is
// the row after which outputs name that Need.
type foreignStamp struct {
	Row         columnar.Row
	need, Named int32
}

// noteForeignStamp notes a bound machine that carries another stamp than the Need that claims it.
func (l *Worker) noteForeignStamp(b *snapshot.Bound, need int32) {
	if l.Crediting.ForeignStamps == nil {
		l.Crediting.ForeignStamps = make([]foreignStamp, 0, foreignStampsRoom)
	}
	l.Crediting.ForeignStamps = append(l.Crediting.ForeignStamps, foreignStamp{b.Row, need, l.p.NumberOfNeed(need)})
}

// rankCluster lists the Needs of a cluster in rank order, in Crediting.needs. The list is memoized for as
// long as the order stays; was reports whether it is that of the last cycle.
func (l *Worker) rankCluster(c int) (was bool) {
	src := &l.p.Sources[c]
	if src.Block == nil {
		l.Crediting.needs = nil
		return true
	}
	l.Crediting.needs = l.p.ByCluster[src.Base:][:src.Block.Len()]
	if n := l.p.Sorted[c]; n > 0 {
		l.Crediting.needs = l.Crediting.needs[:n]
		return true
	}
	l.sortCluster(src)
	l.p.Sorted[c] = int32(len(l.Crediting.needs))
	return false
}

func (l *Worker) sortCluster(src *state.Source) {
	l.Crediting.needs, l.Crediting.Words = l.Crediting.needs[:0], l.Crediting.Words[:0]
	lines := l.p.Lines[src.Base:][:src.Block.Len()]
	ranks := l.p.RankOf[src.Base:][:len(lines)]
	for i := range lines {
		if !lines[i].Is(state.IsMember) {
			l.Crediting.Words = append(l.Crediting.Words, uint64(ranks[i])<<32|uint64(src.Base)+uint64(i))
		}
	}
	slices.Sort(l.Crediting.Words)
	for _, w := range l.Crediting.Words {
		l.Crediting.needs = append(l.Crediting.needs, int32(uint32(w)))
	}
}

// SettleForeignStamps drops, for all workers, the machines with a foreign stamp that another Need has claimed since.
func (p *Pass) SettleForeignStamps() { p.Crew.Run(p.st.tasks.adopted) }

// keepAdopted drops the machines with a foreign stamp that another Need has claimed since.
func (l *Worker) keepAdopted() {
	l.Crediting.ForeignStamps = slices.DeleteFunc(l.Crediting.ForeignStamps, func(x foreignStamp) bool { return l.p.Claims.Of(x.Row) != x.need })
}
