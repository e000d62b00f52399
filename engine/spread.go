package engine

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// A hard spread constraint keeps a need's machines even over the values of a
// key. Candidates are dealt into tuples, one value per constrained key, and
// each step takes the cheapest head among the tuples that the skew allows.

// spreadScratch is the state of one need's spread.
type spreadScratch struct {
	keys   []int   // key columns of the constraints
	skew   []int32 // their maximal skew
	counts []map[uint32]int32
	floor  []map[uint32]bool // values that the minimum is taken over
	tuples []tuple
	byKey  map[string]int
	enc    []byte
}

// tuple is the candidates that share a value of every constrained key.
type tuple struct {
	values  []uint32
	own     []columnar.Row // held for the need; taken first
	sources []source
}

// acquireSpread acquires under hard spread: Idle machines, then Speculative.
func (p *pass) acquireSpread(need int) {
	n := &p.needs[need]
	sc := &p.scratch.spread
	p.startSpread(n)
	for _, r := range p.claims[n.claimFrom:] {
		sc.count(p, r)
	}
	for _, state := range [...]model.State{model.Idle, model.Speculative} {
		if columnar.IsZero(p.missing) {
			return
		}
		p.dealTuples(need, state)
		sc.floorAtTuples()
		for !columnar.IsZero(p.missing) {
			at := p.nextTuple(need)
			if at < 0 {
				break
			}
			r := p.popTuple(&sc.tuples[at], need)
			p.claim(r, need)
			sc.count(p, r)
		}
	}
	n.skewBlocked = !columnar.IsZero(p.missing) && p.anyLeft(need)
}

// anyLeft reports whether a free machine that holds something of what is
// missing was left alone: only the skew can have forbidden it.
func (p *pass) anyLeft(need int) bool {
	for _, state := range [...]model.State{model.Idle, model.Speculative} {
		p.dealTuples(need, state)
		for i := range p.scratch.spread.tuples {
			if p.tupleHead(&p.scratch.spread.tuples[i], need) != columnar.None {
				return true
			}
		}
	}
	return false
}

// startSpread sets the scratch up for a need's constraints.
func (p *pass) startSpread(n *ranked) {
	sc := &p.scratch.spread
	hard := n.hardSpread()
	sc.keys, sc.skew = sc.keys[:0], sc.skew[:0]
	for len(sc.counts) < len(hard) {
		sc.counts = append(sc.counts, map[uint32]int32{})
		sc.floor = append(sc.floor, map[uint32]bool{})
	}
	for i, s := range hard {
		sc.keys = append(sc.keys, p.s.Supply.Key(s.Key))
		sc.skew = append(sc.skew, s.MaxSkew)
		clear(sc.counts[i])
		clear(sc.floor[i])
	}
	sc.tuples = sc.tuples[:0]
}

func (sc *spreadScratch) clearTuples() {
	sc.tuples = sc.tuples[:0]
	if sc.byKey == nil {
		sc.byKey = map[string]int{}
	}
	clear(sc.byKey)
}

// count counts a machine in its domains, where it has them.
func (sc *spreadScratch) count(p *pass, r columnar.Row) {
	for i, k := range sc.keys {
		if v := p.s.Supply.Values(k)[r]; v != 0 {
			sc.counts[i][v]++
		}
	}
}

// floorAtTuples takes the minimum over the values that have candidates now.
func (sc *spreadScratch) floorAtTuples() {
	for i := range sc.keys {
		clear(sc.floor[i])
		for t := range sc.tuples {
			sc.floor[i][sc.tuples[t].values[i]] = true
		}
	}
}

// allows reports whether the skew permits one more machine in a tuple.
func (sc *spreadScratch) allows(values []uint32) bool {
	for i, v := range values {
		least := int32(math.MaxInt32)
		for f := range sc.floor[i] {
			least = min(least, sc.counts[i][f])
		}
		if int64(sc.counts[i][v]) > int64(least)+int64(sc.skew[i])-1 {
			return false
		}
	}
	return true
}

// tupleOf returns the tuple of a machine, making it if there is none; nil when
// the machine lacks a constrained key.
func (sc *spreadScratch) tupleOf(p *pass, r columnar.Row) *tuple {
	sc.enc = sc.enc[:0]
	for _, k := range sc.keys {
		v := p.s.Supply.Values(k)[r]
		if v == 0 {
			return nil
		}
		sc.enc = binary.LittleEndian.AppendUint32(sc.enc, v)
	}
	at, ok := sc.byKey[string(sc.enc)]
	if !ok {
		at = len(sc.tuples)
		sc.byKey[string(sc.enc)] = at
		t := tuple{values: make([]uint32, 0, len(sc.keys))}
		for _, k := range sc.keys {
			t.values = append(t.values, p.s.Supply.Values(k)[r])
		}
		sc.tuples = append(sc.tuples, t)
	}
	return &sc.tuples[at]
}

