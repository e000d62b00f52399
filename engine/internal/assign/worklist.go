package assign

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// The Needs of a cluster that changed are credited in rank order, but only those whose credit may differ
// from the last cycle: a worklist. In a cluster that is credited anew, nothing is claimed and all Needs
// are on the list. How one Need is credited is the same in both; see credit.go.
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
	todo     []uint64 // places in Crediting.needs of the Needs that are to be looked at, as a set
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

// creditCluster credits the Needs of a cluster that changed, and audits the credit where it is due.
func (l *Worker) creditCluster(c int) {
	creditChanged(l, c)
	if l.p.Audit.Has(c) && !l.p.st.Clusters[c].Dirty {
		audit(l, c)
	}
}

// creditChanged credits the Needs of a cluster that changed.
func creditChanged(l *Worker, c int) {
	x, w := &l.p.st.Clusters[c], &l.Crediting.work
	if !x.Dirty && !x.Replay {
		return
	}
	l.Figures.ClustersCredited++
	was := l.Figures.Satisfied
	if x.Dirty {
		x.Freeless, x.Satisfied = false, 0
	}
	w.waiting = append(w.waiting[:0], x.Waiting...)
	x.WaitForNone()
	if x.Dirty && len(l.p.Snap.BoundOf(c)) == 0 {
		x.Cheapest = x.Cheapest[:0]
		l.leaveAll(c)
	} else {
		l.creditList(x, c)
	}
	x.Satisfied += int32(l.Figures.Satisfied - was)
	l.Figures.Satisfied = was
}

// creditList credits the Needs on a cluster's worklist.
func (l *Worker) creditList(x *cycle.ClusterState, c int) {
	w := &l.Crediting.work
	ordered := l.rankCluster(c)
	l.openCluster(c)
	w.begin(x.Dirty, len(l.p.Snap.Classes), len(l.Crediting.needs))
	l.readAhead(&l.p.Sources[c])
	if x.Dirty {
		l.dropClaims()
	} else {
		for _, line := range x.LetGo {
			l.letGoOfChanged(line)
		}
		l.noteMoves(l.p.MovesOf(c))
	}
	if !x.Dirty && (x.Restamped || !ordered) {
		l.p.listTwins(c)
	}
	l.listWork(c, x.Dirty || x.Restamped || !ordered)
	x.Restamped = false
	for w.next() {
		l.Figures.CreditLooks++
		need := l.Crediting.needs[w.at]
		k := l.p.KindOf(need)
		stamp := l.Crediting.stamps.find(k.Fingerprint, l.p.GroupOf(need))
		w.rank = l.p.RankOf[need]
		if cause := l.isToBeCredited(x, need, stamp, k); cause != plan.NotCredited {
			l.Figures.CreditedBy[cause]++
			l.creditAgain(x, need, stamp, k)
		}
	}
	for _, r := range w.released {
		l.p.Claims.Settle(r)
	}
	if x.Dirty {
		l.findCheapest(c, nil)
	} else {
		l.findCheapest(c, w.touched)
		// Where Needs no longer wait, their claims of the last cycle may be gone: a row that waited may
		// have changed. Note the priorities of machines of those classes again, since phase 2 reads them.
		if len(w.waiting) > 0 && !slices.Equal(w.waiting, x.Waiting) {
			l.NotePriorities(c, w.waiting)
		}
	}
	l.listSpares(c)
}

// dropClaims begins a cluster that is credited anew: nothing is claimed.
func (l *Worker) dropClaims() {
	st := l.p.st
	for i := range l.Crediting.bound {
		r := l.Crediting.bound[i].Row
		l.p.Claims.Release(r)
		st.Priority[r], st.Owner[r] = l.p.Snap.View.Priority(r), state.Unclaimed
	}
}

