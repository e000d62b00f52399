package demand

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

const (
	// DimsMax is the most resource dimensions that all demand together has at
	// one time, so that a set of them is one word.
	DimsMax = 64
	// NamesMax is the most resource names in one roll-up: all that can have a
	// dimension, and model.UnofferedNamesMax that have none.
	NamesMax = model.DimensionsMax + model.UnofferedNamesMax
)

// Every name that is offered finds room.
const _ = uint(DimsMax - model.DimensionsMax)

// nameSet is a set of a builder's numbers for names.
type nameSet [(NamesMax + 63) / 64]uint64

func (s *nameSet) add(n uint32) { s[n/64] |= 1 << (n % 64) }

// all returns the numbers in the set, ascending.
func (s *nameSet) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// dims numbers the dimension names in the order of their first use.
type dims struct {
	names   []string
	version uint64
}

func (d *dims) set(names []string) {
	d.names = names
	d.version++
}

// resources names the dimensions of a vector, and adds what has none.
func (d *dims) resources(v []int64, beyond model.Resources) model.Resources {
	var out model.Resources
	if len(beyond) > 0 {
		out = slices.Clone(beyond)
	}
	for i, x := range v {
		if x > 0 {
			out = append(out, model.Amount{Name: d.names[i], Value: x})
		}
	}
	slices.SortFunc(out, func(a, b model.Amount) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// noDim is the place of a name that has no dimension.
const noDim = ^uint8(0)

// placeDims finds the table's dimensions for the names of the builder's rows;
// names that machines offer get one if they have none. When there is no room,
// dimensions that no row uses any more make some: O(rows of all clusters) then.
// The error says what is too much; no row changes then.
func (t *Table) placeDims(b *Builder) error {
	fresh := t.findDims(b, t.dims.names, DimsMax+NamesMax)
	if len(t.dims.names)+len(fresh) > DimsMax {
		used := t.vectors.used()
		kept := keptNames(t.dims.names, used)
		fresh = t.findDims(b, kept, DimsMax)
		t.dropDims(kept, used)
	}
	vectors, stride := b.vectors.len(), t.strideOf(&b.named)
	switch n := vectors * stride; {
	case n > ValuesMax && !t.restating:
		return fmt.Errorf("%d different aggregates and minimum units over %d dimensions; at most %d values are accepted: report fewer sizes", vectors, stride, ValuesMax)
	case t.vectors.dict.Values()+n > columnar.VectorValuesMax:
		return fmt.Errorf("aggregates and minimum units of all clusters would have more than %d values; no more are accepted", columnar.VectorValuesMax)
	}
	if len(fresh) > 0 {
		t.dims.set(slices.Concat(t.dims.names, fresh))
	}
	return nil
}

// findDims places the builder's names among those of the dimensions, new ones
// behind them, and returns the new ones. Names that are not offered have no
// place. Nor have names beyond so many dimensions: all that is offered fits, but
// a table may not know yet what that is, or hold rows that Offer has yet to write.
func (t *Table) findDims(b *Builder, names []string, most int) (fresh []string) {
	for d := range b.named.all() {
		name := b.dims[d]
		t.installer.place[d] = noDim
		if !t.isOffered(name) {
			continue
		}
		at := slices.Index(names, name)
		if at < 0 {
			if at = len(names) + len(fresh); at >= most {
				continue
			}
			fresh = append(fresh, name)
		}
		t.installer.place[d] = uint8(at)
	}
	return fresh
}

// strideOf returns how long vectors may be that have these of the builder's
// names.
func (t *Table) strideOf(set *nameSet) int {
	stride := 0
	for d := range set.all() {
		if at := t.installer.place[d]; at != noDim {
			stride = max(stride, int(at)+1)
		}
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
