package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

// lengthen makes every need refuse a long list of values as well: only verdicts
// on long lists are remembered.
func lengthen(t *testing.T, needs []model.Need) {
	t.Helper()
	long := model.Requirement{Key: "example.com/role", Operator: model.NotIn, Values: []string{"server"}}
	for i := range 99 {
		long.Values = append(long.Values, fmt.Sprint("role-", i))
	}
	for i, n := range needs {
		p, err := model.NewProfile(model.ProfileSpec{
			Requirements: append(slices.Clone(n.Profile.Requirements()), long), Spread: n.Profile.Spread(),
			Priority: n.Profile.Priority(), Interruption: n.Profile.Interruption(), Reclamation: n.Profile.Reclamation(),
		})
		if err != nil {
			t.Fatal(err)
		}
		needs[i].Profile = p
	}
}

// TestPlanWithoutVerdicts: what a cache of matched requirements keeps or drops
// changes no plan; here one always misses.
func TestPlanWithoutVerdicts(t *testing.T) {
	sizes := []fleet.Size{fleet.Tiny, fleet.Small, fleet.Medium}
	for i := range fleetsToTry() / 10 {
		seed := int64(i + 1)
		in := inputOf(fleet.Random(seed, sizes[seed%int64(len(sizes))]))
		lengthen(t, in.Needs)
		kept, rows, _, err := twin.Tables(in)
		if err != nil {
			t.Fatal(err)
		}
		forgetful := supply.New().Forgetful()
		for m := range in.Machines {
			if err := forgetful.Put(&in.Machines[m]); err != nil {
				t.Fatal(err)
			}
		}
		var digests [2]uint64
		for i, s := range []*supply.Table{kept, forgetful} {
			e, err := engine.New(twin.Options(in.Options))
			if err != nil {
				t.Fatal(err)
			}
			plan, err := e.Cycle(engine.Input{Supply: s, Demand: rows, Now: in.Now, DrainSeconds: in.DrainSeconds, BackingOff: in.BackingOff})
			if err != nil {
				t.Fatal(err)
			}
			digests[i] = plan.Digest()
			e.Close()
		}
		if digests[0] != digests[1] {
			t.Fatalf("seed %d: the plan has digest %016x, and %016x when nothing is remembered", seed, digests[0], digests[1])
		}
	}
}
