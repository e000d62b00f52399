package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

// budgetWorkers are with how many workers searches are cut.
var budgetWorkers = []int{1, 2, 3, 16}

// TestBudgetEqualsReference: a search ends where the reference's does, within priorities and
// between tenants, with every number of workers, in cycles from nothing and in those that
// build on one before.
func TestBudgetEqualsReference(t *testing.T) {
	defer engine.SetComponentsMin(engine.SetComponentsMin(0))
	cut, changed := 0, 0
	for _, seed := range fleetSeeds(fleetsToTry()) {
		w := fleet.Random(seed, []fleet.Size{fleet.Tiny, fleet.Small}[seed%2])
		if w.OneByOne = false; seed%3 == 0 {
			w = fleet.Shared(w, seed)
		}
		w.SearchPairs, w.SearchUnits = 0, 0
		whole := reference.Decide(inputOf(w))
		if whole.SearchUnits < 2 {
			continue
		}
		rng := rand.New(rand.NewPCG(uint64(seed), 0))
		if w.SearchUnits = 1 + rng.IntN(whole.SearchUnits); seed%2 == 0 {
			w.SearchPairs, w.SearchUnits = 1+rng.IntN(whole.SearchPairs), 0
		}
		want := reference.Decide(inputOf(w))
		if cut++; twin.Diff(want, whole) != "" {
			changed++
		}
		mustAgree(t, seed, w)
		for _, workers := range budgetWorkers {
			if d := decidesTwice(t, w, workers, want); d != "" {
				t.Fatalf("seed %d, %d workers: %s\n%s", seed, workers, d, fleet.Describe(w))
			}
		}
	}
	t.Logf("of %d searches with a budget %d end sooner", cut, changed)
	if !testing.Short() && *fleetSeed == 0 && changed < cut/4 {
		t.Errorf("of %d searches with a budget only %d come to another plan", cut, changed)
	}
}

// decidesTwice says where an engine decides otherwise than it should: from nothing, or when
// it builds on what it has decided.
func decidesTwice(t *testing.T, w fleet.World, workers int, want reference.Plan) string {
	t.Helper()
	in := inputOf(w)
	supply, demand, at, err := twin.Tables(in)
	if err != nil {
		t.Fatal(err)
	}
	opts := twin.Options(in.Options)
	opts.Workers, opts.CheckCycles = workers, 1<<20
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range 2 {
		plan, err := e.Cycle(engine.Input{Supply: supply, Demand: demand, Now: in.Now, DrainSeconds: in.DrainSeconds, BackingOff: in.BackingOff})
		if err != nil {
			t.Fatal(err)
		}
		got := twin.Translate(plan, twin.Results(plan), supply, at, len(in.Needs))
		if d := twin.Diff(got, want); d != "" {
			return d
		}
		ended := want.SearchPairs >= in.Options.SearchPairs || want.SearchUnits >= in.Options.SearchUnits
		if plan.Stats.SearchEnded != ended {
			return "whether the search has ended is told wrong"
		}
	}
	return ""
}
