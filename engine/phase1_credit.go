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
// them by what is free there. It waits for its turn in the walk in rank order,
// and so do those below it in its cluster that could be credited what it may
// take.

// ownChains finds a need's own machines: those of its cluster that carry its
// stamp. It is a hash table of chained places in the cluster's list, each 1 more;
// a chain is of the stamps that share a bucket, in the order of the credit walk.
// It serves one cluster at a time.
type ownChains struct {
	heads []uint32 // by bucket: where what is not gone for all ranks begins
	next  []uint32 // by place: the next place of the chain
	shift uint8
	used  bool
}

// index chains the stamped machines of a cluster.
func (x *ownChains) index(bound []snapshot.Bound) {
	logSize := bits.Len(uint(len(bound) | 1))
	x.heads, x.next = resize(x.heads, 1<<logSize), grown(x.next, len(bound))
	x.shift = uint8(64 - logSize)
	x.used = false
	for i := len(bound) - 1; i >= 0; i-- {
		b := &bound[i]
		if b.Fingerprint == 0 {
			continue
		}
		x.used = true
		head := x.bucket(b.Fingerprint, b.Group)
		x.next[i], *head = *head, uint32(i)+1
	}
}

// bucket returns where the chain begins that has the machines of a stamp.
func (x *ownChains) bucket(fingerprint uint64, group uint32) *uint32 {
	hi, lo := bits.Mul64(fingerprint^uint64(group)*0xd6e8feb86659fd93, 0xa0761d6478bd642f)
	return &x.heads[(hi^lo)>>x.shift]
}

// openCluster makes a cluster the one whose needs are credited.
func (l *lane) openCluster(c int) {
	l.bound, l.configured = l.s.BoundOf(c), uint32(l.s.Configured(c))
	l.heads, l.live = grown(l.heads, len(l.s.Classes)), resize(l.live, (len(l.s.Classes)+63)/64)
	for _, g := range l.s.GroupsOf(c) {
		l.heads[g.Class] = g.First + 1
		l.live[g.Class>>6] |= 1 << (g.Class & 63)
	}
	l.creates = l.s.CreatingFrom(c) < len(l.bound)
}

// creditCluster credits the needs of a cluster in rank order.
func (l *lane) creditCluster(c int) {
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
		l.replay.listUnclaimed(len(l.bound))
		l.own.index(l.bound)
		l.readAhead(&l.sources[c])
		for _, need := range l.needs {
			l.creditNeed(x, need)
		}
		l.noteAll(c)
		l.listSpares(c)
		l.replay.listed = false
	}
	x.satisfied = int32(l.satisfied - was)
	l.satisfied = was
}

