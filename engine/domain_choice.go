package engine

import (
	"math/bits"
	"strings"

	"github.com/tonnage/tonnage/columnar"
)

// domainTotals is what a Same-Need could have in one domain.
type domainTotals struct {
	value      uint32
	count      int
	total      []int64
	creditable []int64
	own        []int64
	covers     bool
	viable     bool // covers what the need can live with
}

// domainScratch holds the totals of one need's domains while it chooses.
type domainScratch struct {
	credit []int32 // by value: 1 + index of totals, of the domains with machines that are for the need alone
	totals []domainTotals
	vectorBlock
	zero []int64
	free [2][]int64 // totals of the best domain without credit, and of the one at hand
	// least is what the need can live with, if that is less than what it wants.
	least   []int64
	elastic bool
}

// settleDomain picks the domain of a Same-Need where what is bound to its
// cluster decides it, whatever is free: one domain covers it, none has more of its
// own machines, and nothing pins it elsewhere. It may leave the domain open, when
// nothing here can be credited; false means that the choice has to wait for the
// need's turn.
func (l *worker) settleDomain(need int32, k *kind) bool {
	held := l.reserved.has(need)
	n, sc := &l.lines[need], &l.domain
	l.beginChoice(need)
	l.sumCreditable(need, k)
	if len(sc.totals) == 0 {
		return !held
	}
	want := l.aggregate(need)
	decided, ok := l.bestCovering(want)
	if ok && columnar.Covers(sc.at(decided, l.dims).own, want) {
		n.domain = decided // whatever is held for it: it is pinned there, or no longer
		return true
	}
	if held {
		return false // what else is free may end the pin, and who ranks above it the reservation
	}
	if pin, pinned := l.pinnedDomain(need, k); pinned && (!ok || pin != decided) {
		return false
	}
	if n.status&sitsOut != 0 || !k.mayAcquire {
		best, _ := l.bestCredited(want)
		if best.covers || !k.mayAcquire { // with nothing free anywhere, this is all
			n.domain = best.value
			if best.covers {
				n.status &^= isUncoverable
			}
			if !k.mayAcquire && !ok { // something free could have decided otherwise
				l.e.store.clusters[n.cluster].freeless = true
			}
			return true
		}
		return false
	}
	if !ok {
		return false
	}
	n.domain = decided
	return true
}

