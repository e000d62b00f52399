package main

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// reader answers with two needs, whatever it is asked.
type reader struct {
	pb.UnimplementedShardReadServer
	asked chan *pb.InspectNeedsRequest
}

func (r *reader) InspectNeeds(request *pb.InspectNeedsRequest, stream pb.ShardRead_InspectNeedsServer) error {
	r.asked <- request
	for _, frame := range []*pb.InspectNeedsResponse{
		{Frame: &pb.InspectNeedsResponse_Header{Header: &pb.InspectNeedsHeader{Cycle: 9, TotalNeeds: 2}}},
		{Frame: &pb.InspectNeedsResponse_Need{Need: &pb.NeedView{Need: &pb.CapacityNeed{Priority: 7}, ClusterId: "fed", Satisfied: true, ClaimedMachineCount: 3}}},
		{Frame: &pb.InspectNeedsResponse_Need{Need: &pb.NeedView{
			Need: &pb.CapacityNeed{Priority: 5, Group: "train"}, ClusterId: "hungry", AgeCyclesUnmet: 41, ParkedAgeCycles: 33, AcquisitionParked: true,
			UnmetReason:     pb.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE,
			ResidualDeficit: &pb.Resources{Resources: map[string]string{"cpu": "12"}},
			SameCandidates:  []*pb.DomainCoverage{{Domain: "rack-4", CoveragePerMille: 875}, {Domain: "rack-1", CoveragePerMille: 500}},
		}}},
	} {
		if err := stream.Send(frame); err != nil {
			return err
		}
	}
	return nil
}

func TestCtlNeeds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{asked: make(chan *pb.InspectNeedsRequest, 10)}
	server := grpc.NewServer()
	pb.RegisterShardReadServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	needs := func(args ...string) string {
		t.Helper()
		got := call("", true, append([]string{"ctl", "needs", "--shard-addr", listener.Addr().String()}, args...)...)
		if got.code != 0 {
			t.Fatalf("exit %d: %s", got.code, got.err)
		}
		return got.out
	}
	table := strings.Split(needs("-o", "table", "--cluster", "hungry", "--limit", "4"), "\n")
	if asked := <-r.asked; asked.GetClusterId() != "hungry" || asked.GetLimit() != 4 {
		t.Errorf("asked for %v", asked)
	}
	if got := strings.Fields(table[2]); !strings.HasPrefix(table[2], "hungry") || strings.Join(got, " ") != "hungry 5 train false 0 — rack-4 (87.5%) 41 33 topology_unsatisfiable" {
		t.Errorf("the table says %q", got)
	}
	js := needs("-o", "json", "--unmet")
	for _, want := range []string{`"cyclesUnmet": 41`, `"cyclesParked": 33`, `"domain": "rack-4"`, `"coveragePerMille": 875`, `"cpu": "12"`} {
		if !strings.Contains(js, want) {
			t.Errorf("no %s in %s", want, js)
		}
	}
	if strings.Contains(js, "fed") {
		t.Errorf("a need that is satisfied: %s", js)
	}
}

// TestCtlNeedsNamesTheRemedy: `tonnage ctl needs` fails against a process that serves a page and no sessions, such as `tonnage up`.
// The error says which command to use instead.
func TestCtlNeedsNamesTheRemedy(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	got := call("", true, "ctl", "needs", "--shard-addr", address)
	for _, want := range []string{"no shard answers at --shard-addr " + address, "tonnage fleet needs --all", topShardDefault} {
		if got.code == exitOK || !strings.Contains(got.err, want) {
			t.Errorf("exit %d: no %q in %q", got.code, want, got.err)
		}
	}
	for code, want := range map[codes.Code]string{
		codes.DeadlineExceeded: "--timeout gives it longer", codes.PermissionDenied: "--tls-cert and --tls-key",
		codes.ResourceExhausted: "answered resourceexhausted: evil\\x1b[2J",
	} {
		if got := shardFault("s:1", status.Error(code, "evil\x1b[2J")).Error(); !strings.Contains(got, want) {
			t.Errorf("%v: no %q in %q", code, want, got)
		}
	}
}
