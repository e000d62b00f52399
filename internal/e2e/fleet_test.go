package e2e

import (
	"flag"
	"hash/fnv"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/shard/session"
)

// fleetSessions is how many operators the rung's demand is spread over.
const fleetSessions = 200

var (
	rung    = flag.String("rung", "tiny", "calibrated workload of the fleet")
	latency = flag.String("latency", "50ms-300ms", "how long the provider takes over a change")
	rest    = flag.Duration("rest", 2*time.Second, "a fleet in which nothing has moved for so long is at rest")
)

// bindLimit is within which the rung's demand is bound.
const bindLimit = 60 * time.Second

// rungDemand returns the demand of a rung, spread over the clusters: rows of one
// group stay together.
func rungDemand(t *testing.T, rung string, clusters []string) [][]*pb.CapacityNeed {
	t.Helper()
	r, err := workload.ByName(rung)
	if err != nil {
		t.Fatal(err)
	}
	fleet := workload.Build(r, 1)
	rows := make([][]model.Need, len(clusters))
	n := 0
	for c, cluster := range fleet.Clusters() {
		for _, need := range fleet.Needs(workload.Cold, c) {
			need.Cluster = ""
			at := n % len(clusters)
			if need.Group != "" {
				h := fnv.New32a()
				h.Write([]byte(cluster + need.Group))
				at = int(h.Sum32()) % len(clusters)
			}
			n++
			rows[at] = append(rows[at], need)
		}
	}
	out := make([][]*pb.CapacityNeed, len(clusters))
	for i := range rows {
		var m pb.ClusterCapacityNeeds
		if err := proto.Unmarshal(session.AppendRollup(nil, clusters[i], 1, rows[i]), &m); err != nil {
			t.Fatal(err)
		}
		out[i] = m.Needs
	}
	t.Logf("%s: %d rows in %d clusters", rung, n, len(clusters))
	return out
}

// rig is a provider and a shard with a rung's machines, and 200 operators.
type rig struct {
	t        *testing.T
	provider *processtest.Process
	shard    *processtest.Process
	store    *store
	fleet    *operators
}

func newRig(t *testing.T, rung, latency string) *rig {
	dir := t.TempDir()
	at, sessions := freeport.Take(t), freeport.Take(t)
	g := &rig{t: t}
	g.provider = processtest.Start(t, "provider", "--listen="+at, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "provider"),
		"--latency="+latency, "--seed-rung="+rung)
	g.store = openStore(t, at)
	g.shard = processtest.Start(t, "shard", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "shard"),
		"--cycle-interval=1s", "--incremental-reconcile", "--execute-concurrency=64")
	g.fleet = connect(t, sessions, 10*time.Second, names("cluster", fleetSessions))
	return g
}

// atRest tells whether nothing moves, and nothing more is to be done: nothing has
// moved for the time of rest, and as many machines are bound as at its beginning.
func (g *rig) atRest() func() bool {
	last, since := -1, time.Time{}
	return func() bool {
		if g.store.moves() {
			last = -1
			return false
		}
		if last >= 0 && time.Since(since) <= *rest {
			return false
		}
		n := tally(g.store.machines())[pb.MachineState_MACHINE_STATE_CONFIGURED]
		if n == 0 || n != last {
			last, since = n, time.Now()
			return false
		}
		return true
	}
}

// bound returns the machines that are bound, and to whom.
func (g *rig) bound() map[string]string {
	out := map[string]string{}
	for id, m := range g.store.machines() {
		if m.State == pb.MachineState_MACHINE_STATE_CONFIGURED {
			out[id] = m.Cluster
		}
	}
	return out
}

// TestFleet: a provider, a shard and two hundred operators. The demand of a
// region is bound in time; then the provider, all sessions and the shard are cut
// off in turn, and in the end every machine is where it was, with one owner.
func TestFleet(t *testing.T) {
	t.Parallel()
	g := newRig(t, *rung, *latency)
	demand := rungDemand(t, *rung, names("cluster", fleetSessions))
	processtest.Eventually(t, patience, "the shard lists", func() bool { return g.shard.Get("/readyz") != "" })
	began := time.Now()
	for i, x := range g.fleet.clusters {
		x.demands(demand[i]...)
	}
	processtest.Eventually(t, patience, "all roll-ups are acknowledged", func() bool { return g.fleet.acknowledged() == fleetSessions })
	acknowledged := time.Since(began)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("in the end, by state: %v", tally(g.store.machines()))
		}
	})
	processtest.Eventually(t, bindLimit, "the demand is bound", g.atRest())
	took := time.Since(began)
	before := g.bound()
	t.Logf("%d machines bound %v after the demand came, the time of rest included (roll-ups acknowledged after %v); %v shortfalls; %v cycles of %v ms on average",
		len(before), took.Round(100*time.Millisecond), acknowledged.Round(10*time.Millisecond), g.shard.Metric("bigfleet_shard_shortfalls"),
		g.shard.Metric("bigfleet_shard_cycle_duration_seconds_count"),
		int(1000*g.shard.Metric("bigfleet_shard_cycle_duration_seconds_sum")/g.shard.Metric("bigfleet_shard_cycle_duration_seconds_count")))
	if r, err := workload.ByName(*rung); err != nil || len(before) < r.Configured*9/10 {
		t.Errorf("%d machines are bound; the rung asks for about %d", len(before), r.Configured)
	}
	g.verify(before)
	for _, x := range []struct {
		name    string
		trouble func()
	}{
		{"the provider is killed", g.provider.Restart},
		{"all sessions are cut", g.fleet.cutAll},
		{"the shard is killed", g.shard.Restart},
	} {
		began := time.Now()
		x.trouble()
		processtest.Eventually(t, patience, x.name+" and all operators are there again", func() bool {
			return g.fleet.acknowledged() == fleetSessions && g.shard.Metric("bigfleet_shard_active_sessions") == fleetSessions && len(g.store.machines()) > 0
		})
		back := time.Since(began)
		processtest.Eventually(t, patience, x.name+" and nothing moves", g.atRest())
		t.Logf("%s: operators there again after %v", x.name, back.Round(10*time.Millisecond))
		g.verify(before)
	}
	if err := g.shard.Stop(); err != nil {
		t.Errorf("the shard's end: %v", err)
	}
}

// verify compares the fleet with what it was.
func (g *rig) verify(before map[string]string) {
	g.t.Helper()
	g.store.check()
	after := g.bound()
	moved := 0
	for id, c := range before {
		if after[id] != c {
			moved++
		}
	}
	if moved > 0 || len(after) != len(before) {
		g.t.Errorf("%d of %d machines have another owner, %d are bound now", moved, len(before), len(after))
	}
	processtest.Eventually(g.t, patience, "operators know their machines", func() bool {
		n := 0
		for _, x := range g.fleet.clusters {
			n += len(x.serves())
		}
		return n == len(after)
	})
	g.store.checkOwners(g.fleet)
	if g.t.Failed() {
		g.t.Fatalf("%d machines bound", len(after))
	}
}
