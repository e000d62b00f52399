package engine

import (
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/columnar"
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
// accept.

// openCluster makes a cluster the one at work.
func (l *worker) openCluster(c int) {
	l.crediting.bound = l.p.s.BoundOf(c)
	l.crediting.heads, l.crediting.live = reuse.Grown(l.crediting.heads, len(l.p.s.Classes)), reuse.Resize(l.crediting.live, (len(l.p.s.Classes)+63)/64)
	for _, g := range l.p.s.GroupsOf(c) {
		l.crediting.heads[g.Class] = g.First + 1
		l.crediting.live[g.Class>>6] |= 1 << (g.Class & 63)
	}
	l.crediting.creatingFrom = uint32(l.p.s.CreatingFrom(c))
	l.crediting.stamps.index(l.crediting.bound)
	l.sharing.shared.reset()
	l.crediting.lists.begin(len(l.p.s.Classes), len(l.crediting.bound))
}

// creditNeed credits one Need, given 1 + the entry of its stamp. It lets the Need wait for its turn
// when its choice of a domain depends on what is free, when a waiting Need could claim a class that
// this one accepts, or when an Idle machine that is held for it comes before machines of lower ranks.
func (l *worker) creditNeed(x *clusterState, need int32, stamp uint32, k *state.Kind) {
	l.figures.credited++
	l.crediting.seized, l.crediting.foreignStampsBefore = l.crediting.seized[:0], len(l.crediting.foreignStamps)
	if x.blocks(k) || k.Same && !l.settleDomain(need, k) {
		l.p.letWait(x, need, k)
		return
	}
	if k.Same && l.p.lines[need].Domain == 0 {
		l.leave(need) // nothing bound fits: the Need chooses its domain by what is free
		return
	}
	if l.hasHeldWithTwins(need, k) {
		l.p.letWait(x, need, k)
		return
	}
	if stamp == 0 && int(l.crediting.creatingFrom) == len(l.crediting.bound) && !l.listFor(k) {
		l.leave(need)
		return
	}
	l.start(need)
	l.creditOwn(need, stamp, k)
	if l.lacks != 0 {
		l.listFor(k)
		l.creditUnowned(need, k)
		l.creditCreated(need, k)
	}
	if l.lacks != 0 && l.mayTakeHeld(need, k) && l.hasLower(need, k) {
		l.letGo(need)
		l.p.letWait(x, need, k)
		return
	}
	if !l.p.lines[need].Is(state.IsParked) || l.lowerCovers(need, k) {
		l.creditLower(need, k)
	}
	l.finish(need)
	if l.lacks != 0 {
		l.leave(need)
	}
}

// blocks reports whether a waiting Need of the cluster accepts a class that the kind accepts: one test
// of two bitmaps.
func (x *clusterState) blocks(k *state.Kind) bool {
	for i, w := range x.waiting {
		if w&k.Accepts[i] != 0 {
			return true
		}
	}
	return false
}

// letWait postpones a Need's credit to its turn.
func (nt *needTable) letWait(x *clusterState, need int32, k *state.Kind) {
	x.wait(need, nt.lines[need].Kind, k)
	nt.lines[need].Status |= state.IsUncredited
	nt.mark(need)
}

// waitForNone empties the list of Needs whose credit waits.
func (x *clusterState) waitForNone() {
	x.waiting, x.uncredited, x.waitKinds = x.waiting[:0], x.uncredited[:0], x.waitKinds[:0]
}

// wait adds a Need to the list of those whose credit waits, and its classes to the set that blocks
// tests.
func (x *clusterState) wait(need int32, kind uint32, k *state.Kind) {
	x.uncredited = append(x.uncredited, need)
	if !slices.Contains(x.waitKinds, kind) {
		x.waitKinds = append(x.waitKinds, kind)
	}
	if len(x.waiting) == 0 {
		x.waiting = append(x.waiting, k.Accepts...)
		return
	}
	for i, w := range k.Accepts {
		x.waiting[i] |= w
	}
}

// readAhead prefetches a cluster's lines, their ranks and the numbers of their aggregates, sequentially: one read
// per cache line. The credit visits them in rank order, which the hardware prefetcher cannot predict.
func (l *worker) readAhead(src *state.Source) {
	if src.Block == nil {
		return
	}
	lines := l.p.lines[src.Base:][:src.Rows]
	for i := 0; i < len(lines); i += 2 {
		l.acquiring.reads += uint64(lines[i].Status)
	}
	aggregates, ranks := l.p.aggregates[src.Base:][:src.Rows], l.p.rankOf[src.Base:][:src.Rows]
	for i := 0; i < len(aggregates); i += 16 {
		l.acquiring.reads += uint64(aggregates[i]) + uint64(ranks[i])
	}
}

// leaveAll leaves all Needs of a cluster without machines to the acquisition. Their order does not
// matter.
func (l *worker) leaveAll(c int) {
	src := &l.p.sources[c]
	if src.Block == nil {
		return
	}
	for i := range l.p.lines[src.Base:][:src.Block.Len()] {
		need := src.Base + int32(i)
		if l.p.lines[need].Is(state.IsMember) {
			continue
		}
		if k := l.p.kindOf(need); k.Same && l.p.reserved.Has(need) || l.hasHeldWithTwins(need, k) {
			l.p.letWait(&l.p.e.store.clusters[c], need, k)
			continue
		}
		l.p.lacking[l.p.rankOf[need]] = false
		l.leave(need)
	}
}

// leave leaves a Need to the acquisition, or marks it as satisfied if it wants nothing.
func (l *worker) leave(need int32) {
	n := &l.p.lines[need]
	k := &l.p.kinds[n.Kind]
	if k.Mask == 0 && (n.Domain != 0 || !k.Same || !k.MayAcquire) {
		n.Status = n.Status&^state.IsUncoverable | state.IsSatisfied // it wants nothing
		l.figures.satisfied += l.p.weight(n)
		return
	}
	l.p.mark(need)
}

// mark notes that a Need still lacks something after credit.
func (nt *needTable) mark(need int32) { nt.lacking[nt.rankOf[need]] = true }

// creditOwn claims machines that carry the Need's stamp. stamp is 1 + the entry of that stamp, 0 =
// none.
func (l *worker) creditOwn(need int32, stamp uint32, k *state.Kind) {
	if stamp == 0 {
		return
	}
	x := &l.crediting.stamps
	e := &x.entries[stamp-1]
	for e.first != 0 && l.gone(e.first-1) {
		e.first = x.next[e.first-1]
	}
	if l.sharesOwn(e) {
		l.creditShared(need, e, k)
		return
	}
	for at := e.first; at != 0 && l.lacks != 0; at = x.next[at-1] {
		b := &l.crediting.bound[at-1]
		l.figures.probes++
		if !l.gone(at-1) && l.p.classMask[b.Class]&l.lacks != 0 && k.AcceptsClass(b.Class) && l.p.inDomain(b.Row, need) {
			l.seize(at-1, need, k)
		}
	}
}

// creditUnowned claims machines that belong, by their stamps, to no Need of lower rank, in the order of
// the cluster's list. Runs of that list are mostly of one class, so it takes from one class until the
// head of another class comes first.
func (l *worker) creditUnowned(need int32, k *state.Kind) {
	x := &l.crediting.lists
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
				l.figures.probes++
			}
		}
	}
	for l.lacks != 0 {
		class, end := l.firstUnowned(heads, need, k)
		if end == 0 {
			break
		}
		for heads[class] != 0 && heads[class] < end && l.lacks&l.p.classMask[class] != 0 {
			place := heads[class] - 1
			l.seizeForeignStamp(place, need, k)
			heads[class] = l.nextSuiting(x.chain[place], need, k)
		}
	}
}

