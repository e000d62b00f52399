package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

const (
	// attemptLimit bounds a call of one replica.
	attemptLimit = 5 * time.Second
	// connectionsMax bounds the addresses that answers may send a client to.
	connectionsMax = 16
)

// The detail by which a follower names the leader.
const (
	notLeaderReason = "NOT_LEADER"
	leaderKey       = "leader"
)

// replicas finds the one that leads. One owner.
type replicas struct {
	options []grpc.DialOption
	// order is that in which they are asked; the configured ones stay in it.
	order []string
	conns map[string]*grpc.ClientConn
	took  string // the last report
}

func newReplicas(addresses []string, options []grpc.DialOption) *replicas {
	return &replicas{options: options, order: slices.Clone(addresses), conns: map[string]*grpc.ClientConn{}}
}

func (x *replicas) close() {
	for _, c := range x.conns {
		c.Close()
	}
}

// connect returns a replica's connection.
func (x *replicas) connect(address string) (*grpc.ClientConn, error) {
	if c := x.conns[address]; c != nil {
		return c, nil
	}
	if len(x.conns) >= connectionsMax {
		return nil, fmt.Errorf("more than %d addresses of coordinators", connectionsMax)
	}
	c, err := grpc.NewClient(address, x.options...)
	if err == nil {
		x.conns[address] = c
	}
	return c, err
}

// report asks one replica after the other, each once, and whom they name.
func (x *replicas) report(ctx context.Context, r *pb.ShardReport) (*pb.ReportAck, error) {
	var faults []error
	asked := map[string]bool{}
	queue := slices.Clone(x.order)
	for len(queue) > 0 && ctx.Err() == nil {
		address := queue[0]
		queue = queue[1:]
		if asked[address] {
			continue
		}
		asked[address] = true
		ack, err := x.ask(ctx, address, r)
		if err == nil {
			x.prefer(address)
			x.took = address
			return ack, nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", address, err))
		if leader := leaderOf(err); leader != "" {
			queue = slices.Insert(queue, 0, leader)
		}
	}
	return nil, errors.Join(append(faults, ctx.Err())...)
}

func (x *replicas) ask(ctx context.Context, address string, r *pb.ShardReport) (*pb.ReportAck, error) {
	conn, err := x.connect(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	ack, err := pb.NewCoordinatorClient(conn).ReportShard(ctx, r)
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		x.drop(address)
	}
	return ack, err
}

// drop ends a connection that may be broken, and the next report makes a new
// one and waits for it. With the old one it would fail at once, without having
// tried: between its own tries gRPC waits for up to two minutes.
func (x *replicas) drop(address string) {
	x.conns[address].Close()
	delete(x.conns, address)
}

// prefer asks a configured replica first from now on.
func (x *replicas) prefer(address string) {
	if i := slices.Index(x.order, address); i > 0 {
		x.order = slices.Insert(slices.Delete(x.order, i, i+1), 0, address)
	}
}

// leaderOf returns whom a follower names, "" if nobody.
func leaderOf(err error) string {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.FailedPrecondition {
		return ""
	}
	for _, d := range s.Details() {
		if e, ok := d.(*errdetails.ErrorInfo); ok && e.GetReason() == notLeaderReason {
			return e.GetMetadata()[leaderKey]
		}
	}
	return ""
}
