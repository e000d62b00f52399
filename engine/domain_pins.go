package engine

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// A Same-Need for which machines are held, or being created, does not choose its
// domain: these pin it, until the pin ends at the need's turn.

// domainAtTurn gives a Same-Need, at its turn, the one domain that it is credited and
// acquires in: that of what pins it, while that lasts, or else the best; false when no
// machine anywhere could serve it.
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

// pinEnds reports whether a need is pinned to a domain no longer: its own machines
// elsewhere cover it already, or the domain that it would choose covers it, and this
// one does not any more, with all that is free there, creditable, or on its way to it.
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

// isBlocked reports whether a machine that is held for a need at its turn is there for
// it alone: others ranked above it have had their turns, and it is off the shelves.
//
// What the kind does not accept may be another worker's, so it asks that first.
func (l *worker) isBlocked(r columnar.Row, k *kind) bool { return l.freeReserved(r, k) && l.taken[r] }

// pinnedDomain returns the domain of most of the machines that pin a need; ties go to
// the smaller value.
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
			continue // who claims it is another worker's concern
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
		if b := &bound[at]; b.Fingerprint == k.fingerprint && b.Group == group && k.acceptsClass(b.Class) && !l.wasCredited(uint32(at), need) {
			count(b.Row)
		}
	}
	return l.mostOften(counts)
}

// mostOften returns the value that has been counted most often, of several the smaller;
// false when none has.
func (p *pass) mostOften(counts map[uint32]int) (best uint32, found bool) {
	for v, n := range counts {
		if !found || n > counts[best] || n == counts[best] && p.valueLess(v, best) {
			best, found = v, true
		}
	}
	return best, found
}

// wasCredited reports whether a machine of the need's cluster, given by its place in the
// list, is that of a need ranked above it. While the cluster is credited, who claims
// what is known by place alone.
func (l *worker) wasCredited(place uint32, need int32) bool {
	if l.replay.listed {
		return l.gone(place)
	}
	return l.claimedAbove(l.s.BoundOf(int(l.lines[need].cluster))[place].Row, need)
}

// claimedAbove reports whether a need that ranks above this one claims a machine.
func (l *worker) claimedAbove(r columnar.Row, need int32) bool {
	h := l.held[r].need
	return h != unheld && l.rankOf[h] < l.rankOf[need]
}
