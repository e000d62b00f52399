package session_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
	"github.com/tonnage/tonnage/shard/session"
)

// inspect asks, and returns every frame.
func inspect(t *testing.T, f *fixture, m *mtls.Material, request *pb.InspectNeedsRequest) (frames []*pb.InspectNeedsResponse, err error) {
	t.Helper()
	stream, err := pb.NewShardReadClient(f.dial(t, m)).InspectNeeds(t.Context(), request)
	if err != nil {
		return nil, err
	}
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
		frames = append(frames, frame)
	}
}

func TestNothingIsDecidedBeforeTheFirstCycle(t *testing.T) {
	f := serve(t, session.Deps{})
	frames, err := inspect(t, f, nil, &pb.InspectNeedsRequest{})
	if err != nil || len(frames) != 1 || !proto.Equal(frames[0].GetHeader(), &pb.InspectNeedsHeader{}) {
		t.Errorf("%v, %v; want one empty header", frames, err)
	}
}

func TestInspectNeeds(t *testing.T) {
	p, err := model.NewProfile(model.ProfileSpec{
		Requirements: []model.Requirement{{Key: "rack", Operator: model.Same}},
		Spread:       []model.Spread{{Key: model.KeyZone, MaxSkew: 2, WhenUnsatisfiable: model.DoNotSchedule}},
		Priority:     -5, Interruption: 3, Reclamation: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	cpu := func(milli int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: milli}) }
	views := []session.NeedView{
		{Need: model.Need{Cluster: "a", Profile: p, Group: "g", Aggregate: cpu(4000), MinUnit: cpu(500), Arrival: 9},
			Satisfied: true, Claimed: 3, Bootstraps: 2, Provisions: 1, Domain: "r1", Satisfiable: true, Deficit: cpu(7), Unmet: engine.UnmetParked, Idle: 5},
		{Need: model.Need{Cluster: "a", Profile: p}, Deficit: cpu(2000), Parked: true, ParkedCycles: 4, UnmetCycles: 6,
			Unmet: engine.UnmetParked, Idle: 1, Configured: 2, Speculative: 3, Capped: true, Victims: 2, Freed: cpu(1000),
			Candidates: []session.DomainCoverage{{Domain: "r2", PerMille: 900, Satisfiable: true}}},
	}
	asked := make(chan string, 10)
	needs := func(_ context.Context, cluster string, _ int) (session.NeedsHeader, iter.Seq[session.NeedView], error) {
		asked <- cluster
		return session.NeedsHeader{Cycle: 12, ComputedAt: 34, Total: 2}, slices.Values(views), nil
	}
	f := serve(t, session.Deps{Needs: needs})
	frames, err := inspect(t, f, nil, &pb.InspectNeedsRequest{ClusterId: "a"})
	if err != nil || await(t, asked) != "a" {
		t.Fatal(err)
	}
	fingerprint := frames[1].GetNeed().GetProfileFingerprint()
	want := []*pb.InspectNeedsResponse{
		{Frame: &pb.InspectNeedsResponse_Header{Header: &pb.InspectNeedsHeader{Cycle: 12, ComputedAtUnixNanos: 34, TotalNeeds: 2}}},
		{Frame: &pb.InspectNeedsResponse_Need{Need: &pb.NeedView{
			Need: &pb.CapacityNeed{
				Requirements: []*pb.NodeSelectorRequirement{{Key: "rack", Operator: pb.NodeSelectorRequirement_OPERATOR_SAME}}, Priority: -5, Group: "g",
				AggregateResources: map[string]string{"cpu": "4"}, MinUnit: map[string]string{"cpu": "500m"},
				Spread:                    []*pb.TopologySpread{{TopologyKey: model.KeyZone, MaxSkew: 2, WhenUnsatisfiable: pb.TopologySpread_WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE}},
				InterruptionPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_1, ReclamationPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_2,
			},
			ClusterId: "a", ArrivalUnixNanos: 9, ProfileFingerprint: fingerprint, Satisfied: true, ClaimedMachineCount: 3, BootstrapCount: 2,
			ProvisionCount: 1, SameDomain: "r1", SameSatisfiable: true,
		}}},
		{Frame: &pb.InspectNeedsResponse_Need{Need: &pb.NeedView{
			Need: &pb.CapacityNeed{
				Requirements: []*pb.NodeSelectorRequirement{{Key: "rack", Operator: pb.NodeSelectorRequirement_OPERATOR_SAME}}, Priority: -5,
				Spread:                    []*pb.TopologySpread{{TopologyKey: model.KeyZone, MaxSkew: 2, WhenUnsatisfiable: pb.TopologySpread_WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE}},
				InterruptionPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_1, ReclamationPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_2,
			},
			ClusterId: "a", ProfileFingerprint: fingerprint, ResidualDeficit: &pb.Resources{Resources: map[string]string{"cpu": "2"}},
			AcquisitionParked: true, ParkedAgeCycles: 4, AgeCyclesUnmet: 6, UnmetReason: pb.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE,
			MatchingSupply: &pb.MatchingSupply{Idle: 1, Configured: 2, Speculative: 3, Capped: true},
			Preemption:     &pb.PreemptionSummary{VictimsFound: 2, CapacityFreed: &pb.Resources{Resources: map[string]string{"cpu": "1"}}},
			SameCandidates: []*pb.DomainCoverage{{Domain: "r2", CoveragePerMille: 900, Satisfiable: true}},
		}}},
	}
	if len(frames) != len(want) || fingerprint == "" {
		t.Fatalf("%d frames, want %d", len(frames), len(want))
	}
	for i := range want {
		if !proto.Equal(frames[i], want[i]) {
			t.Errorf("frame %d is %v\nwant %v", i, frames[i], want[i])
		}
	}
	frames, err = inspect(t, f, nil, &pb.InspectNeedsRequest{Limit: 1})
	if err != nil || len(frames) != 2 || frames[0].GetHeader().GetTotalNeeds() != 2 {
		t.Errorf("with a limit of 1: %d frames, %v; want the header, which counts two, and one need", len(frames), err)
	}
	if _, err := inspect(t, f, nil, &pb.InspectNeedsRequest{Limit: -1}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a negative limit: %v, want InvalidArgument", err)
	}
}

