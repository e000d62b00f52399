package victims

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
	CellOf []uint32 // by row: 1 + index of its cell, 0 = in none
	cells  []cell
	Pools  map[victimPoolKey]*UnitPool // victim units by cell
}

// cell is the part of one domain that has one value of the narrower key.
type cell struct {
	domain uint32 // value of the Same key
	narrow string
}

// cutKey names a cut: the column of a Same key, and the index of the narrower key in
// Options.Nested.
type cutKey struct{ same, narrow int }

// NarrowKeys returns the range of indices in Options.Nested of the keys that are narrower than
// a need's own. The range is empty for a need that has machines or is pinned: it stays where it
// is.
func (p *Pass) NarrowKeys(need int32, k *state.Kind) (from, to int) {
	nested := p.Opts.Nested
	if len(nested) == 0 {
		return 0, 0
	}
	n := &p.Lines[need]
	if _, pinned := p.PinnedDomain(need, k); pinned || p.Claims.First(n) != n.Acquired {
		return 0, 0
	}
	own := p.Snap.Supply.SameKey(k.Matcher)
	for i, key := range nested {
		if p.Snap.Supply.Key(key) == own {
			return i + 1, len(nested)
		}
	}
	return 0, 0
}

// CutFor returns the cut of a kind's domains by a nested key, built on first use.
func (p *Pass) CutFor(k *state.Kind, narrow int) *cut {
	key := cutKey{p.Snap.Supply.SameKey(k.Matcher), narrow}
	x := p.Candidates.Cuts[key]
	if x == nil {
		x = p.newCut(key)
		if p.Candidates.Cuts == nil {
			p.Candidates.Cuts = map[cutKey]*cut{}
		}
		p.Candidates.Cuts[key] = x
	}
	return x
}

func (p *Pass) newCut(key cutKey) *cut {
	x := &cut{Pools: map[victimPoolKey]*UnitPool{}}
	domains := p.Snap.Supply.Values(key.same)
	narrow, texts := p.Snap.Supply.Attributes(p.Opts.Nested[key.narrow])
	numbers := map[[2]uint32]uint32{}
	x.CellOf = narrow // in place: each entry is read before it is written
	for r, value := range narrow {
		if value == 0 || domains[r] == 0 {
			x.CellOf[r] = 0
			continue
		}
		at := [2]uint32{domains[r], value}
		number, ok := numbers[at]
		if !ok {
			x.cells = append(x.cells, cell{domains[r], texts[value-1]})
			number = uint32(len(x.cells))
			numbers[at] = number
		}
		x.CellOf[r] = number
	}
	return x
}

// PoolIn returns the pool of a kind's units for a cut, to be dealt into its cells. It deals the
// units that the kind's own pool found.
func (x *cut) PoolIn(p *Pass, own *UnitPool) *UnitPool {
	if own.number == 0 { // no units
		own.List = own.List[:0]
		return own
	}
	pool := x.Pools[own.key]
	if pool == nil {
		pool = p.st.emptyUnitPool()
		pool.key, pool.cut, pool.of = own.key, x, own
		x.Pools[own.key] = pool
	}
	return pool
}

// cellIn returns where a machine lies for a matcher: its cell of a cut, or without a cut its
// value of the Same key.
func (x *cut) cellIn(p *Pass, matcher uint32, r columnar.Row) (uint32, bool) {
	value, ok := p.Snap.Supply.Domain(matcher, r)
	if ok && x != nil {
		value = x.CellOf[r]
		ok = value != 0
	}
	return value, ok
}

// Cell is cellIn for the cut in effect.
func (p *Pass) Cell(matcher uint32, r columnar.Row) (uint32, bool) {
	return p.Candidates.Cut.cellIn(p, matcher, r)
}

// DomainOf returns the value of the Same key in which a cell lies.
func (x *Candidates) DomainOf(cell uint32) uint32 {
	if x.Cut == nil || cell == 0 {
		return cell
	}
	return x.Cut.cells[cell-1].domain
}

// CellsMax returns one more than the largest number of a cell.
func (p *Pass) CellsMax() int { return p.Candidates.Cut.cellsMaxIn(p) }

// cellsMaxIn is CellsMax for a given cut; nil = none.
func (x *cut) cellsMaxIn(p *Pass) int {
	if x == nil {
		return p.Snap.Supply.ValueIDMax()
	}
	return len(x.cells) + 1
}

// CompareCells orders cells: those of the given domain go first, then by their texts.
func (p *Pass) CompareCells(a, b uint32, first uint32) int {
	da, db := p.Candidates.DomainOf(a), p.Candidates.DomainOf(b)
	switch {
	case (da == first) != (db == first):
		return exact.TrueFirst(da == first, db == first)
	case a == b:
		return 0
	}
	return cmp.Or(strings.Compare(p.Snap.Supply.ValueString(da), p.Snap.Supply.ValueString(db)), strings.Compare(p.Candidates.narrowOf(a), p.Candidates.narrowOf(b)))
}

// narrowOf returns a cell's value of the narrower key, "" without a cut.
func (x *Candidates) narrowOf(cell uint32) string {
	if x.Cut == nil || cell == 0 {
		return ""
	}
	return x.Cut.cells[cell-1].narrow
}

// CellName returns a cell's text for people: of a cell both values.
func (p *Pass) CellName(cell uint32) string {
	domain := p.Snap.Supply.ValueString(p.Candidates.DomainOf(cell))
	if p.Candidates.Cut == nil {
		return domain
	}
	return domain + "/" + p.Candidates.narrowOf(cell)
}
