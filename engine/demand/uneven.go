package demand

import (
	"cmp"
	"slices"
)

// unevenScratch is what findUneven looks rows up in.
type unevenScratch struct {
	units []uint32 // by profile: 1 + the minimum unit of its first row, mixed = there are several
	twice []uint32 // profiles of several rows, none of which has Same
	rows  []unevenRow
}

// mixed stands for several minimum units.
const mixed = ^uint32(0)

type unevenRow struct {
	kind uint64 // profile and group
	row  uint32
}

func (x *unevenScratch) bytes() int64 {
	return int64(cap(x.units)+cap(x.twice))*4 + int64(cap(x.rows))*16
}

// findUneven finds the rows of Uneven, and those of Twins. O(rows + profiles) where rows of a profile agree
// in the minimum unit and no two without Same agree in the group, as it mostly is.
func (b *Block) findUneven(in *installer, profiles int) {
	x := &in.uneven
	b.uneven, b.twins = b.uneven[:0], b.twins[:0]
	x.units, x.twice = resized(x.units[:0], profiles), x.twice[:0]
	clear(x.units)
	some, last := false, mixed
	for i, p := range b.profile {
		switch was := x.units[p]; was {
		case 0:
			x.units[p] = b.unit[i] + 1
			continue
		case b.unit[i] + 1, mixed:
		default:
			x.units[p], some = mixed, true
		}
		if p != last {
			if last = p; b.table.Profile(p).Same() == nil {
				x.twice = append(x.twice, p)
			}
		}
	}
	if len(x.twice) > 0 {
		b.findTwins(x)
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

// findTwins finds the rows of Twins, given the profiles of which there are several rows.
func (b *Block) findTwins(x *unevenScratch) {
	slices.Sort(x.twice)
	x.twice = slices.Compact(x.twice)
	x.rows = x.rows[:0]
	for i, p := range b.profile {
		if _, twice := slices.BinarySearch(x.twice, p); twice {
			x.rows = append(x.rows, unevenRow{b.kind(i), uint32(i)})
		}
	}
	slices.SortFunc(x.rows, func(a, b unevenRow) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.row, b.row)) })
	for i, r := range x.rows {
		if i > 0 && x.rows[i-1].kind == r.kind || i+1 < len(x.rows) && x.rows[i+1].kind == r.kind {
			b.twins = append(b.twins, r.row)
		}
	}
}
