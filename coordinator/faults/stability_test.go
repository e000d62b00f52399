package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
)

var (
	dead     = flag.Duration("dead", 3*time.Second, "how long no coordinator is there while demand changes; from a minute on, the leader is cut off one way as well before")
	deadStep = flag.Duration("dead-step", 500*time.Millisecond, "the time between two changes of demand then")
)

const (
	demandPriority = 1000
	// baselineCycles is how many cycles are looked at before anything breaks.
	baselineCycles = 20
	// deadLong is from when on a run is a long one.
	deadLong = time.Minute
)

// pulse is how far a shard's cycles have come.
type pulse struct {
	at      time.Time
	cycles  float64
	seconds float64 // that they took
}

func (n *node) pulse() pulse {
	page := n.get("/metrics")
	return pulse{time.Now(), metric(page, "bigfleet_shard_cycle_duration_seconds_count"), metric(page, "bigfleet_shard_cycle_duration_seconds_sum")}
}

// cycling watches the cycles of all shards while something goes on, and holds
// their number to half of what the interval allows: where other work takes the
// processor away, a tick is lost now and then.
func (r *region) cycling(what string, during func()) {
	r.t.Helper()
	before := make([]pulse, len(r.shards))
	for i, n := range r.shards {
		before[i] = n.pulse()
	}
	during()
	for i, n := range r.shards {
		was, is := before[i], n.pulse()
		took, cycles := is.at.Sub(was.at), is.cycles-was.cycles
		mean := time.Duration((is.seconds - was.seconds) / max(1, cycles) * 1e9)
		r.t.Logf("%s: %s made %.0f cycles in %v, one every %v, of %v each", what, n.id, cycles, took.Round(time.Millisecond),
			(took / time.Duration(max(1, cycles))).Round(time.Millisecond), mean.Round(10*time.Microsecond))
		if want := float64(took/cycleEvery)/2 - 1; cycles < want {
			r.t.Errorf("%s: %s made %.0f cycles in %v, want at least %.0f", what, n.id, cycles, took, want)
		}
	}
}

// want asks for machines in all clusters and waits until they have them.
func (r *region) want(rng *rand.Rand) time.Duration {
	r.t.Helper()
	want := make([]int, len(r.clusters))
	for i, c := range r.clusters {
		want[i] = 1 + rng.Intn(regionMachines[i].idle-2)
		c.demands(want[i], demandPriority)
	}
	return eventually(r.t, patience, fmt.Sprintf("the clusters have %v machines", want), func(context.Context) bool { return fmt.Sprint(r.bound()) == fmt.Sprint(want) })
}

// moved is how many machines have changed their shard for good, and whether no
// move is open.
func (r *region) moved() (machines int, quiet bool) {
	quiet = true
	err := r.g.client().Call(context.Background(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		got, err := tonnage.NewFleetClient(conn).Rebalancing(ctx, &tonnage.RebalancingRequest{})
		for _, m := range got.GetMoves() {
			switch m.GetPhase() {
			case "adopted", "settled":
				machines += len(m.GetMachineIds())
			}
			quiet = quiet && m.GetPhase() != "asked" && m.GetPhase() != "released" && m.GetPhase() != "adopted" && m.GetPhase() != "returning"
		}
		return err
	})
	return machines, quiet && err == nil
}

// networked is a group whose replicas can be cut off, and the ways to break its
// leader; on loopback, without cuts, where TONNAGE_NO_NETNS is set.
func networked(t *testing.T, extra ...string) (*group, []fault) {
	t.Helper()
	reason := netnsMissing()
	if reason == "" {
		some := cuts
		if *dead < deadLong {
			some = cuts[:shortCuts]
		}
		return newNetnsGroup(t, extra...), slices.Concat(faults, some)
	}
	if os.Getenv("TONNAGE_NO_NETNS") == "" {
		t.Fatal(reason)
	}
	t.Log("replicas are not cut off: ", reason)
	return newGroup(t, extra...), faults
}

// shortCuts is how many of the cuts a short run has.
const shortCuts = 1

