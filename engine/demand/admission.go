package demand

import (
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// Admission is what a table would refuse a roll-up for, as it was at one time. It
// does not change, so roll-ups can be checked while the table is in use. The zero
// value is that of an empty table.
//
// A table may still refuse what was admitted, when other clusters took the room
// meanwhile.
type Admission struct {
	names []string // of dimensions
	offer offer
}

// Admission returns what the table would refuse a roll-up for now. O(1), and
// O(different vectors) when most dimensions are taken.
func (t *Table) Admission() *Admission {
	names := t.dims.names
	if len(names) > DimsMax/2 { // some may be of rows that are gone
		names = keptNames(names, t.vectors.used())
	}
	return &Admission{names: names, offer: t.offer}
}

// Check returns why a table would refuse the builder's rows, nil when it would
// not. O(resource names).
func (a *Admission) Check(b *Builder) error {
	if b.err != nil {
		return b.err
	}
	if err := a.offer.check(b); err != nil {
		return fmt.Errorf("roll-up of cluster %q: %w", b.cluster, err)
	}
	taken, stride := len(a.names), 0
	for d := range b.named.all() {
		name := b.dims[d]
		if !a.offer.has(name) {
			continue
		}
		at := slices.Index(a.names, name)
		if at < 0 {
			at = taken
			taken++
		}
		if at >= DimsMax {
			return fmt.Errorf("roll-up of cluster %q: resource %.*q would be dimension %d; at most %d are supported", b.cluster, model.NameBytesMax, name, DimsMax+1, DimsMax)
		}
		stride = max(stride, at+1)
	}
	if vectors := b.vectors.len(); vectors*stride > ValuesMax {
		return fmt.Errorf("roll-up of cluster %q: %d different aggregates and minimum units over %d dimensions; at most %d values are accepted: report fewer sizes", b.cluster, vectors, stride, ValuesMax)
	}
	return nil
}
