package acquire

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// A hard spread constraint keeps a need's machines even over the values of a key. Candidates
// are grouped into tuples, one value per constrained key. Each step takes the cheapest head
// among the tuples that the skew allows. If all machines of a class agree in the keys, as they
// do in zones, a tuple is a ladder of classes, laid out once per matcher and penalty. If they
// do not, as with hosts, machines are grouped one by one: see spread_deal.go.

// tupleLayout is the tuples of a kind's hard spread, sorted by the text of their values.
type tupleLayout struct {
	keys   []int      // key columns of the constraints
	skew   []int32    // maximal skew of each constraint
	Values [][]uint32 // by constraint: the values of classes; one that lacks a later key is in no tuple
	tuples []tupleClasses
	of     []int32 // by class: 1 + the index of its tuple; 0 = its machines lack a constrained key
}

// tupleClasses is the classes that share a value of every constrained key.
type tupleClasses struct {
	at      []int // by constraint: index in tupleLayout.Values
	text    []string
	classes []uint32
	ladders [2]free.Ladder
}

// spreadLayout memoizes the tuples of constraints, for one matcher and penalty.
type spreadLayout struct {
	spread []model.Spread
	tuples *tupleLayout
}

// layoutFor returns the tuples of a kind, nil if its classes do not determine the constrained
// keys.
func (p *Pass) layoutFor(k *state.Kind) *tupleLayout {
	layouts, key := p.st.layouts, free.Key{Matcher: k.Matcher, Penalty: k.Penalty}
	for _, x := range layouts[key] {
		if slices.Equal(x.spread, k.Spread) {
			return x.tuples
		}
	}
	t := p.layOut(k)
	layouts[key] = append(layouts[key], spreadLayout{k.Spread, t})
	return t
}

func (p *Pass) layOut(k *state.Kind) *tupleLayout {
	t := &tupleLayout{Values: make([][]uint32, len(k.Spread))}
	for _, s := range k.Spread {
		key := p.Snap.Supply.Key(s.Key)
		if !p.Snap.Supply.Splits(key) {
			return nil
		}
		t.keys, t.skew = append(t.keys, key), append(t.skew, s.MaxSkew)
	}
	t.dealClasses(p, k)
	return t
}

func (t *tupleLayout) dealClasses(p *Pass, k *state.Kind) {
	t.of = make([]int32, len(p.Snap.Classes))
	for _, c := range p.ClassesOf[k.Matcher] {
		x := tupleClasses{}
		for i, key := range t.keys {
			v := p.Snap.Supply.ClassValue(c, key)
			if v == 0 {
				break
			}
			at := slices.Index(t.Values[i], v)
			if at < 0 {
				at = len(t.Values[i])
				t.Values[i] = append(t.Values[i], v)
			}
			x.at, x.text = append(x.at, at), append(x.text, p.Snap.Supply.ValueString(v))
		}
		if len(x.at) < len(t.keys) {
			continue // the class lacks a constrained key
		}
		i := slices.IndexFunc(t.tuples, func(y tupleClasses) bool { return slices.Equal(y.at, x.at) })
		if i < 0 {
			i = len(t.tuples)
			t.tuples = append(t.tuples, x)
		}
		t.tuples[i].classes = append(t.tuples[i].classes, c)
	}
	slices.SortFunc(t.tuples, func(a, b tupleClasses) int { return slices.CompareFunc(a.text, b.text, strings.Compare) })
	for i := range t.tuples {
		for stage := range t.tuples[i].ladders {
			t.tuples[i].ladders[stage] = free.NewLadder(t.tuples[i].classes, p.Costs(k, stage))
		}
		for _, c := range t.tuples[i].classes {
			t.of[c] = int32(i) + 1
		}
	}
}

// evenness is the state of one need's spread over a layout.
type evenness struct {
	counts  [][]int32 // by constraint and value: number of the need's machines
	present [][]bool  // by constraint and value: it counts for the minimum
	least   []int32   // by constraint: the minimum of counts over present values
	// heads memoizes, by tuple, the head in the stage at work.
	heads []tupleHead
	held  []columnar.Row // by tuple: scratch of nextLower
}

// tupleHead is the class of a tuple's cheapest machine of a stage. has: the tuple has one;
// known: the rest is valid.
type tupleHead struct {
	class      uint32
	has, known bool
}

// start resets the counts to zero.
func (x *evenness) start(t *tupleLayout) {
	for len(x.counts) < len(t.keys) {
		x.counts, x.present, x.least = append(x.counts, nil), append(x.present, nil), append(x.least, 0)
	}
	for i := range t.keys {
		x.counts[i] = reuse.Resize(x.counts[i], len(t.Values[i]))
		x.present[i] = reuse.Resize(x.present[i], len(t.Values[i]))
	}
	x.heads = reuse.Grown(x.heads, len(t.tuples))
}

