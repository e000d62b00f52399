package service

import (
	"fmt"
	"maps"
	"strings"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/engine/model"
)

func decodeReport(r *bigfleet.ShardReport) (*coordinator.Report, error) {
	out := &coordinator.Report{
		Shard: r.GetShardId(), Address: r.GetShardAddress(), Epoch: r.GetShardEpoch(),
		Cycle: r.GetCycle(), Stamp: r.GetTimestampUnixNanos(),
	}
	if s := r.GetSummary(); s != nil {
		out.Summary = &coordinator.Summary{
			Machines: s.GetTotalMachines(), Free: s.GetFreeMachines(),
			ByType: s.GetPerInstanceTypeCounts(), ByZone: s.GetPerZoneCounts(), ProviderAddress: s.GetProviderAddress(),
		}
	}
	for i, x := range r.GetShortfalls()[:min(len(r.GetShortfalls()), coordinator.ShortfallsMax)] {
		s, err := decodeShortfall(x)
		if err != nil {
			return nil, fmt.Errorf("%w: shortfall %d: %w", coordinator.ErrInvalid, i, err)
		}
		out.Shortfalls = append(out.Shortfalls, s)
	}
	for _, a := range r.GetInstructionAcks()[:min(len(r.GetInstructionAcks()), coordinator.AcksMax)] {
		out.Acks = append(out.Acks, coordinator.Ack{
			ID: a.GetInstructionId(), Outcome: coordinator.Outcome(a.GetOutcome()), Reason: cut(a.GetReason()),
		})
	}
	return out, nil
}

// cut keeps a text that others wrote short enough for a log line and a record.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), coordinator.NameBytesMax)], "")
}

func decodeShortfall(x *bigfleet.Shortfall) (coordinator.Shortfall, error) {
	s := coordinator.Shortfall{Priority: x.GetPriority(), AgeCycles: x.GetAgeCycles(), Bucket: model.Bucket(x.GetInterruptionPenaltyBucket())}
	if !s.Bucket.Valid() || x.GetInterruptionPenaltyBucket() < 0 {
		return s, fmt.Errorf("no such penalty bucket: %d", x.GetInterruptionPenaltyBucket())
	}
	for _, q := range x.GetRequirements() {
		op := model.Operator(q.GetOperator())
		if q.GetOperator() <= 0 || op > model.Same {
			return s, fmt.Errorf("requirement on %q: no such operator: %d", cut(q.GetKey()), q.GetOperator())
		}
		s.Requirements = append(s.Requirements, model.Requirement{Key: q.GetKey(), Operator: op, Values: q.GetValues()})
	}
	var err error
	s.Deficit, err = decodeResources(x.GetDeficit())
	return s, err
}

func decodeResources(r *bigfleet.Resources) (model.Resources, error) {
	out, faults := model.ParseResources(r.GetResources())
	if len(faults) > 0 {
		return nil, faults[0]
	}
	return out, nil
}

func encodeResources(r model.Resources) *bigfleet.Resources {
	out := make(map[string]string, len(r))
	for _, a := range r {
		out[a.Name] = model.FormatQuantity(a.Name, a.Value)
	}
	return &bigfleet.Resources{Resources: out}
}

func decodeOffering(r *tonnage.OfferRequest) (*coordinator.Offering, error) {
	out := &coordinator.Offering{Shard: r.GetShardId(), Epoch: r.GetShardEpoch(), Idle: r.IdleMachines}
	if left := r.GetLostDomains(); left != nil {
		out.Lost = &model.DomainSum{Count: int(left.GetCount()), Hash: left.GetHash()}
	}
	for i, x := range r.GetOffers()[:min(len(r.GetOffers()), coordinator.OffersMax)] {
		o, err := decodeOffer(x)
		if err != nil {
			return nil, fmt.Errorf("%w: offer %d: %w", coordinator.ErrInvalid, i, err)
		}
		out.Offers = append(out.Offers, o)
	}
	for _, h := range r.GetHandOvers() {
		out.HandOvers = append(out.HandOvers, coordinator.HandOver{Move: h.GetMoveId(), To: h.GetToShardId(), Machines: h.GetMachineIds()})
	}
	return out, nil
}

