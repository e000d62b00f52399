package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// A cluster in which some rows and machines have changed is not credited anew. A
// need's own machines come first in its walk, and a plan's claims are stamps in the next
// cycle: who was satisfied by its own machines alone, and still has the same ones, has
// them again, whatever has changed elsewhere. Who lacked something had all that there
// was for it, and gets more only of machines that are loose: that have come, or that
// somebody has let go of. All others are credited again in rank order: those that have
// another row, or had or have a machine that has changed; and those of whose machines a
// need ranked above takes one now. At a need's turn
//
//	claimed by a higher rank     is gone: that one has had its turn
//	claimed by a lower rank      is there: it had not had its turn then either

// replay is the state of one cluster's walk.
type replay struct {
	on     bool
	listed bool  // owner is that of the open cluster
	turn   int32 // twice the rank of the need at work; 0 when all is credited anew
	// owner is, by place in the cluster's list, twice the rank of who claims the
	// machine from the cycle before, one less when it has claimed it in this one,
	// nobodys when nobody does, nobodysNow when somebody did or it was not there: one list
	// to look into, for what lies scattered. Where all is credited anew, −1 − the need
	// that has claimed it.
	owner []int32
	// touched are the classes of which any machine is claimed by another than before,
	// loose those of which some are nobodysNow, a bit each; looseOf counts these by class.
	touched, loose []uint64
	looseOf        []int32
	waiting        []uint64 // classes that needs waited for before
	old            []columnar.Row
}

func (x *replay) begin(classes int) {
	x.touched, x.loose = resize(x.touched, (classes+63)/64), resize(x.loose, (classes+63)/64)
	x.looseOf = resize(x.looseOf, classes)
	x.on, x.listed = true, true
}

func (x *replay) touch(class uint32) { x.touched[class>>6] |= 1 << (class & 63) }

// loosen says that nobody claims a machine any more, or that it has come: whoever
// has its stamp may come to it before what it has.
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

// fasten says that somebody has claimed a loose machine.
func (x *replay) fasten(class uint32) {
	if x.looseOf[class]--; x.looseOf[class] == 0 {
		x.loose[class>>6] &^= 1 << (class & 63)
	}
}

func meet(a, b []uint64) bool {
	for i, w := range a {
		if w&b[i] != 0 {
			return true
		}
	}
	return false
}

// partFrom takes machines that have left a cluster away from who claimed them. What is
// noted of a machine that goes from one cluster to another is of the cluster that it
// leaves: whoever works at the other does not look at it.
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

// unlink takes a machine out of a need's chain and makes the need stale.
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

// findResettled makes needs stale for which something is held, now or in the cycle
// before: it may choose their domain, or come before what others have.
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

// Where more than wholePercent of the needs were credited again, the cluster is
// credited anew as a whole for wholeCycles, whenever it has changed: that takes
// less for each. Tests change the percentage.
var wholePercent = 66

const wholeCycles = 15

// replayCluster credits again those needs of a cluster whose credit may be
// another than in the cycle before.
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
	// Where nobody waits any more, phase 2 does not look again at what was claimed
	// by who did: a row that has changed may have been it.
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

// letGoOfChanged takes what it claims from a need whose row has changed. It may stand
// elsewhere in the order now, so that others come before it.
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

// noteMoves notes what has become of machines of the open cluster: whoever claims one
// of them, or whose stamp one carries, is credited again.
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

// isToBeCredited reports whether a need's credit may be another than in the cycle
// before, given 1 + the entry of its stamp.
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

// keepsOwn reports whether the walk over a need's own machines, as they are now, comes
// to those that it claims: so it does when machines with a foreign stamp have got its stamp. Then it claims
// them in the order of the walk.
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

// hasMore reports whether there are more machines with a need's stamp than it claims:
// they may lie in another domain, which it could choose by what is free there.
func (l *worker) hasMore(need int32, stamp uint32) bool {
	for at := l.stamps.entries[stamp-1].first; at != 0; at = l.stamps.next[at-1] {
		if l.held[l.bound[at-1].Row].need != need {
			return true
		}
	}
	return false
}

// replayNeed gives a need its turn.
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

// letGoAll lets go of what a need claims, and remembers it.
func (l *worker) letGoAll(need int32) {
	n, rp, place := &l.lines[need], &l.replay, l.e.store.place
	rp.old = rp.old[:0]
	for r := n.head; r != columnar.None; {
		next := l.held[r].next
		l.held[r] = hold{need: unheld}
		rp.owner[place[r]] = nobodys // for the need itself; see compare
		rp.old = append(rp.old, r)
		r = next
	}
	n.head, n.tail = columnar.None, columnar.None
}

// compare notes what has become of what a need claimed before, and what it has
// claimed instead.
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

// nobodys is more than twice any rank, and so is nobodysNow.
const (
	nobodys    = math.MaxInt32
	nobodysNow = nobodys - 1
)

// listUnclaimed begins with a cluster whose machines nobody has.
func (x *replay) listUnclaimed(machines int) {
	x.listed, x.turn = true, 0
	x.owner = grown(x.owner, machines)
	for i := range x.owner {
		x.owner[i] = nobodys
	}
}

// findOwners finds out who claims the machines of the open cluster.
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

// gone reports whether a machine, by its place in the open cluster, is beyond
// the reach of the need that is credited: somebody has claimed it who had its
// turn before.
func (l *worker) gone(place uint32) bool {
	if l.replay.listed {
		return l.replay.owner[place] < l.replay.turn
	}
	return l.claimed(l.bound[place].Row)
}

// seize claims a machine, in a replay also from a need that ranks below and
// still has it.
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
