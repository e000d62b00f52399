package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
)

// remover answers removals with one code after the other, the last one again
// and again.
type remover struct {
	pb.UnimplementedCoordinatorServer
	tonnage.UnimplementedFleetServer
	answers chan codes.Code
}

func (r *remover) next() error {
	select {
	case c := <-r.answers:
		return status.Error(c, "as the test says")
	default:
		return status.Error(codes.NotFound, "none such")
	}
}

func (r *remover) RemoveShard(context.Context, *pb.RemoveShardRequest) (*pb.RemoveShardResponse, error) {
	return &pb.RemoveShardResponse{}, r.next()
}

func (r *remover) RemoveMember(context.Context, *tonnage.RemoveMemberRequest) (*tonnage.RemoveMemberReply, error) {
	return &tonnage.RemoveMemberReply{}, r.next()
}

// TestCtlRemovalIsMadeAgain: what an unanswered try has removed is removed; but
// a name that nothing has stays an error when another replica is down.
func TestCtlRemovalIsMadeAgain(t *testing.T) {
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := down.Close(); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"remove-shard", "--shard", "x"}, {"remove-member", "--replica", "x"}} {
		for _, c := range []struct {
			name    string
			answers []codes.Code
			first   string // a replica that is asked before
			fails   bool
		}{
			{name: "unknown", fails: true},
			{name: "unknown, and a replica is down", first: down.Addr().String() + ",", fails: true},
			{name: "not answered, then unknown", answers: []codes.Code{codes.Unavailable}},
			{name: "not answered, then refused", answers: []codes.Code{codes.Unavailable, codes.InvalidArgument}, fails: true},
			{name: "removed", answers: []codes.Code{codes.OK}},
		} {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			r := &remover{answers: make(chan codes.Code, len(c.answers))}
			for _, a := range c.answers {
				r.answers <- a
			}
			server := grpc.NewServer()
			pb.RegisterCoordinatorServer(server, r)
			tonnage.RegisterFleetServer(server, r)
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			got := call("", true, append([]string{"ctl", "--coordinator", c.first + listener.Addr().String()}, command...)...)
			if (got.code != 0) != c.fails || c.fails && !strings.Contains(got.err, "notfound") && !strings.Contains(got.err, "invalid") {
				t.Errorf("%s, %s: exit %d, %q", command[0], c.name, got.code, got.err)
			}
			server.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}
}
