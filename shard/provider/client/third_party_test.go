package client_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated/store"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/client"
)

// thirdParty is a provider that is not ours. It keeps to the protocol, in its own
// way: everything is done at once, metadata are dropped, there are no cursors,
// no operation ids and no tokens, and messages carry fields that nobody knows.
type thirdParty struct {
	pb.UnimplementedCapacityProviderServer
	mu       sync.Mutex
	machines map[string]*pb.Machine

	strict   bool // a repeat is an error, as of a provider that knows none
	exists   bool // a repeat is AlreadyExists
	bare     bool // answers do not have the machine
	cursors  bool // any cursor is an error
	failures int  // so many answers are lost
	early    int  // so many calls are not carried out, and the answers are lost
	sinces   [][]byte
}

func newThirdParty(ids ...string) *thirdParty {
	s := &thirdParty{machines: map[string]*pb.Machine{}}
	for _, id := range ids {
		m := &pb.Machine{
			Id: id, State: pb.MachineState_MACHINE_STATE_SPECULATIVE, InstanceType: "t", CapacityType: pb.CapacityType_CAPACITY_TYPE_ON_DEMAND,
			PricePerHour: 1, Resources: &pb.Resources{Resources: map[string]string{"cpu": "4", "memory": "16Gi", "vendor.example/thing": "1"}},
		}
		m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 999, protowire.BytesType), "from the future"))
		s.machines[id] = m
	}
	return s
}

// move makes a transition at once.
func (s *thirdParty) move(id string, from, to pb.MachineState, change func(*pb.Machine)) (*pb.TransitionAck, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.machines[id]
	if s.early > 0 {
		s.early--
		return nil, status.Error(codes.Unavailable, "lost")
	}
	switch {
	case !ok:
		return nil, status.Error(codes.NotFound, "unknown")
	case m.State == to && s.exists:
		return nil, status.Error(codes.AlreadyExists, "already")
	case m.State == to && !s.strict:
	case m.State != from:
		return nil, status.Errorf(codes.Internal, "in state %s", m.State)
	default:
		m.State = to
		change(m)
	}
	if s.failures > 0 {
		s.failures--
		return nil, status.Error(codes.Unavailable, "lost")
	}
	ack := &pb.TransitionAck{}
	if !s.bare {
		ack.Machine = m
	}
	return ack, nil
}

func (s *thirdParty) Create(_ context.Context, r *pb.CreateRequest) (*pb.TransitionAck, error) {
	return s.move(r.MachineId, pb.MachineState_MACHINE_STATE_SPECULATIVE, pb.MachineState_MACHINE_STATE_IDLE, func(m *pb.Machine) {
		m.Host = &pb.HostRef{Provider: "third-party", Ref: "h-" + m.Id}
	})
}

func (s *thirdParty) Configure(_ context.Context, r *pb.ConfigureRequest) (*pb.TransitionAck, error) {
	return s.move(r.MachineId, pb.MachineState_MACHINE_STATE_IDLE, pb.MachineState_MACHINE_STATE_CONFIGURED, func(m *pb.Machine) { m.Cluster = r.ClusterId })
}

func (s *thirdParty) Drain(_ context.Context, r *pb.DrainRequest) (*pb.TransitionAck, error) {
	return s.move(r.MachineId, pb.MachineState_MACHINE_STATE_CONFIGURED, pb.MachineState_MACHINE_STATE_IDLE, func(m *pb.Machine) { m.Cluster = "" })
}

func (s *thirdParty) Get(_ context.Context, r *pb.MachineRef) (*pb.Machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.machines[r.Id]; ok {
		return m, nil
	}
	return nil, status.Error(codes.NotFound, "unknown")
}

func (s *thirdParty) List(_ context.Context, r *pb.ListFilter) (*pb.MachineList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinces = append(s.sinces, r.SinceRevision)
	out := &pb.MachineList{}
	if s.cursors {
		if len(r.SinceRevision) > 0 {
			return nil, status.Error(codes.InvalidArgument, "what is this?")
		}
		out.Revision = []byte("r")
	}
	for _, m := range s.machines {
		out.Machines = append(out.Machines, m)
	}
	return out, nil
}

// meet serves a third-party provider and returns a client of it.
func meet(t *testing.T, s *thirdParty) *client.Client {
	t.Helper()
	g := grpc.NewServer()
	pb.RegisterCapacityProviderServer(g, s)
	return dial(t, listen(t, g, ""), nil)
}

func TestAStrangersProvider(t *testing.T) {
	for name, change := range map[string]func(*thirdParty){
		"plain":                          func(*thirdParty) {},
		"answers without a machine":      func(s *thirdParty) { s.bare = true },
		"refuses repeats":                func(s *thirdParty) { s.strict, s.failures = true, 1 },
		"says AlreadyExists":             func(s *thirdParty) { s.exists, s.failures = true, 1 },
		"refuses repeats, and is bare":   func(s *thirdParty) { s.strict, s.bare, s.failures = true, true, 2 },
		"has cursors and refuses to use": func(s *thirdParty) { s.cursors = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newThirdParty("m", "n")
			change(s)
			c := meet(t, s)
			for _, step := range []struct {
				op    shard.Op
				state model.State
			}{{shard.OpCreate, model.Idle}, {shard.OpConfigure, model.Configured}, {shard.OpDrain, model.Idle}} {
				rec, err := do(c, step.op, "m")
				if err != nil || rec.Machine.State != step.state {
					t.Fatalf("%s: %s, %v", step.op, rec.Machine.State, err)
				}
				if err := rec.Machine.Validate(true); err != nil {
					t.Errorf("%s: %v", step.op, err)
				}
			}
			// It deletes nothing: that is an answer, and none of the classes.
			if _, err := do(c, shard.OpDelete, "m"); status.Code(err) != codes.Unimplemented || errors.Is(err, shard.ErrUncertain) || errors.Is(err, shard.ErrUnsent) {
				t.Errorf("delete: %v", err)
			}
			var revision []byte
			for range 4 {
				l := list(t, c, revision)
				if len(l.records) != 2 || l.refused != 0 || !l.full || l.records["m"].Machine.Host != "h-m" || l.records["n"].Machine.Resources.Get("vendor.example/thing") == 0 {
					t.Errorf("full %v, %d refused, %+v", l.full, l.refused, l.records)
				}
				revision = l.revision
			}
		})
	}
}

