package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/processtest"
)

// TestDamagedFilesTakeNoNeighboursMachines: one flipped bit in the journal changes
// nothing about what a shard has; one whose domains are lost has nothing and does
// nothing until the coordinator has told it.
func TestDamagedFilesTakeNoNeighboursMachines(t *testing.T) {
	t.Parallel()
	const idle, own, want = 12, 4, 5
	g := newRegion(t, idle, 6, own)
	file := func(name string) string { return filepath.Join(g.dir, "shard-0", name) }
	flip := func(name string) {
		t.Helper()
		content, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)/2] ^= 4
		if err := os.WriteFile(file(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ownAll := func() bool {
		has := g.owns(0)
		for id := range has {
			if !strings.HasPrefix(id, "a-") {
				t.Fatalf("shard-0 has %s, which is its neighbour's", id)
			}
		}
		return len(has) == idle
	}
	g.coordinator.Kill()

	g.shards[0].Kill()
	flip("journal")
	g.shards[0].Start()
	processtest.Eventually(t, patience, "a shard with a damaged journal has its own machines", ownAll)
	if n := g.shards[0].Metric("tonnage_shard_damaged_files"); n != 1 {
		t.Errorf("%v damaged files, want 1", n)
	}

	g.shards[0].Kill()
	flip("domains")
	flip("domains.copy")
	g.shards[0].Start()
	demand := connect(t, g.sessions[0], time.Second, []string{"cluster"}).clusters[0]
	demand.demands(machinesNeed(want))
	processtest.Eventually(t, patience, "a shard that has lost its domains has gone through ten cycles", func() bool {
		ownAll()
		return g.shards[0].Metric("tonnage_shard_cycle_seconds_count") >= 10
	})
	if lost, n := g.shards[0].Metric("tonnage_shard_domains_lost"), g.bound(); lost != 1 || n != 0 {
		t.Errorf("domains lost: %v; %d machines are bound", lost, n)
	}

	g.coordinator.Start()
	processtest.Eventually(t, patience, "the coordinator has told it its domains, and it serves demand", func() bool {
		return ownAll() && g.bound() == want && g.shards[0].Metric("tonnage_shard_domains_lost") == 0
	})
	processtest.Eventually(t, patience, "every machine has its owner", g.watch)
	g.store.check()
}
