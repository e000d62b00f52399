package reference

import (
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// lack is what a Need asks for under names of resources that no machine offers.
type lack struct {
	aggregate model.Resources
	// waits: nobody can serve the Need now, because no machine covers its minimum
	// unit, or because it needs all of its aggregate together.
	waits bool
	// parked: the row is parked, whatever it waits for.
	parked bool
}

// leaveOut takes the names of resources that no machine offers out of the Needs,
// and those beyond model.OfferedNamesMax out of the machines: decisions are made
// without them. A Need that waits for such a name keeps its credit and acquires
// nothing, as if it were parked; it never folds. It returns what each Need lacks,
// by its index.
func leaveOut(in *Input) []lack {
	offered := offeredNames(in.Machines)
	among := func(r model.Resources) model.Resources {
		return filterAmounts(r, func(name string) bool { return offered[name] })
	}
	in.Machines = slices.Clone(in.Machines)
	for i := range in.Machines {
		m := &in.Machines[i]
		// What is effective is decided by the whole record.
		m.Resources, m.Allocatable = among(m.EffectiveAllocatable()), nil
	}
	lacks := make([]lack, len(in.Needs))
	in.Needs = slices.Clone(in.Needs)
	for i := range in.Needs {
		n := &in.Needs[i]
		aggregate, unit := among(n.Aggregate), among(n.MinUnit)
		whole := len(aggregate) == len(n.Aggregate)
		if whole && len(unit) == len(n.MinUnit) {
			continue
		}
		lacks[i] = lack{
			aggregate: filterAmounts(n.Aggregate, func(name string) bool { return !offered[name] }),
			waits:     len(unit) < len(n.MinUnit) || n.Profile.Same() != nil,
			parked:    n.Parked,
		}
		n.Aggregate, n.MinUnit, n.MinAggregate = aggregate, unit, nil
		n.Parked = n.Parked || lacks[i].waits
	}
	return lacks
}

// offeredNames returns cpu, memory, pods, and of what machines offer besides the
// first names in order.
func offeredNames(machines []model.Machine) map[string]bool {
	names := map[string]bool{}
	for i := range machines {
		for _, a := range machines[i].EffectiveAllocatable() {
			names[a.Name] = true
		}
	}
	for _, always := range []string{"cpu", "memory", "pods"} {
		delete(names, always)
	}
	sorted := slices.Sorted(maps.Keys(names))
	offered := map[string]bool{"cpu": true, "memory": true, "pods": true}
	for _, name := range sorted[:min(len(sorted), model.OfferedNamesMax)] {
		offered[name] = true
	}
	return offered
}

// filterAmounts returns the amounts whose name passes the test.
func filterAmounts(r model.Resources, test func(name string) bool) model.Resources {
	var out model.Resources
	for _, a := range r {
		if test(a.Name) {
			out = append(out, a)
		}
	}
	return out
}
