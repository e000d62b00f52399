package engine

import (
	"math/bits"
	"strings"

	"github.com/tonnage/tonnage/columnar"
)

// domainTotals sums what a Same-Need could have in one domain.
type domainTotals struct {
	value      uint32
	count      int
	total      []int64
	creditable []int64
	own        []int64
	covers     bool
	viable     bool // total covers the Need's minimum
}

// domainScratch holds the totals of one Need's domains while it chooses.
type domainScratch struct {
	credit []int32 // by value: 1 + index in totals, for domains with machines that are for this Need alone
	totals []domainTotals
	vectorBlock
	zero []int64
	free [2][]int64 // the best domain without credit, and the one at hand
	// least is the Need's minimum, if elastic: if that is less than what it wants.
	least   []int64
	elastic bool
}

// settleDomain chooses the domain of a Same-Need during credit, where the machines bound to its cluster
// decide it whatever is free: one domain covers the Need, no other has more of the Need's own machines,
// and no reservation pins it elsewhere. It leaves the domain open when nothing bound can be credited.
// false means that the choice depends on what is free and must wait for the Need's turn.
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
		n.domain = decided // whatever is held for it: the pin is there, or it ends
		return true
	}
	if held {
		return false // free machines may end the pin, and a higher rank may take what is held
	}
	if pin, pinned := l.pinnedDomain(need, k); pinned && (!ok || pin != decided) {
		return false
	}
	if n.status&sitsOut != 0 || !k.mayAcquire {
		best, _ := l.bestCredited(want)
		if best.covers || !k.mayAcquire { // with nothing free anywhere, this is all there is
			n.domain = best.value
			if best.covers {
				n.status &^= isUncoverable
			}
			if !k.mayAcquire && !ok { // a free machine could have decided otherwise
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

// bestCovering returns the domain that credit alone decides for: its creditable machines cover what is
// wanted. ok is false when another covering domain has as many of the Need's own machines, or when any
// domain has more of them, since free machines may complete that one. Only own machines are compared:
// the capped scores of creditable machines are maximal in every domain that credit covers.
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

// chooseFree chooses the domain of a Same-Need that can be credited nothing; false when it has no
// domain to acquire in.
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

// chooseDomain chooses the best domain for a Same-Need at its turn; false when no machine anywhere
// could serve it.
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

// someDomainCovers reports whether the best domain would cover the Need if it were to acquire.
func (l *worker) someDomainCovers(need int32, k *kind) bool {
	best, ok := l.bestDomain(need, k, true)
	return ok && best.covers
}

// valueLess compares two domain values as texts.
func (p *pass) valueLess(a, b uint32) bool {
	return strings.Compare(p.s.Supply.ValueString(a), p.s.Supply.ValueString(b)) < 0
}

// bestDomain returns the best of the domains in which the Need could be credited or, if acquiring,
// acquire something. The result is valid until the next call.
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

// bestCredited returns the best of the domains in which something is for the Need alone.
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

// addBlocked adds the free machines that are withdrawn for the Need alone.
func (l *worker) addBlocked(need int32, k *kind) {
	for _, r := range l.reserved.of(need) {
		if v, ok := l.s.Supply.Domain(k.matcher, r); ok && l.isBlocked(r, k) {
			t := l.domain.at(v, l.dims)
			t.count++
			columnar.SatAdd(t.total, l.vec(r))
		}
	}
}

// addFree adds the free machines to the totals of the domains that totals has already.
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

// bestFree returns the best of the domains in which nothing is for the Need alone. It rates one domain
// of each kind of domains.
func (l *worker) bestFree(need int32, k *kind) (best domainTotals, found bool) {
	sc := &l.domain
	want := l.aggregate(need)
	d := l.domainsFor(k.matcher)
	v := d.of(l.pass, k.matcher)
	v.catchUp(l.pass, d)
	credited := func(at uint32) bool { return sc.credited(v.list[at].value) }
	// If the kind accepts every class of its matcher, the totals of a kind of domains hold for the Need
	// as they are.
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
				i++ // certainly worse, whichever domain of the kind it is
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
		if !whole { // some machines there are too small
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

// freeDomain is a domain without credit. at is its place in the order of values.
type freeDomain struct {
	total  []int64
	score  float64 // lower is better if covers, else higher
	count  int
	at     uint32
	covers bool
	viable bool
}

// weigh computes the weights of dimensions in scores: 1 / wanted.
func (l *worker) weigh(want []int64) {
	l.weights = grown(l.weights, len(want))
	for d, w := range want {
		l.weights[d] = 0
		if w > 0 {
			l.weights[d] = 1 / float64(w)
		}
	}
}

// rate computes whether a domain covers what is wanted, and its approximate score. Where scores are too
// close, compareScores decides exactly.
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

// scoreSlack bounds the relative error of approximate scores.
const scoreSlack = 1e-12

// worse reports whether a domain is certainly worse than another: by more than the error of the scores.
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

// sumShelves adds the machines left on shelves to a total, and returns how many machines these are.
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

// reset forgets the totals of the Need before. O(its domains), not O(values).
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

// beginChoice prepares the totals for a Need, and reads its minimum.
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

// isViable reports whether a total covers the Need's minimum, where that is less than what the Need
// wants.
func (sc *domainScratch) isViable(total []int64) bool {
	return sc.elastic && columnar.Covers(total, sc.least)
}

// credited reports whether a domain has machines that are for the Need alone: creditable or held ones.
func (sc *domainScratch) credited(value uint32) bool {
	return sc.credit[value] != 0
}

// at returns the totals of a domain, adding it if it is new.
func (sc *domainScratch) at(value uint32, dims int) *domainTotals {
	if i := len(sc.totals) - 1; i >= 0 && sc.totals[i].value == value {
		return &sc.totals[i] // neighbours in the list are mostly of one domain
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

// sumCreditable sums, by domain, the machines of the open cluster that the Need could be credited. Of
// those that are being created it counts only the Need's own.
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

// addCreditable adds a creditable machine of a class to the totals of its domain.
func (l *worker) addCreditable(domain, class uint32, own bool) {
	t, offers := l.domain.at(domain, l.dims), l.vector(class)
	t.count++
	columnar.SatAdd(t.total, offers)
	columnar.SatAdd(t.creditable, offers)
	if own {
		columnar.SatAdd(t.own, offers)
	}
}

// betterDomain reports whether a goes before b. The rules, in order: covers what is wanted; covers the
// Need's minimum; more own. Then, if both cover: more creditable, less in total (uncapped); else: more
// in total, more creditable. Then more machines, and last the smaller value. Amounts are compared as
// capped scores, see compareScores.
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
