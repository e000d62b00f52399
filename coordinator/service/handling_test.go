package service_test

import (
	"log/slog"
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator/service"
)

// TestHandlingIsTimed: what shards say is timed, whatever the answer is, and
// nothing else.
func TestHandlingIsTimed(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := service.New(service.Config{Name: "c-0", Log: slog.New(slog.DiscardHandler), Metrics: service.NewMetrics(registry)})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := s.Server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	k, f := bigfleet.NewCoordinatorClient(conn), tonnage.NewFleetClient(conn)
	var errs [4]error
	_, errs[0] = k.ReportShard(t.Context(), &bigfleet.ShardReport{ShardId: "s"})
	_, errs[1] = k.ReportShard(t.Context(), &bigfleet.ShardReport{ShardId: "s"})
	_, errs[2] = f.Offer(t.Context(), &tonnage.OfferRequest{ShardId: "s"})
	_, errs[3] = k.ListShards(t.Context(), &bigfleet.ListShardsRequest{})
	for i, err := range errs {
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("call %d: %v, want that it does not lead", i, err)
		}
	}
	server.GracefulStop() // what is noted at the end of a call is noted then
	if err := <-served; err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, x := range families {
		if x.GetName() != "tonnage_coordinator_handling_seconds" {
			continue
		}
		for _, m := range x.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
		}
	}
	if len(got) != 2 || got["report"] != 2 || got["offer"] != 1 {
		t.Errorf("timed are %v, want two reports and an offer", got)
	}
}
