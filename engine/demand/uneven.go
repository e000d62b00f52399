package demand

import (
	"cmp"
	"slices"
)

// unevenScratch is what findUneven looks rows up in.
type unevenScratch struct {
	units []uint32 // by profile: 1 + the minimum unit of its first row, mixed = there are several
	rows  []unevenRow
}

// mixed stands for several minimum units.
const mixed = ^uint32(0)

type unevenRow struct {
	kind uint64 // profile and group
	row  uint32
}

func (x *unevenScratch) bytes() int64 { return int64(cap(x.units))*4 + int64(cap(x.rows))*16 }

// findUneven finds the rows of Uneven. O(rows + profiles) where rows of a profile agree
// in the minimum unit, as they mostly do.
func (b *Block) findUneven(in *installer, profiles int) {
	x := &in.uneven
	b.uneven = b.uneven[:0]
	x.units = resized(x.units[:0], profiles)
	clear(x.units)
	some := false
	for i, p := range b.profile {
		switch was := x.units[p]; was {
		case 0:
			x.units[p] = b.unit[i] + 1
		case b.unit[i] + 1, mixed:
		default:
			x.units[p], some = mixed, true
		}
	}
	if !some {
		return
	}
	x.rows = x.rows[:0]
	for i, p := range b.profile {
		if x.units[p] == mixed {
			x.rows = append(x.rows, unevenRow{b.kind(i), uint32(i)})
		}
	}
	slices.SortFunc(x.rows, func(a, b unevenRow) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.row, b.row)) })
	for len(x.rows) > 0 {
		n := 1
		for n < len(x.rows) && x.rows[n].kind == x.rows[0].kind {
			n++
		}
		b.addUneven(x.rows[:n])
		x.rows = x.rows[n:]
	}
	slices.Sort(b.uneven)
}

// addUneven adds rows of one kind, if they differ.
func (b *Block) addUneven(rows []unevenRow) {
	unit := b.unit[rows[0].row]
	if !slices.ContainsFunc(rows, func(r unevenRow) bool { return b.unit[r.row] != unit }) {
		return
	}
	for _, r := range rows {
		b.uneven = append(b.uneven, r.row)
	}
}