func decodeOffer(x *tonnage.Offer) (coordinator.Offer, error) {
	unit, err := decodeResources(x.GetAllocatable())
	if err != nil {
		return coordinator.Offer{}, err
	}
	o := coordinator.Offer{
		State: model.State(x.GetState()), InstanceType: x.GetInstanceType(), Zone: x.GetZone(),
		CapacityType: model.CapacityType(x.GetCapacityType()), Labels: x.GetLabels(), Varied: x.GetVariedLabels(), Unit: unit, PricePerHour: x.GetPricePerHour(),
		Priority: x.GetPriority(), Bucket: model.Bucket(x.GetInterruptionPenaltyBucket()),
		Count: int(x.GetCount()), Machines: x.GetMachineIds(),
	}
	switch {
	case int(x.GetCapacityType()) < 0 || int(x.GetCapacityType()) >= model.NumCapacityTypes:
		return o, fmt.Errorf("no such capacity type: %d", x.GetCapacityType())
	case x.GetInterruptionPenaltyBucket() < 0 || !o.Bucket.Valid():
		return o, fmt.Errorf("no such penalty bucket: %d", x.GetInterruptionPenaltyBucket())
	case o.Count < len(o.Machines):
		return o, fmt.Errorf("count is %d, and %d machines are named", o.Count, len(o.Machines))
	case !(o.PricePerHour >= 0):
		return o, fmt.Errorf("price per hour must be at least 0, got %v", o.PricePerHour)
	}
	return o, nil
}

// encodeInstruction is the one place where verbs become payloads. Release and
// adopt are the same message: a shard that is From gives, one that is To takes.
func encodeInstruction(term int64, i coordinator.Instruction) *bigfleet.CoordinatorInstruction {
	out := &bigfleet.CoordinatorInstruction{CoordinatorTerm: term, SequenceNumber: i.Sequence, InstructionId: i.ID}
	switch i.Verb {
	case coordinator.VerbAssign:
		out.Payload = &bigfleet.CoordinatorInstruction_AssignDomain{AssignDomain: &bigfleet.AssignDomain{TopologyKey: i.Domain.Key, TopologyValue: i.Domain.Value}}
	case coordinator.VerbUnassign:
		out.Payload = &bigfleet.CoordinatorInstruction_UnassignDomain{UnassignDomain: &bigfleet.UnassignDomain{TopologyKey: i.Domain.Key, TopologyValue: i.Domain.Value}}
	case coordinator.VerbReleaseSpeculative:
		out.Payload = &bigfleet.CoordinatorInstruction_ReassignSpeculative{ReassignSpeculative: &bigfleet.ReassignSpeculative{MachineIds: i.Machines}}
	case coordinator.VerbDrain:
		out.Payload = &bigfleet.CoordinatorInstruction_CrossShardDrain{CrossShardDrain: &bigfleet.CrossShardDrain{MachineIds: i.Machines, PreemptorPriority: i.PreemptorPriority}}
	default:
		out.Payload = &bigfleet.CoordinatorInstruction_TransferOwnership{TransferOwnership: &bigfleet.TransferOwnership{MachineIds: i.Machines, FromShardId: i.From, ToShardId: i.To}}
	}
	return out
}

func encodeSummary(s *coordinator.Summary) *bigfleet.ShardSummary {
	if s == nil {
		return nil
	}
	return &bigfleet.ShardSummary{
		TotalMachines: s.Machines, FreeMachines: s.Free, PerInstanceTypeCounts: maps.Clone(s.ByType),
		PerZoneCounts: maps.Clone(s.ByZone), ProviderAddress: s.ProviderAddress,
	}
}

func encodeRequirements(rs []model.Requirement) []*bigfleet.NodeSelectorRequirement {
	out := make([]*bigfleet.NodeSelectorRequirement, len(rs))
	for i, r := range rs {
		out[i] = &bigfleet.NodeSelectorRequirement{Key: r.Key, Operator: bigfleet.NodeSelectorRequirement_Operator(r.Operator), Values: r.Values}
	}
	return out
}
