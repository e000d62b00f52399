package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
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

// TestWhomTheBudgetCutsOff: explain names the Needs that the search has not come to, and
// nobody else.
func TestWhomTheBudgetCutsOff(t *testing.T) {
	for _, c := range []struct {
		units, tenants int
		want           [4]bool // the gangs in rank order, and a row that asks for no domain
	}{
		{0, 0, [4]bool{}},
		{7, 0, [4]bool{false, false, true, false}},
		{1, 0, [4]bool{false, true, true, false}},
		{7, 1, [4]bool{false, false, true, false}},
	} {
		x := &scaled{t: t, needs: map[string][]model.Need{}, opts: engine.DefaultOptions()}
		for i := range 6 {
			x.machine("low", nil).Zone = string(rune('a' + i/2))
		}
		low, high := int32(1), int32(1000)
		if c.tenants > 0 {
			high = 1
			for _, name := range []string{"low", "top"} {
				x.opts.Tenancy.Tenants = append(x.opts.Tenancy.Tenants, tenantOf(name, 3*len(name)-8))
			}
			x.opts.Tenancy.Tenants[1].Share = whole(100)
		}
		x.need("low", model.ProfileSpec{Priority: low}, 6, "")
		for i := range 3 {
			x.need("top", sameIn(high, model.KeyZone), 2, fmt.Sprint("g", i))
		}
		x.need("top", model.ProfileSpec{Priority: high}, 1, "")
		x.opts.SearchUnits, x.opts.Explain = c.units, true
		e, in := x.load()
		plan, err := e.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for i := range plan.Len() {
			if plan.Need(i).Cluster != "top" {
				continue
			}
			if got := e.ExplainNeed(i).SearchEnded; got != c.want[at] {
				t.Errorf("%+v: row %d of the cluster, %v: cut off: %v", c, at, plan.Need(i).Unmet, got)
			}
			at++
		}
		e.Close()
	}
}

// TestSearchIsBounded: with a budget, fleets in which it is met are at most about twice the
// work when they are twice as large; without one, some are four times.
func TestSearchIsBounded(t *testing.T) {
	const n, units = 600, 60_000
	for _, x := range squares {
		t.Run(x.name, func(t *testing.T) {
			var met, probes [2]int64
			for i, n := range []int{n, 2 * n} {
				e, in := scale(t, n, func(s *scaled) {
					x.build(s)
					s.opts.SearchUnits = units
				})
				plan, err := e.Cycle(in)
				if err != nil {
					t.Fatal(err)
				}
				if met[i], probes[i] = int64(plan.Stats.SearchUnits), plan.Stats.Probes; met[i] >= units+int64(n) {
					t.Errorf("%d machines: %d are offered, and the search was to end with %d", n, met[i], units)
				}
				e.Close()
			}
			t.Logf("offered: %d, probes: %d", met, probes)
			if probes[1] > 3*probes[0] {
				t.Errorf("%d candidates are looked at for %d machines, %d for twice as many", probes[0], n, probes[1])
			}
		})
	}
}
