package check_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// change is a call of one of the four kinds on its way through a liar.
type change struct {
	name    string // of the call
	machine string
	shard   string
	epoch   int64
	number  int64
	request proto.Message
	forward func(context.Context) (*pb.TransitionAck, error) // what the right provider answers
}

// liar stands before a provider that is right, and is wrong in one way.
type liar struct {
	pb.UnimplementedCapacityProviderServer
	right pb.CapacityProviderClient
	rig   right

	mu       sync.Mutex
	memory   map[string]string // whatever a fault needs to remember
	newest   map[string][2]int64
	kept     map[string][2]int64 // of newest, what a restart leaves
	metadata map[string]map[string]string
	listed   []*pb.Machine
	count    int

	onCall    func(context.Context, *change) (*pb.TransitionAck, error)
	onAck     func(*change, *pb.TransitionAck)
	onError   func(method string, err error) error
	onMachine func(where string, m *pb.Machine)
	onGet     func(context.Context, string) (*pb.Machine, error)
	onList    func(context.Context, *pb.ListFilter) (*pb.MachineList, error)
}

// startLiar puts a liar before a provider, and returns its address.
func startLiar(t *testing.T, r right, lie func(*liar)) string {
	t.Helper()
	l := &liar{
		right: pb.NewCapacityProviderClient(dial(t, r.at())), rig: r,
		memory: map[string]string{}, newest: map[string][2]int64{}, kept: map[string][2]int64{}, metadata: map[string]map[string]string{},
	}
	if lie != nil {
		lie(l)
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	pb.RegisterCapacityProviderServer(g, l)
	go func() { _ = g.Serve(at) }()
	t.Cleanup(g.Stop)
	return at.Addr().String()
}

func (l *liar) err(method string, err error) error {
	if err != nil && l.onError != nil {
		return l.onError(method, err)
	}
	return err
}

func (l *liar) show(where string, m *pb.Machine) {
	if m != nil && l.onMachine != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.onMachine(where, m)
	}
}

func (l *liar) change(ctx context.Context, c *change) (ack *pb.TransitionAck, err error) {
	if l.onCall != nil {
		ack, err = l.onCall(ctx, c)
	} else {
		ack, err = c.forward(ctx)
	}
	if err != nil {
		return nil, l.err(c.name, err)
	}
	if l.onAck != nil {
		l.mu.Lock()
		l.onAck(c, ack)
		l.mu.Unlock()
	}
	l.show(c.name, ack.GetMachine())
	return ack, nil
}

// Create is that of the provider behind it, and so are the others.
func (l *liar) Create(ctx context.Context, r *pb.CreateRequest) (*pb.TransitionAck, error) {
	return l.change(ctx, &change{"Create", r.GetMachineId(), r.GetShardId(), r.GetShardEpoch(), r.GetSequenceNumber(), r,
		func(ctx context.Context) (*pb.TransitionAck, error) { return l.right.Create(ctx, r) }})
}

func (l *liar) Configure(ctx context.Context, r *pb.ConfigureRequest) (*pb.TransitionAck, error) {
	return l.change(ctx, &change{"Configure", r.GetMachineId(), r.GetShardId(), r.GetShardEpoch(), r.GetSequenceNumber(), r,
		func(ctx context.Context) (*pb.TransitionAck, error) { return l.right.Configure(ctx, r) }})
}

func (l *liar) Drain(ctx context.Context, r *pb.DrainRequest) (*pb.TransitionAck, error) {
	return l.change(ctx, &change{"Drain", r.GetMachineId(), r.GetShardId(), r.GetShardEpoch(), r.GetSequenceNumber(), r,
		func(ctx context.Context) (*pb.TransitionAck, error) { return l.right.Drain(ctx, r) }})
}

func (l *liar) Delete(ctx context.Context, r *pb.DeleteRequest) (*pb.TransitionAck, error) {
	return l.change(ctx, &change{"Delete", r.GetMachineId(), r.GetShardId(), r.GetShardEpoch(), r.GetSequenceNumber(), r,
		func(ctx context.Context) (*pb.TransitionAck, error) { return l.right.Delete(ctx, r) }})
}

func (l *liar) Get(ctx context.Context, r *pb.MachineRef) (m *pb.Machine, err error) {
	if l.onGet != nil {
		m, err = l.onGet(ctx, r.GetId())
	} else {
		m, err = l.right.Get(ctx, r)
	}
	l.show("Get", m)
	return m, l.err("Get", err)
}

func (l *liar) List(ctx context.Context, r *pb.ListFilter) (out *pb.MachineList, err error) {
	if l.onList != nil {
		out, err = l.onList(ctx, r)
	} else {
		out, err = l.right.List(ctx, r, grpc.MaxCallRecvMsgSize(64<<20))
	}
	for _, m := range out.GetMachines() {
		l.show("List", m)
	}
	return out, l.err("List", err)
}

// unfenced makes the call with a token that the provider behind it has not seen.
func (l *liar) unfenced(ctx context.Context, c *change) (*pb.TransitionAck, error) {
	setToken(c.request, "", 0, 0)
	return c.forward(ctx)
}

// setToken replaces the token of a call.
func setToken(m proto.Message, shard string, epoch, number int64) {
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	for name, v := range map[string]any{"shard_id": shard, "shard_epoch": epoch, "sequence_number": number} {
		f := fields.ByTextName(name)
		switch v := v.(type) {
		case string:
			r.Set(f, protoreflect.ValueOfString(v))
		case int64:
			r.Set(f, protoreflect.ValueOfInt64(v))
		}
	}
}
