package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/terminal"
)

// shardRow is a shard as list-shards prints it.
type shardRow struct {
	Shard         string `json:"shard"`
	Address       string `json:"address"`
	Registered    string `json:"registered"`
	LastHeartbeat string `json:"lastHeartbeat"`
	Machines      int32  `json:"machines"`
	Free          int32  `json:"free"`
	Shortfalls    int    `json:"shortfalls"`
}

func (c *ctl) listShards() *cobra.Command {
	return &cobra.Command{
		Use: "list-shards", Short: "List the shards", Example: "  tonnage ctl list-shards", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := []shardRow{}
			err := c.call(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
				k := bigfleet.NewCoordinatorClient(conn)
				shards, err := k.ListShards(ctx, &bigfleet.ListShardsRequest{})
				if err != nil {
					return err
				}
				reports, err := k.ListShardReports(ctx, &bigfleet.ListShardReportsRequest{})
				if err != nil {
					return err
				}
				rows = shardRows(shards, reports)
				return nil
			})
			if err != nil {
				return err
			}
			return c.print(rows, "SHARD ADDRESS REGISTERED LAST_HEARTBEAT MACHINES FREE SHORTFALLS", func(t *terminal.Table) {
				for _, r := range rows {
					t.Row(r.Shard, orNone(r.Address), r.Registered, r.LastHeartbeat, r.Machines, r.Free, r.Shortfalls)
				}
			})
		},
	}
}

func shardRows(shards *bigfleet.ListShardsResponse, reports *bigfleet.ListShardReportsResponse) []shardRow {
	latest := map[string]*bigfleet.ShardReportSnapshot{}
	for _, r := range reports.GetReports() {
		latest[r.GetShardId()] = r
	}
	rows := []shardRow{}
	for _, x := range shards.GetShards() {
		r := latest[x.GetShardId()]
		rows = append(rows, shardRow{
			Shard: x.GetShardId(), Address: x.GetAddress(),
			Registered: stamp(x.GetRegisteredAtUnixNs()), LastHeartbeat: stamp(x.GetLastHeartbeatUnixNs()),
			Machines: r.GetSummary().GetTotalMachines(), Free: r.GetSummary().GetFreeMachines(), Shortfalls: len(r.GetShortfalls()),
		})
	}
	return rows
}

func (c *ctl) removeShard() *cobra.Command {
	var shard string
	cmd := &cobra.Command{
		Use: "remove-shard", Short: "Forget a shard that is gone for good, with its domains",
		Long: `Remove-shard forgets a shard, its domains, and what it was to be told. Machines that
were on their way to it go back to where they came from. Use it only for a shard that
does not run and will not: one that reports again is registered anew, without domains.`,
		Example: "  tonnage ctl remove-shard --shard shard-3", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.removal(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface, opts ...grpc.CallOption) error {
				_, err := bigfleet.NewCoordinatorClient(conn).RemoveShard(ctx, &bigfleet.RemoveShardRequest{ShardId: shard}, opts...)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&shard, "shard", "", "name of the shard")
	return required(cmd, "shard")
}
