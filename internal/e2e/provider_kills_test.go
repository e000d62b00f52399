package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/processtest"
)

const (
	// changesPerKill is by how many machines demand changes before each kill.
	changesPerKill = 20
	// shrinkingOf: demand shrinks before one kill of so many, the last ones.
	shrinkingOf = 6
)

// providerKills is a fleet whose provider is killed again and again, while the shard lives on.
type providerKills struct {
	*growth
	rng     *rand.Rand
	seen    map[string]*pb.Machine // as the store was last read
	shrinks bool                   // demand does, and machines lose their owner
	busy    int                    // kills with a change of a machine under way
	early   int                    // kills while the provider started
	slowest time.Duration          // from a start until it is ready
}

// TestProviderDiesAtRandomMoments: the provider alone is killed while it creates, configures and
// drains machines. Demand grows first, and then shrinks. Nothing is bought or bound for nobody,
// no machine gets a second owner, none is lost, and the shard goes on without a restart.
func TestProviderDiesAtRandomMoments(t *testing.T) {
	t.Parallel()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d, %d kills", s, *kills)
	slots := *kills*changesPerKill + 100
	p := &providerKills{growth: newGrowth(t, slots), rng: rand.New(rand.NewPCG(s, 6)), seen: map[string]*pb.Machine{}}
	processtest.Eventually(t, patience, "the shard lists", func() bool { return p.shard.Get("/readyz") != "" })
	began := time.Now()
	growing := *kills - *kills/shrinkingOf
	for range growing {
		p.round(s, 1)
	}
	converged := processtest.Eventually(t, patience, "every cluster has what it wants", p.settled)
	grown := p.total()
	p.left(s, slots, grown, grown)
	if r := p.fleet.reclaims.Load(); r != 0 {
		t.Errorf("seed %d: %d machines were taken from a demand that only grows", s, r)
	}
	p.shrinks = true
	for range *kills - growing {
		p.round(s, -1)
	}
	converged = max(converged, processtest.Eventually(t, patience, "every cluster has what it wants", p.settled))
	p.left(s, slots, grown, p.total())
	processtest.Eventually(t, patience, "operators know their machines", func() bool {
		n := 0
		for _, x := range p.fleet.clusters {
			n += len(x.serves())
		}
		return n == p.total()
	})
	p.store.checkOwners(p.fleet)
	p.checkShard(s)
	t.Logf("%d kills, %d of them during changes, and %d more while it started in %v: %d machines bound, then %d given up; the provider was ready again after at most %v, converged at most %v after the last kill",
		*kills, p.busy, p.early, time.Since(began).Round(time.Second), grown, grown-p.total(), p.slowest.Round(10*time.Millisecond), converged.Round(10*time.Millisecond))
}

// round changes demand, machine by machine in one direction, and kills the provider at a random
// moment after the first of what follows has begun.
func (p *providerKills) round(s uint64, by int) {
	p.t.Helper()
	for range changesPerKill {
		x := p.fleet.clusters[p.rng.IntN(growthClusters)]
		for p.wanted[x.cluster]+by < 0 {
			x = p.fleet.clusters[p.rng.IntN(growthClusters)]
		}
		p.want(x, p.wanted[x.cluster]+by)
	}
	processtest.Eventually(p.t, patience, "changes are under way", p.store.moves)
	<-time.After(time.Duration(p.rng.Int64N(int64(700 * time.Millisecond))))
	if p.read() {
		p.busy++
	}
	p.provider.Restart()
	if p.rng.IntN(4) == 0 {
		p.early++
		<-time.After(time.Duration(p.rng.Int64N(int64(200 * time.Millisecond))))
		p.provider.Restart()
	}
	p.slowest = max(p.slowest, processtest.Eventually(p.t, patience, "the provider is ready", func() bool { return p.provider.Get("/readyz") != "" }))
	processtest.Eventually(p.t, patience, "the provider lists", func() bool { return p.store.machines() != nil })
	p.store.check()
	p.read()
	if p.t.Failed() {
		p.t.Fatalf("seed %d", s)
	}
}

// read looks at all machines, and tells whether any is on its way. What the store has shown is
// not undone: a machine that was seen in one state is in that one or a later one, and with the
// owner that it had.
func (p *providerKills) read() (busy bool) {
	p.t.Helper()
	for id, m := range p.store.machines() {
		busy = busy || slices.Contains(moving, m.State)
		if was := p.seen[id]; was != nil {
			if p.stage(m) < p.stage(was) {
				p.t.Errorf("machine %s was %v and is %v again", id, was.State, m.State)
			}
			if was.Cluster != "" && m.Cluster != was.Cluster && !(p.shrinks && m.Cluster == "") {
				p.t.Errorf("machine %s was bound to %s and is now bound to %q", id, was.Cluster, m.Cluster)
			}
		}
		p.seen[id] = m
	}
	return busy
}

// stage numbers the states on a machine's way to its cluster, and when demand shrinks on its way
// from there.
func (p *providerKills) stage(m *pb.Machine) int {
	if p.shrinks && m.State == pb.MachineState_MACHINE_STATE_IDLE {
		return int(pb.MachineState_MACHINE_STATE_DRAINING) + 1
	}
	return int(m.State)
}

// left: as many machines were bought as the largest demand needed beyond what was idle at first,
// and those that are bound to nobody are the rest of what was idle and what was given up since.
func (p *providerKills) left(s uint64, slots, most, now int) {
	p.t.Helper()
	p.store.check()
	p.read()
	n := tally(p.store.machines())
	bought := max(0, most-growthIdle)
	if left := n[pb.MachineState_MACHINE_STATE_SPECULATIVE]; left != slots-bought {
		p.t.Errorf("seed %d: %d slots are left, want %d: %d machines were needed at most", s, left, slots-bought, most)
	}
	if idle := n[pb.MachineState_MACHINE_STATE_IDLE]; idle != growthIdle+bought-now {
		p.t.Errorf("seed %d: %d machines are Idle, want %d", s, idle, growthIdle+bought-now)
	}
}

// checkShard: it is the process that it was, and holds no machine for Failed.
func (p *providerKills) checkShard(s uint64) {
	p.t.Helper()
	if epoch := p.shard.Metric("tonnage_shard_epoch"); epoch != 1 || p.shard.Ended() {
		p.t.Errorf("seed %d: the shard has ended or was started again: its epoch is %v", s, epoch)
	}
	if n := p.shard.Metric("bigfleet_shard_inventory_machines", `state="Failed"`); n != 0 {
		p.t.Errorf("seed %d: the shard holds %v machines for Failed", s, n)
	}
}
