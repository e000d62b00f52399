// Package twin puts the production engine beside its slow twin: it runs the
// engine on the reference's input, writes its plan in the reference's terms,
// and says where two plans differ.
package twin

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/engine/supply"
)

// Tables loads an input into the engine's tables. The order of a cluster's
// rows is kept; at[c][i] is the index in in.Needs of row i of cluster c.
func Tables(in reference.Input) (s *supply.Table, d *demand.Table, at map[string][]int, err error) {
	s, d, at = supply.New(), demand.New(), map[string][]int{}
	for i := range in.Machines {
		if err := s.Put(&in.Machines[i]); err != nil {
			return nil, nil, nil, err
		}
	}
	rows := map[string][]model.Need{}
	for i, n := range in.Needs {
		rows[n.Cluster] = append(rows[n.Cluster], n)
		at[n.Cluster] = append(at[n.Cluster], i)
	}
	// In one order, so that what a seed draws is drawn again.
	for _, c := range slices.Sorted(maps.Keys(rows)) {
		if err := d.Load(c, rows[c]); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, c := range slices.Sorted(maps.Keys(in.Reported)) {
		if in.Reported[c] {
			d.MarkReported(c)
		}
	}
	return s, d, at, nil
}

// Options are the engine's options for the reference's.
func Options(o reference.Options) engine.Options {
	opts := engine.DefaultOptions()
	opts.Weights = engine.Weights(o.Weights)
	opts.Release = engine.Release(o.Release)
	opts.TopDomains, opts.SearchPairs, opts.SearchUnits = o.TopDomains, o.SearchPairs, o.SearchUnits
	opts.Victims = engine.VictimMode(o.Victims)
	opts.Band = o.Band
	opts.Nested = o.Nested
	opts.Acquire, opts.Fit, opts.MaxMachineShare = engine.AcquireRule(o.Acquire), engine.Fit(o.Fit), o.MaxMachineShare
	for _, t := range o.Tenants {
		opts.Tenancy.Tenants = append(opts.Tenancy.Tenants, engine.Tenant(t))
	}
	return opts
}

// ReferenceOptions are the reference's options for the engine's.
func ReferenceOptions(o *engine.Options) reference.Options {
	out := reference.Options{
		Weights: reference.Weights(o.Weights), Release: reference.Release(o.Release), TopDomains: o.TopDomains,
		SearchPairs: cmp.Or(o.SearchPairs, engine.SearchPairsDefault), SearchUnits: cmp.Or(o.SearchUnits, engine.SearchUnitsDefault),
		Victims: reference.VictimMode(o.Victims), Band: o.Band, Nested: o.Nested,
		Acquire: reference.AcquireRule(o.Acquire), Fit: reference.Fit(o.Fit), MaxMachineShare: o.MaxMachineShare,
	}
	for _, t := range o.Tenancy.Tenants {
		out.Tenants = append(out.Tenants, reference.Tenant(t))
	}
	return out
}

// Decide is reference.Decide by the production engine.
func Decide(in reference.Input) (reference.Plan, error) {
	s, d, at, err := Tables(in)
	if err != nil {
		return reference.Plan{}, err
	}
	e, err := engine.New(Options(in.Options))
	if err != nil {
		return reference.Plan{}, err
	}
	plan, err := e.Cycle(engine.Input{Supply: s, Demand: d, Now: in.Now, DrainSeconds: in.DrainSeconds, BackingOff: in.BackingOff})
	if err != nil {
		return reference.Plan{}, err
	}
	return Translate(plan, Results(plan), s, at, len(in.Needs)), nil
}

// Results returns what became of every row of the demand, in the order of their
// numbers. It is for checks: a caller that acts on a plan asks for single rows.
func Results(plan *engine.Plan) []engine.NeedResult {
	out := make([]engine.NeedResult, plan.Len())
	for i := range out {
		out[i] = plan.Need(i)
	}
	return out
}

// Translate writes a plan and its results in the reference's terms; at is that
// of Tables, needs how many rows the reference knows.
func Translate(plan *engine.Plan, results []engine.NeedResult, s *supply.Table, at map[string][]int, needs int) reference.Plan {
	index := func(i int32) int {
		if i < 0 {
			return reference.NoNeed
		}
		r := &results[i]
		return at[r.Cluster][r.Row]
	}
	out := reference.Plan{Needs: make([]reference.NeedResult, needs)}
	for _, a := range plan.Actions {
		x := reference.Action{
			Kind: a.Kind.String(), Machine: s.ID(a.Machine), Need: index(a.Need), Grace: int(a.GraceSeconds),
			PreemptorPriority: int(a.PreemptorPriority), Reason: a.Reason.String(),
		}
		switch a.Kind {
		case engine.Bootstrap, engine.Provision:
			x.Cluster = results[a.Need].Cluster
		case engine.Preempt, engine.Reclaim:
			x.Cluster = s.Cluster(a.Machine)
		}
		out.Actions = append(out.Actions, x)
	}
	for i := range results {
		r := &results[i]
		x := reference.NeedResult{
			Satisfied: r.Satisfied, Deficit: r.Deficit, InFlight: r.InFlight, Domain: r.Domain,
			Bootstrap: int(r.Bootstrap), Provision: int(r.Provision), Preempt: int(r.Preempt),
			Unmet: r.Unmet.String(), CouldCover: r.CouldCover, Fold: index(r.Fold), Rank: int(r.Rank),
		}
		for _, m := range r.Claimed {
			x.Claimed = append(x.Claimed, s.ID(m))
		}
		out.Needs[at[r.Cluster][r.Row]] = x
	}
	out.SearchPairs, out.SearchUnits = plan.Stats.SearchPairs, plan.Stats.SearchUnits
	for _, r := range plan.Ended {
		out.Ended = append(out.Ended, s.ID(r))
	}
	for i := range plan.Reservations {
		x := &plan.Reservations[i]
		out.Reserved = append(out.Reserved, reference.Reserved{
			Machine: s.ID(x.Machine), Need: index(x.Need), Domain: x.Reservation.Domain, Grace: int(x.GraceSeconds),
		})
	}
	return out
}

// Diff names the first place where two plans differ, "" when they agree.
func Diff(got, want reference.Plan) string {
	for i := range max(len(got.Actions), len(want.Actions)) {
		switch {
		case i >= len(got.Actions):
			return fmt.Sprintf("action %d is missing: want %+v", i, want.Actions[i])
		case i >= len(want.Actions):
			return fmt.Sprintf("action %d is one too many: got %+v", i, got.Actions[i])
		case got.Actions[i] != want.Actions[i]:
			return fmt.Sprintf("action %d: got %+v, want %+v", i, got.Actions[i], want.Actions[i])
		}
	}
	for i := range want.Needs {
		g, w := reflect.ValueOf(got.Needs[i]), reflect.ValueOf(want.Needs[i])
		for f := range w.NumField() {
			if x, y := g.Field(f), w.Field(f); !same(x, y) {
				return fmt.Sprintf("need %d: %s: got %v, want %v", i, w.Type().Field(f).Name, x, y)
			}
		}
	}
	if !slices.Equal(got.Reserved, want.Reserved) {
		return fmt.Sprintf("reserved: got %v, want %v", got.Reserved, want.Reserved)
	}
	if got.SearchPairs != want.SearchPairs || got.SearchUnits != want.SearchUnits {
		return fmt.Sprintf("search: got %d pairs and %d units, want %d and %d", got.SearchPairs, got.SearchUnits, want.SearchPairs, want.SearchUnits)
	}
	if !slices.Equal(got.Ended, want.Ended) {
		return fmt.Sprintf("ended reservations: got %v, want %v", got.Ended, want.Ended)
	}
	return ""
}

// same is equality in which nil and empty lists are one.
func same(x, y reflect.Value) bool {
	if x.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(x.Interface(), y.Interface())
}