// listWork puts on the list all Needs of the open cluster of which it is known already that they are to be
// looked at, lists those that may be tempted, and finds the owners of stamps: of all, or of those that
// changed.
func (l *Worker) listWork(c int, owners bool) {
	w, x := &l.Crediting.work, &l.Crediting.stamps
	w.isSought = owners
	x.seek(owners)
	for place, need := range l.Crediting.needs {
		n := &l.p.Lines[need]
		k := &l.p.Kinds[n.Kind]
		listed := w.anew || n.Is(state.IsStale|state.IsUncredited|state.IsTouched|state.HasForeignStamp)
		if x.mayBeSought(l.p.hashes[n.Kind]) {
			if at := x.find(k.Fingerprint, l.p.GroupOf(need)); at != 0 {
				x.own(at, need, l.p.RankOf[need])
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
	if l.p.st.Clusters[c].Fold.HasSame {
		l.ownForMembers(c)
	}
	if l.noteOwners() && !w.anew {
		l.addBelow(func(need int32, k *state.Kind) bool {
			at := x.find(k.Fingerprint, l.p.GroupOf(need))
			return at != 0 && x.entries[at-1].changed
		})
	}
}

// isTempted reports whether machines that a Need accepts may have become available to it.
func (l *Worker) isTempted(n *state.Line, k *state.Kind) bool {
	if k.Same {
		return cycle.Meet(l.Crediting.work.touched, k.Accepts)
	}
	return !n.Is(state.IsSatisfied) && cycle.Meet(l.Crediting.work.loose, k.Accepts)
}

// tempt puts those open Needs on the list, below the one at work, that accept a class and have Same or have
// not.
func (l *Worker) tempt(class uint32, same bool) {
	w := &l.Crediting.work
	for i := len(w.open) - 1; i >= 0 && int(w.open[i].place) > w.at; i-- {
		if k := &l.p.Kinds[w.open[i].kind]; k.Same == same && k.AcceptsClass(class) {
			w.add(int(w.open[i].place))
		}
	}
}

// touch notes that a machine of a class has another claimant than before.
func (l *Worker) touch(class uint32) {
	w := &l.Crediting.work
	if bit := uint64(1) << (class & 63); w.touched[class>>6]&bit == 0 {
		w.touched[class>>6] |= bit
		l.tempt(class, true)
	}
}

// release makes a machine loose that no Need claims: its claimant released it, or it is new in the
// cluster. Needs below that have its stamp, or lack something and accept it, come on the list.
func (l *Worker) release(r columnar.Row, class uint32) {
	w := &l.Crediting.work
	l.p.st.Priority[r] = l.p.Snap.View.Priority(r)
	if w.anew {
		return
	}
	l.p.Claims.MarkLoose(r)
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
func (l *Worker) noteStamp(r columnar.Row) {
	fingerprint, group := l.p.Snap.View.Fingerprint(r), l.p.Snap.View.Group[r]
	at := l.Crediting.stamps.find(fingerprint, group)
	if at == 0 || l.Crediting.stamps.entries[at-1].changed {
		return
	}
	e := &l.Crediting.stamps.entries[at-1]
	e.changed = true
	if w := &l.Crediting.work; w.at >= 0 && l.p.ownerOf(e, r) > w.rank {
		l.addBelow(func(need int32, k *state.Kind) bool {
			return k.Fingerprint == fingerprint && l.p.GroupOf(need) == group
		})
	}
}

// addBelow puts the Needs below the one at work on the list that a test accepts.
func (l *Worker) addBelow(test func(need int32, k *state.Kind) bool) {
	w := &l.Crediting.work
	for place := w.at + 1; place < len(l.Crediting.needs); place++ {
		if need := l.Crediting.needs[place]; test(need, l.p.KindOf(need)) {
			w.add(place)
		}
	}
}

// findResettled makes a Need stale if something is held for it, now or in the cycle before. A
// reservation may pin the Need's domain, and a held Idle machine comes before machines of lower ranks.
func (p *Pass) findResettled() {
	if p.Fresh {
		return
	}
	mark := func(need int32) {
		n := &p.Lines[need]
		if x := &p.st.Clusters[p.ClusterOf(need)]; !x.Dirty && !n.Is(state.IsMember) {
			n.Status |= state.IsStale | state.IsResettled
			x.Replay = true
		}
	}
	for _, need := range p.st.Resettle {
		mark(need)
	}
	for need := range p.Reserved.Needs() {
		mark(need)
	}
}

// letGoOfChanged releases all that the Need of a line claims, or claimed before its row joined a fold.
// The Need may have another rank now, so that other Needs come before it.
func (l *Worker) letGoOfChanged(line int32) {
	l.letGoAll(line)
	if n := &l.p.Lines[line]; !n.Is(state.IsMember) {
		n.Status |= state.IsStale | state.IsChanged
	}
	for _, r := range l.Crediting.work.old {
		l.release(r, l.p.Snap.View.Class[r])
	}
}

// noteMoves notes the changed machines of the open cluster. The claimant of such a machine, and the
// Needs whose stamp it carries, are looked at.
func (l *Worker) noteMoves(moves []cycle.Moved) {
	for i := range moves {
		m := &moves[i]
		l.touch(m.Class)
		l.Crediting.work.changed[m.Class>>6] |= 1 << (m.Class & 63)
		if m.How == cycle.Left {
			continue
		}
		l.noteStamp(m.Row)
		if l.p.Snap.View.Fingerprint(m.Row) == 0 {
			l.p.st.Owner[m.Row] = state.Unclaimed
		}
		switch need := l.p.Claims.Of(m.Row); {
		case need >= 0:
			l.p.Lines[need].Status |= state.IsTouched
		case m.How == cycle.Came && need == state.Unclaimed:
			l.release(m.Row, m.Class)
		default:
			l.p.st.Priority[m.Row] = l.p.Snap.View.Priority(m.Row)
		}
	}
}

// isToBeCredited reports whether, and why, a Need's credit may differ from the last cycle, given 1 + the
// entry of its stamp.
func (l *Worker) isToBeCredited(x *cycle.ClusterState, need int32, stamp uint32, k *state.Kind) plan.CreditCause {
	n, w := &l.p.Lines[need], &l.Crediting.work
	switch cause := staleBecause(n); {
	case w.anew:
		return plan.CreditAnew
	case cause != plan.NotCredited:
		return cause
	case n.Tail != columnar.None:
		if x.WaitingAccept(k) { // what it has is gone for it in the lists, and yet the other may claim it
			return plan.CreditWaiting
		}
	case l.waitsForOthers(x, k):
		return plan.CreditWaiting
	}
	if n.Is(state.IsTouched|state.HasForeignStamp) || stamp != 0 && l.Crediting.stamps.entries[stamp-1].changed {
		if !n.Is(state.IsSatisfied) || !l.keepsOwn(need, stamp, k) {
			return plan.CreditStamps
		}
		n.Status &^= state.IsTouched | state.HasForeignStamp
	}
	if k.Same && cycle.Meet(w.touched, k.Accepts) && (!n.Is(state.IsSatisfied) || stamp != 0 && l.hasMore(need, stamp)) {
		return plan.CreditDomains
	}
	if !n.Is(state.IsSatisfied) && l.mayGain(n, k) || n.Is(state.LeftSuperfluous) && cycle.Meet(w.touched, k.Accepts) {
		return plan.CreditTempted
	}
	return plan.NotCredited
}

// mayGain reports whether a Need that lacks something, and has no Same or is parked, may find a machine that it could not claim
// before. One that left machines to others, because of whose they are, may find one that is not theirs any more: its stamp
// or the row that owns it is another one.
func (l *Worker) mayGain(n *state.Line, k *state.Kind) bool {
	w := &l.Crediting.work
	switch {
	case w.isSought && n.Is(state.IsParked|state.LeavesToEqual),
		n.Is(state.IsParked) && cycle.Meet(w.touched, k.Accepts),
		n.Is(state.LeavesToEqual) && cycle.Meet(w.changed, k.Accepts):
		return true
	}
	return !k.Same && cycle.Meet(w.loose, k.Accepts)
}

// staleBecause returns why a Need has no credit yet, or a stale one, whatever the others of its cluster have.
func staleBecause(n *state.Line) plan.CreditCause {
	switch {
	case n.Is(state.IsChanged):
		return plan.CreditRow
	case n.Is(state.IsRobbed):
		return plan.CreditRobbed
	case n.Is(state.IsResettled):
		return plan.CreditHeld
	case n.Is(state.IsStale):
		return plan.CreditLost
	case n.Is(state.IsUncredited):
		return plan.CreditWaiting
	}
	return plan.NotCredited
}

// keepsOwn reports whether a walk over a Need's own machines, as they are now, claims exactly the
// machines that the Need has. Then it relinks them in the order of the walk, and the Need is not
// credited again. Stamps change in most cycles: a machine that was credited with a foreign stamp
// carries the right one now.
func (l *Worker) keepsOwn(need int32, stamp uint32, k *state.Kind) bool {
	if stamp == 0 {
		return k.Mask == 0
	}
	x, n := &l.Crediting.stamps, &l.p.Lines[need]
	if x.entries[stamp-1].sharesOwn(l) {
		return false // it takes what fits best, not what the walk comes to first
	}
	l.Start(need)
	l.Crediting.seized = l.Crediting.seized[:0]
	for at := x.entries[stamp-1].first; at != 0 && l.Lacks != 0; at = x.next[at-1] {
		b := &l.Crediting.bound[at-1]
		if l.p.ClassMask[b.Class]&l.Lacks == 0 || !k.AcceptsClass(b.Class) || !l.p.InDomain(b.Row, need) {
			continue
		}
		if l.p.Claims.Of(b.Row) != need {
			return false
		}
		l.Subtract(b.Class)
		l.Crediting.seized = append(l.Crediting.seized, at-1)
	}
	left := len(l.Crediting.seized)
	for r := l.p.Claims.First(n); r != columnar.None; r = l.p.Claims.Next(r, n) {
		left--
	}
	if l.Lacks != 0 || left != 0 {
		return false
	}
	n.Empty()
	for _, place := range l.Crediting.seized {
		r := l.Crediting.bound[place].Row
		l.p.Claims.Release(r)
		l.p.Claims.Claim(r, need, n)
	}
	return true
}

// hasMore reports whether some machine carries a Need's stamp and is not claimed by it. Such a machine
// may lie in another domain, which the Need could choose by what is free there.
func (l *Worker) hasMore(need int32, stamp uint32) bool {
	for at := l.Crediting.stamps.entries[stamp-1].first; at != 0; at = l.Crediting.stamps.next[at-1] {
		if l.p.Claims.Of(l.Crediting.bound[at-1].Row) != need {
			return true
		}
	}
	return false
}

// creditAgain credits one Need and compares the result with its claims of the last cycle.
func (l *Worker) creditAgain(x *cycle.ClusterState, need int32, stamp uint32, k *state.Kind) {
	n := &l.p.Lines[need]
	waited := n.Status&(state.IsUncredited|state.IsStale) == state.IsUncredited
	l.letGoAll(need)
	if n.Is(state.IsSatisfied) {
		l.Figures.Satisfied -= l.p.Weight(need)
	}
	n.Status &= state.IsParked | state.IsFold | state.IsMember | state.HasSame | state.NeverFolds | state.IsHeldBack
	if k.Same {
		n.Status |= state.IsUncoverable
	}
	n.Domain = 0
	l.p.Lacking[l.Crediting.work.rank] = false
	l.creditNeed(x, need, stamp, k)
	if l.Crediting.work.anew {
		return
	}
	if n.Is(state.IsUncredited) && !waited {
		l.addBelow(func(_ int32, other *state.Kind) bool { return cycle.Meet(k.Accepts, other.Accepts) })
	}
	l.compare(need)
}

// letGoAll releases all that a Need claims, and remembers it in worklist.old. The Need may claim it again:
// compare tells what is loose.
func (l *Worker) letGoAll(need int32) {
	n, w := &l.p.Lines[need], &l.Crediting.work
	w.old = w.old[:0]
	for r := l.p.Claims.First(n); r != columnar.None; r = l.p.Claims.Next(r, n) {
		l.p.Claims.Release(r)
		w.old = append(w.old, r)
	}
	n.Empty()
}

// compare notes how the claims of a Need differ from those in worklist.old.
func (l *Worker) compare(need int32) {
	kept := 0
	for _, r := range l.Crediting.work.old {
		switch l.p.Claims.Of(r) {
		case need:
			kept++
		case state.Unclaimed:
			l.release(r, l.p.Snap.View.Class[r])
		}
	}
	if kept == len(l.Crediting.work.old) && kept == len(l.Crediting.seized) {
		return
	}
	for _, place := range l.Crediting.seized {
		l.touch(l.Crediting.bound[place].Class)
	}
}

// gone reports whether a machine, by its place in the open cluster, is out of reach of the Need at work:
// it or a Need that had its turn before has claimed it.
func (l *Worker) gone(place uint32) bool {
	h := l.p.Claims.Of(l.Crediting.bound[place].Row)
	return h >= 0 && l.p.RankOf[h] <= l.Crediting.work.rank
}

// seize claims a machine of the open cluster for the Need at work.
func (l *Worker) seize(place uint32, need int32, k *state.Kind) {
	l.seizeTaken(place, need, k)
	l.Subtract(l.Crediting.bound[place].Class)
}

// seizeTaken claims a machine that is subtracted from what the Need at work lacks. It may take the machine from a Need of
// lower rank that still holds it from the last cycle.
func (l *Worker) seizeTaken(place uint32, need int32, k *state.Kind) {
	r, class := l.Crediting.bound[place].Row, l.Crediting.bound[place].Class
	switch h := l.p.Claims.Of(r); h {
	case state.Unclaimed:
	case state.Loose:
		l.Crediting.work.fasten(class)
	default:
		l.p.Unlink(r, h)
		l.p.Lines[h].Status |= state.IsRobbed
		l.Crediting.work.add(l.placeOf(h))
	}
	l.Crediting.seized = append(l.Crediting.seized, place)
	l.p.st.Priority[r] = k.Priority
	l.p.Claims.Claim(r, need, &l.p.Lines[need])
}

// placeOf returns the place in Crediting.needs of a Need. O(log Needs).
func (l *Worker) placeOf(need int32) int {
	rank := l.p.RankOf[need]
	return sort.Search(len(l.Crediting.needs), func(i int) bool { return l.p.RankOf[l.Crediting.needs[i]] >= rank })
}
