package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/internal/terminal"
)

// shortfallRow is a shortfall as shortfalls prints it.
type shortfallRow struct {
	Shard     string            `json:"shard"`
	Priority  int32             `json:"priority"`
	AgeCycles int32             `json:"ageCycles"`
	Escalated bool              `json:"escalated"`
	Deficit   map[string]string `json:"deficit"`
	Requires  string            `json:"requires"`
}

func (c *ctl) shortfalls() *cobra.Command {
	var shard string
	cmd := &cobra.Command{
		Use: "shortfalls", Short: "List what the shards are short of", Args: noArguments,
		Example: "  tonnage ctl shortfalls --shard-id shard-0",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNames(cmd, "shard"); err != nil {
				return err
			}
			rows := []shortfallRow{}
			err := c.call(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
				got, err := tonnage.NewFleetClient(conn).Shortfalls(ctx, &tonnage.ShortfallsRequest{ShardId: shard})
				rows = rows[:0]
				for _, x := range got.GetShortfalls() {
					rows = append(rows, shortfallRow{
						x.GetShardId(), x.GetPriority(), x.GetAgeCycles(), x.GetEscalated(), x.GetDeficit().GetResources(), inWords(x.GetRequirements()),
					})
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.print(rows, "SHARD PRIORITY AGE ESCALATED DEFICIT REQUIRES", func(t *terminal.Table) {
				for _, r := range rows {
					t.Row(r.Shard, r.Priority, r.AgeCycles, r.Escalated, amounts(r.Deficit), r.Requires)
				}
			})
		},
	}
	cmd.Flags().StringVar(&shard, "shard-id", "", shardIDUsage+hereMark+"only of this one")
	alsoCalled(cmd, "shard", "shard-id")
	return cmd
}

func inWords(requirements []*bigfleet.NodeSelectorRequirement) string {
	parts := make([]string, len(requirements))
	for i, r := range requirements {
		op := strings.TrimPrefix(r.GetOperator().String(), "OPERATOR_")
		parts[i] = strings.TrimSpace(r.GetKey() + " " + strings.ToLower(op) + " " + strings.Join(r.GetValues(), "|"))
	}
	return cmp.Or(strings.Join(parts, ", "), "any machine")
}

func amounts(resources map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(resources)) {
		parts = append(parts, k+"="+resources[k])
	}
	return strings.Join(parts, ",")
}

func (c *ctl) rebalance() *cobra.Command {
	var why bool
	cmd := &cobra.Command{
		Use: "rebalance", Short: "Show which machines change shards, and why", Args: noArguments,
		Long: `Rebalance shows the moves that the coordinator knows of: those under way, and the
last that are over. With --why it shows what the last pass decided about each
shortfall that is old enough, and what became of each offer that was looked at.`,
		Example: "  tonnage ctl rebalance --why",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var got *tonnage.RebalancingReply
			err := c.call(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
				got, err = tonnage.NewFleetClient(conn).Rebalancing(ctx, &tonnage.RebalancingRequest{})
				return err
			})
			if err != nil {
				return err
			}
			return c.printRebalancing(got, why)
		},
	}
	cmd.Flags().BoolVar(&why, "why", false, "show what the last pass decided, and why")
	return cmd
}

func (c *ctl) printRebalancing(got *tonnage.RebalancingReply, why bool) error {
	format, err := formatOf(c.streams, c.output)
	if err != nil {
		return err
	}
	if format == formatJSON {
		if !why {
			got.Decisions = nil
		}
		text, err := protojson.MarshalOptions{Multiline: true, EmitUnpopulated: true}.Marshal(got)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.out, string(text))
		return err
	}
	line := func(format string, args ...any) { // of a coordinator that may say anything
		fmt.Fprintln(c.out, terminal.Escape(fmt.Sprintf(format, args...)))
	}
	line("rebalancing is %s; pass %d at %s asked for %d machines", got.GetMode(), got.GetPass(), stamp(got.GetPassedAtUnixNanos()), got.GetMachines())
	if got.GetWaits() != "" {
		line("it waits: %s", got.GetWaits())
	}
	if why {
		printDecisions(line, got)
	}
	return c.print(nil, "MOVE TIER PHASE FROM TO MACHINES KIND BEGAN ENDED NOTE", func(t *terminal.Table) {
		for _, m := range got.GetMoves() {
			t.Row(m.GetMoveId(), m.GetTier(), m.GetPhase(), m.GetDonor(), m.GetReceiver(),
				len(m.GetMachineIds()), m.GetMachineKind(), stamp(m.GetBeganUnixNanos()), stamp(m.GetEndedUnixNanos()), orNone(m.GetNote()))
		}
	})
}

func printDecisions(line func(format string, args ...any), got *tonnage.RebalancingReply) {
	if n := got.GetYoung(); n > 0 {
		line("%d shortfalls are too young to be a matter of the fleet", n)
	}
	if n := got.GetCut(); n > 0 {
		line("%d more shortfalls were not looked at", n)
	}
	for _, d := range got.GetDecisions() {
		line("")
		line("%s, priority %d, short for %d cycles of %s: %s", d.GetReceiver(), d.GetPriority(), d.GetAgeCycles(),
			amounts(d.GetDeficit().GetResources()), d.GetRequires())
		line("  %s", d.GetVerdict())
		for _, s := range d.GetSteps() {
			what := s.GetWhy()
			if s.GetMachines() > 0 {
				what = fmt.Sprintf("%s %d", what, s.GetMachines())
			}
			if s.GetDonor() == "" {
				line("  tier %d: %s", s.GetTier(), what)
				continue
			}
			line("  tier %d: %s offers %d of %s: %s", s.GetTier(), s.GetDonor(), s.GetOffered(), s.GetMachineKind(), what)
		}
		if n := d.GetMoreSteps(); n > 0 {
			line("  and %d more offers", n)
		}
	}
	line("")
}
