package engine

import (
	"github.com/tonnage/tonnage/alloc"
)

// Needs whose credit waits for their turn are credited what the others of their
// cluster have left. That is little: it is listed at the end of the credit, or when
// the first of them has its turn, so that these needs look at a few machines, not at
// all that are bound to the cluster.

// unlisted is the number of spare machines of a cluster before they are listed.
const unlisted int32 = -1

// makeRoomForSpares makes room for the lists.
func (p *pass) makeRoomForSpares() {
	p.spare = alloc.MakeDirty[uint32](p.e.arena, len(p.s.Bound))
	p.spares = alloc.MakeDirty[int32](p.e.arena, len(p.s.Clusters))
	for c := range p.spares {
		p.spares[c] = unlisted
	}
}

// listSpares lists what is left of the open cluster, if anybody waits for it. Who
// claims what is at hand in replay.owner.
func (l *lane) listSpares(c int) {
	x := &l.e.store.clusters[c]
	if len(x.uncredited) == 0 {
		return
	}
	left := l.spare[l.s.ClusterRows.Off[c]:][:0]
	for i, owner := range l.replay.owner {
		if owner < nobodysNow {
			continue
		}
		if class := l.bound[i].Class; x.waiting[class>>6]>>(class&63)&1 != 0 {
			left = append(left, uint32(i))
		}
	}
	l.spares[c] = int32(len(left))
}

// openSpares makes a cluster the one whose needs are credited what is left there.
func (l *lane) openSpares(c int) {
	l.bound, l.configured = l.s.BoundOf(c), uint32(l.s.Configured(c))
	l.left = l.spare[l.s.ClusterRows.Off[c]:]
	if n := l.spares[c]; n != unlisted {
		l.left = l.left[:n]
		return
	}
	l.left = l.left[:0]
	waiting := l.e.store.clusters[c].waiting
	for i := range l.bound {
		if b := &l.bound[i]; waiting[b.Class>>6]>>(b.Class&63)&1 != 0 && !l.claimed(b.Row) {
			l.left = append(l.left, uint32(i))
		}
	}
	l.spares[c] = int32(len(l.left))
}

// catchUp credits a need whose credit had to wait for its turn, and lets it
// acquire.
func (l *lane) catchUp(need int32, k *kind) {
	n := &l.lines[need]
	l.openSpares(int(n.cluster))
	l.start(need)
	if !k.same || l.pin(need, k) || l.chooseDomain(need, k) {
		l.creditLeft(need, k, true)
		l.creditLeft(need, k, false)
		l.spares[n.cluster] = int32(len(l.left))
		if n.status&sitsOut == 0 {
			l.acquire(need, k)
		}
	}
	l.voidTaken(need)
	l.finishTurn(need)
}

// creditLeft claims machines that are left, as they stand in the cluster's list:
// those that carry the need's stamp, or the others.
func (l *lane) creditLeft(need int32, k *kind, own bool) {
	group, creating := l.groupOf(need), uint32(l.s.CreatingFrom(int(l.lines[need].cluster)))
	left := l.left[:0]
	for i, place := range l.left {
		if l.lacks == 0 {
			left = append(left, l.left[i:]...)
			break
		}
		b := &l.bound[place]
		if own != (b.Fingerprint == k.fingerprint && b.Group == group) || !own && place >= creating ||
			l.classMask[b.Class]&l.lacks == 0 || !k.acceptsClass(b.Class) || !l.inDomain(b.Row, need) {
			left = append(left, place)
			continue
		}
		l.probes++
		if !own {
			l.noteStranger(place, need, k)
		}
		l.claim(b.Row, b.Class, need)
	}
	l.left = left
}

// sumLeft adds what is left that the need could be credited, by domain.
func (l *lane) sumLeft(need int32, k *kind) {
	group, creating := l.groupOf(need), uint32(l.s.CreatingFrom(int(l.lines[need].cluster)))
	for _, place := range l.left {
		b := &l.bound[place]
		own := b.Fingerprint == k.fingerprint && b.Group == group
		if k.acceptsClass(b.Class) && (own || place < creating) {
			l.probes++
			l.addCreditable(b.Row, k, own)
		}
	}
}
