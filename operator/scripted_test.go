package operator_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/mtls"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// shard is a scripted one: a test says every word of it.
type shard struct {
	bigfleet.UnimplementedShardServer
	bigfleet.UnimplementedShardReadServer
	address string
	// views answers what was decided about a cluster; nil = the shard tells nobody.
	views    func(cluster string) []*bigfleet.NeedView
	sessions chan *conversation
}

// conversation is one session as the shard has it.
type conversation struct {
	t       *testing.T
	stream  bigfleet.Shard_SessionServer
	sending sync.Mutex
	read    chan *bigfleet.OperatorMessage // off the stream
	heard   chan *bigfleet.OperatorMessage // what hear looks at: read, or what serve leaves of it
	hangUp  context.CancelCauseFunc
	pending []*bigfleet.OperatorMessage // heard and not asked for yet
}

func newShard(t *testing.T, material *mtls.Material) *shard {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &shard{address: l.Addr().String(), sessions: make(chan *conversation, 16)}
	server := grpc.NewServer(material.ServerOptions()...)
	bigfleet.RegisterShardServer(server, s)
	bigfleet.RegisterShardReadServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return s
}

// InspectNeeds implements the service.
func (s *shard) InspectNeeds(request *bigfleet.InspectNeedsRequest, stream bigfleet.ShardRead_InspectNeedsServer) error {
	if s.views == nil {
		return s.UnimplementedShardReadServer.InspectNeeds(request, stream)
	}
	for _, v := range s.views(request.ClusterId) {
		if err := stream.Send(&bigfleet.InspectNeedsResponse{Frame: &bigfleet.InspectNeedsResponse_Need{Need: v}}); err != nil {
			return err
		}
	}
	return nil
}

// Session implements the service.
func (s *shard) Session(stream bigfleet.Shard_SessionServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	c := &conversation{stream: stream, read: make(chan *bigfleet.OperatorMessage, 1000), hangUp: cancel}
	c.heard = c.read
	s.sessions <- c
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				cancel(err)
				return
			}
			select {
			case c.read <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	<-ctx.Done()
	return context.Cause(ctx)
}

// next waits for a session.
func (s *shard) next(t *testing.T) *conversation {
	t.Helper()
	select {
	case c := <-s.sessions:
		c.t = t
		return c
	case <-time.After(patience):
		t.Fatal("no operator called")
		return nil
	}
}

// greet takes the hello and answers it.
func (c *conversation) greet() *bigfleet.Hello {
	c.t.Helper()
	hello := hear(c, (*bigfleet.OperatorMessage).GetHello)
	c.ack("hello")
	return hello
}

func (c *conversation) ack(echo string) {
	c.t.Helper()
	c.say(acknowledgement(echo))
}

func acknowledgement(of string) *bigfleet.ShardMessage {
	return &bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_Ack{Ack: &bigfleet.Acknowledgement{Echo: of, ShardEpoch: 1}}}
}

// send may be called concurrently, as a stream's Send may not.
func (c *conversation) send(m *bigfleet.ShardMessage) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.stream.Send(m)
}

func (c *conversation) say(m *bigfleet.ShardMessage) {
	c.t.Helper()
	if err := c.send(m); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conversation) node(u *bigfleet.NodeStateUpdate) {
	c.t.Helper()
	u.SupersedesKey = "node:" + u.MachineId
	c.say(&bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_NodeStateUpdate{NodeStateUpdate: u}})
}

func (c *conversation) reclaim(id, machine string, grace time.Duration) {
	c.t.Helper()
	c.say(&bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_ReclaimInstruction{ReclaimInstruction: &bigfleet.ReclaimInstruction{
		InstructionId: id, Nodes: []string{machine}, GracePeriodSeconds: int64(grace / time.Second),
	}}})
}

func (c *conversation) hint(u *bigfleet.AvailableCapacityUpdate) {
	c.t.Helper()
	c.say(&bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_AvailableCapacity{AvailableCapacity: u}})
}

// serve acknowledges roll-ups in the background from now on, and keeps what else
// is heard for hear.
func (c *conversation) serve() (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	kept := make(chan *bigfleet.OperatorMessage, 1000)
	c.heard = kept
	go func() {
		defer close(done)
		for {
			select {
			case m := <-c.read:
				if m.GetRollup() != nil {
					_ = c.send(acknowledgement("rollup"))
				} else {
					kept <- m
				}
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended); <-done }
}

// hear waits for a message of one sort; others are kept.
func hear[M any](c *conversation, get func(*bigfleet.OperatorMessage) *M) *M {
	c.t.Helper()
	for i, m := range c.pending {
		if v := get(m); v != nil {
			c.pending = append(c.pending[:i], c.pending[i+1:]...)
			return v
		}
	}
	limit := time.After(patience)
	for {
		select {
		case m := <-c.heard:
			if v := get(m); v != nil {
				return v
			}
			c.pending = append(c.pending, m)
		case <-limit:
			c.t.Fatalf("no %T was heard; %d other messages were", *new(M), len(c.pending))
		}
	}
}
