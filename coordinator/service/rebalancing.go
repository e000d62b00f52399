package service

import (
	"context"

	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator"
)

// Rebalancing says what the last pass decided, and why.
func (s *Service) Rebalancing(ctx context.Context, _ *tonnage.RebalancingRequest) (*tonnage.RebalancingReply, error) {
	var pass coordinator.Pass
	var moves []coordinator.Move
	if err := s.read(ctx, func(c *coordinator.Core) { pass, moves = c.LastPass(), c.Moves() }); err != nil {
		return nil, err
	}
	out := &tonnage.RebalancingReply{
		Mode: string(s.config.Mode), PassedAtUnixNanos: pass.At, Pass: pass.Number, Waits: pass.Waits,
		Young: int32(pass.Young), Cut: int32(pass.Cut), Machines: int32(pass.Machines),
	}
	for _, d := range pass.Decisions {
		x := &tonnage.Decision{
			Receiver: d.Receiver, Requires: d.Shortfall.String(), Priority: d.Priority, AgeCycles: d.AgeCycles, Deficit: encodeResources(d.Deficit),
			Verdict: string(d.Verdict), Machines: int32(d.Moves), MoreSteps: int32(d.MoreSteps),
		}
		for _, t := range d.Steps {
			x.Steps = append(x.Steps, &tonnage.Step{
				Tier: int32(t.Tier), Donor: t.Donor, MachineKind: t.Shape, Offered: int32(t.Offered), Machines: int32(t.Moves), Why: string(t.Why),
			})
		}
		out.Decisions = append(out.Decisions, x)
	}
	for _, m := range moves {
		out.Moves = append(out.Moves, &tonnage.Move{
			MoveId: m.ID, Tier: int32(m.Tier), Phase: string(m.Phase), Donor: m.Donor, Receiver: m.Receiver, MachineKind: m.Shape,
			MachineIds: m.Machines, BeganUnixNanos: m.Began, EndedUnixNanos: m.Ended, Note: m.Note,
		})
	}
	return out, nil
}
