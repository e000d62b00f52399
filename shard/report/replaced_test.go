package report_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/shard/report"
)

// rememberer is a coordinator that knows an epoch of the shard, and takes nothing of older
// processes.
type rememberer struct {
	pb.UnimplementedCoordinatorServer
	tonnage.UnimplementedFleetServer
	epoch   atomic.Int64
	reports atomic.Int64
}

func (r *rememberer) ReportShard(_ context.Context, in *pb.ShardReport) (*pb.ReportAck, error) {
	r.reports.Add(1)
	return &pb.ReportAck{CoordinatorTerm: 1, Acknowledged: in.GetShardEpoch() >= r.epoch.Load()}, nil
}

func (r *rememberer) Offer(_ context.Context, in *tonnage.OfferRequest) (*tonnage.OfferReply, error) {
	if newest := r.epoch.Load(); in.GetShardEpoch() < newest {
		return &tonnage.OfferReply{CoordinatorTerm: 1, NewestShardEpoch: newest}, nil
	}
	return &tonnage.OfferReply{CoordinatorTerm: 1, Acknowledged: true}, nil
}

// TestAReplacedProcessIsToldWhenItAsks: a report that is asked for is made at once, however
// long the interval; a process hears of the epoch of its successor by it, and of its own never.
func TestAReplacedProcessIsToldWhenItAsks(t *testing.T) {
	at := &rememberer{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterCoordinatorServer(s, at)
	tonnage.RegisterFleetServer(s, at)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	var told atomic.Int64
	c, err := report.New(report.Options{
		Shard: &fakeShard{}, Owner: generous{}, ID: "s", Epoch: func() int64 { return 2 }, Replaced: told.Store, Interval: time.Hour,
		Addresses: []string{l.Addr().String()}, Dial: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	for i, x := range []struct{ epoch, told int64 }{{2, 0}, {3, 3}} {
		at.epoch.Store(x.epoch)
		before := at.reports.Load()
		c.Ask(ctx)
		if at.reports.Load() == before || told.Load() != x.told {
			t.Errorf("asked %d times: %d reports since, told of epoch %d, want %d", i+1, at.reports.Load()-before, told.Load(), x.told)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	c.Ask(ctx) // nobody runs any more: it ends with its context
}
