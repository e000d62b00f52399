package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/twin"
)

// plainWorld is a fleet of machines of one size, each of which serves a need that
// is no gang, and needs of higher priority that lack some.
func plainWorld(t *testing.T, seed uint64) reference.Input {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	in := reference.Input{Now: 1e9, Reported: map[string]bool{}, DrainSeconds: map[string]float64{"fast": 5, "slow": 300}, Options: twin.ReferenceOptions(new(engine.DefaultOptions()))}
	size := func(n int) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: int64(4 * n)}) }
	row := func(cluster string, priority int32, machines int) model.Need {
		p, err := model.NewProfile(model.ProfileSpec{
			Priority: priority, Interruption: model.Bucket(rng.IntN(5)), Reclamation: model.Bucket(rng.IntN(5)),
		})
		if err != nil {
			t.Fatal(err)
		}
		in.Reported[cluster] = true
		return model.Need{Cluster: cluster, Profile: p, Aggregate: size(machines), MinUnit: size(1)}
	}
	for c := range 2 + rng.IntN(6) {
		n := row(fmt.Sprintf("c%d", c), int32(rng.IntN(4)), 1+rng.IntN(6))
		in.Needs = append(in.Needs, n)
		for range n.Aggregate.Get("cpu") / 4 {
			in.Machines = append(in.Machines, model.Machine{
				ID: fmt.Sprintf("m%02d", rng.IntN(90)*10+len(in.Machines)%10), State: model.Configured, Cluster: n.Cluster, Resources: size(1),
				InstanceType: []string{"fast", "slow", "other"}[rng.IntN(3)], PricePerHour: float64(rng.IntN(3)), CapacityType: model.BareMetal,
				Assigned: model.Assignment{
					Priority: n.Profile.Priority(), Interruption: n.Profile.Interruption(), Reclamation: n.Profile.Reclamation(), Fingerprint: n.Profile.Fingerprint(),
				},
			})
		}
	}
	for i := range 1 + rng.IntN(3) {
		in.Needs = append(in.Needs, row(fmt.Sprintf("top%d", i), int32(2+rng.IntN(1000)), 1+rng.IntN(8)))
	}
	seen := map[string]bool{}
	in.Machines = slices.DeleteFunc(in.Machines, func(m model.Machine) bool {
		twice := seen[m.ID]
		seen[m.ID] = true
		return twice
	})
	return in
}

// TestWithoutGangsTheOrderIsTheScores: where nobody is a gang and nothing is
// excess, victims by gangs are those of the plain score, in its order.
func TestWithoutGangsTheOrderIsTheScores(t *testing.T) {
	preempted := 0
	for seed := range uint64(400) {
		in := plainWorld(t, seed)
		var victims [2][]reference.Action
		for i, mode := range []reference.VictimMode{reference.VictimsMachine, reference.VictimsGang} {
			in.Options.Victims = mode
			plan, err := twin.Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range plan.Actions {
				if a.Kind == reference.Preempt {
					victims[i] = append(victims[i], a)
				}
			}
		}
		if !slices.Equal(victims[0], victims[1]) {
			t.Fatalf("seed %d: by score %v, by gangs %v", seed, victims[0], victims[1])
		}
		preempted += len(victims[0])
	}
	if preempted == 0 {
		t.Error("nothing was preempted")
	}
}
