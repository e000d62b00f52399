package engine

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// The Needs of a cluster that changed are credited in rank order, but only those whose credit may differ
// from the last cycle: a worklist. In a cluster that is credited anew, nothing is claimed and all Needs
// are on the list. How one Need is credited is the same in both; see phase1_credit.go.
//
// Skipping the others is right for two reasons. A satisfied Need that holds only its own machines keeps
// them if they are unchanged: its walk begins with its own machines, and the claims of a cycle are the
// stamps of the next one, so the walk would claim the same machines again. An unsatisfied Need had claimed
// everything that fits it. It can gain only a loose machine: one that came to the cluster, or that another
// Need released. The exception is a row that took a machine by what fits best and left it again, since another
// made it superfluous (LeftSuperfluous): without the first it might have taken others. It is looked at whenever
// a class that it accepts is touched.
//
// At a Need's turn, a machine of the cluster that is
//
//	claimed by a higher rank     is gone: that Need has had its turn
//	claimed by a lower rank      is available: it is another's from the last cycle, and that Need, which
//	                             loses it, comes on the list

// worklist says which Needs of the open cluster are to be credited.
type worklist struct {
	anew     bool     // all of them
	isSought bool     // the owners of all stamps are found again
	todo     []uint64 // places in worker.needs of the Needs that are to be looked at, as a set
	at       int      // the place of the Need at work; −1 before the first
	rank     int32    // its rank
	// touched is the set of classes of which a machine has another claimant than before. loose is the
	// set of classes of which some machine is loose, and looseOf counts these machines by class. released
	// are the machines that are loose, or were.
	// changed is the set of classes of which a machine differs from the last cycle.
	touched, loose, changed []uint64
	looseOf                 []int32
	released                []columnar.Row
	open                    []openNeed     // Needs that may yet be tempted, by place
	waiting                 []uint64       // classes that waiting Needs accepted in the last cycle, as a set
	old                     []columnar.Row // what the Need at work claimed before
}

// openNeed is a Need that comes on the list when a class that it accepts is touched, if it has Same, or
// turns loose.
type openNeed struct {
	place int32
	kind  uint32
}

func (w *worklist) begin(anew bool, classes, needs int) {
	w.anew, w.at, w.rank = anew, -1, -1
	w.todo = reuse.Resize(w.todo, (needs+63)/64)
	w.touched, w.loose = reuse.Resize(w.touched, (classes+63)/64), reuse.Resize(w.loose, (classes+63)/64)
	w.looseOf, w.changed = reuse.Resize(w.looseOf, classes), reuse.Resize(w.changed, (classes+63)/64)
	w.released, w.open = w.released[:0], w.open[:0]
}

// add puts the Need at a place on the list.
func (w *worklist) add(place int) { w.todo[place>>6] |= 1 << (place & 63) }

// next moves on to the next Need on the list; false when there is none.
func (w *worklist) next() bool {
	from := w.at + 1
	for i := from >> 6; i < len(w.todo); i++ {
		word := w.todo[i]
		if i == from>>6 {
			word = word >> (from & 63) << (from & 63)
		}
		if word != 0 {
			w.at = i<<6 + bits.TrailingZeros64(word)
			return true
		}
	}
	return false
}

// creditCluster credits the Needs of a cluster that changed.
func (l *worker) creditCluster(c int) {
	x, w := &l.p.e.store.clusters[c], &l.crediting.work
	if !x.dirty && !x.replay {
		return
	}
	l.figures.clustersCredited++
	was, credited := l.figures.satisfied, l.figures.credited
	if x.dirty {
		x.freeless, x.satisfied = false, 0
	}
	w.waiting = append(w.waiting[:0], x.waiting...)
	x.waitForNone()
	if x.dirty && len(l.p.s.BoundOf(c)) == 0 {
		x.cheapest = x.cheapest[:0]
		l.leaveAll(c)
	} else {
		l.creditList(x, c)
		if !x.dirty && (l.figures.credited-credited)*100 > len(l.crediting.needs)*wholePercent {
			x.whole = wholeCycles
		}
	}
	x.satisfied += int32(l.figures.satisfied - was)
	l.figures.satisfied = was
}

