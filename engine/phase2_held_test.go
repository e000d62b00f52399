package engine_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestWhatIsHeldIsLookedAtOnce: where very many machines drain or are about to, for Needs of higher rank, very many Needs of
// lower rank that look for victims do not look at each of them again.
func TestWhatIsHeldIsLookedAtOnce(t *testing.T) {
	const n = 1500
	cores := func(v int64) model.Resources { return model.Resources{{Name: "cpu", Value: v}} }
	for _, state := range []model.State{model.Draining, model.Configured} {
		for _, spread := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/spread=%v", state, spread), func(t *testing.T) {
				in := reference.Input{Reported: map[string]bool{"low": true, "middle": true, "high": true}, Now: 1e18, Options: reference.DefaultOptions()}
				row := func(cluster string, priority int32, group string, v int64) model.Need {
					spec := model.ProfileSpec{Priority: priority}
					if spread && cluster == "middle" {
						spec.Spread = []model.Spread{{Key: "topology.kubernetes.io/zone", MaxSkew: 1, WhenUnsatisfiable: model.DoNotSchedule}}
					}
					profile, err := model.NewProfile(spec)
					if err != nil {
						t.Fatal(err)
					}
					return model.Need{Cluster: cluster, Group: group, Profile: profile, Aggregate: cores(v), MinUnit: cores(4000)}
				}
				low := row("low", 10, "", 8000*n)
				in.Needs = append(in.Needs, low)
				for i := range n {
					high := row("high", 100, fmt.Sprintf("h%d", i), 4000)
					id := fmt.Sprintf("m%05d", i)
					in.Needs = append(in.Needs, high, row("middle", 50, fmt.Sprintf("g%d", i), 4000))
					in.Machines = append(in.Machines, model.Machine{ // a victim for each
						ID: "v" + id, Host: "v" + id, State: model.Configured, Cluster: "low", Zone: fmt.Sprintf("z%d", i%3), Resources: cores(4000),
						Assigned: stampOf(&low),
					}, model.Machine{
						ID: id, Host: id, State: state, Cluster: "low", Zone: fmt.Sprintf("z%d", i%3), Resources: cores(4000),
						Assigned:    stampOf(&low),
						Reservation: model.Reservation{Owner: high.Owner(), Priority: 100, Plan: uint64(i + 1)},
					})
				}
				supply, demand, _, err := twin.Tables(in)
				if err != nil {
					t.Fatal(err)
				}
				opts := twin.Options(in.Options)
				opts.Workers = 1
				e, err := engine.New(opts)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				plan, err := e.Cycle(engine.Input{Supply: supply, Demand: demand, Now: in.Now})
				if err != nil {
					t.Fatal(err)
				}
				if count := plan.Stats.Actions[engine.Preempt]; count < n {
					t.Errorf("%d machines are preempted, fewer than %d", count, n)
				}
				if most := int64(20 * n); plan.Stats.Probes > most {
					t.Errorf("%d candidates were looked at for %d Needs and as many machines, more than %d", plan.Stats.Probes, n, most)
				}
			})
		}
	}
}
