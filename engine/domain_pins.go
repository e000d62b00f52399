package engine

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Machines that are held or being created for a Same-Need pin its domain. The Need does not choose,
// until the pin ends at its turn.

// domainAtTurn determines the domain of a Same-Need at its turn: the pinned one while the pin lasts,
// else the best; false when no machine anywhere could serve the Need.
func (l *worker) domainAtTurn(need int32, k *kind) bool {
	pin, pinned := l.pinnedDomain(need, k)
	if !pinned {
		return l.chooseDomain(need, k)
	}
	n := &l.lines[need]
	if l.pinEnds(need, k, pin) {
		n.status &^= isHeldBack
		return l.chooseDomain(need, k)
	}
	n.domain = pin
	n.status = n.status&^isUncoverable | isPinned
	return true
}

// pinEnds reports whether the pin to a domain has ended. It has when the Need's own machines in another
// domain cover it; or when the domain that it would choose covers it and the pinned one no longer does,
// with everything that is free there, creditable, or on its way to the Need.
func (l *worker) pinEnds(need int32, k *kind, pin uint32) bool {
	best, found := l.bestDomain(need, k, !l.lines[need].is(isParked))
	want, sc := l.aggregate(need), &l.domain
	for i := range sc.totals {
		if t := &sc.totals[i]; t.value != pin && columnar.Covers(t.own, want) {
			return true
		}
	}
	if !found || !best.covers || best.value == pin {
		return false
	}
	there := sc.take(l.dims)
	if sc.credited(pin) {
		columnar.SatAdd(there, sc.at(pin, l.dims).creditable)
	}
	d := l.domainsFor(k.matcher)
	v := d.of(l.pass, k.matcher)
	if at, ok := v.place[pin]; ok {
		l.sumShelves(k, d, v.list[at].shelves, there)
	}
	for _, r := range l.heldFor(need) {
		if v, ok := l.s.Supply.Domain(k.matcher, r); ok && v == pin && (l.arrives(r, need, k) || l.isBlocked(r, k)) {
			columnar.SatAdd(there, l.vec(r))
		}
	}
	return !columnar.Covers(there, want)
}

// isBlocked reports whether a machine that is held for the Need at its turn is withdrawn for it alone:
// Needs of higher rank have had their turns, and the machine is off the shelves. freeReserved tests the
// class first, since other columns of a class that the kind does not accept may be written by another
// worker.
func (l *worker) isBlocked(r columnar.Row, k *kind) bool { return l.freeReserved(r, k) && l.taken[r] }

// pinnedDomain returns the domain of most of the machines that pin a Need; of several, the smaller
// value.
func (l *worker) pinnedDomain(need int32, k *kind) (uint32, bool) {
	c, held := l.lines[need].cluster, l.reserved.of(need)
	bound, first := l.s.BoundOf(int(c)), l.s.CreatingFrom(int(c))
	if len(held) == 0 && first == len(bound) {
		return 0, false
	}
	counts := map[uint32]int{}
	count := func(r columnar.Row) {
		if v, ok := l.s.Supply.Domain(k.matcher, r); ok {
			counts[v]++
		}
	}
	for _, r := range held {
		if !k.acceptsClass(l.s.View.Class[r]) {
			continue // its claim may be written by another worker
		}
		switch state := l.s.View.State[r]; {
		case state == model.Configured && l.s.ClusterOf[l.s.View.Cluster[r]] == c: // it has arrived
		case state == model.Creating && l.comesTo(r, need): // counted below
		case !l.claimedAbove(r, need):
			count(r)
		}
	}
	group := l.groupOf(need)
	for at := first; at < len(bound); at++ {
		if b := &bound[at]; b.Fingerprint == k.fingerprint && b.Group == group && k.acceptsClass(b.Class) && !l.claimedAbove(b.Row, need) {
			count(b.Row)
		}
	}
	return l.mostOften(counts)
}

// mostOften returns the value with the highest count, of several the smaller; false when counts is
// empty.
func (p *pass) mostOften(counts map[uint32]int) (best uint32, found bool) {
	for v, n := range counts {
		if !found || n > counts[best] || n == counts[best] && p.valueLess(v, best) {
			best, found = v, true
		}
	}
	return best, found
}

// claimedAbove reports whether a Need of higher rank claims a machine.
func (l *worker) claimedAbove(r columnar.Row, need int32) bool {
	h := l.held[r].need
	return h >= 0 && l.rankOf[h] < l.rankOf[need]
}