// creditList credits the Needs on a cluster's worklist.
func (l *worker) creditList(x *clusterState, c int) {
	w := &l.crediting.work
	ordered := l.rankCluster(c)
	l.openCluster(c)
	w.begin(x.dirty, len(l.p.s.Classes), len(l.crediting.needs))
	l.readAhead(&l.p.sources[c])
	if x.dirty {
		l.dropClaims()
	} else {
		for _, line := range x.letGo {
			l.letGoOfChanged(line)
		}
		l.noteMoves(l.p.movesOf(c))
	}
	if !x.dirty && (x.restamped || !ordered) {
		l.p.listTwins(c)
	}
	l.listWork(c, x.dirty || x.restamped || !ordered)
	x.restamped = false
	for w.next() {
		l.figures.CreditLooks++
		need := l.crediting.needs[w.at]
		k := l.p.kindOf(need)
		stamp := l.crediting.stamps.find(k.Fingerprint, l.p.groupOf(need))
		w.rank = l.p.rankOf[need]
		if cause := l.isToBeCredited(x, need, stamp, k); cause != plan.NotCredited {
			l.figures.CreditedBy[cause]++
			l.creditAgain(x, need, stamp, k)
		}
	}
	for _, r := range w.released {
		l.p.claims.Settle(r)
	}
	if x.dirty {
		l.findCheapest(c, nil)
	} else {
		l.findCheapest(c, w.touched)
		// Where Needs no longer wait, their claims of the last cycle may be gone: a row that waited may
		// have changed. Note the priorities of machines of those classes again, since phase 2 reads them.
		if len(w.waiting) > 0 && !slices.Equal(w.waiting, x.waiting) {
			l.notePriorities(c, w.waiting)
		}
	}
	l.listSpares(c)
}

// dropClaims begins a cluster that is credited anew: nothing is claimed.
func (l *worker) dropClaims() {
	st := &l.p.e.store
	for i := range l.crediting.bound {
		r := l.crediting.bound[i].Row
		l.p.claims.Release(r)
		st.priority[r], st.owner[r] = l.p.s.View.Priority[r], state.Unclaimed
	}
}

// listWork puts on the list all Needs of the open cluster of which it is known already that they are to be
// looked at, lists those that may be tempted, and finds the owners of stamps: of all, or of those that
// changed.
func (l *worker) listWork(c int, owners bool) {
	w, x := &l.crediting.work, &l.crediting.stamps
	w.isSought = owners
	x.seek(owners)
	for place, need := range l.crediting.needs {
		n := &l.p.lines[need]
		k := &l.p.kinds[n.Kind]
		listed := w.anew || n.Is(state.IsStale|state.IsUncredited|state.IsTouched|state.HasForeignStamp)
		if x.mayBeSought(l.p.hashes[n.Kind]) {
			if at := x.find(k.Fingerprint, l.p.groupOf(need)); at != 0 {
				x.own(at, need, l.p.rankOf[need])
				listed = listed || x.entries[at-1].changed
			}
		}
		switch {
		case listed || l.isTempted(n, k) || !n.Is(state.IsSatisfied) && n.Is(state.IsParked|state.LeavesToEqual) || n.Is(state.LeftSuperfluous):
			w.add(place)
		case k.Same || !n.Is(state.IsSatisfied):
			w.open = append(w.open, openNeed{int32(place), n.Kind})
		}
	}
	if l.p.e.store.clusters[c].fold.hasSame {
		l.ownForMembers(c)
	}
	if l.noteOwners() && !w.anew {
		l.addBelow(func(need int32, k *state.Kind) bool {
			at := x.find(k.Fingerprint, l.p.groupOf(need))
			return at != 0 && x.entries[at-1].changed
		})
	}
}

// isTempted reports whether machines that a Need accepts may have become available to it.
func (l *worker) isTempted(n *state.Line, k *state.Kind) bool {
	if k.Same {
		return meet(l.crediting.work.touched, k.Accepts)
	}
	return !n.Is(state.IsSatisfied) && meet(l.crediting.work.loose, k.Accepts)
}

// tempt puts those open Needs on the list, below the one at work, that accept a class and have Same or have
// not.
func (l *worker) tempt(class uint32, same bool) {
	w := &l.crediting.work
	for i := len(w.open) - 1; i >= 0 && int(w.open[i].place) > w.at; i-- {
		if k := &l.p.kinds[w.open[i].kind]; k.Same == same && k.AcceptsClass(class) {
			w.add(int(w.open[i].place))
		}
	}
}

