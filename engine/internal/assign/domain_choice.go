package assign

import (
	"math/bits"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// settleDomain chooses the domain of a Same-Need during credit, where the machines bound to its cluster
// decide it whatever is free: one domain covers the Need, no other has more of the Need's own machines,
// and no reservation pins it elsewhere. It leaves the domain open when nothing bound can be credited.
// false means that the choice depends on what is free and must wait for the Need's turn.
func (l *Worker) settleDomain(need int32, k *state.Kind) bool {
	held := l.p.Reserved.Has(need)
	n, sc := &l.p.Lines[need], &l.choosing
	l.beginChoice(need)
	l.sumCreditable(need, k)
	if len(sc.Totals) == 0 {
		return !held
	}
	want := l.p.Aggregate(need)
	decided, ok := l.bestCovering(want)
	if ok && columnar.Covers(sc.At(decided, l.p.Dims).Own, want) {
		n.Domain = decided // whatever is held for it: the pin is there, or it ends
		return true
	}
	if held {
		return false // free machines may end the pin, and a higher rank may take what is held
	}
	if pin, pinned := l.p.PinnedDomain(need, k); pinned && (!ok || pin != decided) {
		return false
	}
	if n.Status&state.SitsOut != 0 || !k.MayAcquire {
		best, _ := l.bestCredited(want)
		if best.Covers || !k.MayAcquire { // with nothing free anywhere, this is all there is
			n.Domain = best.Value
			if best.Covers {
				n.Status &^= state.IsUncoverable
			}
			if !k.MayAcquire && !ok { // a free machine could have decided otherwise
				l.p.st.Clusters[l.p.ClusterOf(need)].Freeless = true
			}
			return true
		}
		return false
	}
	if !ok {
		return false
	}
	n.Domain = decided
	return true
}

// bestCovering returns the domain that credit alone decides for: its creditable machines cover what is
// wanted. ok is false when another covering domain has as many of the Need's own machines, or when any
// domain has more of them, since free machines may complete that one. Only own machines are compared:
// the capped scores of creditable machines are maximal in every domain that credit covers.
func (l *Worker) bestCovering(want []int64) (value uint32, ok bool) {
	totals := l.choosing.Totals
	var best *domains.Totals
	tie := false
	for i := range totals {
		t := &totals[i]
		if !columnar.Covers(t.Creditable, want) {
			continue
		}
		c := 1
		if best != nil {
			c = exact.CompareScores(t.Own, best.Own, want, true)
		}
		tie = c == 0 || tie && c < 0
		if c > 0 {
			best = t
		}
	}
	if best == nil || tie {
		return 0, false
	}
	for i := range totals {
		if t := &totals[i]; !columnar.IsZero(t.Own) && exact.CompareScores(t.Own, best.Own, want, true) > 0 {
			return 0, false
		}
	}
	return best.Value, true
}

// chooseFree chooses the domain of a Same-Need that can be credited nothing; false when it has no
// domain to acquire in.
func (l *Worker) chooseFree(need int32, k *state.Kind) bool {
	n := &l.p.Lines[need]
	l.beginChoice(need)
	best, ok := l.bestFree(need, k)
	if ok && best.Covers {
		n.Status &^= state.IsUncoverable
	}
	if !ok || n.Status&state.SitsOut != 0 {
		return false
	}
	n.Domain = best.Value
	return true
}

// chooseDomain chooses the best domain for a Same-Need at its turn; false when no machine anywhere
// could serve it.
func (l *Worker) chooseDomain(need int32, k *state.Kind) bool {
	n := &l.p.Lines[need]
	best, ok := l.bestDomain(need, k, n.Status&state.SitsOut == 0)
	if ok {
		n.Domain = best.Value
	}
	if ok && best.Covers || n.Status&state.SitsOut != 0 && l.someDomainCovers(need, k) {
		n.Status &^= state.IsUncoverable
	}
	return ok
}

// someDomainCovers reports whether the best domain would cover the Need if it were to acquire.
func (l *Worker) someDomainCovers(need int32, k *state.Kind) bool {
	best, ok := l.bestDomain(need, k, true)
	return ok && best.Covers
}

// bestDomain returns the best of the domains in which the Need could be credited or, if acquiring,
// acquire something. The result is valid until the next call.
func (l *Worker) bestDomain(need int32, k *state.Kind, acquiring bool) (best domains.Totals, found bool) {
	l.beginChoice(need)
	l.sumLeft(need, k)
	if acquiring {
		l.addBlocked(need, k)
		l.addFree(k)
	}
	want := l.p.Aggregate(need)
	best, found = l.bestCredited(want)
	// A domain with credit that covers beats every domain without credit.
	if !acquiring || found && best.Covers && !columnar.IsZero(best.Creditable) {
		return best, found
	}
	free, exists := l.bestFree(need, k)
	if exists && (!found || domains.Better(l.p.Snap.Supply, &free, &best, want)) {
		return free, true
	}
	return best, found
}

// bestCredited returns the best of the domains in which something is for the Need alone.
func (l *Worker) bestCredited(want []int64) (best domains.Totals, found bool) {
	sc := &l.choosing
	for i := range sc.Totals {
		t := &sc.Totals[i]
		l.Figures.Probes++
		t.Covers = columnar.Covers(t.Total, want)
		t.Viable = t.Covers || sc.IsViable(t.Total)
		if !found || domains.Better(l.p.Snap.Supply, t, &best, want) {
			best, found = *t, true
		}
	}
	return best, found
}

// addBlocked adds the free machines that are withdrawn for the Need alone.
func (l *Worker) addBlocked(need int32, k *state.Kind) {
	for _, r := range l.p.Reserved.Of(need) {
		if v, ok := l.p.Snap.Supply.Domain(k.Matcher, r); ok && l.p.isBlocked(r, k) {
			t := l.choosing.At(v, l.p.Dims)
			t.Count++
			columnar.SatAdd(t.Total, l.p.Vec(r))
		}
	}
}

// addFree adds the free machines to the totals of the domains that totals has already.
func (l *Worker) addFree(k *state.Kind) {
	sc := &l.choosing
	if len(sc.Totals) == 0 {
		return
	}
	d := l.DomainsFor(k.Matcher)
	v := d.Of(k.Matcher)
	for i := range sc.Totals {
		t := &sc.Totals[i]
		t.Count += l.sumShelves(k, d, v.ShelvesOf(t.Value), t.Total)
	}
}

// bestFree returns the best of the domains in which nothing is for the Need alone.
func (l *Worker) bestFree(need int32, k *state.Kind) (domains.Totals, bool) {
	// If the kind accepts every class of its matcher, the totals of a kind of domains hold for the Need
	// as they are.
	whole := len(k.Classes) == len(l.p.ClassesOf[k.Matcher])
	best, found, probes := l.DomainsFor(k.Matcher).BestFree(&l.choosing, k.Matcher, l.p.Aggregate(need), whole, k.Accepts)
	l.Figures.Probes += probes
	return best, found
}

// sumShelves adds the machines left on shelves to a total, and returns how many machines these are.
func (l *Worker) sumShelves(k *state.Kind, d *domains.Index, shelves []uint32, total []int64) int {
	l.Figures.Probes += int64(len(shelves))
	return d.AddLeft(total, shelves, k.Accepts)
}

// beginChoice prepares the totals for a Need, and reads its minimum.
func (l *Worker) beginChoice(need int32) {
	sc := &l.choosing
	sc.Reset(l.p.Dims, l.p.Snap.Supply.ValueIDMax())
	src := l.p.SourceOf(need)
	row := int(need - src.Base)
	if sc.Elastic = len(src.Block.MinAggregate(row)) > 0; sc.Elastic {
		clear(sc.Least)
		l.p.AddMinimum(sc.Least, src.Block, row)
	}
}

// sumCreditable sums, by domain, the machines of the open cluster that the Need could be credited. Of
// those that are being created it counts only the Need's own.
func (l *Worker) sumCreditable(need int32, k *state.Kind) {
	group := l.p.GroupOf(need)
	for i, live := range l.Crediting.live {
		for left := live & k.Accepts[i]; left != 0; left &= left - 1 {
			head := &l.Crediting.heads[i<<6+bits.TrailingZeros64(left)]
			for *head != 0 && l.gone(*head-1) {
				*head = l.Crediting.bound[*head-1].Next
			}
			for at := *head; at != 0; at = l.Crediting.bound[at-1].Next {
				l.Figures.Probes++
				if b := &l.Crediting.bound[at-1]; !l.gone(at - 1) {
					if v, ok := l.p.Snap.Supply.Domain(k.Matcher, b.Row); ok {
						l.addCreditable(v, b.Class, b.Fingerprint == k.Fingerprint && b.Group == group)
					}
				}
			}
		}
	}
	for at := l.p.Snap.CreatingFrom(int(l.p.ClusterOf(need))); at < len(l.Crediting.bound); at++ {
		b := &l.Crediting.bound[at]
		if b.Fingerprint != k.Fingerprint || b.Group != group || !k.AcceptsClass(b.Class) || l.gone(uint32(at)) {
			continue
		}
		if v, ok := l.p.Snap.Supply.Domain(k.Matcher, b.Row); ok {
			l.addCreditable(v, b.Class, true)
		}
	}
}

// addCreditable adds a creditable machine of a class to the totals of its domain.
func (l *Worker) addCreditable(domain, class uint32, own bool) {
	t, offers := l.choosing.At(domain, l.p.Dims), l.p.Vector(class)
	t.Count++
	columnar.SatAdd(t.Total, offers)
	columnar.SatAdd(t.Creditable, offers)
	if own {
		columnar.SatAdd(t.Own, offers)
	}
}

// Machines that are held or being created for a Same-Need pin its domain. The Need does not choose,
// until the pin ends at its turn.

// domainAtTurn determines the domain of a Same-Need at its turn: the pinned one while the pin lasts,
// else the best; false when no machine anywhere could serve the Need.
func (l *Worker) domainAtTurn(need int32, k *state.Kind) bool {
	pin, pinned := l.p.PinnedDomain(need, k)
	if !pinned {
		return l.chooseDomain(need, k)
	}
	n := &l.p.Lines[need]
	if l.pinEnds(need, k, pin) {
		n.Status &^= state.IsHeldBack
		return l.chooseDomain(need, k)
	}
	n.Domain = pin
	n.Status = n.Status&^state.IsUncoverable | state.IsPinned
	return true
}

// pinEnds reports whether the pin to a domain has ended. It has when the Need's own machines in another
// domain cover it; or when the domain that it would choose covers it and the pinned one no longer does,
// with everything that is free there, creditable, or on its way to the Need.
func (l *Worker) pinEnds(need int32, k *state.Kind, pin uint32) bool {
	best, found := l.bestDomain(need, k, !l.p.Lines[need].Is(state.IsParked))
	want, sc := l.p.Aggregate(need), &l.choosing
	for i := range sc.Totals {
		if t := &sc.Totals[i]; t.Value != pin && columnar.Covers(t.Own, want) {
			return true
		}
	}
	if !found || !best.Covers || best.Value == pin {
		return false
	}
	there := sc.Vecs.Take(l.p.Dims)
	if sc.Credited(pin) {
		columnar.SatAdd(there, sc.At(pin, l.p.Dims).Creditable)
	}
	d := l.DomainsFor(k.Matcher)
	l.sumShelves(k, d, d.Of(k.Matcher).ShelvesOf(pin), there)
	for _, r := range l.p.HeldFor(need) {
		if v, ok := l.p.Snap.Supply.Domain(k.Matcher, r); ok && v == pin && (l.p.Arrives(r, need, k) || l.p.isBlocked(r, k)) {
			columnar.SatAdd(there, l.p.Vec(r))
		}
	}
	return !columnar.Covers(there, want)
}

// isBlocked reports whether a machine that is held for the Need at its turn is withdrawn for it alone:
// Needs of higher rank have had their turns, and the machine is off the shelves. FreeReserved tests the
// class first, since other columns of a class that the kind does not accept may be written by another
// worker.
func (p *Pass) isBlocked(r columnar.Row, k *state.Kind) bool {
	return p.FreeReserved(r, k) && p.Taken[r]
}

// PinnedDomain returns the domain of most of the machines that pin a Need; of several, the smaller
// value.
func (p *Pass) PinnedDomain(need int32, k *state.Kind) (uint32, bool) {
	c, held := p.ClusterOf(need), p.Reserved.Of(need)
	bound, first := p.Snap.BoundOf(int(c)), p.Snap.CreatingFrom(int(c))
	if len(held) == 0 && first == len(bound) {
		return 0, false
	}
	counts := map[uint32]int{}
	count := func(r columnar.Row) {
		if v, ok := p.Snap.Supply.Domain(k.Matcher, r); ok {
			counts[v]++
		}
	}
	for _, r := range held {
		if !k.AcceptsClass(p.Snap.View.Class[r]) {
			continue // its claim may be written by another worker
		}
		switch state := p.Snap.View.State[r]; {
		case state == model.Configured && p.Snap.ClusterOf[p.Snap.View.Cluster[r]] == c: // it has arrived
		case state == model.Creating && p.ComesTo(r, need): // counted below
		case !p.claimedAbove(r, need):
			count(r)
		}
	}
	group := p.GroupOf(need)
	for at := first; at < len(bound); at++ {
		if b := &bound[at]; b.Fingerprint == k.Fingerprint && b.Group == group && k.AcceptsClass(b.Class) && !p.claimedAbove(b.Row, need) {
			count(b.Row)
		}
	}
	return p.mostOften(counts)
}

// mostOften returns the value with the highest count, of several the smaller; false when counts is
// empty.
func (p *Pass) mostOften(counts map[uint32]int) (best uint32, found bool) {
	for v, n := range counts {
		if !found || n > counts[best] || n == counts[best] && domains.Less(p.Snap.Supply, v, best) {
			best, found = v, true
		}
	}
	return best, found
}

// claimedAbove reports whether a Need of higher rank claims a machine.
func (p *Pass) claimedAbove(r columnar.Row, need int32) bool {
	h := p.Claims.Of(r)
	return h >= 0 && p.RankOf[h] < p.RankOf[need]
}
