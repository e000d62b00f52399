package session_test

import (
	"testing"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// ask installs the demand of cluster a, and returns what a cycle says of it, by priority
// from the highest.
func (x *fleet) ask(t *testing.T, needs ...model.Need) (out []*pb.NeedView) {
	t.Helper()
	if outcome, err := x.shard.ApplyRollup("a", needs, x.now); err != nil || outcome != shard.RollupAccepted {
		t.Fatalf("%v, %v", outcome, err)
	}
	x.step(t)
	frames, err := inspect(t, x.fixture, nil, &pb.InspectNeedsRequest{})
	if err != nil || len(frames) == 0 {
		t.Fatal(err)
	}
	for _, f := range frames[1:] {
		out = append(out, f.GetNeed())
	}
	return out
}

// TestMatchingSupply: what matches covers the minimum unit, and is nothing where nothing
// holds what is wanted.
func TestMatchingSupply(t *testing.T) {
	need := func(priority int32, zone string, unit int64, aggregate ...model.Amount) model.Need {
		p, err := model.NewProfile(model.ProfileSpec{Priority: priority, Requirements: []model.Requirement{{Key: model.KeyZone, Operator: model.In, Values: []string{zone}}}})
		if err != nil {
			t.Fatal(err)
		}
		return model.Need{Profile: p, Aggregate: model.NewResources(aggregate...), MinUnit: model.NewResources(model.Amount{Name: "cpu", Value: unit})}
	}
	cpu := model.Amount{Name: "cpu", Value: 40_000}
	none := pb.UnmetReason_UNMET_REASON_NO_MATCHING_SUPPLY
	got := newFleet(t, 3).ask(t, // of 4 CPUs each
		need(5, "a", 4000, cpu),
		need(4, "a", 4001, cpu),
		need(3, "a", 1000, cpu, model.Amount{Name: "gpu", Value: 1}),
		need(2, "b", 1000, cpu),
		need(1, "a", 1000, cpu),
	)
	for i, want := range []struct {
		what     string
		machines int32
		reason   pb.UnmetReason
	}{
		{"a unit of a whole machine", 3, pb.UnmetReason_UNMET_REASON_PRIORITY_STARVED},
		{"a unit larger than any machine", 0, none},
		{"a resource that no machine has", 0, none},
		{"another zone", 0, none},
		{"a small unit", 3, pb.UnmetReason_UNMET_REASON_PRIORITY_STARVED},
	} {
		x := got[i].GetMatchingSupply()
		if sum := x.GetIdle() + x.GetConfigured() + x.GetSpeculative(); x == nil || sum != want.machines || x.GetCapped() || got[i].GetUnmetReason() != want.reason {
			t.Errorf("%s: %v for %v, want %d machines for %v", want.what, x, got[i].GetUnmetReason(), want.machines, want.reason)
		}
	}
}

// TestAFoldedGangIsShownAsAsked: with its Same and its group, though it is walked without.
func TestAFoldedGangIsShownAsAsked(t *testing.T) {
	p, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{{Key: "rack", Operator: model.Same}}})
	if err != nil {
		t.Fatal(err)
	}
	two := model.NewResources(model.Amount{Name: "cpu", Value: 2000})
	got := newFleet(t, 3).ask(t, model.Need{Profile: p, Group: "g", Aggregate: two, MinUnit: two})
	same := got[0].GetNeed().GetRequirements()
	if len(got) != 1 || len(same) != 1 || same[0].GetKey() != "rack" || same[0].GetOperator() != pb.NodeSelectorRequirement_OPERATOR_SAME || got[0].GetNeed().GetGroup() != "g" {
		t.Errorf("shown as %v", got)
	}
	if !got[0].GetSatisfied() || got[0].GetClaimedMachineCount() != 1 {
		t.Errorf("not satisfied: %v", got)
	}
}
