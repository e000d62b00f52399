package session_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/session"
)

// waitMax is how long a test waits for what must come.
const waitMax = 20 * time.Second

// core is a shard that takes every good roll-up into a table of its own and
// has machines bound to clusters.
type core struct {
	mu      sync.Mutex
	server  *session.Server
	table   *demand.Table
	bound   map[string][]string // machines by cluster
	held    map[string]bool     // clusters whose roll-ups go into quarantine
	taken   chan string         // a word for each roll-up
	release chan struct{}       // not nil: each roll-up waits for one
	entered chan string         // not nil: told before it waits
}

func newCore() *core {
	return &core{table: demand.New(), bound: map[string][]string{}, held: map[string]bool{}, taken: make(chan string, 1<<16)}
}

func (c *core) TakeRollup(b *demand.Builder, _ int64) (shard.RollupOutcome, error) {
	if c.release != nil {
		c.entered <- fmt.Sprintf("%s %d", b.Cluster(), b.Len())
		<-c.release
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	outcome, err := shard.RollupAccepted, b.Err()
	if err == nil && c.held[b.Cluster()] {
		outcome = shard.RollupHeld
	} else if err == nil {
		err = c.table.Report(b)
	}
	if err != nil {
		outcome = shard.RollupRefused
	}
	c.taken <- fmt.Sprintf("%s %d %v", b.Cluster(), b.Len(), outcome)
	return outcome, err
}

func (c *core) Resync(cluster string) int {
	c.mu.Lock()
	machines := c.bound[cluster]
	c.mu.Unlock()
	for _, m := range machines {
		c.server.NodeState(shard.NodeState{Cluster: cluster, Machine: m, State: model.Configured, NodeName: m})
	}
	return len(machines)
}

func (c *core) rows(cluster string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.table.Block(cluster); b != nil {
		return b.Len()
	}
	return 0
}

// fixture is a server on loopback.
type fixture struct {
	core    *core
	server  *session.Server
	address string
	served  chan error
}

func serve(t testing.TB, deps session.Deps) *fixture {
	t.Helper()
	c := newCore()
	if deps.Core == nil {
		deps.Core = c
	}
	if deps.ClusterInterval == 0 {
		deps.ClusterInterval = -1 // most tests send one roll-up after the other
	}
	server, err := session.NewServer(deps)
	if err != nil {
		t.Fatal(err)
	}
	c.server = server
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{core: c, server: server, address: listener.Addr().String(), served: make(chan error, 1)}
	go func() { f.served <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // whatever is open is cut off
		_ = server.Drain(ctx)
		if err := <-f.served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return f
}

// operator is a client that speaks the protocol as anybody would.
type operator struct {
	t      testing.TB
	stream pb.Shard_SessionClient
	got    chan *pb.ShardMessage
	ended  chan error
}

func (f *fixture) dial(t testing.TB, m *mtls.Material) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+f.address, m.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// open opens a stream and says nothing yet.
func (f *fixture) open(t testing.TB, conn *grpc.ClientConn) *operator {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := pb.NewShardClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{t: t, stream: stream, got: make(chan *pb.ShardMessage, 1<<17), ended: make(chan error, 1)}
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				o.ended <- err
				return
			}
			o.got <- m
		}
	}()
	return o
}

// connect opens the session of a cluster, and sees it acknowledged.
func (f *fixture) connect(t testing.TB, cluster string) *operator {
	t.Helper()
	o := f.open(t, f.dial(t, nil))
	o.send(hello(cluster))
	o.ack("hello")
	return o
}

func hello(cluster string) *pb.OperatorMessage {
	return &pb.OperatorMessage{Payload: &pb.OperatorMessage_Hello{Hello: &pb.Hello{ClusterId: cluster, ProtocolVersion: "v1alpha1"}}}
}

// rollup asks for so many rows, each of its own size.
func rollup(cluster string, rows int) *pb.OperatorMessage {
	r := &pb.ClusterCapacityNeeds{ClusterId: cluster, TimestampUnixNanos: 1}
	for i := range rows {
		r.Needs = append(r.Needs, &pb.CapacityNeed{
			Requirements:       []*pb.NodeSelectorRequirement{{Key: model.KeyZone, Operator: pb.NodeSelectorRequirement_OPERATOR_IN, Values: []string{"a"}}},
			AggregateResources: map[string]string{"cpu": fmt.Sprint(i + 1)}, MinUnit: map[string]string{"cpu": "1"},
			Priority: 100, InterruptionPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_1, ReclamationPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_1,
		})
	}
	return &pb.OperatorMessage{Payload: &pb.OperatorMessage_Rollup{Rollup: r}}
}

func (o *operator) send(m *pb.OperatorMessage) {
	o.t.Helper()
	if err := o.stream.Send(m); err != nil {
		o.t.Fatalf("send: %v", err)
	}
}

// next returns the next message. One that came before the end of the session
// is returned after it, too.
func (o *operator) next() *pb.ShardMessage {
	o.t.Helper()
	select {
	case m := <-o.got:
		return m
	case err := <-o.ended:
		o.ended <- err
		select {
		case m := <-o.got:
			return m
		default:
		}
		o.t.Fatalf("the session ended: %v", err)
	case <-time.After(waitMax):
		o.t.Fatal("nothing came")
	}
	return nil
}

func (o *operator) ack(echo string) *pb.Acknowledgement {
	o.t.Helper()
	m := o.next()
	if m.GetAck().GetEcho() != echo {
		o.t.Fatalf("%v came, want an acknowledgement of %s", m, echo)
	}
	return m.GetAck()
}

// end waits for the end of the session and returns its code.
func (o *operator) end() codes.Code {
	o.t.Helper()
	select {
	case err := <-o.ended:
		return status.Code(err)
	case <-time.After(waitMax):
		o.t.Fatal("the session goes on")
	}
	return codes.Unknown
}

func await[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(waitMax):
		t.Fatal("it did not come")
	}
	panic("unreachable")
}

// until waits for a condition that nothing tells of.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(waitMax)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func profile(t testing.TB, zone string) *model.Profile {
	t.Helper()
	p, err := model.NewProfile(model.ProfileSpec{
		Requirements: []model.Requirement{{Key: model.KeyZone, Operator: model.In, Values: []string{zone}}},
		Priority:     100,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
