package session_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/session"
)

// clock is a time that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type answer struct {
	blob shard.Blob
	err  error
}

// bootstrap asks in the background.
func (f *fixture) bootstrap(ctx context.Context, cluster string, p *model.Profile) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		blob, err := f.server.Bootstrap(ctx, cluster, p)
		out <- answer{blob, err}
	}()
	return out
}

func (o *operator) respond(r *pb.BootstrapBlobResponse) {
	o.t.Helper()
	o.send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_BootstrapResponse{BootstrapResponse: r}})
}

// request returns the next request for bootstrap data.
func (o *operator) request() *pb.BootstrapRequest {
	o.t.Helper()
	m := o.next()
	if m.GetBootstrapRequest() == nil {
		o.t.Fatalf("%v came, want a request for bootstrap data", m)
	}
	return m.GetBootstrapRequest()
}

func TestBootstrapAsksTheOperator(t *testing.T) {
	f := serve(t, session.Deps{})
	o := f.connect(t, "a")
	got := f.bootstrap(t.Context(), "a", profile(t, "z1"))
	request := o.request()
	want := &pb.BootstrapRequest{
		RequestId: request.GetRequestId(), ClusterId: "a",
		Requirements: []*pb.NodeSelectorRequirement{{Key: model.KeyZone, Operator: pb.NodeSelectorRequirement_OPERATOR_IN, Values: []string{"z1"}}},
	}
	if !proto.Equal(request, want) || len(request.GetRequestId()) != 16 {
		t.Errorf("asked for %v, want %v with an id of 16 digits", request, want)
	}
	o.respond(&pb.BootstrapBlobResponse{RequestId: "0123456789abcdef", UserData: []byte("of nobody")})
	o.respond(&pb.BootstrapBlobResponse{RequestId: request.GetRequestId(), UserData: []byte("\x00data\xff")})
	if a := await(t, got); a.err != nil || string(a.blob.Data) != "\x00data\xff" || a.blob.TTL != 0 {
		t.Errorf("%q for %v, %v; want the data as it came, without an end", a.blob.Data, a.blob.TTL, a.err)
	}
	o.respond(&pb.BootstrapBlobResponse{RequestId: request.GetRequestId(), UserData: []byte("twice")}) // harms nobody
	again := f.bootstrap(t.Context(), "a", profile(t, "z1"))
	if r := o.request(); r.GetRequestId() == request.GetRequestId() {
		t.Error("two requests have one id")
	} else {
		o.respond(&pb.BootstrapBlobResponse{RequestId: r.GetRequestId(), UserData: []byte("second")})
	}
	if a := await(t, again); string(a.blob.Data) != "second" {
		t.Errorf("%q, %v; data without an end is asked for each time", a.blob.Data, a.err)
	}
}

