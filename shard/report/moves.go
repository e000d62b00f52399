package report

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// moves tells whether an instruction is about machines. Such a one may have to be
// looked at again when it comes again: a drain that has begun is not over.
func moves(i *pb.CoordinatorInstruction) bool {
	switch i.GetPayload().(type) {
	case *pb.CoordinatorInstruction_ReassignSpeculative, *pb.CoordinatorInstruction_CrossShardDrain, *pb.CoordinatorInstruction_TransferOwnership:
		return true
	}
	return false
}

// move carries out an instruction about machines. The part of its id before the
// slash names the move.
func (c *Client) move(ctx context.Context, i *pb.CoordinatorInstruction) error {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	id := i.GetInstructionId()
	move, _, _ := strings.Cut(id, "/")
	release := func(to string, machines []string, in model.State) error {
		_, err := c.o.Owner.Release(ctx, move, to, machines, in)
		return err
	}
	switch p := i.GetPayload().(type) {
	case *pb.CoordinatorInstruction_ReassignSpeculative:
		return release("", p.ReassignSpeculative.GetMachineIds(), model.Speculative)
	case *pb.CoordinatorInstruction_CrossShardDrain:
		return c.o.Owner.DrainAway(ctx, move, p.CrossShardDrain.GetMachineIds(), p.CrossShardDrain.GetPreemptorPriority())
	case *pb.CoordinatorInstruction_TransferOwnership:
		t := p.TransferOwnership
		switch c.o.ID {
		case t.GetToShardId():
			return c.o.Owner.Adopt(ctx, id, t.GetMachineIds())
		case t.GetFromShardId():
			return release(t.GetToShardId(), t.GetMachineIds(), model.Idle)
		}
		return fmt.Errorf("%w: it is between %q and %q, and this is %q", shard.ErrInvalid, t.GetFromShardId(), t.GetToShardId(), c.o.ID)
	}
	return fmt.Errorf("%w: this version does not know it", shard.ErrInvalid)
}

// offer says what the shard could give, and what it gave and has not been told is
// settled. A coordinator that does not know offers loses nothing but those.
func (c *Client) offer(ctx context.Context) {
	given, err := c.o.Owner.HandOvers(ctx)
	if err != nil {
		// A coordinator that hears of them would give the machines to other shards, and a
		// hand-over that is not mentioned counts as settled.
		c.o.Log.Warn("nothing is offered: it is not known whether hand-overs are on disk", "error", err)
		return
	}
	said := &tonnage.OfferRequest{ShardId: c.o.ID, ShardEpoch: c.o.Epoch(), IdleMachines: new(int32(c.idle))}
	lost := c.o.Domains != nil && c.o.Domains.Lost()
	if lost { // what it has may be another's, and is not offered
		left := c.left()
		said.LostDomains = &tonnage.DomainSet{Count: int32(left.Count), Hash: left.Hash}
	} else {
		for _, o := range c.o.Owner.Offers() {
			said.Offers = append(said.Offers, offerOf(&o))
		}
	}
	for _, h := range given {
		said.HandOvers = append(said.HandOvers, &tonnage.HandOver{MoveId: h.Move, ToShardId: h.To, MachineIds: h.Machines})
	}
	reply, err := c.replicas.offer(ctx, said)
	switch {
	case ctx.Err() != nil:
	case lost && status.Code(err) == codes.Unimplemented:
		c.believe("the coordinator does not know the domains of shards")
	case err != nil && !c.unheard:
		c.unheard = true
		c.o.Log.Info("the coordinator does not take offers; machines stay where they are", "error", err)
	case err == nil && !reply.GetAcknowledged():
		c.heardOf(reply.GetNewestShardEpoch())
	case err == nil && reply.GetAcknowledged() && c.o.Shard.HearTerm(reply.GetCoordinatorTerm()):
		c.unheard = false
		c.o.Owner.Settle(reply.GetSettledMoveIds())
		if lost {
			c.compare(reply)
		}
	}
}

// heardOf notes the highest epoch that the coordinator knows of the shard.
func (c *Client) heardOf(epoch int64) {
	own := c.o.Epoch()
	if epoch <= own || c.o.Replaced == nil {
		return
	}
	c.o.Log.Error("the coordinator knows a newer process of this shard: this one carries out nothing more; end it, or start it again if it is the one that should act", "epoch", own, "newest", epoch)
	c.o.Replaced(epoch)
}

func offerOf(o *shard.Offer) *tonnage.Offer {
	m := &o.Machine
	out := &tonnage.Offer{
		State: pb.MachineState(m.State), InstanceType: m.InstanceType, Zone: m.Zone, CapacityType: pb.CapacityType(m.CapacityType),
		Labels: m.Labels, VariedLabels: o.Varied, Allocatable: &pb.Resources{Resources: map[string]string{}}, PricePerHour: m.PricePerHour,
		Count: int32(o.Count), MachineIds: o.Machines,
	}
	for _, a := range m.EffectiveAllocatable() {
		out.Allocatable.Resources[a.Name] = model.FormatQuantity(a.Name, a.Value)
	}
	if m.State == model.Configured {
		out.Priority, out.InterruptionPenaltyBucket = m.Assigned.Priority, pb.PenaltyBucket(m.Assigned.Interruption)
	}
	return out
}

// offer asks the replica that took the last report.
func (x *replicas) offer(ctx context.Context, r *tonnage.OfferRequest) (*tonnage.OfferReply, error) {
	conn, err := x.connect(x.took)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	return tonnage.NewFleetClient(conn).Offer(ctx, r, grpc.WaitForReady(false))
}
