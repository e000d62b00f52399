package engine_test

import (
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestAPlanIsHeldUntilItsLastDeadline: a gang's plan holds an Idle machine past its
// deadline and one whose drain has not been acknowledged. Neither is given up while
// the other is not, and nobody of lower rank gets either.
func TestAPlanIsHeldUntilItsLastDeadline(t *testing.T) {
	const now = int64(1e18)
	profile := func(priority int32, same bool) *model.Profile {
		spec := model.ProfileSpec{Priority: priority}
		if same {
			spec.Requirements = []model.Requirement{{Key: model.KeyZone, Operator: model.Same}}
		}
		p, err := model.NewProfile(spec)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	cpu := func(n int64) model.Resources { return model.Resources{{Name: "cpu", Value: n}} }
	gang := model.Need{Cluster: "gang", Profile: profile(100, true), Aggregate: cpu(2000), MinUnit: cpu(1000)}
	decide := func(idle, other int64) []string {
		held := func(deadline int64) model.Reservation {
			return model.Reservation{Owner: gang.Owner(), Priority: 100, Plan: 7, Domain: "a", Deadline: deadline}
		}
		machine := func(id string, state model.State, cluster string, deadline int64) model.Machine {
			return model.Machine{
				ID: id, Host: id, State: state, Cluster: cluster, Zone: "a", Resources: cpu(1000), Reservation: held(deadline),
			}
		}
		in := reference.Input{
			Machines: []model.Machine{machine("m-0", model.Idle, "", idle), machine("m-1", model.Configured, "low", other)},
			Needs:    []model.Need{gang, {Cluster: "low", Profile: profile(1, false), Aggregate: cpu(2000), MinUnit: cpu(1000)}},
			Reported: map[string]bool{"gang": true, "low": true}, Now: now, Options: reference.DefaultOptions(),
		}
		in.Options.Victims = reference.VictimsGang
		want := reference.Decide(in)
		got, err := twin.Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		if d := twin.Diff(got, want); d != "" {
			t.Fatal(d)
		}
		return got.Ended
	}
	for _, c := range []struct {
		name        string
		idle, other int64
		ended       []string
	}{
		{"none is past its deadline", now + 1, 0, nil},
		{"the Idle one is", now - 1, 0, nil},
		{"the other one is", now + 1, now - 1, nil},
		{"both are", now - 1, now - 1, []string{"m-0", "m-1"}},
	} {
		if got := decide(c.idle, c.other); !slices.Equal(got, c.ended) {
			t.Errorf("%s: the reservations of %v end, want %v", c.name, got, c.ended)
		}
	}
}
