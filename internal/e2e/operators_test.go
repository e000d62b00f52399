package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/api/frames"
)

// operators plays the operators of many clusters.
type operators struct {
	t         *testing.T
	address   string
	every     time.Duration // between two roll-ups
	clusters  []*operator
	bootstrap atomic.Int64 // requests answered
	reclaims  atomic.Int64 // instructions acknowledged
	dials     atomic.Int64
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// operator is that of one cluster.
type operator struct {
	all     *operators
	cluster string
	given   atomic.Int64 // when it first heard of another machine, Unix nanoseconds; 0 = not yet

	mu     sync.Mutex
	demand *pb.ClusterCapacityNeeds
	states map[string]pb.MachineState // what it was told of its machines
	cut    context.CancelFunc         // ends the session
	acked  int                        // roll-ups of the session
	epochs map[string]int64           // of the shard, as last acknowledged, by echo
	wake   chan struct{}
}

// connect opens a session for each cluster, and opens it again when it ends.
func connect(t *testing.T, address string, every time.Duration, clusters []string) *operators {
	ctx, cancel := context.WithCancel(context.Background())
	o := &operators{t: t, address: address, every: every, stop: cancel}
	for _, c := range clusters {
		x := &operator{all: o, cluster: c, demand: &pb.ClusterCapacityNeeds{ClusterId: c}, wake: make(chan struct{}, 1)}
		o.clusters = append(o.clusters, x)
		o.running.Go(func() { x.run(ctx) })
	}
	t.Cleanup(func() { cancel(); o.running.Wait() })
	return o
}

// run keeps a session.
func (x *operator) run(ctx context.Context) {
	for ctx.Err() == nil {
		session, cut := context.WithCancel(ctx)
		x.mu.Lock()
		x.cut, x.acked, x.states, x.epochs = cut, 0, map[string]pb.MachineState{}, map[string]int64{}
		x.mu.Unlock()
		x.session(session)
		cut()
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// session holds one session until it ends.
func (x *operator) session(ctx context.Context) {
	x.all.dials.Add(1)
	conn, err := grpc.NewClient(x.all.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return
	}
	defer conn.Close()
	stream, err := pb.NewShardClient(conn).Session(ctx, grpc.ForceCodecV2(frames.Codec()))
	if err != nil {
		return
	}
	hello := &pb.OperatorMessage{Payload: &pb.OperatorMessage_Hello{Hello: &pb.Hello{ClusterId: x.cluster, ProtocolVersion: "v1alpha1"}}}
	if stream.Send(hello) != nil {
		return
	}
	frames := make(chan *pb.ShardMessage)
	go func() {
		defer close(frames)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case frames <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(x.all.every)
	defer tick.Stop()
	for first := true; ; first = false {
		if first && !x.report(stream) {
			return
		}
		select {
		case m, open := <-frames:
			if !open || !x.answer(stream, m) {
				return
			}
		case <-tick.C:
			if !x.report(stream) {
				return
			}
		case <-x.wake:
			if !x.report(stream) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (x *operator) report(stream pb.Shard_SessionClient) bool {
	x.mu.Lock()
	rollup := &pb.ClusterCapacityNeeds{ClusterId: x.cluster, TimestampUnixNanos: time.Now().UnixNano(), Needs: x.demand.Needs}
	x.mu.Unlock()
	return stream.Send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_Rollup{Rollup: rollup}}) == nil
}

// answer does what an operator does about a frame.
func (x *operator) answer(stream pb.Shard_SessionClient, m *pb.ShardMessage) bool {
	switch p := m.GetPayload().(type) {
	case *pb.ShardMessage_Ack:
		x.mu.Lock()
		x.epochs[p.Ack.GetEcho()] = p.Ack.GetShardEpoch()
		if p.Ack.GetEcho() == "rollup" {
			x.acked++
		}
		x.mu.Unlock()
	case *pb.ShardMessage_BootstrapRequest:
		x.all.bootstrap.Add(1)
		return stream.Send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_BootstrapResponse{BootstrapResponse: &pb.BootstrapBlobResponse{
			RequestId: p.BootstrapRequest.GetRequestId(), UserData: []byte("join " + x.cluster), TtlSeconds: 600,
		}}}) == nil
	case *pb.ShardMessage_ReclaimInstruction:
		x.all.reclaims.Add(1)
		return stream.Send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_ReclaimAck{ReclaimAck: &pb.ReclaimAck{
			InstructionId: p.ReclaimInstruction.GetInstructionId(), NodesStarted: int32(len(p.ReclaimInstruction.GetNodes())),
		}}}) == nil
	case *pb.ShardMessage_NodeStateUpdate:
		x.mu.Lock()
		if _, known := x.states[p.NodeStateUpdate.GetMachineId()]; !known {
			x.given.CompareAndSwap(0, time.Now().UnixNano())
		}
		x.states[p.NodeStateUpdate.GetMachineId()] = p.NodeStateUpdate.GetState()
		x.mu.Unlock()
	}
	return true
}

// demands sets what the cluster needs and reports it.
func (x *operator) demands(needs ...*pb.CapacityNeed) {
	x.mu.Lock()
	x.demand, x.acked = &pb.ClusterCapacityNeeds{ClusterId: x.cluster, Needs: needs}, 0
	x.mu.Unlock()
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// serves returns the machines that the operator believes to be its own.
func (x *operator) serves() (out []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, s := range x.states {
		if s == pb.MachineState_MACHINE_STATE_CONFIGURED {
			out = append(out, id)
		}
	}
	return out
}

// epoch is that of the shard, as the last acknowledgement with the echo says.
func (x *operator) epoch(echo string) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.epochs[echo]
}

// cutAll ends all sessions; they come again.
func (o *operators) cutAll() {
	for _, x := range o.clusters {
		x.mu.Lock()
		x.cut()
		x.mu.Unlock()
	}
}

// acknowledged counts the clusters whose roll-up was acknowledged in the session
// that they have.
func (o *operators) acknowledged() (n int) {
	for _, x := range o.clusters {
		x.mu.Lock()
		if x.acked > 0 {
			n++
		}
		x.mu.Unlock()
	}
	return n
}

func names(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d", prefix, i))
	}
	return out
}