// count counts a machine in its domains; values that no tuple has are ignored.
func (x *evenness) count(p *Pass, t *tupleLayout, r columnar.Row) {
	for i, key := range t.keys {
		if at := slices.Index(t.Values[i], p.Snap.Supply.Values(key)[r]); at >= 0 {
			x.counts[i][at]++
		}
	}
}

// countTuple counts a machine of a tuple and updates the minima.
func (x *evenness) countTuple(at []int) {
	for i, v := range at {
		x.counts[i][v]++
		if x.counts[i][v] == x.least[i]+1 { // it may have been the last value at the minimum
			x.floor(i)
		}
	}
}

// floor recomputes the minimum of a constraint's counts.
func (x *evenness) floor(i int) {
	least, counts := int32(math.MaxInt32), x.counts[i]
	for v, here := range x.present[i] {
		if here {
			least = min(least, counts[v])
		}
	}
	x.least[i] = least
}

// allows reports whether the skew permits one more machine in a tuple: with it no count exceeds
// the minimum by more than the skew.
func (x *evenness) allows(t *tupleLayout, at []int) bool {
	for i, v := range at {
		if int64(x.counts[i][v]) > int64(x.least[i])+int64(t.skew[i])-1 {
			return false
		}
	}
	return true
}

// acquireSpread acquires under hard spread: Idle machines, then Speculative ones. In each stage, machines that are held for lower
// ranks come last. The Need has already taken those of its own held machines that help it; its other held machines are
// counted when the minima are found.
func (l *Worker) acquireSpread(need int32, k *state.Kind) {
	t, x := l.p.Stock.Layouts[k.Number], &l.Acquiring.even
	if t == nil {
		l.acquireDealt(need, k)
		return
	}
	if l.acquireOnly(need, k) {
		return
	}
	x.start(t)
	for n, r := l.p.Claims.Walk(&l.p.Lines[need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
		x.count(l.p, t, r)
	}
	var lacked [2]uint64
	for stage := range l.p.Stock.Free {
		if l.Lacks == 0 {
			return
		}
		lacked[stage] = l.Lacks
		if !l.p.anyOf(k, stage) {
			continue // then no tuple has one
		}
		t.markPresent(l, need, k, stage)
		for l.Lacks != 0 {
			at, class, ok := t.nextTuple(l, k, stage)
			if !ok {
				r := t.nextLower(l, k, stage)
				if r == columnar.None {
					break
				}
				l.ClaimFree(r, need, stage)
				x.countTuple(t.tuples[t.tupleOf(l.p, r)].at)
				continue
			}
			l.Figures.Probes++
			l.acquireHead(class, need, stage)
			x.heads[at].known = false
			x.countTuple(t.tuples[at].at)
		}
		lacked[stage] = l.Lacks
	}
	if l.Lacks != 0 && t.anyHelps(l.p, k, lacked) {
		l.p.noteSkewed(need)
	}
}

// acquireOnly acquires one machine for a need under hard spread if that covers everything. The
// skew permits any first machine, so nothing has to be counted.
func (l *Worker) acquireOnly(need int32, k *state.Kind) bool {
	if l.p.Lines[need].Tail != columnar.None {
		return false
	}
	for stage := range l.p.Stock.Free {
		cost, t := l.p.tupleCosts(k, stage), l.p.Stock.Layouts[k.Number]
		class, found := uint32(0), false
		for i := range t.tuples {
			if c, ok := l.p.nextClass(&t.tuples[i].ladders[stage], k, stage, l.Lacks); ok && (!found || cost[c] < cost[class]) {
				class, found = c, true
			}
		}
		if found && columnar.Covers(l.p.Vector(class), l.Missing) {
			l.Figures.Probes++
			l.acquireHead(class, need, stage)
			return true
		}
		if found || l.p.anyOf(k, stage) {
			return false
		}
	}
	return false
}

// anyOf reports whether a machine of a stage is left for a kind, or one that is held for a lower rank.
func (p *Pass) anyOf(k *state.Kind, stage int) bool {
	return p.any(p.Stock.Ladders[k.Number][stage], k, stage) || p.Reserved.Lower.AnyOf(k, stage, p.Taken)
}

// noteSkewed records that only the skew keeps a need from what is free.
func (p *Pass) noteSkewed(need int32) {
	n := &p.Lines[need]
	n.Status |= state.IsSkewBlocked
	atomic.StoreUint32(&p.Stock.Skewed[n.Kind], 1)
}

// markPresent finds the heads of the tuples, and marks the values that have a candidate now.
func (t *tupleLayout) markPresent(l *Worker, need int32, k *state.Kind, stage int) {
	x := &l.Acquiring.even
	for i := range t.keys {
		clear(x.present[i])
	}
	for i := range t.tuples {
		x.heads[i].known = false
		if t.headOf(l, i, k, stage).has {
			x.markTuple(t, i)
		}
	}
	l.p.Reserved.Lower.EachFirst(k, stage, l.p.Taken, func(r columnar.Row) { x.markTuple(t, t.tupleOf(l.p, r)) })
	for _, r := range l.p.Reserved.Of(need) {
		if l.p.FreeReserved(r, k) && l.p.StageOf(r) == stage {
			x.markTuple(t, t.tupleOf(l.p, r))
		}
	}
	for i := range t.keys {
		x.floor(i)
	}
}

// markTuple marks the values of a tuple; of none if at is -1.
func (x *evenness) markTuple(t *tupleLayout, at int) {
	if at < 0 {
		return
	}
	for c, v := range t.tuples[at].at {
		x.present[c][v] = true
	}
}

// tupleOf returns the index of a machine's tuple, -1 if it lacks a constrained key.
func (t *tupleLayout) tupleOf(p *Pass, r columnar.Row) int {
	return int(t.of[p.Snap.View.Class[r]]) - 1
}

// nextLower returns the next machine to take of those that are held for lower ranks: in each tuple that the skew allows the
// first that helps; of these that of the lowest owner, then the cheapest, then that of the smaller values. None if there is none.
func (t *tupleLayout) nextLower(l *Worker, k *state.Kind, stage int) columnar.Row {
	x, lower := &l.Acquiring.even, &l.p.Reserved.Lower
	x.held = reuse.Resize(x.held, len(t.tuples))
	lower.EachFirst(k, stage, l.p.Taken, func(r columnar.Row) {
		l.Figures.Probes++
		if at := t.tupleOf(l.p, r); at >= 0 && l.Helps(r) && (x.held[at] == columnar.None || lower.Place(r) < lower.Place(x.held[at])) {
			x.held[at] = r
		}
	})
	cost, best, least := l.p.tupleCosts(k, stage), columnar.None, uint64(0)
	for i, r := range x.held {
		if r == columnar.None || !x.allows(t, t.tuples[i].at) {
			continue
		}
		if c := l.p.headCost(cost, r); best == columnar.None || c < least {
			best, least = r, c
		}
	}
	return best
}

// headOf returns a tuple's head, no matter which dimensions it has. A class is in one tuple
// only, so the head is valid until a machine is taken from that tuple.
func (t *tupleLayout) headOf(l *Worker, i int, k *state.Kind, stage int) *tupleHead {
	x := &l.Acquiring.even.heads[i]
	if !x.known {
		x.known = true
		x.class, x.has = l.p.nextClass(&t.tuples[i].ladders[stage], k, stage, ^uint64(0))
	}
	return x
}

// nextTuple returns the tuple to take from, and the class: among tuples that the skew allows
// the one with the cheapest head, among equals the one with the smaller values.
func (t *tupleLayout) nextTuple(l *Worker, k *state.Kind, stage int) (at int, class uint32, ok bool) {
	cost := l.p.tupleCosts(k, stage)
	for i := range t.tuples {
		if !l.Acquiring.even.allows(t, t.tuples[i].at) {
			continue
		}
		x := t.headOf(l, i, k, stage)
		c, has := x.class, x.has
		if has && l.p.ClassMask[c]&l.Lacks == 0 { // a class further up the ladder may help
			c, has = l.p.nextClass(&t.tuples[i].ladders[stage], k, stage, l.Lacks)
		}
		if has && (!ok || cost[c] < cost[class]) {
			at, class, ok = i, c, true
		}
	}
	return at, class, ok
}

// tupleCosts returns, by class, the rank of the cost by which heads of a stage are compared:
// price for Idle, effective cost for Speculative.
func (p *Pass) tupleCosts(k *state.Kind, stage int) []uint32 {
	if stage == 0 {
		return p.Snap.PriceRank
	}
	return p.st.ways.ByOffer(k.Penalty)
}

// anyHelps reports whether a free machine was left that has a dimension that was missing after
// its stage. Only the skew can have forbidden it.
func (t *tupleLayout) anyHelps(p *Pass, k *state.Kind, lacked [2]uint64) bool {
	for stage := range p.Stock.Free {
		for i := range t.tuples {
			if _, ok := p.nextClass(&t.tuples[i].ladders[stage], k, stage, lacked[stage]); ok {
				return true
			}
		}
		found := false
		p.Reserved.Lower.EachFirst(k, stage, p.Taken, func(r columnar.Row) {
			found = found || t.tupleOf(p, r) >= 0 && p.ClassMask[p.Snap.View.Class[r]]&lacked[stage] != 0
		})
		if found {
			return true
		}
	}
	return false
}

// comparePrice compares heads of one stage by price, Speculative ones by effective cost.
func (p *Pass) comparePrice(k *state.Kind, a, b columnar.Row) int {
	ca, cb := p.Snap.View.Class[a], p.Snap.View.Class[b]
	if p.StageOf(a) == 1 {
		rank := p.st.ways.ByOffer(k.Penalty)
		return cmp.Compare(rank[ca], rank[cb])
	}
	return cmp.Compare(p.Snap.PriceRank[ca], p.Snap.PriceRank[cb])
}
