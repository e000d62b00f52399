package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
)

// shards is a coordinator of two shards, of which one has said how many machines are Idle.
type shards struct {
	pb.UnimplementedCoordinatorServer
}

func (shards) ListShards(context.Context, *pb.ListShardsRequest) (*pb.ListShardsResponse, error) {
	return &pb.ListShardsResponse{Shards: []*pb.ShardRegistryEntry{{ShardId: "s1"}, {ShardId: "s2"}}}, nil
}

func (shards) ListShardReports(context.Context, *pb.ListShardReportsRequest) (*pb.ListShardReportsResponse, error) {
	return &pb.ListShardReportsResponse{Reports: []*pb.ShardReportSnapshot{{ShardId: "s1", Summary: &pb.ShardSummary{TotalMachines: 70, FreeMachines: 51}}}}, nil
}

type idleMachines struct {
	tonnage.UnimplementedFleetServer
}

func (idleMachines) Machines(context.Context, *tonnage.MachinesRequest) (*tonnage.MachinesReply, error) {
	return &tonnage.MachinesReply{Shards: []*tonnage.ShardMachines{{ShardId: "s1", Idle: 23}}}, nil
}

// TestListShardsCountsIdle: FREE are Idle machines; reports count Speculative ones, too.
func TestListShardsCountsIdle(t *testing.T) {
	for what, c := range map[string]struct {
		fleet tonnage.FleetServer
		table []string // the fields of the rows
		json  string
	}{
		"known":                       {idleMachines{}, []string{"s1 — — — 70 23 0", "s2 — — — 0 — 0"}, `"free": 23`},
		"an older coordinator":        {tonnage.UnimplementedFleetServer{}, []string{"s1 — — — 70 — 0"}, ""},
		"one that has no such answer": {nil, []string{"s1 — — — 70 — 0"}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			pb.RegisterCoordinatorServer(server, shards{})
			if c.fleet != nil {
				tonnage.RegisterFleetServer(server, c.fleet)
			}
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			table := call("", true, "ctl", "--coordinator", listener.Addr().String(), "-o", "table", "list-shards")
			json := call("", true, "ctl", "--coordinator", listener.Addr().String(), "-o", "json", "list-shards")
			server.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			rows := map[string]bool{}
			for line := range strings.Lines(table.out) {
				rows[strings.Join(strings.Fields(line), " ")] = true
			}
			for _, want := range c.table {
				if !rows[want] {
					t.Errorf("no row %q in\n%s%s", want, table.out, table.err)
				}
			}
			if strings.Contains(json.out, `"free"`) != (c.json != "") || !strings.Contains(json.out, c.json) {
				t.Errorf("%s%s", json.out, json.err)
			}
		})
	}
}
