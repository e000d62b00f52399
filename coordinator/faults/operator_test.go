package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// rollupEvery is how often an operator reports.
const rollupEvery = time.Second

// operator plays the operator of one cluster: it asks for machines, hands out
// what they are configured with, and lets them go.
type operator struct {
	cluster string
	mu      sync.Mutex
	needs   []*bigfleet.CapacityNeed
	wake    chan struct{}
}

// connect keeps a session with a shard until the test ends.
func connect(t testing.TB, address, cluster string, dial ...grpc.DialOption) *operator {
	x := &operator{cluster: cluster, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			session, end := context.WithCancel(ctx)
			x.session(session, address, dial)
			end()
			<-again.C
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return x
}

// demands asks for machines of a priority from now on.
func (x *operator) demands(machines int, priority int32) {
	size := func(n int) map[string]string { return map[string]string{"cpu": fmt.Sprint(machineCPU * n)} }
	x.mu.Lock()
	x.needs = nil
	if machines > 0 {
		x.needs = []*bigfleet.CapacityNeed{{Priority: priority, AggregateResources: size(machines), MinUnit: size(1)}}
	}
	x.mu.Unlock()
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

func (x *operator) session(ctx context.Context, address string, dial []grpc.DialOption) {
	conn, err := grpc.NewClient(address, dial...)
	if err != nil {
		return
	}
	defer conn.Close()
	stream, err := bigfleet.NewShardClient(conn).Session(ctx)
	if err != nil {
		return
	}
	hello := &bigfleet.Hello{ClusterId: x.cluster, ProtocolVersion: "v1alpha1"}
	if stream.Send(&bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_Hello{Hello: hello}}) != nil {
		return
	}
	frames := make(chan *bigfleet.ShardMessage)
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
	tick := time.NewTicker(rollupEvery)
	defer tick.Stop()
	for ok := x.report(stream); ok; {
		select {
		case m, open := <-frames:
			ok = open && answer(stream, m)
		case <-tick.C:
			ok = x.report(stream)
		case <-x.wake:
			ok = x.report(stream)
		case <-ctx.Done():
			return
		}
	}
}

func (x *operator) report(stream bigfleet.Shard_SessionClient) bool {
	x.mu.Lock()
	rollup := &bigfleet.ClusterCapacityNeeds{ClusterId: x.cluster, TimestampUnixNanos: time.Now().UnixNano(), Needs: x.needs}
	x.mu.Unlock()
	return stream.Send(&bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_Rollup{Rollup: rollup}}) == nil
}

// answer does what an operator does about a frame.
func answer(stream bigfleet.Shard_SessionClient, m *bigfleet.ShardMessage) bool {
	var out *bigfleet.OperatorMessage
	switch p := m.GetPayload().(type) {
	case *bigfleet.ShardMessage_BootstrapRequest:
		blob := &bigfleet.BootstrapBlobResponse{RequestId: p.BootstrapRequest.GetRequestId(), UserData: []byte("join"), TtlSeconds: 600}
		out = &bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_BootstrapResponse{BootstrapResponse: blob}}
	case *bigfleet.ShardMessage_ReclaimInstruction:
		ack := &bigfleet.ReclaimAck{InstructionId: p.ReclaimInstruction.GetInstructionId(), NodesStarted: int32(len(p.ReclaimInstruction.GetNodes()))}
		out = &bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_ReclaimAck{ReclaimAck: ack}}
	default:
		return true
	}
	return stream.Send(out) == nil
}