// touch notes that a machine of a class has another claimant than before.
func (l *worker) touch(class uint32) {
	w := &l.crediting.work
	if bit := uint64(1) << (class & 63); w.touched[class>>6]&bit == 0 {
		w.touched[class>>6] |= bit
		l.tempt(class, true)
	}
}

// release makes a machine loose that no Need claims: its claimant released it, or it is new in the
// cluster. Needs below that have its stamp, or lack something and accept it, come on the list.
func (l *worker) release(r columnar.Row, class uint32) {
	w := &l.crediting.work
	l.p.e.store.priority[r] = l.p.s.View.Priority[r]
	if w.anew {
		return
	}
	l.p.claims.MarkLoose(r)
	w.released = append(w.released, r)
	if w.looseOf[class]++; w.looseOf[class] == 1 {
		w.loose[class>>6] |= 1 << (class & 63)
		l.tempt(class, false)
	}
	l.touch(class)
	l.noteStamp(r)
}

// fasten notes that a Need has claimed a loose machine of a class.
func (w *worklist) fasten(class uint32) {
	if w.looseOf[class]--; w.looseOf[class] == 0 {
		w.loose[class>>6] &^= 1 << (class & 63)
	}
}

// noteStamp notes that a machine with a stamp differs: Needs below that have the stamp come on the list.
func (l *worker) noteStamp(r columnar.Row) {
	fingerprint, group := l.p.s.View.Fingerprint[r], l.p.s.View.Group[r]
	at := l.crediting.stamps.find(fingerprint, group)
	if at == 0 || l.crediting.stamps.entries[at-1].changed {
		return
	}
	e := &l.crediting.stamps.entries[at-1]
	e.changed = true
	if w := &l.crediting.work; w.at >= 0 && l.p.ownerOf(e, r) > w.rank {
		l.addBelow(func(need int32, k *state.Kind) bool {
			return k.Fingerprint == fingerprint && l.p.groupOf(need) == group
		})
	}
}

// addBelow puts the Needs below the one at work on the list that a test accepts.
func (l *worker) addBelow(test func(need int32, k *state.Kind) bool) {
	w := &l.crediting.work
	for place := w.at + 1; place < len(l.crediting.needs); place++ {
		if need := l.crediting.needs[place]; test(need, l.p.kindOf(need)) {
			w.add(place)
		}
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
		switch h := p.claims.Of(m.row); {
		case h == state.Unclaimed:
		case anew:
			p.claims.Release(m.row)
		default:
			p.unlink(m.row, h)
		}
	}
}

// unlink takes a machine away from a Need and makes the Need stale. O(machines claimed).
func (p *pass) unlink(r columnar.Row, need int32) {
	n := &p.lines[need]
	n.Status |= state.IsStale
	p.claims.Unlink(r, n)
}

// findResettled makes a Need stale if something is held for it, now or in the cycle before. A
// reservation may pin the Need's domain, and a held Idle machine comes before machines of lower ranks.
func (p *pass) findResettled() {
	if p.fresh {
		return
	}
	mark := func(need int32) {
		n := &p.lines[need]
		if x := &p.e.store.clusters[n.Cluster]; !x.dirty && !n.Is(state.IsMember) {
			n.Status |= state.IsStale | state.IsResettled
			x.replay = true
		}
	}
	for _, need := range p.e.store.resettle {
		mark(need)
	}
	for need := range p.reserved.Needs() {
		mark(need)
	}
}

// An incremental credit of more than wholePercent of a cluster's Needs cost more than a full credit.
// After one, the cluster is credited anew the next wholeCycles times that it changes. Tests change the
// percentage.
var wholePercent = 90

const wholeCycles = 15

// letGoOfChanged releases all that the Need of a line claims, or claimed before its row joined a fold.
// The Need may have another rank now, so that other Needs come before it.
func (l *worker) letGoOfChanged(line int32) {
	l.letGoAll(line)
	if n := &l.p.lines[line]; !n.Is(state.IsMember) {
		n.Status |= state.IsStale | state.IsChanged
	}
	for _, r := range l.crediting.work.old {
		l.release(r, l.p.s.View.Class[r])
	}
}

