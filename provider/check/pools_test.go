package check_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/check"
	"github.com/tonnage/tonnage/provider/check/checktest"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/simulated/cloud"
)

// pooled is a provider of pools on loopback, over a simulated cloud whose clock goes on with each Get of a target.
type pooled struct {
	t       *testing.T
	dir     string
	file    *pools.File
	began   time.Time
	clock   atomic.Int64
	address string
	end     func()

	mu    sync.Mutex
	alter map[string]func(*driver.Observation) bool // by machine: false = it is not seen
}

// altered is a driver of whose machines some are seen otherwise.
type altered struct {
	*cloud.Cloud
	by *pooled
}

// Observe is that of the cloud, altered.
func (d altered) Observe(ctx context.Context, yield func(*driver.Observation)) error {
	return d.Cloud.Observe(ctx, func(o *driver.Observation) {
		d.by.mu.Lock()
		alter := d.by.alter[o.ID]
		d.by.mu.Unlock()
		if x := *o; alter == nil || alter(&x) {
			yield(&x)
		}
	})
}

// poolsFile has slots that are bought, early- or late-bound, and two hosts that are owned.
const poolsFile = `drivers: [{name: sim, kind: simulated, launchesPerMinute: 60000, launchBurst: 1000}]
pools:
- {name: slot, driver: sim, lateBound: %t, machines: 9, freeSlots: 5, zones: [z], labels: {rack: r1}, types: [{name: t, resources: {cpu: 2}, prices: [{capacityType: OnDemand, pricePerHour: 0.5}]}]}
- {name: idle, driver: sim, initial: idle, hosts: [h1, h2], zones: [z], types: [{name: t, resources: {cpu: 2}, prices: [{capacityType: BareMetal, pricePerHour: 0}]}]}
`

// listedAtFirst is how many machines and slots the file makes.
const listedAtFirst = 7

func startPooled(t *testing.T, late bool) *pooled {
	t.Helper()
	r := &pooled{t: t, dir: folder(t), address: "127.0.0.1:0", began: time.Now(), alter: map[string]func(*driver.Observation) bool{}}
	path := filepath.Join(r.dir, "pools.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, poolsFile, late), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.file, err = pools.Read(path); err != nil {
		t.Fatal(err)
	}
	r.start()
	t.Cleanup(func() { r.end() })
	r.bind()
	return r
}

// bind has one machine be somebody's, as of another shard.
func (r *pooled) bind() {
	r.t.Helper()
	client, ctx := pb.NewCapacityProviderClient(dial(r.t, r.address)), r.t.Context()
	l, err := client.List(ctx, &pb.ListFilter{States: []pb.MachineState{speculative}})
	if err != nil || len(l.GetMachines()) == 0 {
		r.t.Fatal("no slots", err)
	}
	id := l.GetMachines()[0].GetId()
	for deadline := time.Now().Add(each); ; r.step() {
		m, err := client.Get(ctx, &pb.MachineRef{Id: id})
		switch {
		case err != nil || time.Now().After(deadline):
			r.t.Fatal(m, err)
		case m.GetState() == configured:
			return
		case m.GetState() == speculative:
			_, err = client.Create(ctx, &pb.CreateRequest{MachineId: id, ShardId: "other", ShardEpoch: 1, SequenceNumber: 1})
		case m.GetState() == idle:
			_, err = client.Configure(ctx, &pb.ConfigureRequest{MachineId: id, ClusterId: "somebody", ShardId: "other", ShardEpoch: 1, SequenceNumber: 2})
		}
		if err != nil {
			r.t.Fatal(err)
		}
		<-time.After(look)
	}
}

func (r *pooled) start() {
	r.t.Helper()
	span := cloud.Span(poolLooks * look)
	p, err := provider.Open(provider.Config{
		Dir: r.dir, Pools: r.file, Every: 20 * time.Millisecond, Least: time.Millisecond,
		Driver: func(*pools.Driver) (driver.Driver, error) {
			c, err := cloud.Open(cloud.Config{File: filepath.Join(r.dir, "cloud.db"), Create: span, Configure: span, Drain: span, Delete: span}, 1,
				func() time.Time { return r.began.Add(time.Duration(r.clock.Load())) })
			return altered{c, r}, err
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.address, r.end = checktest.Serve(r.t, p, r.address)
	// The hosts are made first; nothing else asks for them.
	for deadline := time.Now().Add(each); p.Ready() != nil || p.Len() < listedAtFirst || p.States()[creating] > 0; {
		if p.States()[creating] > 0 {
			r.step() // not else: what was under way at a restart is still
		}
		if time.Now().After(deadline) {
			r.t.Fatal(p.Ready(), p.States())
		}
		<-time.After(look)
	}
}

func (r *pooled) at() string { return r.address }
func (r *pooled) step()      { r.clock.Add(int64(look)) }

func (r *pooled) restart(context.Context) error {
	r.end()
	r.start()
	return nil
}

func (r *pooled) change(id string, alter func(*driver.Observation) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alter[id] = alter
	return nil
}

func (r *pooled) vanish(_ context.Context, id string) error {
	return r.change(id, func(*driver.Observation) bool { return false })
}

// failLooks is after how many looks a change fails that is to: a check sees it under way before.
const failLooks = 3

func (r *pooled) fail(_ context.Context, id string) error {
	from := r.clock.Load() + int64(failLooks*look)
	return r.change(id, func(o *driver.Observation) bool {
		if r.clock.Load() < from {
			return true
		}
		if o.Phase != driver.Idle && o.Phase != driver.Configured {
			o.Phase, o.Reason = driver.Failed, "asked for"
		}
		return true
	})
}

// poolLooks is how many looks a change takes: more than a check takes to see it from all sides, rounds of a busy machine included.
const poolLooks = 20

// TestFaultsAreFoundOverPools: what is wrong in front of a provider of pools is found as in front of simulated machines, and a
// provider of pools is right itself.
func TestFaultsAreFoundOverPools(t *testing.T) {
	t.Parallel()
	byID := map[string]check.Check{}
	for _, c := range check.Checks() {
		byID[c.ID] = c
	}
	step := 1
	if testing.Short() {
		step = shortStep
	}
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	tried := 0
	for i, f := range append(faults, fault{name: "none"}) {
		if f.finds != "" && i%step != 0 {
			continue
		}
		tried++
		late := tried%2 == 0
		without := map[string]bool{}
		if late {
			for _, id := range strings.Fields(atOnceChecks) {
				without[id] = true
			}
		}
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			t.Run(fmt.Sprintf("%s, late-bound %t", f.name, late), func(t *testing.T) { tryFault(t, startPooled(t, late), f, byID, without) })
		})
	}
	all.Wait()
	t.Logf("%d faults", tried)
}

// atOnceChecks need a change of a slot that takes time; Create and Delete of a late-bound one are done at once.
const atOnceChecks = "create.begins delete.begins create.repeat-under-way delete.repeat-under-way create.illegal-under-way delete.illegal-under-way create.answers-at-once delete.answers-at-once create.ends delete.ends"
