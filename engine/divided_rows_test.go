package engine_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestGangBetweenDividedRows: two rows share a stamp, and a gang ranks between them. The first row is credited a machine that the gang needs. Then
// the engine divides the machines of both rows again, and the second row gets that machine. The second row ranks below the gang. So the gang takes
// the machine in the next cycle. Until then the gang waits, although it can preempt nothing.
func TestGangBetweenDividedRows(t *testing.T) {
	const second = int64(1e9)
	cpu := func(v int64) model.Resources { return model.Resources{{Name: "cpu", Value: v}} }
	gpus := model.NewResources(model.Amount{Name: "cpu", Value: 8000}, model.Amount{Name: "gpu", Value: 8})
	for _, victims := range []reference.VictimMode{reference.VictimsGang, reference.VictimsMachine} {
		in := reference.Input{Reported: map[string]bool{"c": true}, Now: 1e18, Options: reference.DefaultOptions()}
		in.Options.Victims = victims
		for _, id := range []string{"bound1", "bound2", "free"} {
			m := model.Machine{ID: id, Host: id, State: model.Configured, Cluster: "c", Zone: "z", Resources: gpus}
			if id == "free" {
				m.State, m.Cluster = model.Idle, ""
			}
			in.Machines = append(in.Machines, m)
		}
		for _, id := range []string{"small1", "small2"} {
			in.Machines = append(in.Machines, model.Machine{ID: id, Host: id, State: model.Idle, Resources: cpu(2000)})
		}
		row := func(same bool, want model.Resources, arrival int64) {
			spec := model.ProfileSpec{Priority: 100}
			if same {
				spec.Requirements = []model.Requirement{{Key: model.KeyZone, Operator: model.Same}}
			}
			profile, err := model.NewProfile(spec)
			if err != nil {
				t.Fatal(err)
			}
			in.Needs = append(in.Needs, model.Need{Cluster: "c", Profile: profile, Aggregate: want, Arrival: in.Now + arrival*second})
		}
		row(false, cpu(1), -30)
		row(true, model.Resources{{Name: "gpu", Value: 24}}, -20)
		row(false, cpu(4000), -10)

		want := reference.Decide(in)
		got, err := twin.Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		if d := twin.Diff(got, want); d != "" {
			t.Errorf("victims %d: %s", victims, d)
		}
		if unmet := want.Needs[1].Unmet; unmet != reference.UnmetAwaitingDrain {
			t.Errorf("victims %d: the gang is %s: this fleet divides nothing", victims, unmet)
		}
	}
}
