package session_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// wants reports one row of a cluster: so many milli-CPUs in machines of four,
// from machines that agree in the key same, "" = any.
func (x *fleet) wants(t *testing.T, cluster, same, zone string, milli int64) {
	t.Helper()
	spec := model.ProfileSpec{Priority: 5, Requirements: []model.Requirement{{Key: model.KeyZone, Operator: model.In, Values: []string{zone}}}}
	if same != "" {
		spec.Requirements = append(spec.Requirements, model.Requirement{Key: same, Operator: model.Same})
	}
	p, err := model.NewProfile(spec)
	if err != nil {
		t.Fatal(err)
	}
	cpu := func(v int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: v}) }
	outcome, err := x.shard.ApplyRollup(cluster, []model.Need{{Profile: p, Aggregate: cpu(milli), MinUnit: cpu(4000), Group: same}}, x.now)
	if err != nil || outcome != shard.RollupAccepted {
		t.Fatalf("%v, %v", outcome, err)
	}
}

// view asks for the one need of a cluster; that makes a cycle.
func (x *fleet) view(t *testing.T, cluster string) *pb.NeedView {
	t.Helper()
	frames, err := inspect(t, x.fixture, nil, &pb.InspectNeedsRequest{ClusterId: cluster})
	if err != nil || len(frames) != 2 {
		t.Fatalf("%v, %v; want a header and one need", frames, err)
	}
	return frames[1].GetNeed()
}

func TestAgesOfNeeds(t *testing.T) {
	x := newFleet(t, 5)
	x.step(t)
	x.wants(t, "plain", "", "nowhere", 4000)
	x.wants(t, "gang", "rack", "nowhere", 16_000)
	for age := range int32(3) {
		if got := x.view(t, "plain").GetAgeCyclesUnmet(); got != 2*age+1 {
			t.Errorf("cycle %d: unmet for %d cycles", 2*age+1, got)
		}
		if got := x.view(t, "gang"); got.GetAgeCyclesUnmet() != 2*age+2 || got.GetParkedAgeCycles() != 0 || got.GetAcquisitionParked() {
			t.Errorf("cycle %d: %v", 2*age+2, got)
		}
	}
	for range shard.ParkAfterCycles - 6 {
		x.step(t)
	}
	for parked := range int32(3) {
		got := x.view(t, "gang")
		if !got.GetAcquisitionParked() || got.GetParkedAgeCycles() != parked+1 || got.GetAgeCyclesUnmet() != shard.ParkAfterCycles+parked+1 {
			t.Errorf("parked for %d cycles: %v", parked+1, got)
		}
	}
	x.wants(t, "plain", "", "nowhere", 8000)      // more of the same has been waited for as long
	x.wants(t, "gang", "rack", "nowhere", 20_000) // another size is another gang
	if plain, gang := x.view(t, "plain"), x.view(t, "gang"); plain.GetAgeCyclesUnmet() != shard.ParkAfterCycles+4 || gang.GetAgeCyclesUnmet() != 2 || gang.GetAcquisitionParked() {
		t.Errorf("after another roll-up: %v, %v", plain, gang)
	}
	x.wants(t, "plain", "", "a", 4000)
	x.step(t)
	x.step(t)
	if got := x.view(t, "plain"); !got.GetSatisfied() || got.GetAgeCyclesUnmet() != 0 {
		t.Errorf("what is satisfied has an age: %v", got)
	}
	x.wants(t, "plain", "", "nowhere", 4000)
	if got := x.view(t, "plain").GetAgeCyclesUnmet(); got != 1 {
		t.Errorf("what was met in between is unmet for %d cycles", got)
	}
}

// Of two racks with three and two machines a gang of four fits none.
func TestCandidatesOfAGang(t *testing.T) {
	x := newFleet(t, 5)
	x.step(t)
	check := func(cluster string, want ...*pb.DomainCoverage) {
		t.Helper()
		got := x.view(t, cluster).GetSameCandidates()
		if len(got) != len(want) {
			t.Fatalf("%s: %v, want %v", cluster, got, want)
		}
		for i := range want {
			if !proto.Equal(got[i], want[i]) {
				t.Errorf("%s: candidate %d is %v, want %v", cluster, i, got[i], want[i])
			}
		}
	}
	x.wants(t, "gang", "rack", "a", 16_000)
	check("gang", &pb.DomainCoverage{Domain: "r0", CoveragePerMille: 750}, &pb.DomainCoverage{Domain: "r1", CoveragePerMille: 500})
	x.wants(t, "gang", "", "nowhere", 4_000)
	check("gang")
	x.wants(t, "small", "rack", "a", 8_000)
	check("small", &pb.DomainCoverage{Domain: "r1", CoveragePerMille: 1000, Satisfiable: true}, &pb.DomainCoverage{Domain: "r0", CoveragePerMille: 1000, Satisfiable: true})
}
