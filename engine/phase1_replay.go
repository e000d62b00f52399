package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// A cluster of which only some rows and machines changed is credited incrementally: in rank order, but
// only the Needs whose credit may differ from the last cycle. Skipping the others is right for two
// reasons.
//
// A satisfied Need that holds only its own machines keeps them if they are unchanged. The walk of a
// Need begins with its own machines, and the claims of a cycle are the stamps of the next one, so the
// walk would claim the same machines again.
//
// An unsatisfied Need had claimed everything that fits it. It can gain only a loose machine: one that
// came to the cluster, or that another Need released.
//
// Credited again are Needs whose row changed, Needs that claim or claimed a machine that changed, and
// Needs that lose a machine to a higher rank in this replay. At a Need's turn, a machine of the cluster
// that is
//
//	claimed by a higher rank     is gone: that Need has had its turn
//	claimed by a lower rank      is available: in a full credit that Need would not have had its turn yet

// replay is the state of the credit of one cluster. It also serves the full credit, with on unset.
type replay struct {
	on     bool
	listed bool  // owner is valid for the open cluster
	turn   int32 // twice the rank of the Need at work; 0 in a full credit
	// owner says, by place in the cluster's list, which Need claims the machine. It repeats what
	// pass.held says, in one array, since held is scattered over memory. In a replay it is
	//
	//	2·rank      claimed by the Need of that rank in the last cycle
	//	2·rank − 1  claimed by it in this replay
	//	nobodys     unclaimed
	//	nobodysNow  loose: released in this replay, or new in the cluster
	//
	// In a full credit it is −1 − need when claimed, else nobodys. So a machine is gone for the Need at
	// work if and only if owner < turn.
	owner []int32
	// touched is the set of classes of which a machine has another claimant than before. loose is the
	// set of classes of which some machine is nobodysNow, and looseOf counts these machines by class.
	touched, loose []uint64
	looseOf        []int32
	waiting        []uint64       // classes that waiting Needs accepted in the last cycle, as a set
	old            []columnar.Row // what the Need at work claimed before
}

func (x *replay) begin(classes int) {
	x.touched, x.loose = resize(x.touched, (classes+63)/64), resize(x.loose, (classes+63)/64)
	x.looseOf = resize(x.looseOf, classes)
	x.on, x.listed = true, true
}

func (x *replay) touch(class uint32) { x.touched[class>>6] |= 1 << (class & 63) }

// release marks a machine as loose: its claimant released it, or it is new in the cluster. It also
// marks the entry of the machine's stamp as changed, so that the Need with that stamp is credited
// again.
func (l *worker) release(place uint32) {
	x := &l.replay
	if x.owner[place] != nobodysNow {
		class := l.bound[place].Class
		x.owner[place] = nobodysNow
		x.looseOf[class]++
		x.loose[class>>6] |= 1 << (class & 63)
	}
	if at := l.stamps.of[place]; at != 0 {
		l.stamps.entries[at-1].changed = true
	}
}

// fasten notes that a Need has claimed a loose machine of a class.
func (x *replay) fasten(class uint32) {
	if x.looseOf[class]--; x.looseOf[class] == 0 {
		x.loose[class>>6] &^= 1 << (class & 63)
	}
}

// meet reports whether two sets, as bitmaps of equal length, intersect.
func meet(a, b []uint64) bool {
	for i, w := range a {
		if w&b[i] != 0 {
			return true
		}
	}
	return false
}

// partFrom takes the machines that left a cluster away from the Needs that claimed them; anew says that
// the whole cluster is credited anew, so that chains need no repair. A machine that moves from one
// cluster to another is handled at the one that it leaves, so that no two workers write to it.
func (p *pass) partFrom(c int, anew bool) {
	for _, m := range p.movesOf(c) {
		if m.how != left {
			continue
		}
		switch h := p.held[m.row].need; {
		case h == unheld:
		case anew:
			p.held[m.row] = hold{need: unheld}
		default:
			p.unlink(m.row, h)
		}
	}
}

// unlink takes a machine out of a Need's chain and makes the Need stale. O(machines claimed).
func (p *pass) unlink(r columnar.Row, need int32) {
	n := &p.lines[need]
	n.status |= isStale
	last := columnar.None
	for at := n.head; at != r; at = p.held[at].next {
		last = at
	}
	next := p.held[r].next
	if last == columnar.None {
		n.head = next
	} else {
		p.held[last].next = next
	}
	if n.tail == r {
		n.tail = last
	}
	p.held[r] = hold{need: unheld}
}

// findResettled makes a Need stale if something is held for it, now or in the cycle before. A
// reservation may pin the Need's domain, and a held Idle machine comes before machines of lower ranks.
func (p *pass) findResettled() {
	if p.fresh {
		return
	}
	mark := func(need int32) {
		n := &p.lines[need]
		if x := &p.e.store.clusters[n.cluster]; !x.dirty && !n.is(isMember) {
			n.status |= isStale
			x.replay = true
		}
	}
	for _, need := range p.e.store.resettle {
		mark(need)
	}
	for need := range p.reserved.rows {
		mark(need)
	}
}

