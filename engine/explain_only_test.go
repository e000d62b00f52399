package engine_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

// explainedRows is how many rows of a random fleet are explained each on its own.
const explainedRows = 4

// TestSomeRowsAreExplained: rows that Input.ExplainOnly names are explained as they are among all, and the plan is the same.
func TestSomeRowsAreExplained(t *testing.T) {
	searched, most := 0, 0
	for _, seed := range fleetSeeds(fleetsToTry() / 10) {
		in, opts := explainedFleet(t, seed)
		all := newEngine(t, withExplain(opts))
		plan := mustCycle(t, all, in)
		digest := plan.Digest()
		want := make([]engine.NeedExplanation, plan.Len())
		for i := range want {
			want[i] = all.ExplainNeed(i)
		}
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		var each []engine.NeedRow
		for _, i := range rng.Perm(plan.Len()) {
			if len(want[i].Preemption) > 0 || want[i].Plan != nil || want[i].Tenancy != nil || rng.IntN(4) == 0 {
				n := plan.Need(i)
				each = append(each, engine.NeedRow{Cluster: n.Cluster, Row: n.Row})
			}
		}
		lists := [][]engine.NeedRow{each, {}, {{Cluster: "nobody"}, {Cluster: in.Demand.Clusters()[0], Row: 1 << 20}, {Cluster: in.Demand.Clusters()[0], Row: -1}}}
		for _, row := range each[:min(explainedRows, len(each))] {
			lists = append(lists, []engine.NeedRow{row})
		}
		for _, only := range lists {
			in.ExplainOnly = only
			some := newEngine(t, withExplain(opts))
			plan := mustCycle(t, some, in)
			if plan.Digest() != digest {
				t.Fatalf("seed %d: the plan is another when only %v are explained", seed, only)
			}
			for i := range want {
				if n := plan.Need(i); !slices.Contains(only, engine.NeedRow{Cluster: n.Cluster, Row: n.Row}) {
					continue
				}
				if got := some.ExplainNeed(i); !reflect.DeepEqual(got, want[i]) {
					t.Fatalf("seed %d: row %d, explained with %d rows: %+v, among all %+v", seed, i, len(only), got, want[i])
				}
				searched, most = searched+len(want[i].Preemption), max(most, len(want[i].Preemption))
			}
		}
	}
	if *fleetSeed == 0 && (searched == 0 || most < 64) {
		t.Errorf("phase 2 searched in %d domains, at most %d for a row: the fleets show too little", searched, most)
	}
}

// explainedFleet returns the input and the options of a random fleet, in which Needs of many kinds are short.
func explainedFleet(t *testing.T, seed int64) (engine.Input, engine.Options) {
	t.Helper()
	w := fleet.Random(seed, []fleet.Size{fleet.Tiny, fleet.Small}[seed%2])
	switch seed % 6 {
	case 5:
		w = onePerRack(fleet.Random(seed, fleet.Size{Machines: 150, Needs: 25}))
	case 1, 2:
		w = fleet.Shared(w, seed)
	case 3:
		w = fleet.Prioritised(w, seed)
	case 4:
		w = overHosts(w, seed)
	}
	in := inputOf(w)
	s, d, _, err := twin.Tables(in)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Input{Supply: s, Demand: d, Now: in.Now, DrainSeconds: in.DrainSeconds, BackingOff: in.BackingOff}, twin.Options(in.Options)
}

// onePerRack puts each machine into a rack of its own: more racks than are explained of a Need.
func onePerRack(w fleet.World) fleet.World {
	w = w.Clone()
	for i := range w.Machines {
		m := &w.Machines[i]
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels["topology.kubernetes.io/rack"] = fmt.Sprint("rack-", i)
	}
	return w
}

func mustCycle(t *testing.T, e *engine.Engine, in engine.Input) *engine.Plan {
	t.Helper()
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
