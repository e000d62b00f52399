package demand

import (
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// Admission is what a roll-up would be refused for, as it was at one time. It does
// not change, so roll-ups can be checked while the table is in use. The zero value
// is that of an empty table.
//
// A table may still refuse what was admitted, when other clusters took the room
// meanwhile.
type Admission struct {
	names []string // of dimensions
	offer offer
}

// Admission returns what a roll-up would be refused for now. O(1), and
// O(different vectors) when most dimensions are taken.
func (t *Table) Admission() *Admission {
	names := t.dims.names
	if len(names) > DimsMax/2 { // some may be of rows that are gone
		names = keptNames(names, t.vectors.used())
	}
	return &Admission{names: names, offer: t.offer}
}

// KnowsOffer reports whether the same resources are offered by machines as when the
// admission was made.
func (a *Admission) KnowsOffer(t *Table) bool {
	return a.offer.known == t.offer.known && slices.Equal(a.offer.names, t.offer.names)
}

// Check returns why the builder's rows would be refused, nil when they would not.
// O(resource names).
func (a *Admission) Check(b *Builder) error {
	if b.err != nil {
		return b.err
	}
	taken, stride := len(a.names), 0
	var unoffered []string
	for d := range b.named.all() {
		name := b.dims[d]
		if !a.offer.has(name) {
			unoffered = append(unoffered, name)
			continue
		}
		at := slices.Index(a.names, name)
		if at < 0 {
			at = taken
			taken++
		}
		stride = max(stride, min(at+1, DimsMax))
	}
	if len(unoffered) > model.UnofferedNamesMax {
		slices.Sort(unoffered)
		return fmt.Errorf("roll-up of cluster %q: it asks for %d resources that no machine offers, such as %.*q; at most %d are accepted: check the names that pods request",
			b.cluster, len(unoffered), model.NameBytesMax, unoffered[model.UnofferedNamesMax], model.UnofferedNamesMax)
	}
	if vectors := b.vectors.len(); vectors*stride > ValuesMax {
		return fmt.Errorf("roll-up of cluster %q: %d different aggregates and minimum units over %d dimensions; at most %d values are accepted: report fewer sizes", b.cluster, vectors, stride, ValuesMax)
	}
	return nil
}
