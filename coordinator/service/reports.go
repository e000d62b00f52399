package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/internal/mtls"
)

// ReportShard takes a shard's report and answers with what it has yet to do. A
// report that is out of order is answered with acknowledged = false and nothing
// to do.
func (s *Service) ReportShard(ctx context.Context, in *bigfleet.ShardReport) (*bigfleet.ReportAck, error) {
	if err := s.admit(ctx, mtls.Shard(in.GetShardId())); err != nil {
		return nil, err
	}
	report, err := decodeReport(in)
	if err != nil {
		return nil, s.failed(err)
	}
	out := &bigfleet.ReportAck{}
	var instructions []coordinator.Instruction
	r, _ := s.attached()
	effects, err := r.Hear(ctx, report, func(c *coordinator.Core, term int64) bool {
		out.CoordinatorTerm = term
		instructions = c.Instructions(report.Shard)
		return len(instructions) > 0
	})
	if err != nil {
		return nil, s.failed(err)
	}
	if effects.Dropped != "" {
		s.dropped("report", report.Shard, effects.Dropped)
		return out, nil
	}
	out.Acknowledged = true
	out.Instructions = make([]*bigfleet.CoordinatorInstruction, len(instructions))
	for i, x := range instructions {
		out.Instructions[i] = encodeInstruction(out.CoordinatorTerm, x)
	}
	return out, nil
}

func (s *Service) dropped(what, shard, why string) {
	s.config.Metrics.ReportDropped()
	if n, ok := s.droppedLines.Next(time.Now()); ok {
		s.config.Log.Warn("dropped a "+what, "shard", shard, "because", why, "unreported", n)
	}
}

// Offer takes what a shard could give and has given.
func (s *Service) Offer(ctx context.Context, in *tonnage.OfferRequest) (*tonnage.OfferReply, error) {
	if err := s.admit(ctx, mtls.Shard(in.GetShardId())); err != nil {
		return nil, err
	}
	offering, err := decodeOffering(in)
	if err != nil {
		return nil, s.failed(err)
	}
	out := &tonnage.OfferReply{}
	r, _ := s.attached()
	effects, err := r.Hear(ctx, offering, func(c *coordinator.Core, term int64) bool {
		out.CoordinatorTerm, out.AnyDomains = term, c.DomainCount() > 0
		return len(offering.Settled) > 0 || offering.Lost != nil
	})
	if err != nil {
		return nil, s.failed(err)
	}
	if effects.Dropped != "" {
		s.dropped("offer", offering.Shard, effects.Dropped)
		if offering.Newest > offering.Epoch {
			out.NewestShardEpoch = offering.Newest
		}
		return out, nil
	}
	out.Acknowledged, out.SettledMoveIds = true, offering.Settled
	if offering.Lost != nil {
		out.Domains = &tonnage.DomainSet{Count: int32(offering.Domains.Count), Hash: offering.Domains.Hash}
	}
	return out, nil
}

// AssignDomain gives a domain to a shard.
func (s *Service) AssignDomain(ctx context.Context, in *bigfleet.AssignDomainRequest) (*bigfleet.AssignDomainResponse, error) {
	if err := s.change(ctx); err != nil {
		return nil, err
	}
	a := coordinator.Assignment{Domain: coordinator.Domain{Key: in.GetTopologyKey(), Value: in.GetTopologyValue()}, Shard: in.GetShardId()}
	return &bigfleet.AssignDomainResponse{}, s.do(ctx, coordinator.AssignDomain{Assignment: a})
}

// UnassignDomain takes a domain from whoever has it.
func (s *Service) UnassignDomain(ctx context.Context, in *bigfleet.UnassignDomainRequest) (*bigfleet.UnassignDomainResponse, error) {
	if err := s.change(ctx); err != nil {
		return nil, err
	}
	d := coordinator.Domain{Key: in.GetTopologyKey(), Value: in.GetTopologyValue()}
	return &bigfleet.UnassignDomainResponse{}, s.do(ctx, coordinator.UnassignDomain{Domain: d})
}

// RemoveShard forgets a shard that is gone for good.
func (s *Service) RemoveShard(ctx context.Context, in *bigfleet.RemoveShardRequest) (*bigfleet.RemoveShardResponse, error) {
	if err := s.change(ctx); err != nil {
		return nil, err
	}
	return &bigfleet.RemoveShardResponse{}, s.do(ctx, coordinator.RemoveShard{Shard: in.GetShardId()})
}

