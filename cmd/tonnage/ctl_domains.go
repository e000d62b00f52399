package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/shard"
)

// domainRow is a domain as list-domains prints it.
type domainRow struct {
	Key   string `json:"topologyKey"`
	Value string `json:"topologyValue"`
	Shard string `json:"shard"`
}

func (c *ctl) listDomains() *cobra.Command {
	return &cobra.Command{
		Use: "list-domains", Aliases: []string{"list-domain-assignments"}, Short: "List which shard has which domain",
		Example: "  tonnage ctl list-domains -o json", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := []domainRow{}
			err := c.call(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
				got, err := bigfleet.NewCoordinatorClient(conn).ListDomainAssignments(ctx, &bigfleet.ListDomainAssignmentsRequest{})
				rows = rows[:0]
				for _, a := range got.GetAssignments() {
					rows = append(rows, domainRow{a.GetTopologyKey(), a.GetTopologyValue(), a.GetShardId()})
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.print(rows, "TOPOLOGY_KEY TOPOLOGY_VALUE SHARD", func(t *terminal.Table) {
				for _, r := range rows {
					t.Row(r.Key, r.Value, r.Shard)
				}
			})
		},
	}
}

func (c *ctl) assignDomain() *cobra.Command {
	var key, value, shard string
	cmd := &cobra.Command{
		Use: "assign-domain", Short: "Give a topology domain to a shard",
		Long: `Assign-domain gives a domain to a shard, which hears of it with the answer to its
next report. A domain that another shard has had is given only when that shard has
said that it let go.

A shard without domains takes every machine of its provider. Its first domain makes it
give up all machines outside of it: assign-domain says how many it keeps, and warns
when that is none or not known.`,
		Example: "  tonnage ctl assign-domain --key topology.kubernetes.io/zone --value zone-a --shard shard-0", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNames(cmd, "key", "value", "shard"); err != nil {
				return err
			}
			return c.call(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
				k := bigfleet.NewCoordinatorClient(conn)
				if note := firstDomain(ctx, k, key, value, shard); note != "" {
					fmt.Fprintln(c.err, terminal.Escape(note))
				}
				_, err := k.AssignDomain(ctx, &bigfleet.AssignDomainRequest{TopologyKey: key, TopologyValue: value, ShardId: shard})
				return err
			})
		},
	}
	domainFlags(cmd, &key, &value)
	shardIDFlag(cmd, &shard)
	return required(cmd, "key", "value", "shard")
}

// firstDomain says what a domain leaves a shard of its machines when it is the shard's
// first one; empty where it takes nothing away, and where nobody knows.
func firstDomain(ctx context.Context, k bigfleet.CoordinatorClient, key, value, shard string) string {
	domains, noDomains := k.ListDomainAssignments(ctx, &bigfleet.ListDomainAssignmentsRequest{})
	reports, noReports := k.ListShardReports(ctx, &bigfleet.ListShardReportsRequest{ShardId: shard})
	if noDomains != nil || noReports != nil || len(reports.GetReports()) == 0 {
		return "" // the assignment itself says what is wrong
	}
	if slices.ContainsFunc(domains.GetAssignments(), func(a *bigfleet.DomainAssignment) bool { return a.GetShardId() == shard }) {
		return ""
	}
	summary := reports.GetReports()[0].GetSummary()
	machines := summary.GetTotalMachines()
	kept, known := machinesWith(summary, key, value)
	switch {
	case machines == 0:
		return ""
	case !known:
		return fmt.Sprintf("warning: %s is the first domain of shard %s, which gives up those of its %d machines that have another %s or none; the coordinator does not know how many have %s",
			value, shard, machines, key, value)
	case kept == 0:
		return fmt.Sprintf("warning: %s is the first domain of shard %s, and none of its %d machines has %s %s: it gives up all of them; assign it a domain that they have",
			value, shard, machines, key, value)
	}
	return fmt.Sprintf("shard %s keeps %d of its %d machines: those with %s %s", shard, kept, machines, key, value)
}

// machinesWith returns how many of a shard's machines have a value of a key; reports
// tell that of zones and instance types only.
func machinesWith(s *bigfleet.ShardSummary, key, value string) (n int32, known bool) {
	counts := s.GetPerZoneCounts()
	switch key {
	case model.KeyZone:
	case model.KeyInstanceType:
		counts = s.GetPerInstanceTypeCounts()
	default:
		return 0, false
	}
	n, known = counts[value]
	return n, known || counts[shard.SummaryOther] == 0
}

func (c *ctl) unassignDomain() *cobra.Command {
	var key, value string
	cmd := &cobra.Command{
		Use: "unassign-domain", Short: "Take a topology domain from the shard that has it",
		Example: "  tonnage ctl unassign-domain --key topology.kubernetes.io/zone --value zone-a", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.call(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
				_, err := bigfleet.NewCoordinatorClient(conn).UnassignDomain(ctx, &bigfleet.UnassignDomainRequest{TopologyKey: key, TopologyValue: value})
				return err
			})
		},
	}
	domainFlags(cmd, &key, &value)
	return required(cmd, "key", "value")
}

func domainFlags(cmd *cobra.Command, key, value *string) {
	cmd.Flags().StringVar(key, "key", "", keyUsage)
	cmd.Flags().StringVar(value, "value", "", valueUsage)
}
