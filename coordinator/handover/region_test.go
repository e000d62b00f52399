package handover

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/replica"
	"github.com/tonnage/tonnage/coordinator/service"
	"github.com/tonnage/tonnage/coordinator/store"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/report"
)

const (
	second      = int64(time.Second)
	cycleNanos  = 10 * second
	passEvery   = 2 // rounds
	machineCPU  = 4000
	demandBasic = 10 // priority of what is served from the beginning
	demandTop   = 1000
)

// region is a coordinator and some shards over one provider, in one goroutine.
type region struct {
	t        *testing.T
	now      int64
	fleet    *simulated.Fleet
	zones    map[string]string // of each machine
	core     *coordinator.Core
	durable  map[string][]byte // what the coordinator has on disk
	term     int64
	service  *service.Service
	shards   []*process
	rounds   int
	inFlight bool // steps are points to crash at: a hand-over is on its way

	points  int
	known   int  // points that another story has, too
	crashAt int  // the number of the point, from 1; 0 = none
	keeps   bool // a crash of a shard finds all that it wrote on its disk
	crashed string
	lost    bool // the crash lost something that was written and not on disk yet
	names   map[string]int
}

// process is one shard: its disk, and the process that runs now.
type process struct {
	region *region
	id     string
	disk   *disk
	epoch  int64
	wants  map[string][]model.Need

	dead   bool
	memory *memory
	shard  *shard.Shard
	client *report.Client
}