// noteMoves notes the changed machines of the open cluster. The claimant of such a machine, and the
// Needs whose stamp it carries, are looked at.
func (l *worker) noteMoves(moves []moved) {
	for i := range moves {
		m := &moves[i]
		l.touch(m.class)
		l.crediting.work.changed[m.class>>6] |= 1 << (m.class & 63)
		if m.how == left {
			continue
		}
		l.noteStamp(m.row)
		if l.p.s.View.Fingerprint[m.row] == 0 {
			l.p.e.store.owner[m.row] = state.Unclaimed
		}
		switch need := l.p.claims.Of(m.row); {
		case need >= 0:
			l.p.lines[need].Status |= state.IsTouched
		case m.how == came && need == state.Unclaimed:
			l.release(m.row, m.class)
		default:
			l.p.e.store.priority[m.row] = l.p.s.View.Priority[m.row]
		}
	}
}

// isToBeCredited reports whether, and why, a Need's credit may differ from the last cycle, given 1 + the
// entry of its stamp.
func (l *worker) isToBeCredited(x *clusterState, need int32, stamp uint32, k *state.Kind) CreditCause {
	n, w := &l.p.lines[need], &l.crediting.work
	switch cause := staleBecause(n); {
	case w.anew:
		return CreditAnew
	case cause != plan.NotCredited:
		return cause
	case n.Is(state.IsUncredited) || len(x.waiting) > 0 && x.blocks(k):
		return CreditWaiting
	}
	if n.Is(state.IsTouched|state.HasForeignStamp) || stamp != 0 && l.crediting.stamps.entries[stamp-1].changed {
		if !n.Is(state.IsSatisfied) || !l.keepsOwn(need, stamp, k) {
			return CreditStamps
		}
		n.Status &^= state.IsTouched | state.HasForeignStamp
	}
	if k.Same && meet(w.touched, k.Accepts) && (!n.Is(state.IsSatisfied) || stamp != 0 && l.hasMore(need, stamp)) {
		return CreditDomains
	}
	if !n.Is(state.IsSatisfied) && l.mayGain(n, k) || n.Is(state.LeftSuperfluous) && meet(w.touched, k.Accepts) {
		return CreditTempted
	}
	return plan.NotCredited
}

// mayGain reports whether a Need that lacks something, and has no Same or is parked, may find a machine that it could not claim
// before. One that left machines to others, because of whose they are, may find one that is not theirs any more: its stamp
// or the row that owns it is another one.
func (l *worker) mayGain(n *state.Line, k *state.Kind) bool {
	w := &l.crediting.work
	switch {
	case w.isSought && n.Is(state.IsParked|state.LeavesToEqual),
		n.Is(state.IsParked) && meet(w.touched, k.Accepts),
		n.Is(state.LeavesToEqual) && meet(w.changed, k.Accepts):
		return true
	}
	return !k.Same && meet(w.loose, k.Accepts)
}

// staleBecause returns what makes a Need's credit stale, whatever the others of its cluster have.
func staleBecause(n *state.Line) CreditCause {
	switch {
	case n.Is(state.IsChanged):
		return CreditRow
	case n.Is(state.IsRobbed):
		return CreditRobbed
	case n.Is(state.IsResettled):
		return CreditHeld
	case n.Is(state.IsStale):
		return CreditLost
	}
	return plan.NotCredited
}

// keepsOwn reports whether a walk over a Need's own machines, as they are now, claims exactly the
// machines that the Need has. Then it relinks them in the order of the walk, and the Need is not
// credited again. Stamps change in most cycles: a machine that was credited with a foreign stamp
// carries the right one now.
func (l *worker) keepsOwn(need int32, stamp uint32, k *state.Kind) bool {
	if stamp == 0 {
		return k.Mask == 0
	}
	x, n := &l.crediting.stamps, &l.p.lines[need]
	if l.sharesOwn(&x.entries[stamp-1]) {
		return false // it takes what fits best, not what the walk comes to first
	}
	l.start(need)
	l.crediting.seized = l.crediting.seized[:0]
	for at := x.entries[stamp-1].first; at != 0 && l.lacks != 0; at = x.next[at-1] {
		b := &l.crediting.bound[at-1]
		if l.p.classMask[b.Class]&l.lacks == 0 || !k.AcceptsClass(b.Class) || !l.p.inDomain(b.Row, need) {
			continue
		}
		if l.p.claims.Of(b.Row) != need {
			return false
		}
		l.subtract(b.Class)
		l.crediting.seized = append(l.crediting.seized, at-1)
	}
	left := len(l.crediting.seized)
	for r := n.Head; r != columnar.None; r = l.p.claims.Next(r) {
		left--
	}
	if l.lacks != 0 || left != 0 {
		return false
	}
	n.Empty()
	for _, place := range l.crediting.seized {
		r := l.crediting.bound[place].Row
		l.p.claims.Release(r)
		l.p.claims.Claim(r, need, n)
	}
	return true
}

