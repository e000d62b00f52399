package engine

import (
	"cmp"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// cut divides the domains of a Same key by a narrower key of Options.Nested, for example zones
// by rack. While a cut is in effect, code that works with values of the Same key works with
// numbers of cells instead.
type cut struct {
	cellOf []uint32 // by row: 1 + index of its cell, 0 = in none
	cells  []cell
	pools  map[victimPoolKey]*unitPool // victim units by cell
}

// cell is the part of one domain that has one value of the narrower key.
type cell struct {
	domain uint32 // value of the Same key
	narrow string
}

// cutKey names a cut: the column of a Same key, and the index of the narrower key in
// Options.Nested.
type cutKey struct{ same, narrow int }

// narrowKeys returns the range of indices in Options.Nested of the keys that are narrower than
// a need's own. The range is empty for a need that has machines or is pinned: it stays where it
// is.
func (p *pass) narrowKeys(need int32, k *state.Kind) (from, to int) {
	nested := p.e.opts.Nested
	if len(nested) == 0 {
		return 0, 0
	}
	n := &p.lines[need]
	if _, pinned := p.pinnedDomain(need, k); pinned || n.Head != n.Acquired {
		return 0, 0
	}
	own := p.s.Supply.SameKey(k.Matcher)
	for i, key := range nested {
		if p.s.Supply.Key(key) == own {
			return i + 1, len(nested)
		}
	}
	return 0, 0
}

// cutFor returns the cut of a kind's domains by a nested key, built on first use.
func (p *pass) cutFor(k *state.Kind, narrow int) *cut {
	key := cutKey{p.s.Supply.SameKey(k.Matcher), narrow}
	x := p.candidates.cuts[key]
	if x == nil {
		x = p.newCut(key)
		if p.candidates.cuts == nil {
			p.candidates.cuts = map[cutKey]*cut{}
		}
		p.candidates.cuts[key] = x
	}
	return x
}

func (p *pass) newCut(key cutKey) *cut {
	x := &cut{pools: map[victimPoolKey]*unitPool{}}
	domains := p.s.Supply.Values(key.same)
	narrow, texts := p.s.Supply.Attributes(p.e.opts.Nested[key.narrow])
	numbers := map[[2]uint32]uint32{}
	x.cellOf = narrow // in place: each entry is read before it is written
	for r, value := range narrow {
		if value == 0 || domains[r] == 0 {
			x.cellOf[r] = 0
			continue
		}
		at := [2]uint32{domains[r], value}
		number, ok := numbers[at]
		if !ok {
			x.cells = append(x.cells, cell{domains[r], texts[value-1]})
			number = uint32(len(x.cells))
			numbers[at] = number
		}
		x.cellOf[r] = number
	}
	return x
}

// poolIn returns the pool of a kind's units for a cut, to be dealt into its cells. It deals the
// units that the kind's own pool found.
func (p *pass) poolIn(x *cut, own *unitPool) *unitPool {
	if own.number == 0 { // no units
		own.list = own.list[:0]
		return own
	}
	pool := x.pools[own.key]
	if pool == nil {
		pool = p.e.store.emptyUnitPool()
		pool.key, pool.cut, pool.of = own.key, x, own
		x.pools[own.key] = pool
	}
	return pool
}

// findInCells sets HasCandidates if the cells that a need would be planned for in hold anything
// to preempt.
func (l *worker) findInCells(need int32, k *state.Kind, pool *unitPool, from, to int) {
	for i := to - 1; i >= from && !l.p.lines[need].Is(state.HasCandidates); i-- {
		l.p.candidates.cut = l.p.cutFor(k, i)
		cells := l.p.poolIn(l.p.candidates.cut, pool)
		l.inDomains(cells)
		l.findInScopes(need, k, cells)
	}
	l.p.candidates.cut = nil
}

// cellIn returns where a machine lies for a matcher: its cell of a cut, or without a cut its
// value of the Same key.
func (fl *fleet) cellIn(x *cut, matcher uint32, r columnar.Row) (uint32, bool) {
	value, ok := fl.s.Supply.Domain(matcher, r)
	if ok && x != nil {
		value = x.cellOf[r]
		ok = value != 0
	}
	return value, ok
}

// cell is cellIn for the cut in effect.
func (p *pass) cell(matcher uint32, r columnar.Row) (uint32, bool) {
	return p.cellIn(p.candidates.cut, matcher, r)
}

// domainOf returns the value of the Same key in which a cell lies.
func (x *candidates) domainOf(cell uint32) uint32 {
	if x.cut == nil || cell == 0 {
		return cell
	}
	return x.cut.cells[cell-1].domain
}

// cellsMax returns one more than the largest number of a cell.
func (p *pass) cellsMax() int { return p.cellsMaxIn(p.candidates.cut) }

// cellsMaxIn is cellsMax for a given cut; nil = none.
func (fl *fleet) cellsMaxIn(x *cut) int {
	if x == nil {
		return fl.s.Supply.ValueIDMax()
	}
	return len(x.cells) + 1
}

// compareCells orders cells: those of the given domain go first, then by their texts.
func (p *pass) compareCells(a, b uint32, first uint32) int {
	da, db := p.candidates.domainOf(a), p.candidates.domainOf(b)
	switch {
	case (da == first) != (db == first):
		return exact.TrueFirst(da == first, db == first)
	case a == b:
		return 0
	}
	return cmp.Or(strings.Compare(p.s.Supply.ValueString(da), p.s.Supply.ValueString(db)), strings.Compare(p.candidates.narrowOf(a), p.candidates.narrowOf(b)))
}

// narrowOf returns a cell's value of the narrower key, "" without a cut.
func (x *candidates) narrowOf(cell uint32) string {
	if x.cut == nil || cell == 0 {
		return ""
	}
	return x.cut.cells[cell-1].narrow
}

// cellName returns a cell's text for people: of a cell both values.
func (p *pass) cellName(cell uint32) string {
	domain := p.s.Supply.ValueString(p.candidates.domainOf(cell))
	if p.candidates.cut == nil {
		return domain
	}
	return domain + "/" + p.candidates.narrowOf(cell)
}

// gatherIn withholds what a need acquired in phase 1 outside of the cell that its plan frees.
func (l *worker) gatherIn(need int32, cell uint32) {
	n := &l.p.lines[need]
	for r := n.Acquired; r != columnar.None; r = l.p.claims.Next(r) { // nothing was credited
		if l.p.candidates.cut.cellOf[r] != cell {
			n.Status |= state.IsWithheld
			l.withholdMachine(r, need)
		}
	}
	l.p.claims.Filter(need, n)
	if n.Is(state.IsWithheld) {
		l.p.preempted.withheld = append(l.p.preempted.withheld, need)
	}
}
