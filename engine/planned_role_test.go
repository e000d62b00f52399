package engine_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestPlanOfARoleEndsWhatItsGangOffers: a gang lacks one role for so long that the machine of its other role may be taken.
// Then a plan is made for the role, between the turns of Needs of the same kind, and nothing of the gang may be taken any more. The last Need
// looks into one zone only, which must not be the one of that machine.
func TestPlanOfARoleEndsWhatItsGangOffers(t *testing.T) {
	const second = int64(1e9)
	in := reference.Input{Reported: map[string]bool{"low": true, "victim": true, "high": true}, Now: 1e18, Options: reference.DefaultOptions()}
	in.Options.TopDomains = 1
	row := func(cluster, group string, priority int32, machines int64, arrival int64) model.Need {
		spec := model.ProfileSpec{Priority: priority, Requirements: []model.Requirement{{Key: model.KeyZone, Operator: model.Same}}}
		profile, err := model.NewProfile(spec)
		if err != nil {
			t.Fatal(err)
		}
		cores := func(v int64) model.Resources { return model.Resources{{Name: "cpu", Value: v}} }
		n := model.Need{Cluster: cluster, Group: group, Profile: profile, Aggregate: cores(4000 * machines), MinUnit: cores(4000), Arrival: in.Now - 1000*second + arrival}
		in.Needs = append(in.Needs, n)
		return n
	}
	serve := func(n model.Need, zone string, machines int) {
		for range machines {
			id := fmt.Sprintf("m%02d", len(in.Machines))
			in.Machines = append(in.Machines, model.Machine{
				ID: id, Host: id, State: model.Configured, Cluster: n.Cluster, Zone: zone, Resources: model.Resources{{Name: "cpu", Value: 4000}}, Assigned: stampOf(&n),
			})
		}
	}
	for i := range 24 {
		serve(row("victim", fmt.Sprint("v", i), 10, 2, 0), []string{"z1", "z2"}[i%2], 2)
	}
	serve(row("low", "g", 2, 1, 0), "z2", 1)
	row("high", "first", 1000, 2, 1)
	serve(row("low", "g", 1000, 4, 2), "z1", 1) // the role that lacks something, of the same kind
	in.Needs[len(in.Needs)-1].ShortSince = in.Now - 100*second
	row("high", "second", 1000, 2, 3)
	row("high", "third", 1000, 1, 4)

	got, err := twin.Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := twin.Diff(got, reference.Decide(in)); d != "" {
		t.Error(d)
	}
}
