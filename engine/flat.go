package engine

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// flatClassesMin is above how many classes a matcher's machines are walked as
// one merged list. Merging the heads of classes anew with every claim costs
// the number of classes; a fleet in which nearly every machine has a price of
// its own has nearly as many classes as machines. Tests lower it.
var flatClassesMin = 256

// flatKey names a merged list: Speculative ones differ by penalty, since that
// is in the effective cost.
type flatKey struct {
	matcher uint32
	penalty model.Bucket
	state   model.State
}

// flatList is the free machines of all classes that a matcher accepts, in the
// order of acquiring.
type flatList struct {
	rows []columnar.Row
	at   uint32 // the head up to here is taken for good
}

func (p *pass) flatFor(n *ranked, state model.State) *flatList {
	key := flatKey{matcher: n.matcher, state: state}
	if state == model.Speculative {
		key.penalty = n.profile.Interruption()
	}
	l := p.flat[key]
	if l == nil {
		l = &flatList{rows: p.mergeClasses(n, state)}
		p.flat[key] = l
	}
	return l
}

// mergeClasses sorts the machines of a matcher's classes by the keys that
// their heads would be compared by.
func (p *pass) mergeClasses(n *ranked, state model.State) []columnar.Row {
	type keyed struct {
		key uint64
		row columnar.Row
	}
	var all []keyed
	for _, c := range p.f.classes[n.matcher] {
		src := source{rows: p.s.Idle.At(int(c)), order: orderIdle}
		if state == model.Speculative {
			src = source{rows: p.s.Speculative.At(int(c)), order: orderSpeculative, rank: p.speculativeRank(n, c)}
		}
		for _, r := range src.rows {
			all = append(all, keyed{p.key(&src, r), r})
		}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	rows := alloc.MakeDirty[columnar.Row](p.e.arena, len(all))
	for i := range all {
		rows[i] = all[i].row
	}
	return rows
}
