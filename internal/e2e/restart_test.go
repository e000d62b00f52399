package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

var (
	kills = flag.Int("kills", 6, "how often the shard is killed")
	seed  = flag.Uint64("seed", 0, "seed of what is random, 0 = a new one")
)

// growth is a fleet whose demand grows machine by machine while the shard is
// killed again and again.
type growth struct {
	t        *testing.T
	provider *processtest.Process
	shard    *processtest.Process
	store    *store
	fleet    *operators
	wanted   map[string]int // machines by cluster
}

const (
	growthClusters = 20
	growthIdle     = 60
)

func newGrowth(t *testing.T, slots int) *growth {
	dir := t.TempDir()
	at, sessions := freeport.Take(t), freeport.Take(t)
	g := &growth{t: t, wanted: map[string]int{}}
	g.provider = processtest.Start(t, "provider", "--listen="+at, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "provider"), "--latency=20ms-400ms",
		fmt.Sprint("--seed-machines=", growthIdle), fmt.Sprint("--seed-speculative=", slots))
	g.store = openStore(t, at)
	g.shard = processtest.Start(t, "shard", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "shard"),
		"--cycle-interval=500ms", "--incremental-reconcile", "--execute-concurrency=8", "--audit-log="+filepath.Join(dir, "audit.jsonl"))
	g.fleet = connect(t, sessions, time.Second, names("cluster", growthClusters))
	return g
}

// machinesNeed asks for so many machines of the provider's only shape.
func machinesNeed(n int) *pb.CapacityNeed {
	size := func(n int) map[string]string { return map[string]string{"cpu": fmt.Sprint(16 * n)} }
	return &pb.CapacityNeed{Priority: 1000, AggregateResources: size(n), MinUnit: size(1)}
}

func (g *growth) want(x *operator, n int) {
	g.wanted[x.cluster] = n
	if n == 0 {
		x.demands()
		return
	}
	x.demands(machinesNeed(n))
}

func (g *growth) total() (n int) {
	for _, w := range g.wanted {
		n += w
	}
	return n
}

// settled tells whether every cluster has what it wants and nothing moves.
func (g *growth) settled() bool {
	bound := map[string]int{}
	for _, m := range g.store.machines() {
		switch m.State {
		case pb.MachineState_MACHINE_STATE_CONFIGURED:
			bound[m.Cluster]++
		case pb.MachineState_MACHINE_STATE_IDLE, pb.MachineState_MACHINE_STATE_SPECULATIVE:
		default:
			return false
		}
	}
	for c, n := range g.wanted {
		if bound[c] != n {
			return false
		}
	}
	return true
}

// TestKilledAtRandomMoments: whenever the shard is killed, it takes up where it
// was. Demand only grows, so a machine that is bought or bound for nobody, or
// taken from its cluster, was a second action for one demand.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d, %d kills", s, *kills)
	rng := rand.New(rand.NewPCG(s, 3))
	killAtRandom(t, s, rng, func(*growth) {})
}

// killAtRandom grows demand and kills the shard, again and again; before is called before each
// restart.
func killAtRandom(t *testing.T, s uint64, rng *rand.Rand, before func(*growth)) {
	perKill := 12
	g := newGrowth(t, *kills*perKill+100)
	var slowest time.Duration
	early := 0 // killed while they started
	ready := func() {
		processtest.Eventually(t, patience, "the shard lists", func() bool { return g.shard.Get("/readyz") != "" })
	}
	ready()
	began := time.Now()
	for range *kills {
		for range perKill {
			x := g.fleet.clusters[rng.IntN(growthClusters)]
			g.want(x, g.wanted[x.cluster]+1)
		}
		<-time.After(time.Duration(rng.Int64N(int64(900 * time.Millisecond))))
		before(g)
		g.shard.Restart()
		if rng.IntN(4) == 0 {
			early++
			<-time.After(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
			g.shard.Restart()
		}
		restarted := time.Now()
		ready()
		slowest = max(slowest, time.Since(restarted))
		if g.store.check(); t.Failed() {
			t.Fatalf("seed %d", s)
		}
	}
	converged := processtest.Eventually(t, patience, "every cluster has what it wants", g.settled)
	g.store.check()
	processtest.Eventually(t, patience, "operators know their machines", func() bool {
		n := 0
		for _, x := range g.fleet.clusters {
			n += len(x.serves())
		}
		return n == g.total()
	})
	g.store.checkOwners(g.fleet)
	ms := g.store.machines()
	n := tally(ms)
	bought := max(0, g.total()-growthIdle)
	if idle := n[pb.MachineState_MACHINE_STATE_IDLE]; idle != max(0, growthIdle-g.total()) {
		t.Errorf("seed %d: %d machines are Idle, bought for nobody", s, idle)
	}
	if left := n[pb.MachineState_MACHINE_STATE_SPECULATIVE]; left != *kills*perKill+100-bought {
		t.Errorf("seed %d: %d slots are left, want %d", s, left, *kills*perKill+100-bought)
	}
	if r := g.fleet.reclaims.Load(); r != 0 {
		t.Errorf("seed %d: %d machines were taken from a demand that only grows", s, r)
	}
	// Of those that were killed while they started some had no epoch yet.
	if epoch := int(g.shard.Metric("tonnage_shard_epoch")); epoch < *kills+1 || epoch > *kills+early+1 {
		t.Errorf("epoch %v after %d kills and %d more of processes that were starting", epoch, *kills, early)
	}
	t.Logf("%d kills and %d more while it started in %v: %d machines bound, ready again after at most %v, converged %v after the last kill",
		*kills, early, time.Since(began).Round(time.Second), n[pb.MachineState_MACHINE_STATE_CONFIGURED], slowest.Round(10*time.Millisecond), converged.Round(10*time.Millisecond))
}
