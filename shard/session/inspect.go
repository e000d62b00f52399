package session

import (
	"context"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
)

// Needs returns what the last cycle decided about the needs of a cluster, of
// all clusters when it is "": a header, and the first needs, at most limit,
// all when it is 0. They come by priority, highest first, then by arrival,
// oldest first, then by cluster. What is returned does not change, and the
// sequence is read once, without the shard locked. Before the first cycle the
// header is zero and there are no needs.
type Needs func(ctx context.Context, cluster string, limit int) (NeedsHeader, iter.Seq[NeedView], error)

// NeedsHeader says what the views are of.
type NeedsHeader struct {
	Cycle      uint64
	ComputedAt int64 // Unix nanoseconds
	Total      int   // needs of the cluster, before the limit
}

// NeedView is one need as a cycle left it.
type NeedView struct {
	Need      model.Need // with its profile, cluster, group and arrival
	Satisfied bool
	Deficit   model.Resources // when not satisfied
	// Claimed are its machines; Bootstraps and Provisions those that it gets in
	// this cycle, from Idle ones and from slots.
	Claimed, Bootstraps, Provisions int
	// Domain is what its Same requirement chose, and Satisfiable whether any
	// domain could hold it.
	Domain      string
	Satisfiable bool
	// Parked: it takes nothing until it can be whole, for ParkedCycles now.
	Parked       bool
	ParkedCycles int
	UnmetCycles  int
	Unmet        engine.Unmet // why it is not satisfied
	// Idle, Configured and Speculative are the machines that match its requirements
	// and cover its minimum unit, at least so many when Capped.
	Idle, Configured, Speculative int
	Capped                        bool
	// Victims were found to preempt, and Freed is what they would free.
	Victims int
	Freed   model.Resources
	// Candidates are domains, best first.
	Candidates []DomainCoverage
}

// DomainCoverage is how much of a need one domain could hold.
type DomainCoverage struct {
	Domain      string
	PerMille    int
	Satisfiable bool
}

// candidatesMax is how many domains one view names.
const candidatesMax = 32

// InspectNeeds says what the last cycle decided.
func (s *Server) InspectNeeds(request *pb.InspectNeedsRequest, stream pb.ShardRead_InspectNeedsServer) error {
	if err := s.mayInspect(stream.Context(), request.GetClusterId()); err != nil {
		return err
	}
	limit := int(request.GetLimit())
	if limit < 0 {
		return status.Errorf(codes.InvalidArgument, "limit must be at least 0, which is no limit, got %d", limit)
	}
	var header NeedsHeader
	var views iter.Seq[NeedView] = func(func(NeedView) bool) {}
	if s.needs != nil {
		var err error
		if header, views, err = s.needs(stream.Context(), request.GetClusterId(), limit); err != nil {
			return status.FromContextError(err).Err()
		}
	}
	if err := stream.Send(headerFrame(header)); err != nil {
		return err
	}
	sent := 0
	for v := range views {
		if limit > 0 && sent == limit {
			break
		}
		if err := stream.Send(&pb.InspectNeedsResponse{Frame: &pb.InspectNeedsResponse_Need{Need: v.message()}}); err != nil {
			return err
		}
		sent++
	}
	return nil
}

// InspectGapMin is the least time between two questions of one cluster's operator.
const InspectGapMin = 10 * time.Second

// mayInspect lets those ask who may look at everything, and an operator about its own cluster, now and then: a
// question costs a cycle.
func (s *Server) mayInspect(ctx context.Context, cluster string) error {
	err := mtls.Require(ctx, mtls.ReadOnly(), mtls.Admin())
	if err == nil || cluster == "" {
		return err
	}
	if mtls.Require(ctx, mtls.Cluster(cluster)) != nil {
		return err
	}
	return s.inspections.admit(cluster, s.clock())
}

// inspections notes when operators asked. Its size is bounded by the operators that have certificates and have asked within
// InspectGapMin.
type inspections struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (x *inspections) admit(cluster string, now time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c, at := range x.last {
		if now.Sub(at) >= InspectGapMin {
			delete(x.last, c)
		}
	}
	if _, asked := x.last[cluster]; asked {
		return status.Errorf(codes.ResourceExhausted, "the operator of %s has asked within %v; ask later", cluster, InspectGapMin)
	}
	if x.last == nil {
		x.last = map[string]time.Time{}
	}
	x.last[cluster] = now
	return nil
}

