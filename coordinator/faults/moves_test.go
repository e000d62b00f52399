package faults

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/modelshard"
	"github.com/tonnage/tonnage/engine/model"
)

// openPhase is in the list of moves while one is not over.
var openPhase = regexp.MustCompile(`"phase": +"(asked|released|adopted|returning)"`)

// TestMachinesMoveWhileLeadersDie: one shard is short, two can spare; the leader
// is killed as soon as machines are on their way, and again. In the end each
// machine has one owner, the need is met, and no more has moved.
func TestMachinesMoveWhileLeadersDie(t *testing.T) {
	t.Parallel()
	g := newGroup(t, "--rebalance", "on", "--rebalance-interval", "250ms")
	zones := []string{"zone-a", "zone-b", "zone-c"}
	p := &modelshard.Provider{Name: "provider:1", Machines: map[string]*modelshard.Machine{}}
	zone := func(z string) coordinator.Domain { return coordinator.Domain{Key: model.KeyZone, Value: z} }
	states := map[string]model.State{"zone-a": model.Idle, "zone-b": model.Speculative}
	for z, state := range states {
		for i := range 20 {
			id := fmt.Sprintf("%s-%02d", z, i)
			p.Machines[id] = &modelshard.Machine{ID: id, Domain: zone(z), Offer: coordinator.Offer{
				State: state, InstanceType: "m6i.large", Zone: z, CapacityType: model.OnDemand, PricePerHour: 0.1,
				Unit: model.NewResources(model.Amount{Name: "cpu", Value: 2000}),
			}}
		}
	}
	const need = 25 // more than one shard can spare, and more than is idle
	var mu sync.Mutex
	var short atomic.Bool // from when on the third shard is
	disks := make([]*modelshard.Disk, len(zones))
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for i := range zones {
		disks[i] = modelshard.NewDisk()
		m := modelshard.Start(fmt.Sprintf("s-%d", i), disks[i], p)
		if i == 2 {
			age := int32(0)
			m.Short = func() []coordinator.Shortfall {
				missing := need - len(disks[2].Received)
				if missing <= 0 || !short.Load() {
					return nil
				}
				age++
				return []coordinator.Shortfall{{
					Requirements: []model.Requirement{{Key: model.KeyInstanceType, Operator: model.In, Values: []string{"m6i.large"}}},
					Deficit:      model.NewResources(model.Amount{Name: "cpu", Value: int64(missing) * 2000}), Priority: 1000, AgeCycles: age,
				}}
			}
		}
		s := &wireShard{mu: &mu, model: m, client: g.client()}
		all.Go(func() { s.run(ctx, 50*time.Millisecond) })
	}
	owners := func() (one bool) {
		mu.Lock()
		defer mu.Unlock()
		one = true
		for id := range p.Machines {
			n := 0
			for _, d := range disks {
				if d.Owns(p, id) {
					n++
				}
			}
			if n > 1 {
				t.Fatalf("machine %s has %d owners", id, n)
			}
			one = one && n == 1
		}
		return one
	}
	received := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(disks[2].Received)
	}
	eventually(t, 20*time.Second, "the shards are registered", func(context.Context) bool {
		return strings.Count(g.ctl("list-shards", "-o", "json"), `"shard": "s-`) == 3
	})
	for i, z := range zones {
		g.ctl("assign-domain", "--key", model.KeyZone, "--value", z, "--shard", fmt.Sprintf("s-%d", i))
	}
	short.Store(true)
	for range 2 {
		had := received()
		eventually(t, 30*time.Second, "machines are on their way or have come", func(context.Context) bool {
			return !owners() || received() > had || had >= need
		})
		n := g.leader(g.nodes...)
		n.kill()
		g.failover(g.others(n), "mark")
		g.start(n)
	}
	eventually(t, 60*time.Second, "the need is met", func(context.Context) bool { owners(); return received() >= need })
	eventually(t, 20*time.Second, "every machine has an owner and no move is open", func(context.Context) bool {
		return owners() && !openPhase.MatchString(g.ctl("rebalance", "-o", "json"))
	})
	if got := received(); got != need {
		t.Errorf("%d machines were received, want %d\n%s", got, need, g.ctl("rebalance", "--why", "-o", "table"))
	}
}