// creditCreated claims machines that are being created for members of the fold that the Need is, unless
// they belong by their stamps to a Need of lower rank.
func (l *worker) creditCreated(need int32, k *state.Kind) {
	if !l.p.lines[need].Is(state.IsFold) {
		return
	}
	for at := l.crediting.creatingFrom; int(at) < len(l.crediting.bound) && l.lacks != 0; at++ {
		if l.ownerAt(at) <= l.crediting.work.rank && l.suitsCreated(at, need, k) {
			l.p.lines[need].Status |= state.HasForeignStamp
			l.seize(at, need, k)
		}
	}
}

// suitsCreated reports whether a machine that is being created is unclaimed, helps the fold at work,
// and is created for one of the fold's members.
func (l *worker) suitsCreated(place uint32, need int32, k *state.Kind) bool {
	b := &l.crediting.bound[place]
	return !l.gone(place) && l.p.classMask[b.Class]&l.lacks != 0 && k.AcceptsClass(b.Class) && l.p.isCreatedFor(b.Row, need)
}

// firstUnowned returns the class, of those that help, whose next unowned machine has the smallest
// place. end is 1 + the place at which another class may come first; 0 when no machine is left. A
// machine that is gone for a higher rank is gone for every lower one, so the search resumes at each
// class's head.
func (l *worker) firstUnowned(heads []uint32, need int32, k *state.Kind) (best, end uint32) {
	first := ^uint32(0)
	for i, live := range l.crediting.lists.anyOf {
		for left := live & k.Accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			if l.p.classMask[class]&l.lacks == 0 {
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
func (l *worker) nextSuiting(at uint32, need int32, k *state.Kind) uint32 {
	for at != 0 && (l.gone(at-1) || k.Same && !l.p.inDomain(l.crediting.bound[at-1].Row, need)) {
		at = l.crediting.lists.chain[at-1]
	}
	return at
}

// creditLower claims machines that belong, by their stamps, to Needs of lower rank: those of the lowest
// first.
func (l *worker) creditLower(need int32, k *state.Kind) {
	for l.lacks != 0 {
		at := l.firstLower(need, k)
		if at == 0 {
			return
		}
		l.seizeForeignStamp(at-1, need, k)
	}
}

// lowerCovers reports whether what creditLower would claim covers all that the Need at work lacks. A
// parked Need takes nothing otherwise: it would still be short, and Needs of lower rank would be, too.
func (l *worker) lowerCovers(need int32, k *state.Kind) bool {
	if l.lacks == 0 || !l.hasLower(need, k) {
		return false
	}
	l.sharing.uncovered = append(l.sharing.uncovered[:0], l.missing...)
	x := &l.crediting.lists
	for i, live := range x.anyOf {
		for left := live & k.Accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			for _, w := range x.words[x.from[class]:x.to[class]] {
				if place := uint32(w); !l.gone(place) && (!k.Same || l.p.inDomain(l.crediting.bound[place].Row, need)) && !(k.Leaves && l.leavesToEqual(need, rankOfWord(w), place, k)) {
					columnar.SubClamp(l.sharing.uncovered, l.p.vector(class))
				}
			}
		}
	}
	if l.p.lines[need].Is(state.IsFold) {
		for place := l.crediting.creatingFrom; int(place) < len(l.crediting.bound); place++ {
			if l.ownerAt(place) > l.crediting.work.rank && l.suitsCreated(place, need, k) {
				columnar.SubClamp(l.sharing.uncovered, l.p.vector(l.crediting.bound[place].Class))
			}
		}
	}
	return columnar.IsZero(l.sharing.uncovered)
}

// hasLower reports whether creditLower would claim anything.
func (l *worker) hasLower(need int32, k *state.Kind) bool { return l.firstLower(need, k) != 0 }

// firstLower returns 1 + the place of the machine that creditLower claims next; 0 when none is left.
func (l *worker) firstLower(need int32, k *state.Kind) uint32 {
	best, lowest := uint32(0), int32(0)
	for i, live := range l.crediting.lists.anyOf {
		for left := live & k.Accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			l.figures.probes++
			if l.p.classMask[class]&l.lacks == 0 {
				continue
			}
			if at, rank := l.nextOfLower(class, need, k); at != 0 && (best == 0 || rank > lowest || rank == lowest && at < best) {
				best, lowest = at, rank
			}
		}
	}
	if !l.p.lines[need].Is(state.IsFold) {
		return best
	}
	for place := l.crediting.creatingFrom; int(place) < len(l.crediting.bound); place++ {
		rank := l.ownerAt(place)
		if rank > l.crediting.work.rank && l.suitsCreated(place, need, k) && (best == 0 || rank > lowest) {
			best, lowest = place+1, rank
		}
	}
	return best
}

// nextOfLower returns 1 + the place of the first unclaimed machine of a class that belongs to a Need of
// lower rank and lies in the Need's domain, and the rank of its owner; 0 when there is none. mergeClass
// has taken out those of other owners.
func (l *worker) nextOfLower(class uint32, need int32, k *state.Kind) (at uint32, owner int32) {
	x := &l.crediting.lists
	for x.from[class] < x.to[class] && l.gone(uint32(x.words[x.from[class]])) { // gone for every Need that comes after, too
		x.from[class]++
	}
	if x.from[class] == x.to[class] && x.unowned[class] == 0 {
		x.anyOf[class>>6] &^= 1 << (class & 63)
	}
	for i, w := range x.words[x.from[class]:x.to[class]] {
		if place := uint32(w); (i == 0 || !l.gone(place)) && (!k.Same || l.p.inDomain(l.crediting.bound[place].Row, need)) {
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
func (l *worker) leavesToEqual(need, rank int32, place uint32, k *state.Kind) bool {
	if b := &l.crediting.bound[place]; !l.p.leavesTo(k, &l.p.kinds[l.p.kindAt[rank]], b.Class, b.Row) {
		return false
	}
	l.p.lines[need].Status |= state.LeavesToEqual
	return true
}

// leavesTo reports whether Needs of a kind leave a machine to its owner of lower rank, which can use it.
func (p *pass) leavesTo(k, owner *state.Kind, class uint32, r columnar.Row) bool {
	return k.LeavesTo(owner, p.classMask[class]) && owner.AcceptsClass(class) && (!owner.Same || p.inAnyDomain(owner.Matcher, r))
}

// seizeForeignStamp claims a machine that does not carry the Need's stamp.
func (l *worker) seizeForeignStamp(place uint32, need int32, k *state.Kind) {
	l.p.lines[need].Status |= state.HasForeignStamp
	if place < l.crediting.creatingFrom {
		l.noteForeignStamp(&l.crediting.bound[place], need)
	}
	l.seize(place, need, k)
}

// mayTakeHeld reports whether an Idle machine is held for the Need at work that it may acquire and that
// helps.
func (l *worker) mayTakeHeld(need int32, k *state.Kind) bool {
	if l.p.lines[need].Status&state.SitsOut != 0 {
		return false
	}
	return slices.ContainsFunc(l.p.reserved.Of(need), func(r columnar.Row) bool { return l.canTakeHeld(r, need, k) })
}

// letGo releases all that the Need at work has been credited in this turn. A Need of lower rank that had
// one of the machines may not get it again.
func (l *worker) letGo(need int32) {
	for _, place := range l.crediting.seized {
		b := &l.crediting.bound[place]
		l.p.claims.Release(b.Row)
		l.release(b.Row, b.Class)
	}
	n := &l.p.lines[need]
	l.crediting.seized = l.crediting.seized[:0]
	n.Empty()
	n.Status &^= state.HasForeignStamp
	l.crediting.foreignStamps = l.crediting.foreignStamps[:l.crediting.foreignStampsBefore]
}

// foreignStampsRoom is the initial capacity of worker.foreignStamps.
const foreignStampsRoom = 1 << 11

// foreignStamp is a bound machine that was credited to a Need whose stamp it does not carry; named is
// the row after which outputs name that Need.
type foreignStamp struct {
	row         columnar.Row
	need, named int32
}

// noteForeignStamp notes a bound machine that carries another stamp than the Need that claims it.
func (l *worker) noteForeignStamp(b *snapshot.Bound, need int32) {
	if l.crediting.foreignStamps == nil {
		l.crediting.foreignStamps = make([]foreignStamp, 0, foreignStampsRoom)
	}
	l.crediting.foreignStamps = append(l.crediting.foreignStamps, foreignStamp{b.Row, need, l.p.named(need)})
}

// rankCluster lists the Needs of a cluster in rank order, in worker.needs. The list is memoized for as
// long as the order stays; was reports whether it is that of the last cycle.
func (l *worker) rankCluster(c int) (was bool) {
	src := &l.p.sources[c]
	if src.Block == nil {
		l.crediting.needs = nil
		return true
	}
	l.crediting.needs = l.p.byCluster[src.Base:][:src.Block.Len()]
	if n := l.p.sorted[c]; n > 0 {
		l.crediting.needs = l.crediting.needs[:n]
		return true
	}
	l.sortCluster(src)
	l.p.sorted[c] = int32(len(l.crediting.needs))
	return false
}

func (l *worker) sortCluster(src *state.Source) {
	l.crediting.needs, l.crediting.words = l.crediting.needs[:0], l.crediting.words[:0]
	lines := l.p.lines[src.Base:][:src.Block.Len()]
	ranks := l.p.rankOf[src.Base:][:len(lines)]
	for i := range lines {
		if !lines[i].Is(state.IsMember) {
			l.crediting.words = append(l.crediting.words, uint64(ranks[i])<<32|uint64(src.Base)+uint64(i))
		}
	}
	slices.Sort(l.crediting.words)
	for _, w := range l.crediting.words {
		l.crediting.needs = append(l.crediting.needs, int32(uint32(w)))
	}
}