func headerFrame(h NeedsHeader) *pb.InspectNeedsResponse {
	return &pb.InspectNeedsResponse{Frame: &pb.InspectNeedsResponse_Header{Header: &pb.InspectNeedsHeader{
		Cycle: int64(h.Cycle), ComputedAtUnixNanos: h.ComputedAt, TotalNeeds: int32(h.Total),
	}}}
}

func (v *NeedView) message() *pb.NeedView {
	p := v.Need.Profile
	out := &pb.NeedView{
		Need: needMessage(&v.Need), ClusterId: v.Need.Cluster, ArrivalUnixNanos: v.Need.Arrival, ProfileFingerprint: fingerprint(p),
		Satisfied: v.Satisfied, ClaimedMachineCount: int32(v.Claimed), BootstrapCount: int32(v.Bootstraps), ProvisionCount: int32(v.Provisions),
		SameDomain: v.Domain, SameSatisfiable: v.Satisfiable, AcquisitionParked: v.Parked, ParkedAgeCycles: int32(v.ParkedCycles),
		AgeCyclesUnmet: int32(v.UnmetCycles),
	}
	for i := range v.Candidates[:min(len(v.Candidates), candidatesMax)] {
		c := &v.Candidates[i]
		out.SameCandidates = append(out.SameCandidates, &pb.DomainCoverage{Domain: c.Domain, CoveragePerMille: int32(c.PerMille), Satisfiable: c.Satisfiable})
	}
	if v.Victims > 0 {
		out.Preemption = &pb.PreemptionSummary{VictimsFound: int32(v.Victims), CapacityFreed: resources(v.Freed)}
	}
	if !v.Satisfied {
		out.ResidualDeficit, out.UnmetReason = resources(v.Deficit), reasons[v.Unmet]
		out.MatchingSupply = &pb.MatchingSupply{
			Idle: int32(v.Idle), Configured: int32(v.Configured), Speculative: int32(v.Speculative), Capped: v.Capped,
		}
	}
	return out
}

// reasons are the engine's in the protocol's words, of which there are fewer.
var reasons = [engine.NumUnmet]pb.UnmetReason{
	engine.UnmetNone:                pb.UnmetReason_UNMET_REASON_UNSPECIFIED,
	engine.UnmetParked:              pb.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE,
	engine.UnmetNoMatchingSupply:    pb.UnmetReason_UNMET_REASON_NO_MATCHING_SUPPLY,
	engine.UnmetAwaitingDrain:       pb.UnmetReason_UNMET_REASON_PRIORITY_STARVED,
	engine.UnmetPreemptionExhausted: pb.UnmetReason_UNMET_REASON_PREEMPTION_EXHAUSTED,
	engine.UnmetTopology:            pb.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE,
	engine.UnmetSpread:              pb.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE,
	engine.UnmetInsufficientSupply:  pb.UnmetReason_UNMET_REASON_PRIORITY_STARVED,
	engine.UnmetPriorityStarved:     pb.UnmetReason_UNMET_REASON_PRIORITY_STARVED,
}

func needMessage(n *model.Need) *pb.CapacityNeed {
	p := n.Profile
	out := &pb.CapacityNeed{
		Requirements: requirements(p), Priority: p.Priority(), Group: n.Group,
		AggregateResources: quantitiesOf(n.Aggregate), MinUnit: quantitiesOf(n.MinUnit),
		InterruptionPenaltyBucket: pb.PenaltyBucket(p.Interruption()), ReclamationPenaltyBucket: pb.PenaltyBucket(p.Reclamation()),
	}
	for _, sp := range p.Spread() {
		out.Spread = append(out.Spread, &pb.TopologySpread{
			TopologyKey: sp.Key, MaxSkew: sp.MaxSkew, WhenUnsatisfiable: pb.TopologySpread_WhenUnsatisfiable(sp.WhenUnsatisfiable),
		})
	}
	return out
}
