package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

var (
	rows   = flag.Int("rows", 2000, "rows of the large roll-up")
	rounds = flag.Int("rounds", 5, "how often the large roll-up changes")
)

// rowsFleet writes machines for as many rows and some more: types of their own,
// so that no two rows want the same ones.
func rowsFleet(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"machines":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"m-%06d","state":"Idle","instanceType":"type-%d","capacityType":"BareMetal","zone":"z","pricePerHour":1,"resources":{"cpu":"16"}}`, i, i%rowsTypes)
	}
	b.WriteString(`],"needs":[]}`)
	path := filepath.Join(t.TempDir(), "world.json")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const rowsTypes = 40

func rowNeed(i int) *pb.CapacityNeed {
	return &pb.CapacityNeed{
		Priority: int32(i % 7), Group: fmt.Sprint("job-", i),
		AggregateResources: map[string]string{"cpu": "16"}, MinUnit: map[string]string{"cpu": "16"},
		Requirements: []*pb.NodeSelectorRequirement{{Key: "node.kubernetes.io/instance-type", Operator: pb.NodeSelectorRequirement_OPERATOR_IN, Values: []string{fmt.Sprint("type-", i%rowsTypes)}}},
	}
}

// TestLargeRollup measures what a roll-up of many rows takes from the operator's
// hand until it hears that a machine is being bound: read, decided, acted on. All
// but one of the rows are served already; each round adds one.
func TestLargeRollup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, sessions := freeport.Take(t), freeport.Take(t)
	processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=1ms", "--seed-file="+rowsFleet(t, *rows+*rounds+100))
	// Cycles come with roll-ups alone, apart from the first.
	s := processtest.Start(t, "shard", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "shard"),
		"--cycle-interval=1s", "--cluster-rollup-interval=0", "--cluster-rows-max=100000", "--incremental-reconcile", "--execute-concurrency=256")
	processtest.Eventually(t, patience, "the shard lists", func() bool { return s.Get("/readyz") != "" })
	x := connect(t, sessions, time.Hour, []string{"large"}).clusters[0]
	var needs []*pb.CapacityNeed
	for i := range *rows {
		needs = append(needs, rowNeed(i))
	}
	// What the operator hears costs less than to list the machines all the time.
	bound := func() int { return len(x.serves()) }
	x.demands(needs...)
	processtest.Eventually(t, 2*patience, "all rows are served", func() bool { return bound() == *rows })
	var took, inShard, inTest []time.Duration
	for i := range *rounds {
		needs = append(slices.Clone(needs), rowNeed(*rows+i))
		x.given.Store(0)
		began, shardBefore, testBefore := time.Now(), processorTime(s.PID()), processorTime(os.Getpid())
		x.demands(needs...)
		processtest.Eventually(t, patience, "the new row is acted on", func() bool { return x.given.Load() != 0 })
		inShard = append(inShard, (processorTime(s.PID()) - shardBefore).Round(100*time.Microsecond))
		inTest = append(inTest, (processorTime(os.Getpid()) - testBefore).Round(100*time.Microsecond))
		took = append(took, time.Duration(x.given.Load()-began.UnixNano()).Round(100*time.Microsecond))
		processtest.Eventually(t, patience, "the new row is served", func() bool { return bound() == *rows+i+1 })
	}
	slices.Sort(took)
	slices.Sort(inShard)
	slices.Sort(inTest)
	t.Logf("%d rows, one of them new: from the operator's send until a machine is being bound %v (median %v); processor time of the shard %v (median %v), of the operator %v (median %v)",
		*rows, took, took[len(took)/2], inShard, inShard[len(inShard)/2], inTest, inTest[len(inTest)/2])
}