// A replay that credited more than wholePercent of a cluster's Needs cost more than a full credit.
// After one, the cluster is credited in full the next wholeCycles times that it changes. Tests change
// the percentage.
var wholePercent = 66

const wholeCycles = 15

// replayCluster credits the Needs of a cluster whose credit may differ from the last cycle.
func (l *worker) replayCluster(c int) {
	x, rp := &l.e.store.clusters[c], &l.replay
	was, credited := l.satisfied, l.credited
	rp.begin(len(l.s.Classes))
	rp.waiting = append(rp.waiting[:0], x.waiting...)
	x.waitForNone()
	l.rankCluster(c)
	l.openCluster(c)
	l.findStampOwners(c)
	l.findOwners()
	l.readAhead(&l.sources[c])
	for _, row := range x.changed {
		l.letGoOfChanged(l.needOf(l.sources[c].base + int32(row)))
	}
	moves := l.movesOf(c)
	l.noteMoves(moves)
	for i, need := range l.needs {
		if l.isToBeCredited(x, need, l.stampOf[i]) {
			l.replayNeed(x, need, l.stampOf[i])
		}
	}
	for i := range moves {
		if r := moves[i].row; moves[i].how != left {
			l.e.store.priority[r] = l.priorityOf(r)
		}
	}
	l.findCheapest(c, rp.touched)
	// Where Needs no longer wait, their claims of the last cycle may be gone: a row that waited may
	// have changed. Note the priorities of machines of those classes again, since phase 2 reads them.
	if len(rp.waiting) > 0 && !slices.Equal(rp.waiting, x.waiting) {
		l.notePriorities(c, rp.waiting)
	}
	l.listSpares(c)
	rp.on, rp.listed = false, false
	if (l.credited-credited)*100 > len(l.needs)*wholePercent {
		x.whole = wholeCycles
	}
	x.satisfied += int32(l.satisfied - was)
	l.satisfied = was
}

// letGoOfChanged releases all that a Need with a changed row claims. The Need may have another rank
// now, so that other Needs come before it.
func (l *worker) letGoOfChanged(need int32) {
	rp := &l.replay
	l.letGoAll(need)
	l.lines[need].status |= isStale
	for _, r := range rp.old {
		place := l.e.store.place[r]
		class := l.bound[place].Class
		l.release(place)
		rp.touch(class)
		l.e.store.priority[r] = l.s.View.Priority[r]
	}
}

// noteMoves notes the changed machines of the open cluster. The claimant of such a machine, and the
// Need whose stamp it carries, are credited again.
func (l *worker) noteMoves(moves []moved) {
	rp := &l.replay
	for i := range moves {
		m := &moves[i]
		rp.touch(m.class)
		if m.how == left {
			continue
		}
		if place := l.e.store.place[m.row]; m.how == came {
			l.release(place)
		}
		if need := l.held[m.row].need; need != unheld {
			l.lines[need].status |= isTouched
		}
		if at := l.stamps.of[l.e.store.place[m.row]]; at != 0 {
			l.stamps.entries[at-1].changed = true
		}
	}
}

// isToBeCredited reports whether a Need's credit may differ from the last cycle, given 1 + the entry of
// its stamp.
func (l *worker) isToBeCredited(x *clusterState, need int32, stamp uint32) bool {
	n, rp := &l.lines[need], &l.replay
	if n.is(isStale | isUncredited) {
		return true
	}
	k := l.kindOf(need)
	if len(x.waiting) > 0 && x.blocks(k) {
		return true
	}
	if n.is(isTouched|hasForeignStamp) || stamp != 0 && l.stamps.entries[stamp-1].changed {
		if !n.is(isSatisfied) || !l.keepsOwn(need, stamp, k) {
			return true
		}
		n.status &^= isTouched | hasForeignStamp
	}
	switch {
	case k.same:
		return meet(rp.touched, k.accepts) && (!n.is(isSatisfied) || stamp != 0 && l.hasMore(need, stamp))
	case n.is(isSatisfied):
		return false
	}
	return meet(rp.loose, k.accepts)
}

// keepsOwn reports whether a walk over a Need's own machines, as they are now, claims exactly the
// machines that the Need has. Then it relinks them in the order of the walk, and the Need is not
// credited again. Stamps change in most cycles: a machine that was credited with a foreign stamp
// carries the right one now.
func (l *worker) keepsOwn(need int32, stamp uint32, k *kind) bool {
	if stamp == 0 {
		return k.mask == 0
	}
	x, n := &l.stamps, &l.lines[need]
	l.start(need)
	l.seized = l.seized[:0]
	for at := x.entries[stamp-1].first; at != 0 && l.lacks != 0; at = x.next[at-1] {
		b := &l.bound[at-1]
		if l.classMask[b.Class]&l.lacks == 0 || !k.acceptsClass(b.Class) || !l.inDomain(b.Row, need) {
			continue
		}
		if l.held[b.Row].need != need {
			return false
		}
		l.subtract(b.Class)
		l.seized = append(l.seized, at-1)
	}
	left := len(l.seized)
	for r := n.head; r != columnar.None; r = l.held[r].next {
		left--
	}
	if l.lacks != 0 || left != 0 {
		return false
	}
	n.head, n.tail = columnar.None, columnar.None
	for _, place := range l.seized {
		l.link(l.bound[place].Row, need)
	}
	return true
}

