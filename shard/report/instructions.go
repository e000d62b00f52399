package report

import (
	"context"
	"errors"
	"fmt"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/shard"
)

// DoneMax is how many instructions the client remembers to have carried out.
const DoneMax = 1 << 14

// done are the ids of instructions that were carried out, the latest DoneMax.
type done struct {
	ids  map[string]struct{}
	ring []string
	next int
}

func newDone() done { return done{ids: map[string]struct{}{}} }

func (d *done) has(id string) bool {
	_, ok := d.ids[id]
	return ok
}

func (d *done) add(id string) {
	if len(d.ring) < DoneMax {
		d.ring = append(d.ring, id)
	} else {
		delete(d.ids, d.ring[d.next])
		d.ring[d.next] = id
		d.next = (d.next + 1) % DoneMax
	}
	d.ids[id] = struct{}{}
}

// repeated is the reason that acknowledges an instruction once more.
const repeated = "duplicate-redelivery"

// take carries one instruction out and has it acknowledged with the next
// report.
func (c *Client) take(ctx context.Context, term int64, i *pb.CoordinatorInstruction) {
	ack := &pb.InstructAck{InstructionId: i.GetInstructionId(), Outcome: pb.InstructAck_OUTCOME_ACCEPTED}
	switch {
	case i.GetCoordinatorTerm() < term:
		ack.Outcome = pb.InstructAck_OUTCOME_REJECTED_STALE
		ack.Reason = fmt.Sprintf("its term is %d, the coordinator's is %d", i.GetCoordinatorTerm(), term)
	case c.done.has(i.GetInstructionId()):
		ack.Reason = repeated
	default:
		err := c.carryOut(ctx, i)
		switch {
		case err == nil && !moves(i):
			c.fresh = append(c.fresh, ack)
		case err == nil: // the shard knows what it has done
		case errors.Is(err, shard.ErrInvalid):
			ack.Outcome, ack.Reason = pb.InstructAck_OUTCOME_REJECTED_INVALID, err.Error()
		default:
			ack.Outcome, ack.Reason = pb.InstructAck_OUTCOME_FAILED, err.Error()
		}
		c.o.Log.Info("instruction of the coordinator", "id", i.GetInstructionId(), "what", fmt.Sprintf("%T", i.GetPayload()), "outcome", ack.GetOutcome(), "error", err)
	}
	c.o.Metrics.told(ack.GetOutcome())
	if len(c.acks) < AcksMax {
		c.acks = append(c.acks, ack)
	}
}

// keep makes sure that what was done about domains is on disk before it is
// acknowledged: another shard may be given a domain that this one says it has
// lost. All of an answer wait for the disk together.
func (c *Client) keep(ctx context.Context) {
	if len(c.fresh) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	err := c.o.Shard.Kept(ctx)
	if err != nil {
		c.o.Log.Error("it is not known whether the domains of this shard are on disk; the coordinator will ask again", "error", err)
	}
	for _, ack := range c.fresh {
		if err != nil {
			ack.Outcome, ack.Reason = pb.InstructAck_OUTCOME_FAILED, err.Error()
			continue
		}
		c.done.add(ack.GetInstructionId())
	}
	c.fresh = c.fresh[:0]
}

func (c *Client) carryOut(ctx context.Context, i *pb.CoordinatorInstruction) error {
	switch p := i.GetPayload().(type) {
	case *pb.CoordinatorInstruction_AssignDomain:
		return c.o.Shard.AssignDomain(shard.Domain{Key: p.AssignDomain.GetTopologyKey(), Value: p.AssignDomain.GetTopologyValue()})
	case *pb.CoordinatorInstruction_UnassignDomain:
		return c.o.Shard.UnassignDomain(shard.Domain{Key: p.UnassignDomain.GetTopologyKey(), Value: p.UnassignDomain.GetTopologyValue()})
	case nil:
		return fmt.Errorf("%w: this version does not know it", shard.ErrInvalid)
	}
	if c.o.Owner == nil {
		return fmt.Errorf("%w: this shard does not move machines", shard.ErrInvalid)
	}
	return c.move(ctx, i)
}
