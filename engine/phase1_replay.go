package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// A cluster in which some rows and machines have changed is not credited anew:
// its needs are walked in rank order once more, and only those are credited
// again that may now get other machines than they have. What they have is what
// the cycle before gave them. So at a need's turn
//
//	claimed by a higher rank     is gone: that one has had its turn
//	claimed by a lower rank      is there: it had not had its turn then either
//
// A need that takes a machine from a lower one makes that one stale. Machines
// that nobody claims any more, or that have come, are the loose ones: needs
// that would rather have one of them are credited again. A gang is when of some
// class that it accepts other machines are there at its turn than were before:
// loose ones, those that have left, and those that a higher rank has taken from
// a lower rank than the gang's or from nobody. Where nothing is loose, and nobody
// stale, everything is as it was.

// replay is the state of one cluster's walk.
type replay struct {
	on     bool
	listed bool  // owner is that of the open cluster
	turn   int32 // twice the rank of the need at work; 0 when all is credited anew
	// owner is, by place in the cluster's list, twice the rank of who claims the
	// machine from the cycle before, one less when it has claimed it in this one,
	// nobodys when nobody does, nobodysNow when somebody did: one list to look into,
	// for what lies scattered.
	// Where all is credited anew, −1 − the need that has claimed it.
	owner []int32
	loose []loose
	// seized says that somebody has claimed a loose one since they were looked over;
	// creatingFrom is the first place of machines that are being created.
	seized       bool
	creatingFrom uint32
	// mask are the classes of loose machines, touched those of which any machine
	// is claimed by another than before, shifted those of which some are gone for
	// all ranks that were not, a bit each.
	mask, touched, shifted []uint64
	restamped              restampedMachines
	taken                  []takenOver
	waiting                []uint64 // classes that needs waited for before
	waitMoved              bool     // others wait than before
	old                    []columnar.Row
}

// loose is a machine that is there for the taking and was not before.
type loose struct {
	row   columnar.Row
	class uint32
	place uint32 // in the cluster's list, which is the order of credit
	stamp uint64
	group uint32
	// creating: it is on its way, to the need alone whose stamp it has.
	creating bool
}

// takenOver is a machine of a class that was there for ranks from whoever has
// taken it to whoever had it: until is twice the latter's rank.
type takenOver struct {
	class uint32
	until int32
}

func (x *replay) begin(classes int) {
	words := (classes + 63) / 64
	x.mask, x.touched, x.shifted = resize(x.mask, words), resize(x.touched, words), resize(x.shifted, words)
	x.on, x.listed, x.waitMoved, x.seized = true, true, false, false
	x.loose, x.taken = x.loose[:0], x.taken[:0]
	x.restamped.begin(words)
}

func (x *replay) touch(class uint32) { x.touched[class>>6] |= 1 << (class & 63) }

func (x *replay) shift(class uint32) { x.shifted[class>>6] |= 1 << (class & 63) }

// isAbout reports whether a machine is there that somebody may rather have.
func (x *replay) isAbout() bool { return len(x.loose)+len(x.restamped.list) > 0 }

// concerns reports whether such a machine is of one of some classes.
func (x *replay) concerns(classes []uint64) bool {
	for i, w := range classes {
		if w&(x.mask[i]|x.restamped.classes[i]) != 0 {
			return true
		}
	}
	return false
}

// shiftedFor reports whether other machines than before are there for a gang,
// given twice its rank.
func (x *replay) shiftedFor(k *kind, turn int32) bool {
	if meet(x.mask, k.accepts) || meet(x.shifted, k.accepts) {
		return true
	}
	left := x.taken[:0]
	for _, m := range x.taken {
		if m.until > turn {
			left = append(left, m)
		}
	}
	x.taken = left
	return slices.ContainsFunc(left, func(m takenOver) bool { return k.acceptsClass(m.class) })
}

func meet(a, b []uint64) bool {
	for i, w := range a {
		if w&b[i] != 0 {
			return true
		}
	}
	return false
}

