package engine

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// A plan says which machines have come to serve another need than the one whose stamp
// they carry, and the shard stamps them; see reportAdopted. So in each cycle many
// machines are others by their stamp, and by the place that it gives them in keep order,
// that serve whom they served. To whoever ranks below they are as far away as before.
// Who ranks above could have had them before, and wanted none: only if they are its
// own now, or come before another stranger that it has, is it to be credited again.
// And who serves them is, when it has several: it may come to them in another order.

// restamped is a machine that carries the stamp of the need that has it.
type restamped struct {
	place uint32 // in the cluster's list
	class uint32
	owner int32 // twice the need's rank
}

// restampedMachines are those of the open cluster whose needs have not had their turn.
type restampedMachines struct {
	list    []restamped
	classes []uint64 // of these, a bit each
	stamps  uint64   // a bit for each of these, by hash
	// first is, by such a bit, before which place there is none.
	first [64]uint32
}

func (x *restampedMachines) begin(words int) {
	x.list, x.classes, x.stamps = x.list[:0], resize(x.classes, words), 0
}

// add adds a machine.
func (x *restampedMachines) add(m restamped, b *snapshot.Bound) {
	x.list = append(x.list, m)
	x.classes[m.class>>6] |= 1 << (m.class & 63)
	h := stampHash(b.Fingerprint, b.Group)
	if x.stamps>>h&1 == 0 {
		x.stamps |= 1 << h
		x.first[h] = m.place
	}
	x.first[h] = min(x.first[h], m.place)
}

// passBy forgets the machines of a need whose turn has come, and of those before it.
func (x *restampedMachines) passBy(turn int32) {
	left := x.list[:0]
	clear(x.classes)
	for _, m := range x.list {
		if m.owner > turn {
			left = append(left, m)
			x.classes[m.class>>6] |= 1 << (m.class & 63)
		}
	}
	x.list = left
}

// stampHash returns one of 64 numbers for a stamp.
func stampHash(fingerprint uint64, group uint32) uint64 {
	return (fingerprint ^ uint64(group)*0xd6e8feb86659fd93) >> 58
}

// changeHere notes a machine that remains in the open cluster's list, as another.
func (l *lane) changeHere(m *moved) {
	rp := &l.replay
	rp.shift(m.class) // gangs ask how much is their own, and where
	if l.s.View.State[m.row] != m.was {
		rp.touch(m.class) // it may be preempted only now
	}
	at := l.e.store.place[m.row]
	b, owner := &l.bound[at], rp.owner[at]
	switch owner {
	case nobodysNow:
		return
	case nobodys:
		l.addLoose(append(rp.old[:0], m.row))
		return
	}
	need := l.held[m.row].need
	n := &l.lines[need]
	k := &l.kinds[n.kind]
	if k.same || b.Fingerprint != k.fingerprint || b.Group != l.groupOf(need) {
		l.unlink(m.row, need)
		l.addLoose(append(rp.old[:0], m.row))
		return
	}
	// The only one that it has, and a stranger so far: none of its own was of any use.
	if n.head == n.tail && n.is(hasStranger) {
		n.status &^= hasStranger
	} else {
		n.status |= isStale
	}
	n.status |= isRestamped
	rp.restamped.add(restamped{place: at, class: m.class, owner: owner}, b)
}

// outranks reports whether a need may be credited a restamped machine of one that
// ranks below it.
func (l *lane) outranks(need int32, k *kind) bool {
	rp, n := &l.replay, &l.lines[need]
	x := &rp.restamped
	if len(x.list) == 0 || n.head == columnar.None || !meet(x.classes, k.accepts) {
		return false
	}
	group := l.groupOf(need)
	tail, satisfied := l.e.store.place[n.tail], n.is(isSatisfied)
	if h := stampHash(k.fingerprint, group); !n.is(hasStranger) && (x.stamps>>h&1 == 0 || satisfied && x.first[h] > tail) {
		return false // all that it has is its own, and there is nothing that it would come to before
	}
	turn := 2 * l.rankOf[need]
	last := &l.bound[tail]
	lastOwn := last.Fingerprint == k.fingerprint && last.Group == group
	for _, m := range x.list {
		if m.owner <= turn || rp.owner[m.place] != m.owner || !k.acceptsClass(m.class) {
			continue
		}
		b := &l.bound[m.place]
		own := b.Fingerprint == k.fingerprint && b.Group == group
		if own && !(satisfied && lastOwn) || own == lastOwn && m.place < tail {
			return true
		}
	}
	return false
}