func TestWhyANeedIsNotSatisfied(t *testing.T) {
	plain := profile(t, "z")
	type want struct {
		view session.NeedView
		want pb.UnmetReason
	}
	tests := []want{{session.NeedView{Need: model.Need{Profile: plain}, Satisfied: true}, pb.UnmetReason_UNMET_REASON_UNSPECIFIED}}
	for reason, in := range map[engine.Unmet]pb.UnmetReason{
		engine.UnmetParked:              pb.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE,
		engine.UnmetNoMatchingSupply:    pb.UnmetReason_UNMET_REASON_NO_MATCHING_SUPPLY,
		engine.UnmetAwaitingDrain:       pb.UnmetReason_UNMET_REASON_PRIORITY_STARVED,
		engine.UnmetPreemptionExhausted: pb.UnmetReason_UNMET_REASON_PREEMPTION_EXHAUSTED,
		engine.UnmetTopology:            pb.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE,
		engine.UnmetSpread:              pb.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE,
		engine.UnmetInsufficientSupply:  pb.UnmetReason_UNMET_REASON_PRIORITY_STARVED,
		engine.UnmetPriorityStarved:     pb.UnmetReason_UNMET_REASON_PRIORITY_STARVED,
	} {
		tests = append(tests, want{session.NeedView{Need: model.Need{Profile: plain}, Unmet: reason}, in})
	}
	if len(tests) != engine.NumUnmet {
		t.Fatalf("%d reasons are told, the engine has %d", len(tests), engine.NumUnmet)
	}
	var views []session.NeedView
	for _, test := range tests {
		views = append(views, test.view)
	}
	f := serve(t, session.Deps{Needs: func(context.Context, string, int) (session.NeedsHeader, iter.Seq[session.NeedView], error) {
		return session.NeedsHeader{}, slices.Values(views), nil
	}})
	frames, err := inspect(t, f, nil, &pb.InspectNeedsRequest{})
	if err != nil || len(frames) != 1+len(tests) {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
	for i, test := range tests {
		if got := frames[i+1].GetNeed().GetUnmetReason(); got != test.want {
			t.Errorf("need %d, %v: %v, want %v", i, test.view.Unmet, got, test.want)
		}
	}
}

func TestWhoMayInspect(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	load := func(uris ...string) *mtls.Material {
		m, err := mtls.Load(ca.Files(t, uris...), nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	f := serve(t, session.Deps{TLS: load()})
	for uri, want := range map[string]codes.Code{
		"bigfleet://readonly": codes.OK, "bigfleet://admin": codes.OK,
		"bigfleet://cluster/a": codes.PermissionDenied, "bigfleet://shard/s": codes.PermissionDenied,
	} {
		if _, err := inspect(t, f, load(uri), &pb.InspectNeedsRequest{}); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", uri, err, want)
		}
	}
	// An operator may ask about its own cluster, now and then.
	own := load("bigfleet://cluster/a")
	for i, c := range []struct {
		cluster string
		want    codes.Code
	}{{"a", codes.OK}, {"b", codes.PermissionDenied}, {"a", codes.ResourceExhausted}} {
		if _, err := inspect(t, f, own, &pb.InspectNeedsRequest{ClusterId: c.cluster}); status.Code(err) != c.want {
			t.Errorf("question %d, about %s: %v, want %v", i, c.cluster, err, c.want)
		}
	}
	if _, err := inspect(t, f, load("bigfleet://admin"), &pb.InspectNeedsRequest{ClusterId: "a"}); err != nil {
		t.Errorf("an admin has to wait: %v", err)
	}
}
