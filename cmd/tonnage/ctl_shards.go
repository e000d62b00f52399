package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/internal/terminal"
)

// shardRow is a shard as list-shards prints it.
type shardRow struct {
	Shard         string `json:"shard"`
	Address       string `json:"address"`
	Registered    string `json:"registered"`
	LastHeartbeat string `json:"lastHeartbeat"`
	Machines      int32  `json:"machines"`
	Free          *int32 `json:"free,omitempty"` // Idle; nil = the coordinator does not know
	Shortfalls    int    `json:"shortfalls"`
}

// free writes how many machines are Idle.
func (r *shardRow) free() string {
	if r.Free == nil {
		return noTime
	}
	return strconv.Itoa(int(*r.Free))
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
				machines, err := tonnage.NewFleetClient(conn).Machines(ctx, &tonnage.MachinesRequest{})
				if err != nil && status.Code(err) != codes.Unimplemented {
					return err
				}
				rows = shardRows(shards, reports, machines)
				return nil
			})
			if err != nil {
				return err
			}
			return c.print(rows, "SHARD ADDRESS REGISTERED LAST_HEARTBEAT MACHINES FREE SHORTFALLS", func(t *terminal.Table) {
				for _, r := range rows {
					t.Row(r.Shard, orNone(r.Address), r.Registered, r.LastHeartbeat, r.Machines, r.free(), r.Shortfalls)
				}
			})
		},
	}
}

func shardRows(shards *bigfleet.ListShardsResponse, reports *bigfleet.ListShardReportsResponse, machines *tonnage.MachinesReply) []shardRow {
	latest := map[string]*bigfleet.ShardReportSnapshot{}
	for _, r := range reports.GetReports() {
		latest[r.GetShardId()] = r
	}
	idle := map[string]*int32{}
	for _, m := range machines.GetShards() {
		idle[m.GetShardId()] = new(m.GetIdle())
	}
	rows := []shardRow{}
	for _, x := range shards.GetShards() {
		r := latest[x.GetShardId()]
		rows = append(rows, shardRow{
			Shard: x.GetShardId(), Address: x.GetAddress(),
			Registered: stamp(x.GetRegisteredAtUnixNs()), LastHeartbeat: stamp(x.GetLastHeartbeatUnixNs()),
			Machines: r.GetSummary().GetTotalMachines(), Free: idle[x.GetShardId()], Shortfalls: len(r.GetShortfalls()),
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
	shardIDFlag(cmd, &shard)
	return required(cmd, "shard")
}
