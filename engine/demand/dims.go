package demand

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// DimsMax is the most resource dimensions that all demand together may name at
// one time.
const DimsMax = 64

// dims numbers the dimension names in the order of their first use.
type dims struct {
	names []string
	index map[string]int
}

func newDims() dims { return dims{index: map[string]int{}} }

func (d *dims) set(names []string) {
	d.names = names
	clear(d.index)
	for i, n := range names {
		d.index[n] = i
	}
}

func (d *dims) fill(dst []int64, r model.Resources) {
	for _, a := range r {
		dst[d.index[a.Name]] = a.Value
	}
}

func (d *dims) resources(v []int64) model.Resources {
	var out model.Resources
	for i, x := range v {
		if x > 0 {
			out = append(out, model.Amount{Name: d.names[i], Value: x})
		}
	}
	slices.SortFunc(out, func(a, b model.Amount) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// fresh returns the names of the rows' dimensions that are not known, in the
// order of their first use.
func (d *dims) fresh(rows []model.Need) []string {
	var names []string
	var seen map[string]bool
	for i := range rows {
		for _, v := range [...]model.Resources{rows[i].Aggregate, rows[i].MinUnit} {
			for _, a := range v {
				if _, ok := d.index[a.Name]; !ok && !seen[a.Name] {
					if seen == nil {
						seen = map[string]bool{}
					}
					seen[a.Name] = true
					names = append(names, a.Name)
				}
			}
		}
	}
	return names
}

// useDims numbers the rows' dimensions. When that would be too many, those
// that no row names any more make room: O(rows of all
// clusters) then. The error says which dimension is one too many; nothing
// changes then.
func (t *Table) useDims(rows []model.Need) error {
	fresh := t.dims.fresh(rows)
	if len(fresh) == 0 {
		return nil
	}
	if len(t.dims.names)+len(fresh) > DimsMax {
		t.dropDims()
		if fresh = t.dims.fresh(rows); len(t.dims.names)+len(fresh) > DimsMax {
			return fmt.Errorf("resource %.*q would be dimension %d; at most %d are supported",
				model.NameBytesMax, fresh[DimsMax-len(t.dims.names)], DimsMax+1, DimsMax)
		}
	}
	t.dims.set(slices.Concat(t.dims.names, fresh))
	return nil
}

// dropDims forgets the dimensions that no row names and writes all vectors
// anew over those that are left.
func (t *Table) dropDims() {
	used := make([]bool, len(t.dims.names))
	for _, b := range t.blocks {
		for _, vectors := range [...][]int64{b.aggregate, b.units} {
			for i, v := range vectors {
				used[i%b.stride] = used[i%b.stride] || v > 0
			}
		}
	}
	var names []string
	var from []int // by new place: the old one
	for i, n := range t.dims.names {
		if used[i] {
			names, from = append(names, n), append(from, i)
		}
	}
	for _, b := range t.blocks {
		b.aggregate = project(b.aggregate, b.stride, from)
		b.units = project(b.units, b.stride, from)
		b.stride = len(from)
	}
	t.dims.set(names)
	t.version++
}

// project writes vectors of stride values over the places that from names.
func project(vectors []int64, stride int, from []int) []int64 {
	if stride == 0 {
		return nil
	}
	out := make([]int64, 0, len(vectors)/stride*len(from))
	for at := 0; at < len(vectors); at += stride {
		for _, i := range from {
			v := int64(0)
			if i < stride {
				v = vectors[at+i]
			}
			out = append(out, v)
		}
	}
	return out
}