// partFrom takes machines that have left a cluster away from who claimed them.
func (p *pass) partFrom(c int, anew bool) {
	for _, m := range p.movesOf(c) {
		switch h := p.held[m.row].need; {
		case m.how != left || h == unheld:
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

// findResettled makes Same-Needs stale whose domain may be chosen by what is
// held for them, now or in the cycle before.
func (p *pass) findResettled() {
	if p.fresh {
		return
	}
	mark := func(need int32) {
		n := &p.lines[need]
		if x := &p.e.store.clusters[n.cluster]; !x.dirty && !n.is(isMember) && p.kinds[n.kind].same {
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
func (l *lane) replayCluster(c int) {
	x, rp := &l.e.store.clusters[c], &l.replay
	was, credited := l.satisfied, l.credited
	rp.begin(len(l.s.Classes))
	rp.waiting = append(rp.waiting[:0], x.waiting...)
	x.waitForNone()
	l.rankCluster(c)
	l.openCluster(c)
	l.own.index(l.bound)
	l.findOwners()
	rp.creatingFrom = uint32(l.s.CreatingFrom(c))
	l.readAhead(&l.sources[c])
	for _, row := range x.changed {
		need := l.sources[c].base + int32(row)
		// It may wait elsewhere in the order now, or for other classes.
		rp.waitMoved = rp.waitMoved || l.lines[need].is(isUncredited)
		if l.reordered { // what it claimed is loose from where it stood before
			l.loosen(need)
			l.addLoose(rp.old)
			for _, r := range rp.old {
				rp.shift(l.s.View.Class[r])
			}
		}
	}
	moves := l.movesOf(c)
	l.noteMoves(moves)
	for _, need := range l.needs {
		if rp.seized {
			l.dropHeld()
		}
		n := &l.lines[need]
		if n.is(isStale|isUncredited|isRestamped|hasSame|neverFolds) || rp.waitMoved || rp.isAbout() && rp.concerns(l.acceptedBy(n.kind)) {
			l.replayNeed(x, need)
		}
	}
	l.dropHeld()
	for i := range rp.loose {
		r := rp.loose[i].row
		l.e.store.priority[r] = l.s.View.Priority[r]
	}
	for i := range moves {
		if r := moves[i].row; moves[i].how != left {
			l.e.store.priority[r] = l.priorityOf(r)
		}
	}
	l.findCheapest(c, rp.touched)
	// Where nobody waits any more, phase 2 does not look again at what was claimed
	// by who did: a row that has changed may have been it.
	if len(rp.waiting) > 0 && (rp.waitMoved || !slices.Equal(rp.waiting, x.waiting)) {
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

// noteMoves notes what has become of machines of the open cluster.
func (l *lane) noteMoves(moves []moved) {
	rp := &l.replay
	for i := range moves {
		switch m := &moves[i]; m.how {
		case came:
			l.addLoose(append(rp.old[:0], m.row))
		case left:
			rp.touch(m.class)
			rp.shift(m.class)
		case remains:
			l.changeHere(m)
		}
	}
}

// replayNeed gives a need its turn.
func (l *lane) replayNeed(x *clusterState, need int32) {
	n, rp := &l.lines[need], &l.replay
	k := &l.kinds[n.kind]
	waits := n.is(isUncredited)
	if n.is(isRestamped) {
		n.status &^= isRestamped
		rp.restamped.passBy(2 * l.rankOf[need])
	}
	switch {
	case n.is(isStale):
	case k.same && rp.shiftedFor(k, 2*l.rankOf[need]):
	case rp.waitMoved && x.blocks(k) != waits:
	case !waits && !k.same && (l.tempted(need, k) || l.outranks(need, k)):
	default:
		if waits {
			x.wait(need, n.kind, k)
		}
		return
	}
	rank := l.rankOf[need]
	rp.turn = 2 * rank
	l.loosen(need)
	if n.is(isSatisfied) {
		l.satisfied -= l.weight(n)
	}
	n.status &= isParked | isFold | isMember | hasSame | neverFolds | ofItsPlan
	if k.same {
		n.status |= isUncoverable
	}
	n.domain, n.acquired = 0, columnar.None
	l.lacking[rank] = false
	l.creditNeed(x, need)
	rp.waitMoved = rp.waitMoved || n.is(isUncredited) != waits
	l.compare(need, k)
}

// loosen lets go of what a need claims, and remembers it.
func (l *lane) loosen(need int32) {
	n, rp := &l.lines[need], &l.replay
	rp.old = rp.old[:0]
	for r := n.head; r != columnar.None; {
		next := l.held[r].next
		l.held[r] = hold{need: unheld}
		rp.old = append(rp.old, r)
		r = next
	}
	n.head, n.tail = columnar.None, columnar.None
}

// compare notes what has become of what a need claimed before, and what it has
// claimed instead.
func (l *lane) compare(need int32, k *kind) {
	rp, place, priority := &l.replay, l.e.store.place, l.e.store.priority
	kept, lost := 0, rp.old[:0]
	same := true
	for _, r := range rp.old {
		h := l.held[r].need
		if h == need {
			kept++
			continue
		}
		same = false
		rp.touch(l.bound[place[r]].Class)
		if h == unheld {
			lost = append(lost, r)
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
	l.addLoose(lost)
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
func (l *lane) findOwners() {
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

// addLoose notes machines of the open cluster that nobody claims any more.
func (l *lane) addLoose(rows []columnar.Row) {
	rp := &l.replay
	for _, r := range rows {
		at := l.e.store.place[r]
		b := &l.bound[at]
		rp.owner[at] = nobodysNow
		rp.loose = append(rp.loose, loose{
			row: r, class: b.Class, place: at, stamp: b.Fingerprint, group: b.Group, creating: at >= rp.creatingFrom,
		})
		rp.mask[b.Class>>6] |= 1 << (b.Class & 63)
		rp.touch(b.Class)
	}
}

// tempted reports whether a need may be credited a loose machine: it lacks
// something, or comes to it before the last of its own.
func (l *lane) tempted(need int32, k *kind) bool {
	rp, n := &l.replay, &l.lines[need]
	if !meet(rp.mask, k.accepts) {
		return false
	}
	satisfied := n.is(isSatisfied)
	if satisfied && n.head == columnar.None {
		return false // it wants nothing
	}
	var last *snapshot.Bound
	tail := uint32(0)
	group := l.groupOf(need)
	for i := range rp.loose {
		m := &rp.loose[i]
		own := m.stamp == k.fingerprint && m.group == group
		if !k.acceptsClass(m.class) || m.creating && !own {
			continue
		}
		if !satisfied {
			return true
		}
		if last == nil {
			tail = l.e.store.place[n.tail]
			last = &l.bound[tail]
		}
		lastOwn := last.Fingerprint == k.fingerprint && last.Group == group
		if own && !lastOwn || own == lastOwn && m.place < tail {
			return true
		}
	}
	return false
}

// dropHeld forgets loose machines that somebody has claimed since.
func (l *lane) dropHeld() {
	rp := &l.replay
	rp.seized = false
	left := rp.loose[:0]
	for i := range rp.loose {
		if rp.owner[rp.loose[i].place] == nobodysNow {
			left = append(left, rp.loose[i])
		}
	}
	if len(left) == len(rp.loose) {
		return
	}
	rp.loose = left
	clear(rp.mask)
	for i := range left {
		rp.mask[left[i].class>>6] |= 1 << (left[i].class & 63)
	}
}

// gone reports whether a machine, by its place in the open cluster, is beyond
// the reach of the need that is credited: somebody has claimed it who had its
// turn before.
func (l *lane) gone(place uint32) bool {
	if l.replay.listed {
		return l.replay.owner[place] < l.replay.turn
	}
	return l.claimed(l.bound[place].Row)
}

// seize claims a machine, in a replay also from a need that ranks below and
// still has it.
func (l *lane) seize(place uint32, need int32) {
	r, class := l.bound[place].Row, l.bound[place].Class
	switch {
	case l.replay.on:
		rp := &l.replay
		switch was := rp.owner[place]; {
		case was == nobodys:
			rp.shift(class)
		case was == nobodysNow:
			rp.seized = true
		case was > rp.turn:
			l.unlink(r, l.held[r].need)
			rp.taken = append(rp.taken, takenOver{class, was})
		}
		rp.owner[place] = rp.turn - 1
	case l.replay.listed:
		l.replay.owner[place] = -1 - need
	}
	l.claim(r, class, need)
}