// bestCovering returns the domain that credit alone decides for: one whose
// creditable machines cover what is wanted, if no other has as many of the need's
// own that covers it too, or more of these, which what is free may complete.
// Domains that cover by credit have equal scores of that, the highest.
func (l *worker) bestCovering(want []int64) (value uint32, ok bool) {
	totals := l.domain.totals
	var best *domainTotals
	tie := false
	for i := range totals {
		t := &totals[i]
		if !columnar.Covers(t.creditable, want) {
			continue
		}
		c := 1
		if best != nil {
			c = compareScores(t.own, best.own, want, true)
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
		if t := &totals[i]; !columnar.IsZero(t.own) && compareScores(t.own, best.own, want, true) > 0 {
			return 0, false
		}
	}
	return best.value, true
}

// chooseFree picks the domain of a Same-Need that can be credited nothing;
// false when it has none to acquire in.
func (l *worker) chooseFree(need int32, k *kind) bool {
	n := &l.lines[need]
	l.beginChoice(need)
	best, ok := l.bestFree(need, k)
	if ok && best.covers {
		n.status &^= isUncoverable
	}
	if !ok || n.status&sitsOut != 0 {
		return false
	}
	n.domain = best.value
	return true
}

// chooseDomain picks the best domain for a Same-Need at its turn; false when no machine
// anywhere could serve it.
func (l *worker) chooseDomain(need int32, k *kind) bool {
	n := &l.lines[need]
	best, ok := l.bestDomain(need, k, n.status&sitsOut == 0)
	if ok {
		n.domain = best.value
	}
	if ok && best.covers || n.status&sitsOut != 0 && l.someDomainCovers(need, k) {
		n.status &^= isUncoverable
	}
	return ok
}

func (l *worker) someDomainCovers(need int32, k *kind) bool {
	best, ok := l.bestDomain(need, k, true)
	return ok && best.covers
}

func (p *pass) valueLess(a, b uint32) bool {
	return strings.Compare(p.s.Supply.ValueString(a), p.s.Supply.ValueString(b)) < 0
}

// bestDomain compares all domains in which the need could be credited or, if
// asked for, acquire anything. The result is valid until the next call.
func (l *worker) bestDomain(need int32, k *kind, acquiring bool) (best domainTotals, found bool) {
	l.beginChoice(need)
	l.sumLeft(need, k)
	if acquiring {
		l.addBlocked(need, k)
		l.addFree(k)
	}
	want := l.aggregate(need)
	best, found = l.bestCredited(want)
	// A domain with credit that covers beats every domain without credit.
	if !acquiring || found && best.covers && !columnar.IsZero(best.creditable) {
		return best, found
	}
	free, exists := l.bestFree(need, k)
	if exists && (!found || l.betterDomain(&free, &best, want)) {
		return free, true
	}
	return best, found
}

// bestCredited compares the domains where the need could be credited.
func (l *worker) bestCredited(want []int64) (best domainTotals, found bool) {
	sc := &l.domain
	for i := range sc.totals {
		t := &sc.totals[i]
		l.probes++
		t.covers = columnar.Covers(t.total, want)
		t.viable = t.covers || sc.isViable(t.total)
		if !found || l.betterDomain(t, &best, want) {
			best, found = *t, true
		}
	}
	return best, found
}

// addBlocked adds what is free for the need alone.
func (l *worker) addBlocked(need int32, k *kind) {
	for _, r := range l.reserved.of(need) {
		if v, ok := l.s.Supply.Domain(k.matcher, r); ok && l.isBlocked(r, k) {
			t := l.domain.at(v, l.dims)
			t.count++
			columnar.SatAdd(t.total, l.vec(r))
		}
	}
}

// addFree adds what is free to the totals of the domains with credit.
func (l *worker) addFree(k *kind) {
	sc := &l.domain
	if len(sc.totals) == 0 {
		return
	}
	d := l.domainsFor(k.matcher)
	v := d.of(l.pass, k.matcher)
	for i := range sc.totals {
		t := &sc.totals[i]
		if at, ok := v.place[t.value]; ok {
			t.count += l.sumShelves(k, d, v.list[at].shelves, t.total)
		}
	}
}

// bestFree returns the best of the domains where the need has nothing to be
// credited, looking at one of each kind.
func (l *worker) bestFree(need int32, k *kind) (best domainTotals, found bool) {
	sc := &l.domain
	want := l.aggregate(need)
	d := l.domainsFor(k.matcher)
	v := d.of(l.pass, k.matcher)
	v.catchUp(l.pass, d)
	credited := func(at uint32) bool { return sc.credited(v.list[at].value) }
	whole := len(k.classes) == len(l.classesOf[k.matcher])
	l.weigh(want)
	var b freeDomain
	for i := 0; i < len(v.live); {
		number := v.live[i]
		kind := &v.kinds[number]
		a := freeDomain{count: kind.count, total: kind.total}
		if whole {
			l.rate(&a, want)
			if b.count > 0 && a.worse(&b) {
				i++ // wherever it is
				continue
			}
		}
		at, ok := v.first(d, int(number), credited)
		if !ok && len(kind.places) == 0 {
			v.live[i] = v.live[len(v.live)-1]
			v.live = v.live[:len(v.live)-1]
			continue
		}
		i++
		if !ok {
			continue
		}
		l.probes++
		a.at = at
		if !whole { // some of what lies there is too small
			a.total = sc.free[1]
			clear(a.total)
			a.count = l.sumShelves(k, d, v.list[at].shelves, a.total)
			l.rate(&a, want)
		}
		if a.count > 0 && (b.count == 0 || a.better(&b, want)) {
			b = a
			if !whole {
				sc.free[0], sc.free[1] = sc.free[1], sc.free[0]
			}
		}
	}
	if b.count == 0 {
		return domainTotals{}, false
	}
	return domainTotals{
		value: v.list[b.at].value, count: b.count, total: b.total, creditable: sc.zero, own: sc.zero, covers: b.covers, viable: b.viable,
	}, true
}

// freeDomain is a domain without credit; at is its place by value.
type freeDomain struct {
	total  []int64
	score  float64 // the less the better when it covers, else the more
	count  int
	at     uint32
	covers bool
	viable bool
}

// weigh prepares the scores of domains for what is wanted.
func (l *worker) weigh(want []int64) {
	l.weights = grown(l.weights, len(want))
	for d, w := range want {
		l.weights[d] = 0
		if w > 0 {
			l.weights[d] = 1 / float64(w)
		}
	}
}

// rate finds out whether a domain covers what is wanted, and its score, which
// is close: compareScores decides where that is not enough.
func (l *worker) rate(a *freeDomain, want []int64) {
	a.covers, a.score = columnar.Covers(a.total, want), 0
	a.viable = a.covers || l.domain.isViable(a.total)
	for d, w := range l.weights {
		x := a.total[d]
		if !a.covers {
			x = min(x, want[d])
		}
		a.score += float64(x) * w
	}
}

// scoreSlack is how far scores that are close may be off, as a part of them.
const scoreSlack = 1e-12

// worse reports whether a domain is certain to be worse than another.
func (a *freeDomain) worse(b *freeDomain) bool {
	if a.covers != b.covers {
		return b.covers
	}
	if a.viable != b.viable {
		return b.viable
	}
	diff := a.score - b.score
	if a.covers {
		diff = -diff
	}
	return diff < -(a.score+b.score)*scoreSlack
}

// better is betterDomain for domains without credit.
func (a *freeDomain) better(b *freeDomain, want []int64) bool {
	switch {
	case a.worse(b):
		return false
	case b.worse(a):
		return true
	}
	c := compareScores(a.total, b.total, want, !a.covers)
	if a.covers {
		c = -c
	}
	if c == 0 {
		c = a.count - b.count
	}
	return c > 0 || c == 0 && a.at < b.at
}

// sumShelves adds what is left on the shelves to a total and returns how many
// machines that is.
func (l *worker) sumShelves(k *kind, d *domainIndex, shelves []uint32, total []int64) int {
	count := 0
	for _, i := range shelves {
		sh := &d.shelves[i]
		l.probes++
		if sh.left == 0 || !k.acceptsClass(sh.class) {
			continue
		}
		count += int(sh.left)
		columnar.SatAddScaled(total, l.vector(sh.class), int64(sh.left))
	}
	return count
}

func (sc *domainScratch) reset(dims, values int) {
	for i := range sc.totals {
		sc.credit[sc.totals[i].value] = 0
	}
	if len(sc.credit) < values {
		sc.credit = make([]int32, values+values/8)
	}
	if sc.zero == nil {
		sc.zero, sc.least = make([]int64, dims), make([]int64, dims)
		sc.free = [2][]int64{make([]int64, dims), make([]int64, dims)}
	}
	sc.totals = sc.totals[:0]
	sc.empty()
}

// beginChoice makes room for the totals of the domains that a need chooses from.
func (l *worker) beginChoice(need int32) {
	sc := &l.domain
	sc.reset(l.dims, l.s.Supply.ValueIDMax())
	src := &l.sources[l.lines[need].cluster]
	row := int(need - src.base)
	if sc.elastic = len(src.block.MinAggregate(row)) > 0; sc.elastic {
		clear(sc.least)
		l.addMinimum(sc.least, src.block, row)
	}
}

// isViable reports whether a domain that does not cover the need covers what it
// can live with.
func (sc *domainScratch) isViable(total []int64) bool {
	return sc.elastic && columnar.Covers(total, sc.least)
}

// credited reports whether a domain has machines that are for the need alone: creditable
// ones, or such as are held for it.
func (sc *domainScratch) credited(value uint32) bool {
	return sc.credit[value] != 0
}

// at returns the totals of a domain that has creditable machines.
func (sc *domainScratch) at(value uint32, dims int) *domainTotals {
	if i := len(sc.totals) - 1; i >= 0 && sc.totals[i].value == value {
		return &sc.totals[i] // as its neighbour on the list
	}
	i := int(sc.credit[value]) - 1
	if i < 0 {
		i = len(sc.totals)
		sc.credit[value] = int32(i) + 1
		v := sc.take(3 * dims)
		sc.totals = append(sc.totals, domainTotals{
			value: value, total: v[:dims:dims], creditable: v[dims : 2*dims : 2*dims], own: v[2*dims:],
		})
	}
	return &sc.totals[i]
}

// sumCreditable adds what the need could be credited, by domain. Its cluster
// is the one that is open.
func (l *worker) sumCreditable(need int32, k *kind) {
	group := l.groupOf(need)
	for i, live := range l.live {
		for left := live & k.accepts[i]; left != 0; left &= left - 1 {
			head := &l.heads[i<<6+bits.TrailingZeros64(left)]
			for *head != 0 && l.gone(*head-1) {
				*head = l.bound[*head-1].Next
			}
			for at := *head; at != 0; at = l.bound[at-1].Next {
				l.probes++
				if b := &l.bound[at-1]; !l.gone(at - 1) {
					if v, ok := l.s.Supply.Domain(k.matcher, b.Row); ok {
						l.addCreditable(v, b.Class, b.Fingerprint == k.fingerprint && b.Group == group)
					}
				}
			}
		}
	}
	for at := l.s.CreatingFrom(int(l.lines[need].cluster)); at < len(l.bound); at++ {
		b := &l.bound[at]
		if b.Fingerprint != k.fingerprint || b.Group != group || !k.acceptsClass(b.Class) || l.gone(uint32(at)) {
			continue
		}
		if v, ok := l.s.Supply.Domain(k.matcher, b.Row); ok {
			l.addCreditable(v, b.Class, true)
		}
	}
}

// addCreditable adds a machine of a class that the need could be credited to the
// totals of its domain.
func (l *worker) addCreditable(domain, class uint32, own bool) {
	t, offers := l.domain.at(domain, l.dims), l.vector(class)
	t.count++
	columnar.SatAdd(t.total, offers)
	columnar.SatAdd(t.creditable, offers)
	if own {
		columnar.SatAdd(t.own, offers)
	}
}

// betterDomain reports whether a goes before b: covering first, then those that
// cover what the need can live with; then more own; among covering ones more
// creditable, less in all; among others more in all, more creditable; then more
// machines, then the smaller value.
func (p *pass) betterDomain(a, b *domainTotals, want []int64) bool {
	if a.covers != b.covers {
		return a.covers
	}
	if a.viable != b.viable {
		return a.viable
	}
	capped := func(x, y []int64) int { return compareScores(x, y, want, true) }
	c := capped(a.own, b.own)
	switch {
	case c != 0:
	case a.covers:
		if c = capped(a.creditable, b.creditable); c == 0 {
			c = -compareScores(a.total, b.total, want, false)
		}
	default:
		if c = capped(a.total, b.total); c == 0 {
			c = capped(a.creditable, b.creditable)
		}
	}
	if c == 0 {
		c = a.count - b.count
	}
	if c != 0 {
		return c > 0
	}
	return p.valueLess(a.value, b.value)
}