// hasMore reports whether some machine carries a Need's stamp and is not claimed by it. Such a machine
// may lie in another domain, which the Need could choose by what is free there.
func (l *worker) hasMore(need int32, stamp uint32) bool {
	for at := l.crediting.stamps.entries[stamp-1].first; at != 0; at = l.crediting.stamps.next[at-1] {
		if l.p.claims.Of(l.crediting.bound[at-1].Row) != need {
			return true
		}
	}
	return false
}

// creditAgain credits one Need and compares the result with its claims of the last cycle.
func (l *worker) creditAgain(x *clusterState, need int32, stamp uint32, k *state.Kind) {
	n := &l.p.lines[need]
	waited := n.Status&(state.IsUncredited|state.IsStale) == state.IsUncredited
	l.letGoAll(need)
	if n.Is(state.IsSatisfied) {
		l.figures.satisfied -= l.p.weight(n)
	}
	n.Status &= state.IsParked | state.IsFold | state.IsMember | state.HasSame | state.NeverFolds | state.IsHeldBack
	if k.Same {
		n.Status |= state.IsUncoverable
	}
	n.Domain = 0
	l.p.lacking[l.crediting.work.rank] = false
	l.creditNeed(x, need, stamp, k)
	if l.crediting.work.anew {
		return
	}
	if n.Is(state.IsUncredited) && !waited {
		l.addBelow(func(_ int32, other *state.Kind) bool { return meet(k.Accepts, other.Accepts) })
	}
	l.compare(need)
}

// letGoAll releases all that a Need claims, and remembers it in worklist.old. The Need may claim it again:
// compare tells what is loose.
func (l *worker) letGoAll(need int32) {
	n, w := &l.p.lines[need], &l.crediting.work
	w.old = w.old[:0]
	for r := n.Head; r != columnar.None; {
		next := l.p.claims.Next(r)
		l.p.claims.Release(r)
		w.old = append(w.old, r)
		r = next
	}
	n.Empty()
}

// compare notes how the claims of a Need differ from those in worklist.old.
func (l *worker) compare(need int32) {
	kept := 0
	for _, r := range l.crediting.work.old {
		switch l.p.claims.Of(r) {
		case need:
			kept++
		case state.Unclaimed:
			l.release(r, l.p.s.View.Class[r])
		}
	}
	if kept == len(l.crediting.work.old) && kept == len(l.crediting.seized) {
		return
	}
	for _, place := range l.crediting.seized {
		l.touch(l.crediting.bound[place].Class)
	}
}

// gone reports whether a machine, by its place in the open cluster, is out of reach of the Need at work:
// it or a Need that had its turn before has claimed it.
func (l *worker) gone(place uint32) bool {
	h := l.p.claims.Of(l.crediting.bound[place].Row)
	return h >= 0 && l.p.rankOf[h] <= l.crediting.work.rank
}

// seize claims a machine of the open cluster for the Need at work.
func (l *worker) seize(place uint32, need int32, k *state.Kind) {
	l.seizeTaken(place, need, k)
	l.subtract(l.crediting.bound[place].Class)
}

// seizeTaken claims a machine that is subtracted from what the Need at work lacks. It may take the machine from a Need of
// lower rank that still holds it from the last cycle.
func (l *worker) seizeTaken(place uint32, need int32, k *state.Kind) {
	r, class := l.crediting.bound[place].Row, l.crediting.bound[place].Class
	switch h := l.p.claims.Of(r); h {
	case state.Unclaimed:
	case state.Loose:
		l.crediting.work.fasten(class)
	default:
		l.p.unlink(r, h)
		l.p.lines[h].Status |= state.IsRobbed
		l.crediting.work.add(l.placeOf(h))
	}
	l.crediting.seized = append(l.crediting.seized, place)
	l.p.e.store.priority[r] = k.Priority
	l.p.claims.Claim(r, need, &l.p.lines[need])
}

// placeOf returns the place in worker.needs of a Need. O(log Needs).
func (l *worker) placeOf(need int32) int {
	rank := l.p.rankOf[need]
	return sort.Search(len(l.crediting.needs), func(i int) bool { return l.p.rankOf[l.crediting.needs[i]] >= rank })
}
