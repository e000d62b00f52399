package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

var moveKills = flag.Int("move-kills", 0, "how often a shard or the coordinator is killed while machines change their shard; 0 = the run with kills is left out")

// The zones of the provider's machines, one for each shard.
var regionZones = []string{"a", "b", "c"}

// region is a coordinator and three shards over one provider: the first has
// machines that are idle, the second ones that can be bought, the third few.
type region struct {
	t           *testing.T
	dir         string // with the data folders
	provider    *processtest.Process
	coordinator *processtest.Process
	shards      []*processtest.Process
	store       *store
	coord       pb.CoordinatorClient
	fleet       tonnage.FleetClient
	sessions    []string  // where operators of each shard connect
	wants       *operator // of the third shard
	last        []map[string]bool
}

// regionFleet writes the provider's machines.
func regionFleet(t *testing.T, idle, slots, own int) string {
	t.Helper()
	var ms []string
	add := func(n int, zone, state, kind string) {
		for i := range n {
			ms = append(ms, fmt.Sprintf(`{"id":"%s-%03d","state":%q,"instanceType":"std","capacityType":%q,"zone":%q,"pricePerHour":1,"resources":{"cpu":"16"}}`, zone, i, state, kind, zone))
		}
	}
	add(idle, "a", "Idle", "BareMetal")
	add(slots, "b", "Speculative", "OnDemand")
	add(own, "c", "Idle", "BareMetal")
	path := filepath.Join(t.TempDir(), "world.json")
	if err := os.WriteFile(path, []byte(`{"machines":[`+strings.Join(ms, ",")+`],"needs":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func newRegion(t *testing.T, idle, slots, own int) *region {
	dir := t.TempDir()
	at, coordinatorAt := freeport.Take(t), freeport.Take(t)
	g := &region{t: t, dir: dir}
	g.provider = processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=20ms-100ms",
		"--seed-file="+regionFleet(t, idle, slots, own))
	g.store = openStore(t, at)
	g.coordinator = processtest.Start(t, "coordinator", "--bootstrap", "--listen="+coordinatorAt, "--raft-bind="+freeport.Take(t), "--metrics-addr="+freeport.Take(t),
		"--data-dir="+filepath.Join(dir, "coordinator"), "--rebalance=on", "--rebalance-interval=500ms")
	conn, err := grpc.NewClient(coordinatorAt, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	g.coord, g.fleet = pb.NewCoordinatorClient(conn), tonnage.NewFleetClient(conn)
	for i := range regionZones {
		sessions := freeport.Take(t)
		g.sessions = append(g.sessions, sessions)
		g.shards = append(g.shards, processtest.Start(t, "shard", fmt.Sprint("--id=shard-", i), "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t),
			"--data-dir="+filepath.Join(dir, fmt.Sprint("shard-", i)), "--cycle-interval=300ms", "--incremental-reconcile",
			"--coordinator-addr="+coordinatorAt, "--coordinator-heartbeat-interval=300ms"))
	}
	g.assign()
	g.wants = connect(t, g.sessions[2], time.Second, []string{"short"}).clusters[0]
	return g
}

// assign gives each shard its zone, and waits until each has that alone.
func (g *region) assign() {
	g.t.Helper()
	for i, zone := range regionZones {
		processtest.Eventually(g.t, patience, "the shard is registered and has its zone", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, err := g.coord.AssignDomain(ctx, &pb.AssignDomainRequest{TopologyKey: model.KeyZone, TopologyValue: zone, ShardId: fmt.Sprint("shard-", i)})
			return err == nil
		})
	}
	processtest.Eventually(g.t, patience, "each shard has its own machines and no other", func() bool {
		for i, zone := range regionZones {
			own := g.owns(i)
			for id := range g.store.all {
				if own[id] != strings.HasPrefix(id, zone+"-") {
					return false
				}
			}
		}
		return true
	})
}

// owns asks a shard which machines it has; nil when it does not answer.
func (g *region) owns(i int) map[string]bool {
	text := g.shards[i].Get("/api/world")
	var w struct{ Machines []struct{ ID string } }
	if text == "" || json.Unmarshal([]byte(text), &w) != nil {
		return nil
	}
	out := map[string]bool{}
	for _, m := range w.Machines {
		out[m.ID] = true
	}
	return out
}

// watch asks all shards, one after the other, and tells whether every machine
// has its one owner. Who had a machine before and after another one was asked had
// it in between.
func (g *region) watch() bool {
	g.t.Helper()
	n := len(g.shards)
	if g.last == nil {
		g.last = make([]map[string]bool, n)
	}
	owners := map[string]int{}
	for i := range n {
		now := g.owns(i)
		for id := range now {
			owners[id]++
			for j := range n { // asked since shard i was asked the last time
				if j != i && g.last[i][id] && g.last[j][id] {
					g.t.Fatalf("machine %s is had by shard-%d and shard-%d", id, i, j)
				}
			}
		}
		g.last[i] = now
	}
	for id := range g.store.all {
		if owners[id] != 1 {
			return false
		}
	}
	return true
}

// moves returns the machines that have moved for good, by donor, and whether a
// move is open.
func (g *region) moves() (moved map[string]int, phases map[string]int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	got, err := g.fleet.Rebalancing(ctx, &tonnage.RebalancingRequest{})
	if err != nil {
		return nil, nil
	}
	moved, phases = map[string]int{}, map[string]int{}
	for _, m := range got.GetMoves() {
		phases[m.GetPhase()]++
		if m.GetPhase() == "settled" || m.GetPhase() == "adopted" {
			moved[m.GetDonor()] += len(m.GetMachineIds())
		}
	}
	return moved, phases
}

func (g *region) rest() bool {
	_, phases := g.moves()
	return phases != nil && phases["asked"]+phases["released"]+phases["adopted"]+phases["returning"] == 0
}

func (g *region) bound() int {
	return tally(g.store.machines())[pb.MachineState_MACHINE_STATE_CONFIGURED]
}

func sum(by map[string]int) (n int) {
	for _, x := range by {
		n += x
	}
	return n
}

// TestShortfallIsMetByOtherShards: what one shard is short of comes from
// another's idle machines, but for the tenth that it keeps, and what is missing
// then from the third's quota; exactly as much as is missing, and nothing after.
func TestShortfallIsMetByOtherShards(t *testing.T) {
	t.Parallel()
	const idle, slots, own, want = 20, 10, 4, 25
	g := newRegion(t, idle, slots, own)
	began := time.Now()
	g.wants.demands(machinesNeed(want))
	processtest.Eventually(t, patience, "the shortfall is met", func() bool { g.watch(); return g.bound() == want })
	met := time.Since(began)
	processtest.Eventually(t, patience, "every machine has its owner, and no move is open", func() bool { return g.watch() && g.rest() })
	moved, phases := g.moves()
	if moved["shard-0"] != 18 || moved["shard-1"] != want-own-18 {
		t.Errorf("moved %v (%v), want 18 idle machines and %d slots", moved, phases, want-own-18)
	}
	g.nothingMore(want - own)
	t.Logf("%d machines bound %v after the demand came, %d of them from other shards (%v)", want, met.Round(100*time.Millisecond), want-own, moved)
}

// nothingMore holds when ten further passes have moved nothing.
func (g *region) nothingMore(moved int) {
	g.t.Helper()
	passes := g.coordinator.Metric("tonnage_coordinator_rebalance_pass_seconds_count")
	processtest.Eventually(g.t, patience, "ten more passes", func() bool {
		g.watch()
		return g.coordinator.Metric("tonnage_coordinator_rebalance_pass_seconds_count") >= passes+10
	})
	if again, phases := g.moves(); sum(again) != moved || !g.rest() {
		g.t.Errorf("moved in all %v (%v), want %d machines and no more", again, phases, moved)
	}
	g.store.check()
}

// TestMachinesInUseGoWhereTheyAreWorthMore: nothing is idle and nothing can be
// bought, so work of another shard that ranks lower is drained, as many machines
// of it as are missing, and nothing moves back.
func TestMachinesInUseGoWhereTheyAreWorthMore(t *testing.T) {
	t.Parallel()
	const low, own, want = 8, 4, 9
	g := newRegion(t, low, 0, own)
	top := func(n int, penalty pb.PenaltyBucket) *pb.CapacityNeed {
		need := machinesNeed(n)
		need.Priority, need.InterruptionPenaltyBucket = 5000, penalty
		return need
	}
	g.wants.demands(top(own, pb.PenaltyBucket(model.BucketOneDollar+5)))
	cheap := connect(t, g.sessions[0], time.Second, []string{"cheap"}).clusters[0]
	cheap.demands(machinesNeed(low))
	processtest.Eventually(t, patience, "everything is in use", func() bool { g.watch(); return g.bound() == low+own })
	began := time.Now()
	g.wants.demands(top(want, pb.PenaltyBucket(model.BucketOneDollar+5)))
	processtest.Eventually(t, patience, "the shortfall is met", func() bool { g.watch(); return len(g.wants.serves()) == want })
	met := time.Since(began)
	processtest.Eventually(t, patience, "every machine has its owner, and no move is open", func() bool { return g.watch() && g.rest() })
	if moved, phases := g.moves(); moved["shard-0"] != want-own {
		t.Errorf("moved %v (%v), want %d machines of shard-0", moved, phases, want-own)
	}
	g.nothingMore(want - own)
	if n := g.bound(); n != low+own || len(cheap.serves()) != low-(want-own) {
		t.Errorf("%d machines are bound, want all %d; the work that ranks lower has %d, want %d", n, low+own, len(cheap.serves()), low-(want-own))
	}
	t.Logf("%d machines in use have come %v after they were missing", want-own, met.Round(100*time.Millisecond))
}

// TestMovesWithKills: demand of one shard grows, and whoever is at work is killed
// while machines are on their way.
func TestMovesWithKills(t *testing.T) {
	if *moveKills == 0 {
		t.Skip("-move-kills N kills shards and the coordinator N times while machines move")
	}
	random := *seed
	if random == 0 {
		random = rand.Uint64()
	}
	t.Logf("-seed %d", random)
	rng := rand.New(rand.NewPCG(random, 3))
	const own = 4
	idle, slots := 2**moveKills, *moveKills+4
	g := newRegion(t, idle, slots, own)
	want := own
	for round := range *moveKills {
		want += 1 + rng.IntN(2)
		g.wants.demands(machinesNeed(want))
		victims := append([]*processtest.Process{g.coordinator}, g.shards...)
		victim := rng.IntN(len(victims))
		phase := []string{"asked", "released", "adopted", ""}[rng.IntN(4)]
		seen := false
		processtest.Eventually(t, patience, "a move is under way", func() bool {
			g.watch()
			moved, phases := g.moves()
			seen = seen || phases[phase] > 0
			return seen || phase == "" && !g.rest() || sum(moved) >= want-own
		})
		victims[victim].Restart()
		t.Logf("round %d: %d machines wanted, killed %d in phase %q (seen %t)", round, want, victim, phase, seen)
		processtest.Eventually(t, 2*patience, "the shortfall is met", func() bool { g.watch(); return g.bound() >= want })
		processtest.Eventually(t, patience, "every machine has its owner, and no move is open", func() bool { return g.watch() && g.rest() })
		if moved, _ := g.moves(); moved != nil && sum(moved) != want-own {
			t.Errorf("round %d: moved %v, want %d machines", round, moved, want-own)
			want = own + sum(moved)
		}
	}
	g.store.check()
}
