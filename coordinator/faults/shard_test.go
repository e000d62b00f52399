package faults

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/client"
	"github.com/tonnage/tonnage/coordinator/modelshard"
	"github.com/tonnage/tonnage/engine/model"
)

// wireShard lets a model of a shard talk to real replicas.
type wireShard struct {
	mu     *sync.Mutex // of all models: they share the machines
	model  *modelshard.Shard
	client *client.Client
}

// run reports and offers, one after the other, until ctx ends.
func (s *wireShard) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		_ = s.exchange(ctx) // the next one makes up for it
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *wireShard) call(ctx context.Context, do func(context.Context, grpc.ClientConnInterface) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return s.client.Call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return do(ctx, conn)
	})
}

func (s *wireShard) exchange(ctx context.Context) error {
	s.mu.Lock()
	report := s.model.Report(time.Now().UnixNano())
	s.mu.Unlock()
	var ack *bigfleet.ReportAck
	err := s.call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		ack, err = bigfleet.NewCoordinatorClient(conn).ReportShard(ctx, encodeReport(report))
		return err
	})
	if err != nil || !ack.GetAcknowledged() {
		return fmt.Errorf("report: %w", err)
	}
	s.mu.Lock()
	s.model.Answered(ack.GetCoordinatorTerm(), report, decodeInstructions(s.model.ID, ack))
	offering := s.model.Offering()
	s.mu.Unlock()
	var reply *tonnage.OfferReply
	err = s.call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		reply, err = tonnage.NewFleetClient(conn).Offer(ctx, encodeOffering(offering))
		return err
	})
	if err == nil {
		s.mu.Lock()
		s.model.Settled(reply.GetSettledMoveIds())
		s.mu.Unlock()
	}
	return err
}

func encodeReport(r *coordinator.Report) *bigfleet.ShardReport {
	out := &bigfleet.ShardReport{
		ShardId: r.Shard, ShardAddress: r.Address, ShardEpoch: r.Epoch, Cycle: r.Cycle, TimestampUnixNanos: r.Stamp,
		Summary: &bigfleet.ShardSummary{TotalMachines: r.Summary.Machines, ProviderAddress: r.Summary.ProviderAddress},
	}
	for _, s := range r.Shortfalls {
		x := &bigfleet.Shortfall{Deficit: encodeResources(s.Deficit), Priority: s.Priority, AgeCycles: s.AgeCycles, InterruptionPenaltyBucket: bigfleet.PenaltyBucket(s.Bucket)}
		for _, q := range s.Requirements {
			x.Requirements = append(x.Requirements, &bigfleet.NodeSelectorRequirement{Key: q.Key, Operator: bigfleet.NodeSelectorRequirement_Operator(q.Operator), Values: q.Values})
		}
		out.Shortfalls = append(out.Shortfalls, x)
	}
	for _, a := range r.Acks {
		out.InstructionAcks = append(out.InstructionAcks, &bigfleet.InstructAck{InstructionId: a.ID, Outcome: bigfleet.InstructAck_Outcome(a.Outcome), Reason: a.Reason})
	}
	return out
}

func encodeResources(r model.Resources) *bigfleet.Resources {
	out := map[string]string{}
	for _, a := range r {
		out[a.Name] = model.FormatQuantity(a.Name, a.Value)
	}
	return &bigfleet.Resources{Resources: out}
}

func encodeOffering(o *coordinator.Offering) *tonnage.OfferRequest {
	out := &tonnage.OfferRequest{ShardId: o.Shard, ShardEpoch: o.Epoch}
	for _, x := range o.Offers {
		out.Offers = append(out.Offers, &tonnage.Offer{
			State: bigfleet.MachineState(x.State), InstanceType: x.InstanceType, Zone: x.Zone, CapacityType: bigfleet.CapacityType(x.CapacityType),
			Allocatable: encodeResources(x.Unit), PricePerHour: x.PricePerHour, Count: int32(x.Count), MachineIds: x.Machines, Priority: x.Priority,
		})
	}
	for _, h := range o.HandOvers {
		out.HandOvers = append(out.HandOvers, &tonnage.HandOver{MoveId: h.Move, ToShardId: h.To, MachineIds: h.Machines})
	}
	return out
}

// decodeInstructions is what a shard makes of its instructions: what a transfer
// asks of it shows in which side it is on.
func decodeInstructions(shard string, ack *bigfleet.ReportAck) []coordinator.Instruction {
	var out []coordinator.Instruction
	for _, x := range ack.GetInstructions() {
		i := coordinator.Instruction{ID: x.GetInstructionId(), Sequence: x.GetSequenceNumber()}
		switch p := x.GetPayload().(type) {
		case *bigfleet.CoordinatorInstruction_AssignDomain:
			i.Verb, i.Domain = coordinator.VerbAssign, coordinator.Domain{Key: p.AssignDomain.GetTopologyKey(), Value: p.AssignDomain.GetTopologyValue()}
		case *bigfleet.CoordinatorInstruction_UnassignDomain:
			i.Verb, i.Domain = coordinator.VerbUnassign, coordinator.Domain{Key: p.UnassignDomain.GetTopologyKey(), Value: p.UnassignDomain.GetTopologyValue()}
		case *bigfleet.CoordinatorInstruction_ReassignSpeculative:
			i.Verb, i.Machines = coordinator.VerbReleaseSpeculative, p.ReassignSpeculative.GetMachineIds()
		case *bigfleet.CoordinatorInstruction_CrossShardDrain:
			i.Verb, i.Machines, i.PreemptorPriority = coordinator.VerbDrain, p.CrossShardDrain.GetMachineIds(), p.CrossShardDrain.GetPreemptorPriority()
		case *bigfleet.CoordinatorInstruction_TransferOwnership:
			i.Verb, i.Machines = coordinator.VerbRelease, p.TransferOwnership.GetMachineIds()
			i.From, i.To = p.TransferOwnership.GetFromShardId(), p.TransferOwnership.GetToShardId()
			if i.To == shard {
				i.Verb = coordinator.VerbAdopt
			}
		}
		out = append(out, i)
	}
	return out
}