// dealTuples deals the free machines of a state that suit the need into
// tuples. A class whose machines cannot differ in the constrained keys goes as
// a whole; others are dealt row by row.
func (p *pass) dealTuples(need int, state model.State) {
	sc := &p.scratch.spread
	sc.clearTuples()
	whole := !slices.ContainsFunc(sc.keys, func(k int) bool { return !p.s.Supply.Splits(k) })
	p.classSources(need, state)
	for i := range p.sources {
		src := p.sources[i]
		if whole && src.vec != nil {
			if p.firstFree(&src) {
				if t := sc.tupleOf(p, src.rows[src.at]); t != nil {
					t.sources = append(t.sources, src)
				}
			}
			continue
		}
		p.dealRows(&src, need)
	}
	if state == model.Idle {
		for _, r := range p.reserved.rows[int32(need)] {
			if p.freeReserved(r, need) {
				if t := sc.tupleOf(p, r); t != nil {
					t.own = append(t.own, r)
				}
			}
		}
	}
}

// firstFree moves the source to its first free row, whatever that holds.
func (p *pass) firstFree(src *source) bool {
	for ; src.at < len(src.rows); src.at++ {
		if !p.taken.Has(uint32(src.rows[src.at])) {
			break
		}
	}
	*src.cursor = uint32(src.at)
	return src.at < len(src.rows)
}

// dealRows deals the free rows of a source, keeping their order.
func (p *pass) dealRows(src *source, need int) {
	sc := &p.scratch.spread
	for _, r := range src.rows[src.at:] {
		p.probes++
		if p.taken.Has(uint32(r)) || src.vec == nil && !p.suitsClass(p.s.View.Class[r], need) {
			continue
		}
		t := sc.tupleOf(p, r)
		if t == nil {
			continue
		}
		if k := len(t.sources) - 1; k < 0 || t.sources[k].class != src.class || (t.sources[k].vec == nil) != (src.vec == nil) {
			t.sources = append(t.sources, source{class: src.class, vec: src.vec, order: src.order, rank: src.rank})
		}
		last := &t.sources[len(t.sources)-1]
		last.rows = append(last.rows, r)
	}
}

// tupleHead returns the machine that a tuple would give next: the first one
// held for the need, else the smallest head; none when nothing is left that
// holds anything of what is missing.
func (p *pass) tupleHead(t *tuple, need int) columnar.Row {
	for _, r := range t.own {
		if !p.claimed.Has(uint32(r)) && columnar.Helps(p.vec(r), p.missing) {
			return r
		}
	}
	if src := p.tupleSource(t, need); src != nil {
		return src.rows[src.at]
	}
	return columnar.None
}

func (p *pass) tupleSource(t *tuple, need int) *source {
	var best *source
	for i := range t.sources {
		src := &t.sources[i]
		if src.fresh && p.taken.Has(uint32(src.rows[src.at])) {
			src.fresh = false
		}
		if p.head(src, need) && (best == nil || src.key < best.key) {
			best = src
		}
	}
	return best
}

// popTuple returns a tuple's head and moves on.
func (p *pass) popTuple(t *tuple, need int) columnar.Row {
	r := p.tupleHead(t, need)
	for i := range t.sources {
		if src := &t.sources[i]; src.fresh && src.rows[src.at] == r {
			src.fresh = false
		}
	}
	return r
}

// nextTuple returns the tuple to take from: among those that the skew allows,
// one whose head is held for the need, then the cheapest head, then the
// smaller values; −1 when none is left.
func (p *pass) nextTuple(need int) int {
	n := &p.needs[need]
	sc := &p.scratch.spread
	best, bestRow := -1, columnar.None
	for i := range sc.tuples {
		t := &sc.tuples[i]
		allowed := sc.allows(t.values)
		if !allowed && len(t.own) == 0 {
			continue
		}
		// What is held for the need was allowed when it was bought or freed.
		r := p.tupleHead(t, need)
		if r == columnar.None || !allowed && !slices.Contains(t.own, r) {
			continue
		}
		if best < 0 || p.compareHeads(n, r, bestRow, t, &sc.tuples[best]) < 0 {
			best, bestRow = i, r
		}
	}
	return best
}

func (p *pass) compareHeads(n *ranked, a, b columnar.Row, ta, tb *tuple) int {
	if oa, ob := slices.Contains(ta.own, a), slices.Contains(tb.own, b); oa != ob {
		if oa {
			return -1
		}
		return 1
	}
	if c := p.comparePrice(n, a, b); c != 0 {
		return c
	}
	return p.compareTuples(ta, tb)
}

// comparePrice compares heads by price, Speculative ones by effective cost.
func (p *pass) comparePrice(n *ranked, a, b columnar.Row) int {
	ca, cb := p.s.View.Class[a], p.s.View.Class[b]
	if p.s.View.State[a] == model.Speculative {
		return compareOffers(p.offerOf(ca, n.profile.Interruption()), p.offerOf(cb, n.profile.Interruption()))
	}
	return cmp.Compare(p.s.Classes[ca].Price, p.s.Classes[cb].Price)
}

func (p *pass) compareTuples(a, b *tuple) int {
	for i := range a.values {
		if c := strings.Compare(p.s.Supply.ValueString(a.values[i]), p.s.Supply.ValueString(b.values[i])); c != 0 {
			return c
		}
	}
	return 0
}