// creditNeed credits one need, or lets it wait for its turn: when its choice of
// a domain depends on what is free, or it could be credited what one that waits
// may take.
func (l *lane) creditNeed(x *clusterState, need int32) {
	l.credited++
	k := l.kindOf(need)
	if x.blocks(k) || k.same && !l.settleDomain(need, k) {
		l.letWait(x, need, k)
		return
	}
	if k.same && l.lines[need].domain == 0 {
		l.leave(need) // nothing here for it: it chooses by what is free
		return
	}
	if !l.creates && !meet(l.live, k.accepts) {
		l.leave(need)
		return
	}
	l.start(need)
	l.credit(need, k)
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
func (l *lane) letWait(x *clusterState, need int32, k *kind) {
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
func (l *lane) readAhead(src *rowSource) {
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
func (l *lane) leaveAll(c int) {
	src := &l.sources[c]
	if src.block == nil {
		return
	}
	for i := range l.lines[src.base:][:src.block.Len()] {
		need := src.base + int32(i)
		if l.lines[need].is(isMember) {
			continue
		}
		if k := l.kindOf(need); l.lines[need].is(mayBeVoid) {
			l.letWait(&l.e.store.clusters[c], need, k)
			continue
		} else if k.same {
			l.pin(need, k)
		}
		l.lacking[l.rankOf[need]] = false
		l.leave(need)
	}
}

// leave leaves a need that lacks something to the second half of the phase.
func (l *lane) leave(need int32) {
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
func (l *lane) mark(need int32) { l.lacking[l.rankOf[need]] = true }

// credit claims what counts for the need: its own machines over the whole walk
// first, then the others of the cluster.
func (l *lane) credit(need int32, k *kind) {
	l.creditOwn(need, k)
	l.creditOthers(need, k)
}

func (l *lane) creditOwn(need int32, k *kind) {
	if !l.own.used {
		return
	}
	group := l.groupOf(need)
	head := l.own.bucket(k.fingerprint, group)
	for *head != 0 && l.gone(*head-1) {
		*head = l.own.next[*head-1]
	}
	for at := *head; at != 0 && l.lacks != 0; at = l.own.next[at-1] {
		b := &l.bound[at-1]
		if b.Fingerprint != k.fingerprint || b.Group != group {
			continue // it shares the bucket
		}
		l.probes++
		if !l.gone(at-1) && l.classMask[b.Class]&l.lacks != 0 && k.acceptsClass(b.Class) && l.inDomain(b.Row, need) {
			l.seize(at-1, need)
		}
	}
}

// creditOthers claims the cluster's first machines, whatever their stamps, that
// have something of what the need lacks. Machines of one class mostly stand
// together, so it takes from one class for as long as no other comes before.
func (l *lane) creditOthers(need int32, k *kind) {
	if l.lacks == 0 {
		return
	}
	heads := l.heads
	if k.same { // where those of one domain begin is for this need alone
		l.inside = append(l.inside[:0], heads...)
		heads = l.inside
	}
	for l.lacks != 0 {
		class, end := l.firstClass(heads, need, k)
		if end == 0 {
			break
		}
		l.lines[need].status |= hasStranger
		for heads[class] != 0 && heads[class] < end && l.lacks&l.classMask[class] != 0 {
			place := heads[class] - 1
			if place < l.configured {
				l.noteStranger(&l.bound[place], need, k)
			}
			l.seize(place, need)
			heads[class] = l.nextSuiting(l.bound[place].Next, need, k)
		}
	}
	for i, live := range l.live { // a machine of each
		l.probes += int64(bits.OnesCount64(live & k.accepts[i]))
	}
}

// firstClass returns the class whose next machine comes first, of those that
// help, and 1 + the place from which on another may come before; 0 when there is
// none. What was gone for a higher rank is gone for a lower, so each class is gone
// on with from where it was left.
func (l *lane) firstClass(heads []uint32, need int32, k *kind) (best, end uint32) {
	first := ^uint32(0)
	for i, live := range l.live {
		for left := live & k.accepts[i]; left != 0; left &= left - 1 {
			class := uint32(i<<6 + bits.TrailingZeros64(left))
			if l.classMask[class]&l.lacks == 0 {
				continue
			}
			at := l.nextSuiting(heads[class], need, k)
			heads[class] = at
			switch {
			case at == 0:
				if !k.same {
					l.live[i] &^= left & -left
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

// nextSuiting returns the first from a place of a class's chain on, each 1 more,
// that nobody claims and that lies in the need's domain; 0 when there is none.
func (l *lane) nextSuiting(at uint32, need int32, k *kind) uint32 {
	for at != 0 && (l.gone(at-1) || k.same && !l.inDomain(l.bound[at-1].Row, need)) {
		at = l.bound[at-1].Next
	}
	return at
}

// strangersFirst is for how many machines there is room at first.
const strangersFirst = 1 << 11

// stranger is a Configured machine that was credited to a need whose stamp it
// does not carry.
type stranger struct {
	row         columnar.Row
	need, named int32
}

// noteStranger notes a Configured machine if it is a stranger to the need that
// claims it.
func (l *lane) noteStranger(b *snapshot.Bound, need int32, k *kind) {
	if b.Fingerprint == k.fingerprint && b.Group == l.groupOf(need) {
		return
	}
	if l.strangers == nil {
		l.strangers = make([]stranger, 0, strangersFirst)
	}
	l.strangers = append(l.strangers, stranger{b.Row, need, l.named(need)})
}

// rankCluster lists the needs of a cluster in rank order. The list is kept for
// as long as the order is.
func (l *lane) rankCluster(c int) {
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

func (l *lane) sortCluster(src *rowSource) {
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
