package demand

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// DimsMax is the most resource dimensions that all demand together may name at
// one time, so that a set of them is one word. A roll-up must find room beside
// the demand that it replaces.
const DimsMax = 64

// dims numbers the dimension names in the order of their first use.
type dims struct {
	names   []string
	version uint64
}

func (d *dims) set(names []string) {
	d.names = names
	d.version++
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

// placeDims finds the table's numbers for the builder's dimensions that its
// rows name; new ones get numbers. When that would be too many, those that no
// row names any more make room: O(rows of all clusters) then. The error says
// what is too much; no row changes then.
func (t *Table) placeDims(b *Builder) error {
	fresh := t.findDims(b, t.dims.names)
	if len(t.dims.names)+len(fresh) > DimsMax {
		used := t.vectors.used()
		kept := keptNames(t.dims.names, used)
		if fresh = t.findDims(b, kept); len(kept)+len(fresh) > DimsMax {
			return fmt.Errorf("resource %.*q would be dimension %d; at most %d are supported",
				model.NameBytesMax, fresh[DimsMax-len(kept)], DimsMax+1, DimsMax)
		}
		t.dropDims(kept, used)
	}
	vectors, stride := b.vectors.len(), t.strideOf(b.named)
	switch n := vectors * stride; {
	case n > ValuesMax:
		return fmt.Errorf("%d different aggregates and minimum units over %d dimensions; at most %d values are accepted: report fewer sizes", vectors, stride, ValuesMax)
	case t.vectors.dict.Values()+n > columnar.VectorValuesMax:
		return fmt.Errorf("aggregates and minimum units of all clusters would have more than %d values; no more are accepted", columnar.VectorValuesMax)
	}
	if len(fresh) > 0 {
		t.dims.set(slices.Concat(t.dims.names, fresh))
	}
	return nil
}

// findDims places the builder's dimensions among the names, new ones behind
// them, and returns the new ones.
func (t *Table) findDims(b *Builder, names []string) (fresh []string) {
	for set := b.named; set != 0; set &= set - 1 {
		d := bits.TrailingZeros64(set)
		at := slices.Index(names, b.dims[d])
		if at < 0 {
			at = len(names) + len(fresh)
			fresh = append(fresh, b.dims[d])
		}
		t.installer.place[d] = uint8(at)
	}
	return fresh
}

// strideOf returns how long vectors may be that have these of the builder's
// dimensions.
func (t *Table) strideOf(set uint64) int {
	stride := 0
	for ; set != 0; set &= set - 1 {
		stride = max(stride, int(t.installer.place[bits.TrailingZeros64(set)])+1)
	}
	return stride
}

func keptNames(names []string, used uint64) (kept []string) {
	for i, n := range names {
		if used>>i&1 != 0 {
			kept = append(kept, n)
		}
	}
	return kept
}

// dropDims forgets the dimensions that no row names and writes all vectors
// anew over those that are left.
func (t *Table) dropDims(kept []string, used uint64) {
	var from []int // by new place: the old one
	for ; used != 0; used &= used - 1 {
		from = append(from, bits.TrailingZeros64(used))
	}
	t.version++
	var number []uint32
	t.vectors, number = t.vectors.project(from)
	for _, b := range t.blocks {
		b.version = t.version
		for i := range b.unit {
			b.aggregate[i], b.unit[i] = number[b.aggregate[i]], number[b.unit[i]]
		}
	}
	t.dims.set(kept)
	t.log.forget(t.version)
}
