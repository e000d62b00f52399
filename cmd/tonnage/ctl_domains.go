package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/terminal"
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
said that it let go.`,
		Example: "  tonnage ctl assign-domain --key topology.kubernetes.io/zone --value zone-a --shard shard-0", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNames(cmd, "key", "value", "shard"); err != nil {
				return err
			}
			return c.call(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
				_, err := bigfleet.NewCoordinatorClient(conn).AssignDomain(ctx, &bigfleet.AssignDomainRequest{TopologyKey: key, TopologyValue: value, ShardId: shard})
				return err
			})
		},
	}
	domainFlags(cmd, &key, &value)
	cmd.Flags().StringVar(&shard, "shard", "", "name of the shard")
	return required(cmd, "key", "value", "shard")
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
	cmd.Flags().StringVar(key, "key", "", "topology key, such as topology.kubernetes.io/zone")
	cmd.Flags().StringVar(value, "value", "", "value of the key")
}