// hasMore reports whether some machine carries a Need's stamp and is not claimed by it. Such a machine
// may lie in another domain, which the Need could choose by what is free there.
func (l *worker) hasMore(need int32, stamp uint32) bool {
	for at := l.stamps.entries[stamp-1].first; at != 0; at = l.stamps.next[at-1] {
		if l.held[l.bound[at-1].Row].need != need {
			return true
		}
	}
	return false
}

// replayNeed credits one Need again and compares the result with its claims of the last cycle.
func (l *worker) replayNeed(x *clusterState, need int32, stamp uint32) {
	n, rp := &l.lines[need], &l.replay
	k := &l.kinds[n.kind]
	rank := l.rankOf[need]
	rp.turn = 2 * rank
	l.letGoAll(need)
	if n.is(isSatisfied) {
		l.satisfied -= l.weight(n)
	}
	n.status &= isParked | isFold | isMember | hasSame | neverFolds | isHeldBack
	if k.same {
		n.status |= isUncoverable
	}
	n.domain, n.acquired = 0, columnar.None
	l.lacking[rank] = false
	l.creditNeed(x, need, stamp)
	l.compare(need, k)
}

// letGoAll releases all that a Need claims, and remembers it in replay.old.
func (l *worker) letGoAll(need int32) {
	n, rp, place := &l.lines[need], &l.replay, l.e.store.place
	rp.old = rp.old[:0]
	for r := n.head; r != columnar.None; {
		next := l.held[r].next
		l.held[r] = hold{need: unheld}
		rp.owner[place[r]] = nobodys // not nobodysNow: the Need itself may claim it again; see compare
		rp.old = append(rp.old, r)
		r = next
	}
	n.head, n.tail = columnar.None, columnar.None
}

// compare notes how the claims of a Need differ from those in replay.old: it releases machines that no
// Need claims now, touches the classes, and updates the priorities by which phase 2 chooses victims.
func (l *worker) compare(need int32, k *kind) {
	rp, place, priority := &l.replay, l.e.store.place, l.e.store.priority
	kept, same := 0, true
	for _, r := range rp.old {
		h := l.held[r].need
		if h == need {
			kept++
			continue
		}
		same = false
		rp.touch(l.bound[place[r]].Class)
		if h == unheld {
			priority[r] = l.s.View.Priority[r]
			l.release(place[r])
		}
	}
	count := 0
	for r := l.lines[need].head; r != columnar.None; r = l.held[r].next {
		count++
	}
	same = same && count == kept
	for r := l.lines[need].head; r != columnar.None; r = l.held[r].next {
		if !same || priority[r] != k.priority {
			priority[r] = k.priority
			rp.touch(l.bound[place[r]].Class)
		}
	}
}

// nobodys and nobodysNow are greater than twice any rank.
const (
	nobodys    = math.MaxInt32
	nobodysNow = nobodys - 1
)

// listUnclaimed prepares owner for a full credit: no machine is claimed.
func (x *replay) listUnclaimed(machines int) {
	x.listed, x.turn = true, 0
	x.owner = grown(x.owner, machines)
	for i := range x.owner {
		x.owner[i] = nobodys
	}
}

// findOwners fills owner, and store.place, with the claims of the last cycle.
func (l *worker) findOwners() {
	rp := &l.replay
	rp.owner = grown(rp.owner, len(l.bound))
	place := l.e.store.place
	for i := range l.bound {
		r := l.bound[i].Row
		rp.owner[i] = l.held[r].need
		place[r] = uint32(i)
	}
	for i, h := range rp.owner {
		rp.owner[i] = nobodys
		if h != unheld {
			rp.owner[i] = 2 * l.rankOf[h]
		}
	}
}

// gone reports whether a machine, by its place in the open cluster, is out of reach of the Need at
// work: a Need that had its turn before has claimed it.
func (l *worker) gone(place uint32) bool {
	if l.replay.listed {
		return l.replay.owner[place] < l.replay.turn
	}
	return l.claimed(l.bound[place].Row)
}

// seize claims a machine of the open cluster for a Need. In a replay it may take the machine from a
// Need of lower rank that still holds it from the last cycle; that Need turns stale.
func (l *worker) seize(place uint32, need int32) {
	r, class := l.bound[place].Row, l.bound[place].Class
	switch {
	case l.replay.on:
		rp := &l.replay
		switch rp.owner[place] {
		case nobodys:
		case nobodysNow:
			rp.fasten(class)
		default:
			l.unlink(r, l.held[r].need)
		}
		rp.owner[place] = rp.turn - 1
	case l.replay.listed:
		l.replay.owner[place] = -1 - need
	}
	l.seized = append(l.seized, place)
	l.claim(r, class, need)
}
