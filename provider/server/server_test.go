package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated/store"
)

// rig is a server on loopback and a client as anybody would generate it.
type rig struct {
	server *server.Server
	pb.CapacityProviderClient
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, ms ...model.Machine) *rig {
	t.Helper()
	s, err := store.Open(store.Config{Path: filepath.Join(t.TempDir(), "store"), Seed: func(yield func(*model.Machine) bool) {
		for i := range ms {
			if !yield(&ms[i]) {
				return
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{server: server.New(s, nil), CapacityProviderClient: pb.NewCapacityProviderClient(conn), stop: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- r.server.Serve(ctx, l, nil) }()
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func machine(id string, s model.State) model.Machine {
	return model.Machine{
		ID: id, State: s, InstanceType: "t", Zone: "z", CapacityType: model.Spot, PricePerHour: 0.5, InterruptionProbability: 0.25,
		Resources: model.NewResources(model.Amount{Name: "cpu", Value: 1500}), Allocatable: model.NewResources(model.Amount{Name: "cpu", Value: 1000}),
		Labels: map[string]string{"rack": "r1"},
	}
}

var ctx = context.Background()

// TestMessagesAsAnybodyReadsThem: the bytes that the store puts together are the
// protocol's messages.
func TestMessagesAsAnybodyReadsThem(t *testing.T) {
	c := start(t, machine("m", model.Idle))
	metadata := map[string]string{"bigfleet.lucy.sh/assigned-group": "", "x": "a\x00b", "": "empty"}
	ack, err := c.Configure(ctx, &pb.ConfigureRequest{MachineId: "m", ClusterId: "c", BootstrapBlob: []byte("blob"), ShardMetadata: metadata, ShardId: "s", ShardEpoch: 1, SequenceNumber: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.Machine{
		Id: "m", State: pb.MachineState_MACHINE_STATE_CONFIGURED, Host: &pb.HostRef{Provider: "tonnage", Ref: "host-m"}, InstanceType: "t", Zone: "z",
		CapacityType: pb.CapacityType_CAPACITY_TYPE_SPOT, PricePerHour: 0.5, InterruptionProbability: 0.25,
		Resources:   &pb.Resources{Resources: map[string]string{"cpu": "1500m"}},
		Allocatable: &pb.Resources{Resources: map[string]string{"cpu": "1"}},
		Labels:      map[string]string{"rack": "r1"}, Cluster: "c", ShardMetadata: metadata,
	}
	got, err := c.Get(ctx, &pb.MachineRef{Id: "m"})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.List(ctx, &pb.ListFilter{})
	if err != nil || len(list.Machines) != 1 || len(list.Revision) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	for what, m := range map[string]*pb.Machine{"ack": ack.Machine, "get": got, "list": list.Machines[0]} {
		if !proto.Equal(m, want) {
			t.Errorf("%s: %v\nwant %v", what, m, want)
		}
	}
	again, err := c.Configure(ctx, &pb.ConfigureRequest{MachineId: "m", ClusterId: "c", ShardId: "s", ShardEpoch: 1, SequenceNumber: 2})
	if err != nil || ack.OperationId == "" || again.OperationId != ack.OperationId {
		t.Errorf("a repeat is operation %q, %v, want %q", again.GetOperationId(), err, ack.OperationId)
	}
	drained, err := c.Drain(ctx, &pb.DrainRequest{MachineId: "m", GracePeriodSeconds: 600, ShardId: "s", ShardEpoch: 1, SequenceNumber: 3})
	if err != nil || drained.Machine.Cluster != "" || len(drained.Machine.ShardMetadata) != 0 || drained.OperationId == ack.OperationId {
		t.Errorf("drained: %v, %v", drained, err)
	}
}

func TestCodes(t *testing.T) {
	c := start(t, machine("m", model.Idle))
	long := strings.Repeat("x", model.NameBytesMax+1)
	configure := func(change func(*pb.ConfigureRequest)) error {
		r := &pb.ConfigureRequest{MachineId: "m", ClusterId: "c"}
		change(r)
		_, err := c.Configure(ctx, r)
		return err
	}
	of := func(_ any, err error) error { return err }
	for what, x := range map[string]struct {
		err  error
		want codes.Code
	}{
		"no machine named":   {of(c.Create(ctx, &pb.CreateRequest{})), codes.InvalidArgument},
		"get nothing":        {of(c.Get(ctx, &pb.MachineRef{})), codes.InvalidArgument},
		"unknown":            {of(c.Delete(ctx, &pb.DeleteRequest{MachineId: "x"})), codes.NotFound},
		"get unknown":        {of(c.Get(ctx, &pb.MachineRef{Id: "x"})), codes.NotFound},
		"long id":            {of(c.Create(ctx, &pb.CreateRequest{MachineId: long})), codes.InvalidArgument},
		"negative grace":     {of(c.Drain(ctx, &pb.DrainRequest{MachineId: "m", GracePeriodSeconds: -1})), codes.InvalidArgument},
		"negative max":       {of(c.List(ctx, &pb.ListFilter{MaxResults: -1})), codes.InvalidArgument},
		"no such state":      {of(c.List(ctx, &pb.ListFilter{States: []pb.MachineState{99}})), codes.InvalidArgument},
		"garbage for cursor": {of(c.List(ctx, &pb.ListFilter{SinceRevision: []byte("garbage")})), codes.OK},
		"no cluster":         {configure(func(r *pb.ConfigureRequest) { r.ClusterId = "" }), codes.InvalidArgument},
		"long cluster":       {configure(func(r *pb.ConfigureRequest) { r.ClusterId = long }), codes.InvalidArgument},
		"long shard":         {configure(func(r *pb.ConfigureRequest) { r.ShardId = long }), codes.InvalidArgument},
		"large blob":         {configure(func(r *pb.ConfigureRequest) { r.BootstrapBlob = make([]byte, server.BlobBytesMax+1) }), codes.InvalidArgument},
		"large metadata": {configure(func(r *pb.ConfigureRequest) {
			r.ShardMetadata = map[string]string{"k": strings.Repeat("v", server.MetadataBytesMax)}
		}), codes.InvalidArgument},
		"much metadata": {configure(func(r *pb.ConfigureRequest) {
			r.ShardMetadata = map[string]string{}
			for i := range server.MetadataMax + 1 {
				r.ShardMetadata[fmt.Sprint(i)] = ""
			}
		}), codes.InvalidArgument},
	} {
		if got := status.Code(x.err); got != x.want {
			t.Errorf("%s: %s, want %s (%v)", what, got, x.want, x.err)
		}
	}
	if _, err := c.Configure(ctx, &pb.ConfigureRequest{MachineId: "m", ClusterId: "c"}); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"delete of a bound machine": of(c.Delete(ctx, &pb.DeleteRequest{MachineId: "m"})),
		"configure for another":     configure(func(r *pb.ConfigureRequest) { r.ClusterId = "c2" }),
		"create of a bound machine": of(c.Create(ctx, &pb.CreateRequest{MachineId: "m"})),
	} {
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestFiltersOverTheWire(t *testing.T) {
	c := start(t, machine("a", model.Idle), machine("b", model.Speculative), machine("c", model.Speculative))
	ids := func(f *pb.ListFilter) (out []string) {
		t.Helper()
		l, err := c.List(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range l.Machines {
			out = append(out, m.Id)
		}
		slices.Sort(out)
		return out
	}
	if got := ids(&pb.ListFilter{States: []pb.MachineState{pb.MachineState_MACHINE_STATE_SPECULATIVE}}); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("by state: %v", got)
	}
	if got := ids(&pb.ListFilter{MaxResults: 2}); len(got) != 2 {
		t.Errorf("two at most: %v", got)
	}
}

func TestTrouble(t *testing.T) {
	c := start(t, machine("m", model.Idle), machine("n", model.Idle))
	for _, bad := range [][]server.Trouble{
		{{Kind: server.Refuse, Method: "Configure"}}, {{Kind: server.Refuse, Method: "Frobnicate", Times: 1}},
		{{Kind: server.Slow, Method: "any", Times: 1}}, {{Kind: server.Lose, Method: "any", Times: 1, Probability: 0.5}},
		{{Kind: 9, Method: "any", Times: 1}}, make([]server.Trouble, server.TroubleMax+1),
	} {
		if err := c.server.SetTrouble(bad); err == nil {
			t.Errorf("accepted: %+v", bad[0])
		}
	}
	if err := c.server.SetTrouble([]server.Trouble{
		{Kind: server.Refuse, Method: "Configure", Machine: "m", Times: 1}, {Kind: server.Lose, Method: "Configure", Machine: "n", Times: 1},
		{Kind: server.Slow, Method: server.MethodGet, Times: 1, Delay: 10 * time.Millisecond},
	}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		id    string
		state pb.MachineState
	}{{"m", pb.MachineState_MACHINE_STATE_IDLE}, {"n", pb.MachineState_MACHINE_STATE_CONFIGURED}} {
		if _, err := c.Configure(ctx, &pb.ConfigureRequest{MachineId: x.id, ClusterId: "c"}); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", x.id, err)
		}
		if m, err := c.Get(ctx, &pb.MachineRef{Id: x.id}); err != nil || m.State != x.state {
			t.Errorf("%s is %s, %v, want %s", x.id, m.GetState(), err, x.state)
		}
	}
	if _, err := c.Configure(ctx, &pb.ConfigureRequest{MachineId: "m", ClusterId: "c"}); err != nil {
		t.Errorf("the trouble is over: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	c := start(t, machine("m", model.Idle), machine("n", model.Speculative))
	_, _ = c.Get(ctx, &pb.MachineRef{Id: "x"})
	if _, err := c.List(ctx, &pb.ListFilter{}); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c.server); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"tonnage_provider_machines Idle": 1, "tonnage_provider_machines Speculative": 1, "tonnage_provider_machines Failed": 0,
		"tonnage_provider_calls_total NotFound " + pb.CapacityProvider_Get_FullMethodName: 1, "tonnage_provider_calls_total OK " + pb.CapacityProvider_List_FullMethodName: 1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: %v, %v, want %v", name, v, ok, want)
		}
	}
}

// TestStopping: a server that stops ends though a call hangs.
func TestStopping(t *testing.T) {
	c := start(t, machine("m", model.Idle))
	if err := c.server.SetTrouble([]server.Trouble{{Kind: server.Slow, Method: "Get", Times: 1, Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	went, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	go func() {
		_, err := c.Get(went, &pb.MachineRef{Id: "m"})
		answered <- err
	}()
	<-went.Done()
	c.stop()
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
	c.ended <- nil // for the end of the test
	if err := <-answered; err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
}
