package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// domains is a coordinator of one shard that has 5 machines, and notes what it is told.
type domains struct {
	pb.UnimplementedCoordinatorServer
	assigned []*pb.DomainAssignment
	zones    map[string]int32
}

func (d *domains) AssignDomain(_ context.Context, r *pb.AssignDomainRequest) (*pb.AssignDomainResponse, error) {
	d.assigned = append(d.assigned, &pb.DomainAssignment{TopologyKey: r.GetTopologyKey(), TopologyValue: r.GetTopologyValue(), ShardId: r.GetShardId()})
	return &pb.AssignDomainResponse{}, nil
}

func (d *domains) ListDomainAssignments(context.Context, *pb.ListDomainAssignmentsRequest) (*pb.ListDomainAssignmentsResponse, error) {
	return &pb.ListDomainAssignmentsResponse{Assignments: d.assigned}, nil
}

func (d *domains) ListShardReports(context.Context, *pb.ListShardReportsRequest) (*pb.ListShardReportsResponse, error) {
	return &pb.ListShardReportsResponse{Reports: []*pb.ShardReportSnapshot{{ShardId: "s", Summary: &pb.ShardSummary{
		TotalMachines: 5, PerZoneCounts: d.zones, PerInstanceTypeCounts: map[string]int32{"large": 5},
	}}}}, nil
}

// TestAssignDomainWarns: when a shard's first domain leaves it no machine.
func TestAssignDomainWarns(t *testing.T) {
	const zone = "topology.kubernetes.io/zone"
	zones := map[string]int32{"a": 2, "b": 3}
	for what, c := range map[string]struct {
		key, value string
		zones      map[string]int32
		had        []*pb.DomainAssignment
		says       string // empty = nothing
	}{
		"a zone that machines have":           {key: zone, value: "a", zones: zones, says: "shard s keeps 2 of its 5 machines"},
		"a zone that none has":                {key: zone, value: "x", zones: zones, says: "warning: x is the first domain of shard s, and none of its 5 machines has " + zone + " x: it gives up all of them"},
		"of more zones than a report tells":   {key: zone, value: "x", zones: map[string]int32{"a": 2, "other": 3}, says: "warning: x is the first domain of shard s, which gives up those of its 5 machines"},
		"an instance type that none has":      {key: "node.kubernetes.io/instance-type", value: "small", says: "it gives up all of them"},
		"a key of which reports say nothing":  {key: "rack", value: "r1", says: "the coordinator does not know how many have r1"},
		"one more domain":                     {key: zone, value: "x", zones: zones, had: []*pb.DomainAssignment{{TopologyKey: zone, TopologyValue: "a", ShardId: "s"}}},
		"the first, though another shard has": {key: zone, value: "x", zones: zones, had: []*pb.DomainAssignment{{TopologyKey: zone, TopologyValue: "a", ShardId: "s2"}}, says: "it gives up all of them"},
	} {
		t.Run(what, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			d := &domains{zones: c.zones, assigned: c.had}
			server := grpc.NewServer()
			pb.RegisterCoordinatorServer(server, d)
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			got := call("", true, "ctl", "--coordinator", listener.Addr().String(), "assign-domain", "--key", c.key, "--value", c.value, "--shard", "s")
			server.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if got.code != 0 || got.out != "" || !strings.Contains(got.err, c.says) || (c.says == "") != (got.err == "") {
				t.Errorf("exit %d, %q, %q; want %q", got.code, got.out, got.err, c.says)
			}
			if last := d.assigned[len(d.assigned)-1]; last.GetTopologyValue() != c.value {
				t.Errorf("not assigned: %v", d.assigned)
			}
		})
	}
}