// TestShardsGoOn breaks the leader in every way while calls go on and three
// shards serve demand that changes; then all replicas are killed, demand goes on
// changing, and at last one shard is short of what others have. Leadership passes
// on in time and nothing that was answered is lost; the shards' cycles are what
// they were and demand is met with and without a coordinator; and when the
// replicas are back, exactly the machines that are missing change their shard.
func TestShardsGoOn(t *testing.T) {
	t.Parallel()
	g, all := networked(t, "--rebalance=on", "--rebalance-interval=300ms")
	g.shards() // of the recorder
	r := newRegion(t, g, regionMachines)
	s := newSeed(t)
	rng := rand.New(rand.NewSource(s))
	r.cycling("nothing broken", func() {
		r.want(rng)
		began := r.shards[0].pulse().cycles
		eventually(t, patience, "shards make cycles", func(context.Context) bool { return r.shards[0].pulse().cycles >= began+baselineCycles })
	})
	rec := &recorder{g: g}
	var marks []string
	rec.run(4, s, func() {
		for _, f := range all {
			marks = append(marks, f.name)
			r.cycling(f.name, func() { g.breakLeader(f, f.name); r.want(rng) })
		}
	})
	checkMarks(t, g, marks...)
	for i := range 3 { // rebalancing would wait for them
		g.ctl("remove-shard", "--shard", fmt.Sprint("s-", i))
	}
	r.alone(rng)
	r.catchUp()
}

// alone kills every replica and changes demand for a while.
func (r *region) alone(rng *rand.Rand) {
	r.t.Helper()
	for _, n := range r.g.nodes {
		n.kill()
	}
	var slowest time.Duration
	changes := 0
	r.cycling("no coordinator", func() {
		tick := time.NewTicker(*deadStep)
		defer tick.Stop()
		for end := time.Now().Add(*dead); time.Now().Before(end); <-tick.C {
			slowest = max(slowest, r.want(rng))
			changes++
			r.watch()
		}
	})
	r.t.Logf("no coordinator for %v: %d changes of demand, each met within %v", *dead, changes, slowest.Round(time.Millisecond))
}

// catchUp lets the last shard be short before a coordinator is there again: the
// first one can spare all that is missing but for three, the second buys those.
func (r *region) catchUp() {
	r.t.Helper()
	spare := regionMachines[0].idle - (regionMachines[0].idle+9)/10
	own := regionMachines[2].idle
	missing := spare + 3
	r.clusters[0].demands(0, 0)
	r.clusters[1].demands(regionMachines[1].idle, demandPriority) // all that is idle there
	r.clusters[2].demands(own+missing, demandPriority)
	eventually(r.t, patience, "the shards have done what they can", func(context.Context) bool {
		return fmt.Sprint(r.bound()) == fmt.Sprint([]int{0, regionMachines[1].idle, own})
	})
	began := time.Now()
	for _, n := range r.g.nodes {
		r.g.start(n)
	}
	led := eventually(r.t, patience, "a coordinator answers", func(context.Context) bool { _, ok := r.moved(); return ok })
	eventually(r.t, patience, "the shortfall is met", func(context.Context) bool { r.watch(); return r.bound()[2] == own+missing })
	r.t.Logf("a coordinator answers after %v; %d machines that were missing have come %v after the start", led.Round(time.Millisecond), missing, time.Since(began).Round(time.Millisecond))
	eventually(r.t, patience, "every machine has its owner and no move is open", func(context.Context) bool { _, quiet := r.moved(); return r.watch() && quiet })
	passes := r.passes()
	eventually(r.t, patience, "ten more passes", func(context.Context) bool { r.watch(); return r.passes() >= passes+10 })
	if n, quiet := r.moved(); n != missing || !quiet {
		r.t.Errorf("%d machines have moved (quiet: %t), want %d and no more", n, quiet, missing)
	}
}

// passes is how many passes of rebalancing the replicas have made.
func (r *region) passes() (n float64) {
	for _, x := range r.g.nodes {
		n += metric(x.get("/metrics"), "tonnage_coordinator_rebalance_pass_seconds_count")
	}
	return n
}
