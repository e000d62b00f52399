package demand

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// Unoffered is what a row asks for under names of resources that no machine
// offers. Such a name has no dimension, so it takes no room from the names of
// others, and decisions are made without it.
type Unoffered struct {
	Aggregate, MinUnit model.Resources
}

// Some reports whether there is such a name.
func (u Unoffered) Some() bool { return len(u.Aggregate) > 0 || len(u.MinUnit) > 0 }

// Waits reports whether the row waits until such a name is offered, because no
// machine covers its minimum unit or, where it asks for one domain as a whole,
// because it cannot be whole. It keeps its credit then and acquires nothing.
func (u Unoffered) Waits(whole bool) bool { return len(u.MinUnit) > 0 || whole && u.Some() }

func (u Unoffered) equal(o Unoffered) bool {
	return u.Aggregate.Equal(o.Aggregate) && u.MinUnit.Equal(o.MinUnit)
}

// offer is what the table knows of the names that machines offer.
type offer struct {
	known bool     // Offer was called
	names []string // sorted
}

// has reports whether a name has a dimension when a row asks for it. As long as it
// is not known what is offered, every name has, while there is room.
func (o *offer) has(name string) bool {
	if !o.known || model.AlwaysOffered(name) {
		return true
	}
	_, ok := slices.BinarySearch(o.names, name)
	return ok
}

func (t *Table) isOffered(name string) bool { return t.offer.has(name) }

// checkUnoffered refuses a roll-up with too many names that no machine offers.
func (t *Table) checkUnoffered(b *Builder) error {
	if t.restating {
		return nil
	}
	return t.offer.check(b)
}

// check refuses a roll-up with too many names that no machine offers.
func (o *offer) check(b *Builder) error {
	if !o.known {
		return nil
	}
	var names []string
	for d := range b.named.all() {
		if !o.has(b.dims[d]) {
			names = append(names, b.dims[d])
		}
	}
	if len(names) <= model.UnofferedNamesMax {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("it asks for %d resources that no machine offers, such as %.*q; at most %d are accepted: check the names that pods request",
		len(names), model.NameBytesMax, names[model.UnofferedNamesMax], model.UnofferedNamesMax)
}

// keepBeyond notes what of the builder's vector i has no dimension.
func (x *installer) keepBeyond(b *Builder, i int) {
	for len(x.beyond) < b.vectors.len() {
		x.beyond = append(x.beyond, nil)
	}
	var beyond model.Resources
	dim, value := b.vectors.vectors.at(i)
	for j, d := range dim {
		if x.place[d] == noDim {
			beyond = append(beyond, model.Amount{Name: b.dims[d], Value: value[j]})
		}
	}
	slices.SortFunc(beyond, func(a, b model.Amount) int { return strings.Compare(a.Name, b.Name) })
	x.beyond[i] = beyond
}

// unofferedOf returns what row i of the builder asks for that has no dimension.
func (x *installer) unofferedOf(b *Builder, i int) Unoffered {
	if len(x.beyond) == 0 {
		return Unoffered{}
	}
	return Unoffered{Aggregate: x.beyond[b.aggregate[i]], MinUnit: x.beyond[b.unit[i]]}
}

// writeUnoffered writes what of the rows has no dimension.
func (b *Block) writeUnoffered(x *installer, from *Builder) {
	if len(b.unoffered) == 0 && len(x.beyond) == 0 {
		return
	}
	for i := range from.Len() {
		is := x.unofferedOf(from, i)
		if !is.equal(b.Unoffered(i)) {
			x.mark(i)
		}
		switch {
		case !is.Some():
			delete(b.unoffered, i)
		case b.unoffered == nil:
			b.unoffered = map[int]Unoffered{}
			fallthrough
		default:
			b.unoffered[i] = is
		}
	}
	for i := range b.unoffered {
		if i >= from.Len() {
			delete(b.unoffered, i)
		}
	}
	if len(b.unoffered) == 0 {
		b.unoffered = nil
	}
	clear(x.beyond)
	x.beyond = x.beyond[:0]
}

// Unoffered returns what a row asks for under names that no machine offers; the
// zero value as a rule. Do not modify.
func (b *Block) Unoffered(i int) Unoffered {
	if b.unoffered == nil {
		return Unoffered{}
	}
	return b.unoffered[i]
}

// UnofferedAll returns the rows that ask for a name that no machine offers, in any
// order.
func (b *Block) UnofferedAll() iter.Seq[int] { return maps.Keys(b.unoffered) }

// UnofferedRows returns how many rows ask for a name that no machine offers.
func (b *Block) UnofferedRows() int { return len(b.unoffered) }

// Offer tells the table which names of resources machines offer, sorted, at most
// model.OfferedNamesMax beside those of model.AlwaysOffered. A name that rows ask
// for gets a dimension when it comes to be offered, and loses it when it is no
// longer; that is a change of these rows. Cost: O(names) when nothing has changed,
// O(rows) when a name that rows ask for is among the changes.
func (t *Table) Offer(names []string) {
	if t.offer.known && slices.Equal(t.offer.names, names) {
		return
	}
	t.offer.known, t.offer.names = true, slices.Clone(names)
	lost := uint64(0) // dimensions of names that are not offered any more
	for d, name := range t.dims.names {
		if !t.isOffered(name) {
			lost |= 1 << d
		}
	}
	if lost != 0 {
		lost &= t.vectors.used()
	}
	t.restating = true
	// The first round takes the lost dimensions from rows, which makes room; the
	// second one gives dimensions to names that found none in the first.
	for _, lost := range [...]uint64{lost, 0} {
		for _, cluster := range slices.Clone(t.order) {
			if b := t.blocks[cluster]; t.isMisplaced(b, lost) {
				t.restate(b)
			}
		}
	}
	t.restating = false
}

// isMisplaced reports whether a row of a block has a dimension among these, or
// asks for a name that has come to be offered.
func (t *Table) isMisplaced(b *Block, lost uint64) bool {
	for _, u := range b.unoffered {
		for _, v := range [...]model.Resources{u.Aggregate, u.MinUnit} {
			if slices.ContainsFunc(v, func(a model.Amount) bool { return t.isOffered(a.Name) }) {
				return true
			}
		}
	}
	if lost == 0 {
		return false
	}
	has := func(ids []uint32) bool {
		return slices.ContainsFunc(ids, func(id uint32) bool {
			for d, v := range t.Vector(id) {
				if v > 0 && lost>>d&1 != 0 {
					return true
				}
			}
			return false
		})
	}
	return has(b.aggregate) || has(b.unit)
}

// restate writes a block's rows anew, each with dimensions for what is offered.
func (t *Table) restate(old *Block) {
	b := t.loader
	b.Reset(old.cluster)
	b.Grow(old.Len())
	for i := range old.Len() {
		row := t.Row(old, i)
		if err := b.AddNeed(&row); err != nil {
			return // rows that were accepted are; the block stays as it is
		}
	}
	_ = t.Install(b) // as above
}