func newRegion(t *testing.T, ms []model.Machine, zones ...string) *region {
	t.Helper()
	r := &region{t: t, now: 1000 * second, zones: map[string]string{}, durable: map[string][]byte{}, names: map[string]int{}}
	for _, m := range ms {
		r.zones[m.ID] = m.Zone
	}
	at := simulated.Latency{Min: 15 * time.Second, Max: 15 * time.Second}
	var err error
	if r.fleet, err = simulated.New(simulated.Config{Machines: ms, Now: r.now, Latencies: simulated.Latencies{Drain: at, Create: at}}); err != nil {
		t.Fatal(err)
	}
	r.service = service.New(service.Config{Name: "c-0", Mode: coordinator.RebalanceOn, Log: slog.New(slog.DiscardHandler), Metrics: service.NewMetrics(prometheus.NewRegistry())})
	r.service.Attach(r, nil)
	r.restartCore()
	for i, z := range zones {
		p := &process{region: r, id: fmt.Sprint("shard-", i), disk: newDisk(), wants: map[string][]model.Need{}}
		r.shards = append(r.shards, p)
		p.start()
		if err := p.shard.AssignDomain(shard.Domain{Key: model.KeyZone, Value: z}); err != nil {
			t.Fatal(err)
		}
	}
	r.round()
	for i, z := range zones {
		if _, err := r.Do(t.Context(), coordinator.AssignDomain{Assignment: coordinator.Assignment{Domain: coordinator.Domain{Key: model.KeyZone, Value: z}, Shard: r.shards[i].id}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// start begins a process on the disk as it is.
func (p *process) start() {
	t := p.region.t
	p.epoch++
	p.dead = false
	p.memory = &memory{of: p, live: maps.Clone(p.disk.kept)}
	cfg := shard.DefaultConfig()
	cfg.Unbounded()
	cfg.Concurrency, cfg.Engine.Workers = 0, 1
	var err error
	if p.shard, err = shard.New(cfg, shard.Deps{Provider: &calls{p.region.fleet, p}, Memory: p.memory}); err != nil {
		t.Fatal(err)
	}
	p.client, err = report.New(report.Options{
		Shard: p.shard, Owner: p.shard, ID: p.id, Epoch: func() int64 { return p.epoch }, Addresses: []string{"coordinator:1"}, Provider: "provider:1",
		Clock: func() time.Time { return time.Unix(0, p.region.now) },
		Dial:  []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(p.deliver)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deliver is the network: it takes a call to the coordinator, and the answer
// back. Either side may crash on the way.
func (p *process) deliver(ctx context.Context, method string, request, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	gone := status.Error(codes.Unavailable, errCrashed.Error())
	p.point("sends " + method)
	if p.dead {
		return gone
	}
	var answer proto.Message
	var err error
	switch q := request.(type) {
	case *bigfleet.ShardReport:
		answer, err = p.region.service.ReportShard(ctx, q)
	case *tonnage.OfferRequest:
		answer, err = p.region.service.Offer(ctx, q)
	default:
		err = status.Error(codes.Unimplemented, method)
	}
	if err != nil {
		return err
	}
	p.point("is answered " + method)
	if p.dead {
		return gone
	}
	proto.Merge(reply.(proto.Message), answer)
	return nil
}

// point is a step at which the shard's process may crash. From then on nothing
// of it reaches anybody.
func (p *process) point(what string) {
	if !p.dead && p.region.step("the shard "+what) {
		p.dead, p.region.lost = true, len(p.disk.tail) > 0
		if p.region.keeps {
			p.disk.sync()
		}
		p.disk.tail = nil
	}
}

// step counts a point, and tells whether the crash comes there.
func (r *region) step(what string) bool {
	r.checkOwners(what)
	if !r.inFlight {
		return false
	}
	r.points++
	r.names[what]++
	if r.points != r.crashAt {
		return false
	}
	r.crashed = what
	return true
}

// checkOwners holds at every instant, whoever crashes next: no machine can be
// found to be its own by two shards.
func (r *region) checkOwners(what string) {
	r.t.Helper()
	for id, zone := range r.zones {
		var by []string
		for _, p := range r.shards {
			if p.disk.mayOwn(id, zone) {
				by = append(by, p.id)
			}
		}
		if len(by) > 1 {
			r.t.Fatalf("when %s (point %d, crash at %d, when %s): machine %s may be used by %v; moves %+v", what, r.points, r.crashAt, r.crashed, id, by, r.core.Moves())
		}
	}
}

// restartCore is a successor: it reads what is durable and has heard nobody.
func (r *region) restartCore() {
	r.term++
	r.core = coordinator.New(coordinator.RebalanceOn)
	load := r.core.Load(0)
	for _, k := range slices.Sorted(maps.Keys(r.durable)) {
		if err := load.Add(k, r.durable[k]); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Do implements service.Replica: the coordinator may crash before and after each
// of its commits.
func (r *region) Do(_ context.Context, e coordinator.Event, then func(*coordinator.Core, int64)) (coordinator.Effects, error) {
	var effects coordinator.Effects
	if e != nil {
		var err error
		if effects, err = r.core.Step(r.now, e); err != nil {
			return effects, err
		}
	}
	if err := r.commit(effects.Writes); err != nil {
		return effects, err
	}
	if err := r.core.Apply(effects.Writes); err != nil {
		r.t.Fatal(err)
	}
	r.inFlight = len(r.open()) > 0
	if then != nil {
		then(r.core, r.term)
	}
	return effects, nil
}

// commit is one transaction: it happens or does not.
func (r *region) commit(writes []coordinator.Write) error {
	if len(writes) == 0 {
		return nil
	}
	if len(writes) > store.OpsMax {
		r.t.Fatalf("%d writes do not fit into one transaction", len(writes))
	}
	crashes := r.step("the coordinator is about to write")
	if !crashes {
		for _, w := range writes {
			if w.Value == nil {
				delete(r.durable, w.Key)
			} else {
				r.durable[w.Key] = w.Value
			}
		}
		crashes = r.step("the coordinator has written")
	}
	if crashes {
		r.restartCore()
		return replica.ErrUnavailable
	}
	return nil
}

// Hear implements service.Replica.
func (r *region) Hear(ctx context.Context, e coordinator.Event, then func(*coordinator.Core, int64) bool) (coordinator.Effects, error) {
	return r.Do(ctx, e, func(c *coordinator.Core, term int64) { then(c, term) })
}

// Read implements service.Replica.
func (r *region) Read(ctx context.Context, then func(*coordinator.Core, int64)) error {
	_, err := r.Do(ctx, nil, then)
	return err
}

// Leads implements service.Replica.
func (r *region) Leads() bool { return true }

// Confirmed implements service.Replica.
func (r *region) Confirmed(context.Context) error { return nil }

// Hint implements service.Replica.
func (r *region) Hint() (store.Leader, bool) { return store.Leader{Replica: "c-0"}, true }

// Look implements service.Replica.
func (r *region) Look(then func(*coordinator.Core, bool, int64)) { then(r.core, true, r.term) }

// round lets every shard make a cycle and a report, and the coordinator a pass
// now and then.
func (r *region) round() {
	r.t.Helper()
	r.now += cycleNanos
	r.fleet.Advance(r.now)
	r.rounds++
	for _, p := range r.shards {
		p.round()
	}
	if r.rounds%passEvery == 0 {
		_, _ = r.Do(r.t.Context(), coordinator.Rebalance{}, nil) // one that crashed is made up for by the next
	}
	used := map[string]string{}
	for _, p := range r.shards {
		p.shard.Machines(func(m model.Machine) bool {
			if other := used[m.ID]; other != "" {
				r.t.Fatalf("round %d: machine %s is had by %s and %s", r.rounds, m.ID, other, p.id)
			}
			used[m.ID] = p.id
			return true
		})
	}
}

// round is one cycle and one report. Who has crashed comes back with the next.
func (p *process) round() {
	t := p.region.t
	if p.dead {
		p.shard.Close()
		p.start()
	}
	for _, c := range slices.Sorted(maps.Keys(p.wants)) {
		if _, err := p.shard.ApplyRollup(c, p.wants[c], p.region.now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.shard.Step(t.Context(), p.region.now); err != nil {
		t.Fatal(err)
	}
	if !p.dead {
		p.client.Exchange(t.Context())
	}
}

func (r *region) open() []coordinator.Move {
	return slices.DeleteFunc(r.core.Moves(), func(m coordinator.Move) bool { return m.Ended != 0 })
}

// moved is how many machines have changed their shard for good.
func (r *region) moved() (n int) {
	for _, m := range r.core.Moves() {
		if m.Phase == coordinator.Settled || m.Phase == coordinator.Adopted {
			n += len(m.Machines)
		}
	}
	return n
}