// TestAWrongPositionIsNoLostAnswer: a refusal is only looked into when an
// earlier attempt may have been carried out.
func TestAWrongPositionIsNoLostAnswer(t *testing.T) {
	s := newThirdParty("m")
	c := meet(t, s)
	if _, err := do(c, shard.OpDrain, "m"); status.Code(err) != codes.Internal || errors.Is(err, shard.ErrUncertain) {
		t.Errorf("drain of a quota slot: %v", err)
	}
	// Lost, and then refused because the machine is another cluster's by now.
	s.machines["m"].State, s.machines["m"].Cluster, s.machines["m"].Host = pb.MachineState_MACHINE_STATE_CONFIGURED, "another", &pb.HostRef{Ref: "h"}
	s.strict, s.early = true, 1
	if rec, err := do(c, shard.OpConfigure, "m"); err == nil {
		t.Errorf("taken for done: %+v", rec.Machine)
	}
}

// TestMalformedRecords: what cannot be read is refused by itself.
func TestMalformedRecords(t *testing.T) {
	s := newThirdParty("good", "quantity", "state", "hostless")
	s.machines["quantity"].Resources.Resources["cpu"] = "a lot"
	s.machines["state"].State = 77
	s.machines["hostless"].State = pb.MachineState_MACHINE_STATE_IDLE
	c := meet(t, s)
	l := list(t, c, nil)
	if l.refused != 1 || len(l.records) != 3 {
		t.Errorf("%d refused, %v", l.refused, l.ids())
	}
	for id, want := range map[string]bool{"good": true, "state": false, "hostless": false} {
		rec := l.records[id]
		if err := rec.Machine.Validate(true); (err == nil) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	// The call was carried out, and neither its answer nor the machine can be
	// read: the listings have to tell.
	if _, err := do(c, shard.OpCreate, "quantity"); !errors.Is(err, shard.ErrUncertain) {
		t.Errorf("an answer that cannot be read: %v", err)
	}
	if got := s.machines["quantity"].State; got != pb.MachineState_MACHINE_STATE_IDLE {
		t.Errorf("the machine is %s", got)
	}
}

// TestSomethingElseAnswers: at the address is no provider at all.
func TestSomethingElseAnswers(t *testing.T) {
	c := dial(t, listen(t, grpc.NewServer(), ""), nil)
	if _, err := c.List(context.Background(), shard.ListRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("list: %v", err)
	}
	if _, err := do(c, shard.OpCreate, "m"); status.Code(err) != codes.Unimplemented {
		t.Errorf("create: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // whoever comes is hung up on
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	c = dial(t, l.Addr().String(), func(o *client.Options) { o.Attempts = 2 })
	if _, err := do(c, shard.OpCreate, "m"); !errors.Is(err, shard.ErrUnsent) {
		t.Errorf("hung up on: %v", err)
	}
}

// TestMutualTLS: only the shard that a call names may make it; looking is for
// everybody but clusters.
func TestMutualTLS(t *testing.T) {
	authority, other := mtlstest.NewAuthority(t), mtlstest.NewAuthority(t)
	load := func(a *mtlstest.Authority, uris ...string) *mtls.Material {
		t.Helper()
		m, err := mtls.Load(a.Files(t, uris...), nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	s, err := store.Open(store.Config{Path: t.TempDir() + "/store", Seed: machines(machine("m", model.Speculative))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	address := listen(t, server.New(s, nil).GRPC(load(authority, "bigfleet://shard/p")), "")
	for _, x := range []struct {
		who           string
		tls           *mtls.Material
		looks, change bool
	}{
		{"plaintext", nil, false, false},
		{"another authority", load(other, "bigfleet://shard/s1"), false, false},
		{"nobody", load(authority), false, false},
		{"two names", load(authority, "bigfleet://shard/s1", "bigfleet://admin"), false, false},
		{"a cluster", load(authority, "bigfleet://cluster/s1"), false, false},
		{"another shard", load(authority, "bigfleet://shard/s2"), true, false},
		{"a reader", load(authority, "bigfleet://readonly"), true, false},
		{"the shard", load(authority, "bigfleet://shard/s1"), true, true},
	} {
		c := dial(t, address, func(o *client.Options) { o.TLS, o.Attempts = x.tls, 2 })
		if _, err := c.List(context.Background(), shard.ListRequest{}); (err == nil) != x.looks {
			t.Errorf("%s lists: %v", x.who, err)
		}
		_, err := do(c, shard.OpCreate, "m")
		if (err == nil) != x.change {
			t.Errorf("%s creates: %v", x.who, err)
		}
		if err != nil && !errors.Is(err, shard.ErrUnsent) { // no machine is at fault
			t.Errorf("%s creates: %v; want what says that nothing was done", x.who, err)
		}
	}
}
