package domains

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/supply"
)

// Totals sums what a Same-Need could have in one domain.
type Totals struct {
	Value      uint32
	Count      int
	Total      []int64
	Creditable []int64
	Own        []int64
	Covers     bool
	Viable     bool // Total covers the Need's minimum
}

// Scratch holds the totals of one Need's domains while it chooses.
type Scratch struct {
	credit []int32 // by value: 1 + index in Totals, for domains with machines that are for this Need alone
	Totals []Totals
	Vecs   reuse.VectorBlock
	zero   []int64
	free   [2][]int64 // the best domain without credit, and the one at hand
	// Least is the Need's minimum, if Elastic: if that is less than what it wants.
	Least   []int64
	Elastic bool
	weights []float64 // of dimensions in a domain's score
}

// Less compares two domain values as texts.
func Less(t *supply.Table, a, b uint32) bool {
	return t.ValueString(a) < t.ValueString(b)
}

// BestFree returns the best of the domains in which sc has nothing for the Need alone, and how many looks
// that took. It rates one domain of each kind of domains. If the Need accepts all classes of the matcher
// (whole), the totals of a kind hold for it as they are.
func (d *Index) BestFree(sc *Scratch, matcher uint32, want []int64, whole bool, accepts []uint64) (best Totals, found bool, probes int64) {
	v := d.Of(matcher)
	v.catchUp(d)
	credited := func(at uint32) bool { return sc.Credited(v.List[at].Value) }
	sc.weigh(want)
	var b freeDomain
	for i := 0; i < len(v.live); {
		number := v.live[i]
		kind := &v.kinds[number]
		a := freeDomain{count: kind.count, total: kind.total}
		if whole {
			sc.rate(&a, want)
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
		probes++
		a.at = at
		if !whole { // some machines there are too small
			a.total = sc.free[1]
			clear(a.total)
			probes += int64(len(v.List[at].Shelves))
			a.count = d.AddLeft(a.total, v.List[at].Shelves, accepts)
			sc.rate(&a, want)
		}
		if a.count > 0 && (b.count == 0 || a.better(&b, want)) {
			b = a
			if !whole {
				sc.free[0], sc.free[1] = sc.free[1], sc.free[0]
			}
		}
	}
	if b.count == 0 {
		return Totals{}, false, probes
	}
	return Totals{
		Value: v.List[b.at].Value, Count: b.count, Total: b.total, Creditable: sc.zero, Own: sc.zero, Covers: b.covers, Viable: b.viable,
	}, true, probes
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
func (sc *Scratch) weigh(want []int64) {
	sc.weights = reuse.Resize(sc.weights, len(want))
	for d, w := range want {
		if w > 0 {
			sc.weights[d] = 1 / float64(w)
		}
	}
}

// rate computes whether a domain covers what is wanted, and its approximate score. Where scores are too
// close, exact.CompareScores decides exactly.
func (sc *Scratch) rate(a *freeDomain, want []int64) {
	a.covers, a.score = columnar.Covers(a.total, want), 0
	a.viable = a.covers || sc.IsViable(a.total)
	for d, w := range sc.weights {
		x := a.total[d]
		if !a.covers {
			x = min(x, want[d])
		}
		a.score += float64(x) * w
	}
}

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
	return diff < -(a.score+b.score)*exact.ScoreSlack
}

// better is Better for domains without credit.
func (a *freeDomain) better(b *freeDomain, want []int64) bool {
	switch {
	case a.worse(b):
		return false
	case b.worse(a):
		return true
	}
	c := exact.CompareScores(a.total, b.total, want, !a.covers)
	if a.covers {
		c = -c
	}
	if c == 0 {
		c = a.count - b.count
	}
	return c > 0 || c == 0 && a.at < b.at
}

// Reset forgets the totals of the Need before. O(its domains), not O(values).
func (sc *Scratch) Reset(dims, values int) {
	for i := range sc.Totals {
		sc.credit[sc.Totals[i].Value] = 0
	}
	if len(sc.credit) < values {
		sc.credit = make([]int32, values+values/8)
	}
	if sc.zero == nil {
		sc.zero, sc.Least = make([]int64, dims), make([]int64, dims)
		sc.free = [2][]int64{make([]int64, dims), make([]int64, dims)}
	}
	sc.Totals = sc.Totals[:0]
	sc.Vecs.Empty()
}

// IsViable reports whether a total covers the Need's minimum, where that is less than what the Need
// wants.
func (sc *Scratch) IsViable(total []int64) bool {
	return sc.Elastic && columnar.Covers(total, sc.Least)
}

// Credited reports whether a domain has machines that are for the Need alone: creditable or held ones.
func (sc *Scratch) Credited(value uint32) bool {
	return sc.credit[value] != 0
}

// At returns the totals of a domain, adding it if it is new.
func (sc *Scratch) At(value uint32, dims int) *Totals {
	if i := len(sc.Totals) - 1; i >= 0 && sc.Totals[i].Value == value {
		return &sc.Totals[i] // neighbours in the list are mostly of one domain
	}
	i := int(sc.credit[value]) - 1
	if i < 0 {
		i = len(sc.Totals)
		sc.credit[value] = int32(i) + 1
		v := sc.Vecs.Take(3 * dims)
		sc.Totals = append(sc.Totals, Totals{
			Value: value, Total: v[:dims:dims], Creditable: v[dims : 2*dims : 2*dims], Own: v[2*dims:],
		})
	}
	return &sc.Totals[i]
}

// Better reports whether a goes before b. The rules, in order: covers what is wanted; covers the
// Need's minimum; more own. Then, if both cover: more creditable, less in total (uncapped); else: more
// in total, more creditable. Then more machines, and last the smaller value. Amounts are compared as
// capped scores, see exact.CompareScores.
func Better(t *supply.Table, a, b *Totals, want []int64) bool {
	if a.Covers != b.Covers {
		return a.Covers
	}
	if a.Viable != b.Viable {
		return a.Viable
	}
	capped := func(x, y []int64) int { return exact.CompareScores(x, y, want, true) }
	c := capped(a.Own, b.Own)
	switch {
	case c != 0:
	case a.Covers:
		if c = capped(a.Creditable, b.Creditable); c == 0 {
			c = -exact.CompareScores(a.Total, b.Total, want, false)
		}
	default:
		if c = capped(a.Total, b.Total); c == 0 {
			c = capped(a.Creditable, b.Creditable)
		}
	}
	if c == 0 {
		c = a.Count - b.Count
	}
	if c != 0 {
		return c > 0
	}
	return Less(t, a.Value, b.Value)
}
