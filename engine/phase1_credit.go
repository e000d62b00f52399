package engine

import (
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Credit is the first half of phase 1: a need claims what is bound to its
// cluster already. Nobody outside the cluster has a say in that, so clusters
// are credited one by one, by any worker. One thing reaches across: a Same-Need
// that has machines in several domains, none of which covers it, chooses among
// them by what is free there; and what is Idle and held for a need comes before
// what lower needs of its cluster have. Such a need waits for its turn in the walk in
// rank order, and so do those below it in its cluster that could be credited what it
// may take.

// openCluster makes a cluster the one whose needs are credited.
func (l *worker) openCluster(c int) {
	l.bound = l.s.BoundOf(c)
	l.heads, l.live = grown(l.heads, len(l.s.Classes)), resize(l.live, (len(l.s.Classes)+63)/64)
	for _, g := range l.s.GroupsOf(c) {
		l.heads[g.Class] = g.First + 1
		l.live[g.Class>>6] |= 1 << (g.Class & 63)
	}
	l.creatingFrom = uint32(l.s.CreatingFrom(c))
}

// creditCluster credits the needs of a cluster in rank order.
func (l *worker) creditCluster(c int) {
	x := &l.e.store.clusters[c]
	was := l.satisfied
	x.freeless = false
	x.waitForNone()
	if len(l.s.BoundOf(c)) == 0 {
		x.cheapest = x.cheapest[:0]
		l.leaveAll(c)
	} else {
		l.rankCluster(c)
		for _, need := range l.needs {
			l.lacking[l.rankOf[need]] = false
		}
		l.openCluster(c)
		l.findStampOwners(c)
		l.replay.listUnclaimed(len(l.bound))
		l.readAhead(&l.sources[c])
		for i, need := range l.needs {
			l.creditNeed(x, need, l.stampOf[i])
		}
		l.noteAll(c)
		l.listSpares(c)
		l.replay.listed = false
	}
	x.satisfied = int32(l.satisfied - was)
	l.satisfied = was
}

// creditNeed credits one need, given 1 + the entry of its stamp, or lets it wait for
// its turn: when its choice of a domain depends on what is free, when it could be
// credited what one that waits may take, or when something Idle is held for it that
// comes before what needs of lower rank have.
func (l *worker) creditNeed(x *clusterState, need int32, stamp uint32) {
	l.credited++
	l.seized, l.foreignStampsBefore = l.seized[:0], len(l.foreignStamps)
	k := l.kindOf(need)
	if x.blocks(k) || k.same && !l.settleDomain(need, k) {
		l.letWait(x, need, k)
		return
	}
	if k.same && l.lines[need].domain == 0 {
		l.leave(need) // nothing here for it: it chooses by what is free
		return
	}
	if stamp == 0 && int(l.creatingFrom) == len(l.bound) && !meet(l.stamps.unowned.live, k.accepts) && !meet(l.stamps.lower.live, k.accepts) {
		l.leave(need)
		return
	}
	l.start(need)
	l.creditOwn(need, stamp, k)
	l.creditUnowned(need, k)
	l.creditCreated(need, k)
	if l.lacks != 0 && l.mayTakeHeld(need, k) && l.hasLower(need, k) {
		l.letGo(need)
		l.letWait(x, need, k)
		return
	}
	l.creditLower(need, k)
	l.finish(need)
	if l.lacks != 0 {
		l.leave(need)
	}
}

// blocks reports whether a need that waits could be credited machines of a
// class that the kind accepts.
func (x *clusterState) blocks(k *kind) bool {
	for i, w := range x.waiting {
		if w&k.accepts[i] != 0 {
			return true
		}
	}
	return false
}

// letWait lets a need be credited at its turn.
func (l *worker) letWait(x *clusterState, need int32, k *kind) {
	x.wait(need, l.lines[need].kind, k)
	l.lines[need].status |= isUncredited
	l.mark(need)
}

// waitForNone forgets the needs whose credit waits.
func (x *clusterState) waitForNone() {
	x.waiting, x.uncredited, x.waitKinds = x.waiting[:0], x.uncredited[:0], x.waitKinds[:0]
}

// wait notes a need whose credit waits.
func (x *clusterState) wait(need int32, kind uint32, k *kind) {
	x.uncredited = append(x.uncredited, need)
	if !slices.Contains(x.waitKinds, kind) {
		x.waitKinds = append(x.waitKinds, kind)
	}
	if len(x.waiting) == 0 {
		x.waiting = append(x.waiting, k.accepts...)
		return
	}
	for i, w := range k.accepts {
		x.waiting[i] |= w
	}
}

// readAhead reads a cluster's lines, and what they want, as they lie in memory. The
// credit takes them in rank order, which the processor cannot foresee.
func (l *worker) readAhead(src *rowSource) {
	if src.block == nil {
		return
	}
	lines := l.lines[src.base:][:src.rows]
	for i := 0; i < len(lines); i += 2 {
		l.touched += uint64(lines[i].status)
	}
	aggregates := l.aggregates[src.base:][:src.rows]
	for i := 0; i < len(aggregates); i += 16 {
		l.touched += uint64(aggregates[i])
	}
}

// leaveAll leaves the needs of a cluster that has nothing, in any order.
func (l *worker) leaveAll(c int) {
	src := &l.sources[c]
	if src.block == nil {
		return
	}
	for i := range l.lines[src.base:][:src.block.Len()] {
		need := src.base + int32(i)
		if l.lines[need].is(isMember) {
			continue
		}
		if k := l.kindOf(need); k.same && l.reserved.has(need) {
			l.letWait(&l.e.store.clusters[c], need, k)
			continue
		}
		l.lacking[l.rankOf[need]] = false
		l.leave(need)
	}
}

// leave leaves a need that lacks something to the second half of the phase.
func (l *worker) leave(need int32) {
	n := &l.lines[need]
	k := &l.kinds[n.kind]
	if k.mask == 0 && (n.domain != 0 || !k.same || !k.mayAcquire) {
		n.status = n.status&^isUncoverable | isSatisfied // it wants nothing
		l.satisfied += l.weight(n)
		return
	}
	l.mark(need)
}

// mark notes that a need has not got all that it wants.
func (l *worker) mark(need int32) { l.lacking[l.rankOf[need]] = true }

// creditOwn claims the machines that carry the need's stamp, which is the entry that
// is given, 1 more.
func (l *worker) creditOwn(need int32, stamp uint32, k *kind) {
	if stamp == 0 {
		return
	}
	x := &l.stamps
	e := &x.entries[stamp-1]
	for e.first != 0 && l.gone(e.first-1) {
		e.first = x.next[e.first-1]
	}
	for at := e.first; at != 0 && l.lacks != 0; at = x.next[at-1] {
		b := &l.bound[at-1]
		l.probes++
		if !l.gone(at-1) && l.classMask[b.Class]&l.lacks != 0 && k.acceptsClass(b.Class) && l.inDomain(b.Row, need) {
			l.seize(at-1, need)
		}
	}
}

// creditUnowned claims machines that no need ranked below has, by their stamps.
// Machines of one class mostly stand together, so it takes from one class for as long
// as no other comes before.
func (l *worker) creditUnowned(need int32, k *kind) {
	if l.lacks == 0 {
		return
	}
	l.mergeUpTo(l.rankOf[need])
	x := &l.stamps
	heads := x.unowned.heads
	if k.same { // where those of one domain begin is for this need alone
		x.inside = append(x.inside[:0], heads...)
		heads = x.inside
	}
	for l.lacks != 0 {
		class, end := l.firstUnowned(heads, need, k)
		if end == 0 {
			break
		}
		for heads[class] != 0 && heads[class] < end && l.lacks&l.classMask[class] != 0 {
			place := heads[class] - 1
			l.seizeForeignStamp(place, need)
			heads[class] = l.nextSuiting(x.chain[place], need, k)
		}
	}
	for i, live := range x.unowned.live { // a machine of each
		l.probes += int64(bits.OnesCount64(live & k.accepts[i]))
	}
}

// creditCreated claims what is being created for members of the fold that the need is,
// as far as no need ranked below has their stamp.
func (l *worker) creditCreated(need int32, k *kind) {
	if l.lacks == 0 || !l.lines[need].is(isFold) {
		return
	}
	for at := l.creatingFrom; int(at) < len(l.bound) && l.lacks != 0; at++ {
		if !l.stamps.lowerThan(at, l.rankOf[need]) && l.suitsCreated(at, need, k) {
			l.lines[need].status |= hasForeignStamp
			l.seize(at, need)
		}
	}
}

// suitsCreated reports whether a machine that is being created is there for a fold whose
// stamp it does not carry, and is for one of its members.
func (l *worker) suitsCreated(place uint32, need int32, k *kind) bool {
	b := &l.bound[place]
	return !l.gone(place) && l.classMask[b.Class]&l.lacks != 0 && k.acceptsClass(b.Class) && l.isCreatedFor(b.Row, need)
}

// firstUnowned returns the class whose next unowned machine comes first, of those that
// help, and 1 + the place from which on another may come before; 0 when there is
// none. What was gone for a higher rank is gone for a lower, so each class is gone
// on with from where it was left.
func (l *worker) firstUnowned(heads []uint32, need int32, k *kind) (best, end uint32) {
	first := ^uint32(0)
	live := l.stamps.unowned.live
	for i := range live {
		for left := live[i] & k.accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			if l.classMask[class]&l.lacks == 0 {
				continue
			}
			at := l.nextSuiting(heads[class], need, k)
			heads[class] = at
			switch {
			case at == 0:
				if !k.same {
					live[i] &^= left & -left
				}
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

// nextSuiting returns the first from a place of a class's list on, each 1 more,
// that nobody claims and that lies in the need's domain; 0 when there is none.
func (l *worker) nextSuiting(at uint32, need int32, k *kind) uint32 {
	x := &l.stamps
	for at != 0 && (l.gone(at-1) || k.same && !l.inDomain(l.bound[at-1].Row, need)) {
		at = x.chain[at-1]
	}
	return at
}

// creditLower claims machines that needs of lower rank have, by their stamps: those of
// the lowest first.
func (l *worker) creditLower(need int32, k *kind) {
	for l.lacks != 0 {
		at := l.firstLower(need, k)
		if at == 0 {
			return
		}
		l.seizeForeignStamp(at-1, need)
	}
}

// hasLower reports whether creditLower would claim anything.
func (l *worker) hasLower(need int32, k *kind) bool { return l.firstLower(need, k) != 0 }

// firstLower returns the machine that creditLower claims next, 1 + its place; 0 when
// there is none.
func (l *worker) firstLower(need int32, k *kind) uint32 {
	x, rank := &l.stamps, l.rankOf[need]
	best, lowest := uint32(0), int32(0)
	for i, live := range x.lower.live {
		for left := live & k.accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			l.probes++
			if l.classMask[class]&l.lacks == 0 {
				continue
			}
			at := l.nextOfLower(class, need, k)
			if at == 0 {
				continue
			}
			if r := x.entries[x.of[at-1]-1].rank; r > rank && (best == 0 || r > lowest || r == lowest && at < best) {
				best, lowest = at, r
			}
		}
	}
	if !l.lines[need].is(isFold) {
		return best
	}
	for place := l.creatingFrom; int(place) < len(l.bound); place++ {
		if x.lowerThan(place, rank) && l.suitsCreated(place, need, k) {
			if r := x.entries[x.of[place]-1].rank; best == 0 || r > lowest {
				best, lowest = place+1, r
			}
		}
	}
	return best
}

// nextOfLower returns 1 + the place of the first machine of a class that needs ranked
// below have and that is there for the need; 0 when there is none.
func (l *worker) nextOfLower(class uint32, need int32, k *kind) uint32 {
	x, rank := &l.stamps, l.rankOf[need]
	at := x.lower.heads[class]
	for at != 0 && l.gone(at-1) { // for all that come after, too
		at = x.chain[at-1]
	}
	if x.lower.heads[class] = at; at == 0 {
		x.lower.live[class>>6] &^= 1 << (class & 63)
		return 0
	}
	for at != 0 && x.lowerThan(at-1, rank) {
		if !l.gone(at-1) && (!k.same || l.inDomain(l.bound[at-1].Row, need)) {
			return at
		}
		at = x.chain[at-1]
	}
	return 0
}

// seizeForeignStamp claims a machine that does not carry the need's stamp.
func (l *worker) seizeForeignStamp(place uint32, need int32) {
	l.lines[need].status |= hasForeignStamp
	if place < l.creatingFrom {
		l.noteForeignStamp(&l.bound[place], need)
	}
	l.seize(place, need)
}

// mayTakeHeld reports whether something Idle is held for the need that it may acquire
// and that helps.
func (l *worker) mayTakeHeld(need int32, k *kind) bool {
	if l.lines[need].status&sitsOut != 0 {
		return false
	}
	return slices.ContainsFunc(l.reserved.of(need), func(r columnar.Row) bool { return l.canTakeHeld(r, need, k) })
}

// letGo takes back what the need at work has been credited in this turn.
func (l *worker) letGo(need int32) {
	for _, place := range l.seized {
		b := &l.bound[place]
		l.held[b.Row] = hold{need: unheld}
		if l.replay.owner[place] = nobodys; l.replay.on { // whoever ranks below and had it may not have it again
			l.e.store.priority[b.Row] = l.s.View.Priority[b.Row]
			l.replay.touch(b.Class)
			l.release(place)
		}
	}
	n := &l.lines[need]
	n.head, n.tail = columnar.None, columnar.None
	n.status &^= hasForeignStamp
	l.foreignStamps = l.foreignStamps[:l.foreignStampsBefore]
}

// foreignStampsRoom is for how many machines there is room at first.
const foreignStampsRoom = 1 << 11

// foreignStamp is a bound machine that was credited to a need whose stamp it
// does not carry.
type foreignStamp struct {
	row         columnar.Row
	need, named int32
}

// noteForeignStamp notes that a bound machine carries another stamp than that of the need which claims it.
func (l *worker) noteForeignStamp(b *snapshot.Bound, need int32) {
	if l.foreignStamps == nil {
		l.foreignStamps = make([]foreignStamp, 0, foreignStampsRoom)
	}
	l.foreignStamps = append(l.foreignStamps, foreignStamp{b.Row, need, l.named(need)})
}

// rankCluster lists the needs of a cluster in rank order. The list is kept for
// as long as the order is.
func (l *worker) rankCluster(c int) {
	src := &l.sources[c]
	if src.block == nil {
		l.needs = nil
		return
	}
	l.needs = l.byCluster[src.base:][:src.block.Len()]
	if n := l.sorted[c]; n > 0 {
		l.needs = l.needs[:n]
		return
	}
	l.sortCluster(src)
	l.sorted[c] = int32(len(l.needs))
}

func (l *worker) sortCluster(src *rowSource) {
	l.needs, l.words = l.needs[:0], l.words[:0]
	lines := l.lines[src.base:][:src.block.Len()]
	ranks := l.rankOf[src.base:][:len(lines)]
	for i := range lines {
		if !lines[i].is(isMember) {
			l.words = append(l.words, uint64(ranks[i])<<32|uint64(src.base)+uint64(i))
		}
	}
	slices.Sort(l.words)
	for _, w := range l.words {
		l.needs = append(l.needs, int32(uint32(w)))
	}
}