func TestBootstrapFails(t *testing.T) {
	f := serve(t, session.Deps{})
	if a := await(t, f.bootstrap(t.Context(), "a", profile(t, "z"))); !errors.Is(a.err, shard.ErrNoSession) {
		t.Errorf("without a session: %v, want ErrNoSession", a.err)
	}
	o := f.connect(t, "a")
	refused := f.bootstrap(t.Context(), "a", profile(t, "z"))
	o.respond(&pb.BootstrapBlobResponse{RequestId: o.request().GetRequestId(), Error: "no image"})
	if a := await(t, refused); !errors.Is(a.err, shard.ErrOperator) || a.err.Error() != shard.ErrOperator.Error()+": no image" {
		t.Errorf("an operator that cannot: %v, want ErrOperator with its words", a.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	late := f.bootstrap(ctx, "a", profile(t, "z"))
	id := o.request().GetRequestId()
	cancel()
	if a := await(t, late); !errors.Is(a.err, context.Canceled) {
		t.Errorf("after its time: %v, want the context's error", a.err)
	}
	o.respond(&pb.BootstrapBlobResponse{RequestId: id}) // too late, and harmless
	left := f.bootstrap(t.Context(), "a", profile(t, "z"))
	o.request()
	f.connect(t, "a")
	if a := await(t, left); !errors.Is(a.err, shard.ErrNoSession) {
		t.Errorf("when the session ends: %v, want ErrNoSession", a.err)
	}
}

func TestBootstrapDataIsUsedAgainWhileItIsGood(t *testing.T) {
	at := &clock{now: time.Unix(1e9, 0)}
	f := serve(t, session.Deps{Clock: at.Now})
	o := f.connect(t, "a")
	ask := func(o *operator, p *model.Profile, asks bool, data string, ttl time.Duration) {
		t.Helper()
		got := f.bootstrap(t.Context(), "a", p)
		if asks {
			o.respond(&pb.BootstrapBlobResponse{RequestId: o.request().GetRequestId(), UserData: []byte(data), TtlSeconds: 600})
		}
		if a := await(t, got); a.err != nil || string(a.blob.Data) != data || a.blob.TTL != ttl {
			t.Errorf("%q for %v, %v; want %q for %v", a.blob.Data, a.blob.TTL, a.err, data, ttl)
		}
	}
	z1 := profile(t, "z1")
	ask(o, z1, true, "first", 600*time.Second)
	at.add(299 * time.Second)
	ask(o, z1, false, "first", 301*time.Second)
	ask(o, profile(t, "z2"), true, "other", 600*time.Second)
	at.add(time.Second) // half of its time is over
	ask(o, z1, true, "second", 600*time.Second)
	ask(o, z1, false, "second", 600*time.Second)
	again := f.connect(t, "a")
	ask(again, z1, true, "third", 600*time.Second)
}

// Many machines start at once: each gets the answer to its own request, in
// whatever order the answers come.
func TestManyRequestsAtATime(t *testing.T) {
	f := serve(t, session.Deps{})
	o := f.connect(t, "a")
	const many = 500
	answers := map[string]<-chan answer{}
	for i := range many {
		zone := fmt.Sprintf("z%d", i)
		answers[zone] = f.bootstrap(t.Context(), "a", profile(t, zone))
	}
	requests := map[string]string{}
	for range many {
		r := o.request()
		requests[r.GetRequirements()[0].GetValues()[0]] = r.GetRequestId()
	}
	for _, zone := range slices.Backward(slices.Sorted(maps.Keys(requests))) {
		o.respond(&pb.BootstrapBlobResponse{RequestId: requests[zone], UserData: []byte(zone)})
	}
	for zone, got := range answers {
		if a := await(t, got); string(a.blob.Data) != zone {
			t.Errorf("%q, %v; want that of %s", a.blob.Data, a.err, zone)
		}
	}
}

func TestCordonWaitsForTheAcknowledgement(t *testing.T) {
	f := serve(t, session.Deps{})
	c := shard.Cordon{Cluster: "a", Machine: "m", GraceSeconds: 30, PreemptorPriority: 1000}
	if err := f.server.Cordon(t.Context(), c); !errors.Is(err, shard.ErrNoSession) {
		t.Errorf("without a session: %v, want ErrNoSession", err)
	}
	o := f.connect(t, "a")
	cordon := func(ctx context.Context) (*pb.ReclaimInstruction, <-chan error) {
		out := make(chan error, 1)
		go func() { out <- f.server.Cordon(ctx, c) }()
		m := o.next()
		if m.GetReclaimInstruction() == nil {
			t.Fatalf("%v came, want an instruction", m)
		}
		return m.GetReclaimInstruction(), out
	}
	instruction, done := cordon(t.Context())
	want := &pb.ReclaimInstruction{InstructionId: instruction.GetInstructionId(), Nodes: []string{"m"}, GracePeriodSeconds: 30, PreemptorPriority: 1000}
	if !proto.Equal(instruction, want) {
		t.Errorf("told %v, want %v", instruction, want)
	}
	o.send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_ReclaimAck{ReclaimAck: &pb.ReclaimAck{InstructionId: "of nobody"}}})
	o.send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_ReclaimAck{ReclaimAck: &pb.ReclaimAck{InstructionId: instruction.GetInstructionId(), NodesStarted: 1}}})
	if err := await(t, done); err != nil {
		t.Errorf("acknowledged: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, done = cordon(ctx)
	cancel()
	if err := await(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("not acknowledged: %v, want the context's error", err)
	}
}

func TestUpdatesSayEverything(t *testing.T) {
	f := serve(t, session.Deps{})
	o := f.connect(t, "a")
	f.server.NodeState(shard.NodeState{Cluster: "b", Machine: "of nobody here"})
	f.server.NodeState(shard.NodeState{
		Cluster: "a", Machine: "m", State: model.Draining, NodeName: "node", ProviderID: "aws:///i-1", LastError: "late",
		Labels: map[string]string{"k": "v"}, Resources: model.NewResources(model.Amount{Name: "cpu", Value: 1500}),
	})
	want := &pb.ShardMessage{Payload: &pb.ShardMessage_NodeStateUpdate{NodeStateUpdate: &pb.NodeStateUpdate{
		SupersedesKey: "node:m", MachineId: "m", ClusterId: "a", State: pb.MachineState_MACHINE_STATE_DRAINING, NodeName: "node",
		ProviderId: "aws:///i-1", LastError: "late", Labels: map[string]string{"k": "v"}, Resources: &pb.Resources{Resources: map[string]string{"cpu": "1500m"}},
	}}}
	if got := o.next(); !proto.Equal(got, want) {
		t.Errorf("told %v\nwant %v", got, want)
	}
	p := profile(t, "z")
	f.server.Capacity(shard.CapacityHint{Cluster: "a", Profile: p, Count: 4, Confidence: shard.ConfidenceHigh, CostPerHour: 0.5})
	want = &pb.ShardMessage{Payload: &pb.ShardMessage_AvailableCapacity{AvailableCapacity: &pb.AvailableCapacityUpdate{
		SupersedesKey: fmt.Sprintf("available:%x", p.Fingerprint()), AvailableCount: 4, Confidence: pb.AvailableCapacityUpdate_CONFIDENCE_HIGH, CostPerHour: 0.5,
		Requirements: []*pb.NodeSelectorRequirement{{Key: model.KeyZone, Operator: pb.NodeSelectorRequirement_OPERATOR_IN, Values: []string{"z"}}},
	}}}
	if got := o.next(); !proto.Equal(got, want) {
		t.Errorf("told %v\nwant %v", got, want)
	}
}