// read looks at the state for a caller who may only look.
func (s *Service) read(ctx context.Context, then func(c *coordinator.Core)) error {
	if err := s.view(ctx); err != nil {
		return err
	}
	r, _ := s.attached()
	return s.failed(r.Read(ctx, func(c *coordinator.Core, _ int64) { then(c) }))
}

// ListShards lists all registered shards by id.
func (s *Service) ListShards(ctx context.Context, _ *bigfleet.ListShardsRequest) (*bigfleet.ListShardsResponse, error) {
	out := &bigfleet.ListShardsResponse{}
	err := s.read(ctx, func(c *coordinator.Core) {
		heard := map[string]int64{}
		for _, x := range c.Statuses("") {
			heard[x.Shard] = x.Heartbeat
		}
		for _, x := range c.Shards() {
			out.Shards = append(out.Shards, &bigfleet.ShardRegistryEntry{
				ShardId: x.ID, Address: x.Address, RegisteredAtUnixNs: x.RegisteredAt, LastHeartbeatUnixNs: heard[x.ID],
			})
		}
	})
	return out, err
}

// ListDomainAssignments lists all domains by shard, key and value.
func (s *Service) ListDomainAssignments(ctx context.Context, _ *bigfleet.ListDomainAssignmentsRequest) (*bigfleet.ListDomainAssignmentsResponse, error) {
	var all []coordinator.Assignment
	if err := s.read(ctx, func(c *coordinator.Core) { all = c.Assignments() }); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b coordinator.Assignment) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	out := &bigfleet.ListDomainAssignmentsResponse{Assignments: make([]*bigfleet.DomainAssignment, len(all))}
	for i, a := range all {
		out.Assignments[i] = &bigfleet.DomainAssignment{TopologyKey: a.Key, TopologyValue: a.Value, ShardId: a.Shard}
	}
	return out, nil
}

// ListShardReports lists the latest report of each shard that this leader has
// heard. Requirements are left out, as the protocol has it; Shortfalls has them.
func (s *Service) ListShardReports(ctx context.Context, in *bigfleet.ListShardReportsRequest) (*bigfleet.ListShardReportsResponse, error) {
	out := &bigfleet.ListShardReportsResponse{}
	err := s.read(ctx, func(c *coordinator.Core) {
		for _, x := range c.Statuses(in.GetShardId()) {
			if x.Heartbeat == 0 {
				continue
			}
			r := &bigfleet.ShardReportSnapshot{ShardId: x.Shard, Cycle: x.Cycle, ReceivedAtUnixNs: x.Heartbeat, Summary: encodeSummary(x.Summary)}
			for _, f := range x.Shortfalls {
				r.Shortfalls = append(r.Shortfalls, &bigfleet.Shortfall{
					Deficit: encodeResources(f.Deficit), Priority: f.Priority, AgeCycles: f.AgeCycles,
					InterruptionPenaltyBucket: bigfleet.PenaltyBucket(f.Bucket),
				})
			}
			out.Reports = append(out.Reports, r)
		}
	})
	return out, err
}

// Machines lists how many Idle machines each shard has, of those that have said so.
func (s *Service) Machines(ctx context.Context, _ *tonnage.MachinesRequest) (*tonnage.MachinesReply, error) {
	out := &tonnage.MachinesReply{}
	err := s.read(ctx, func(c *coordinator.Core) {
		for _, x := range c.Statuses("") {
			if x.Idle != nil {
				out.Shards = append(out.Shards, &tonnage.ShardMachines{ShardId: x.Shard, Idle: *x.Idle})
			}
		}
	})
	return out, err
}

// Shortfalls lists every shortfall of every shard.
func (s *Service) Shortfalls(ctx context.Context, in *tonnage.ShortfallsRequest) (*tonnage.ShortfallsReply, error) {
	out := &tonnage.ShortfallsReply{}
	err := s.read(ctx, func(c *coordinator.Core) {
		for _, x := range c.Statuses(in.GetShardId()) {
			for _, f := range x.Shortfalls {
				out.Shortfalls = append(out.Shortfalls, &tonnage.ShardShortfall{
					ShardId: x.Shard, Requirements: encodeRequirements(f.Requirements), Deficit: encodeResources(f.Deficit),
					Priority: f.Priority, InterruptionPenaltyBucket: bigfleet.PenaltyBucket(f.Bucket),
					AgeCycles: f.AgeCycles, Escalated: f.AgeCycles > coordinator.EscalateAgeCycles,
				})
			}
		}
	})
	return out, err
}
