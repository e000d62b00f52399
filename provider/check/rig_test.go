package check_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/check"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/provider/simulated/store"
	"github.com/tonnage/tonnage/shard"
)

// right is a provider that is right, and can be made to restart, to lose a machine, and to fail.
type right interface {
	at() string // its address
	step()      // puts its clock on
	restart(ctx context.Context) error
	vanish(ctx context.Context, id string) error
	fail(ctx context.Context, id string) error
}

// rig is our provider on loopback. It can be restarted, and makes trouble. Its clock goes on
// with each Get of a target, and else stands still, so that a change is under way as long as
// a test needs it to be, however busy the machine is.
type rig struct {
	clock   atomic.Int64
	t       *testing.T
	cfg     store.Config
	address string
	store   *store.Store
	end     func()
}

// fleet is a few machines in every settled state.
func fleet() (out []model.Machine) {
	add := func(n int, state model.State, prefix string) {
		for i := range n {
			m := model.Machine{
				ID: fmt.Sprintf("%s-%d", prefix, i), State: state, InstanceType: "t", Zone: "z", CapacityType: model.OnDemand, PricePerHour: 0.5,
				Resources: model.NewResources(model.Amount{Name: "cpu", Value: 1500}), Labels: map[string]string{"rack": "r1"},
			}
			if state == model.Configured {
				m.Cluster = "somebody"
			}
			out = append(out, m)
		}
	}
	add(5, model.Speculative, "slot")
	add(3, model.Idle, "idle")
	add(3, model.Configured, "bound")
	return out
}

// look is by how much a Get puts the clock on.
const look = time.Millisecond

// inMemory is a folder of files that fsync costs nothing, where there is one.
const inMemory = "/dev/shm"

// folders numbers them.
var folders atomic.Int64

func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(inMemory, fmt.Sprintf("provider-check-%d-%d", os.Getpid(), folders.Add(1)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startRig starts our provider, whose changes take so many looks.
func startRig(t *testing.T, looks int) *rig {
	t.Helper()
	l := simulated.Latency{Min: time.Duration(looks) * look, Max: time.Duration(looks) * look}
	machines, began := fleet(), time.Now()
	r := &rig{t: t, address: "127.0.0.1:0", cfg: store.Config{
		Path: filepath.Join(folder(t), "store"), Latencies: simulated.Latencies{Create: l, Configure: l, Drain: l, Delete: l},
		Seed: func(yield func(*model.Machine) bool) {
			for i := range machines {
				if !yield(&machines[i]) {
					return
				}
			}
		},
	}}
	r.cfg.Now = func() time.Time { return began.Add(time.Duration(r.clock.Load())) }
	r.start()
	t.Cleanup(func() { r.end() })
	return r
}

func (r *rig) start() {
	r.t.Helper()
	var err error
	if r.store, err = store.Open(r.cfg); err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.address = l.Addr().String()
	g := server.New(r.store, nil).GRPC(nil)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l) }()
	r.end = func() {
		g.Stop()
		if err := errors.Join(<-ended, r.store.Close()); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *rig) restart(context.Context) error {
	r.end()
	r.start()
	return nil
}

func (r *rig) vanish(ctx context.Context, id string) error {
	_, err := r.store.Lose(ctx, id)
	return err
}

func (r *rig) fail(ctx context.Context, id string) error {
	return r.store.Administer(ctx, func(f *simulated.Fleet) error {
		return f.SetFaults(nil, []simulated.Fault{{Op: shard.OpAny, Machine: id, Times: 1}})
	})
}

func dial(t *testing.T, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (r *rig) step()      { r.clock.Add(int64(look)) }
func (r *rig) at() string { return r.address }

// target is targetOf of this provider.
func (r *rig) target(t *testing.T, address string, change func(*check.Options)) *check.Target {
	t.Helper()
	return targetOf(t, r, address, change)
}

// stepping steps with each Get.
func stepping(r right) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if method == pb.CapacityProvider_Get_FullMethodName {
			r.step()
		}
		return call(ctx, method, req, reply, conn, options...)
	}
}

// targetOf returns a target with options for tests. It reaches the provider by an address, which may
// be that of somebody in between.
func targetOf(t *testing.T, r right, address string, change func(*check.Options)) *check.Target {
	t.Helper()
	o := check.Options{Conn: dial(t, address, grpc.WithUnaryInterceptor(stepping(r))), Epoch: 10, Poll: time.Millisecond}
	if change != nil {
		change(&o)
	}
	x, err := check.New(context.Background(), o)
	if err == nil {
		err = x.Begin(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// inventory is every machine's state and cluster.
func inventory(t *testing.T, address string) map[string]string {
	t.Helper()
	l, err := pb.NewCapacityProviderClient(dial(t, address)).List(context.Background(), &pb.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range l.GetMachines() {
		out[m.GetId()] = m.GetState().String() + " " + m.GetCluster()
	}
	return out
}
