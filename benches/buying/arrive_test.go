package buying

import (
	"flag"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
)

// together is more pods or nodes than come in a second: all come at once.
const together = math.MaxInt32

// arrivals are ways in which 600 pods and their machines come.
var arrivals = []struct {
	name        string
	bySize      bool
	pods, nodes int
}{
	{"pods in any order, all nodes at once", false, together, together},
	{"pods by size, all nodes at once", true, together, together},
	{"pods by size, 5 nodes a second", true, together, 5},
	{"60 pods a second in any order, 5 nodes a second", false, 60, 5},
	{"60 pods a second by size, 5 nodes a second", true, 60, 5},
}

// mends are what brings pods to where they were planned.
var mends = []struct {
	name            string
	whole, nominate bool
}{
	{"none", false, false},
	{"whole", true, false},
	{"nominated", false, true},
	{"both", true, true},
}

var (
	arriveMends = flag.String("arrive-mends", "none,nominated", "none, whole (nodes that were bought together take pods once all are there), nominated (the operator nominates pods for a node before it takes any) and both")
	arriveGangs = flag.Int("arrive-gangs", 0, "groups of four pods with GPUs")
)

func arrive(t *testing.T, types []Type, at, pods int, seed uint64, place Placer, mend, gangs int) *ArriveResult {
	t.Helper()
	feed, err := Feed("plain", pods, seed)
	if err != nil {
		t.Fatal(err)
	}
	how := &arrivals[at]
	if how.bySize {
		feed = BySize(feed)
	}
	options := engine.DefaultOptions()
	options.Acquire = engine.AcquireFit
	r, err := Arrive(types, feed, place, options, Arriving{PodsPerSecond: how.pods, NodesPerSecond: how.nodes, Latency: 11 * time.Second, Decide: 5 * time.Second, Limit: 5 * time.Minute,
		Whole: mends[mend].whole, Nominate: mends[mend].nominate, Gangs: gangs, Seed: seed})
	if err != nil {
		t.Fatalf("seed %d, %s: %v", seed, how.name, err)
	}
	return r
}

// TestArrive: however pods and machines come, every pod runs within the limit. Where pods come by size, and nodes one after the
// other, the bill is farther above the bound than where all are there at once: that is what a real scheduler has. Where the
// operator nominates pods for each node before it takes any, it does not matter.
func TestArrive(t *testing.T) {
	types := catalogue(t, regions[0])
	const nominated = 2
	over := map[string]float64{}
	for at := range arrivals {
		for _, mend := range []int{0, nominated} {
			r := arrive(t, types, at, 300, 1, Scheduled(Tonnage), mend, 0)
			t.Logf("%s, mend %s: %.1f %% over the bound after %v, %d machines, %d given back", arrivals[at].name, mends[mend].name, 100*r.Over(), r.Took, r.Machines, r.Given)
			if r.Pending > 0 {
				t.Errorf("%s, mend %s: %d pods are pending in the end", arrivals[at].name, mends[mend].name, r.Pending)
			}
			over[arrivals[at].name+mends[mend].name] = r.Over()
		}
	}
	const slow, atOnce = "pods by size, 5 nodes a second", "pods by size, all nodes at once"
	if over[slow+"nominated"] >= over[slow+"none"] || over[slow+"nominated"] > over[atOnce+"nominated"]+0.01 {
		t.Errorf("with nominations it is %.3f over the bound, without %.3f; with all nodes at once %.3f", over[slow+"nominated"], over[slow+"none"], over[atOnce+"nominated"])
	}
}

// TestArriveWithGangs: the same of plain pods and groups with GPUs.
func TestArriveWithGangs(t *testing.T) {
	r := arrive(t, catalogue(t, regions[0]), 2, 150, 1, Scheduled(Tonnage), 2, 4)
	t.Logf("%.1f %% over the bound after %v, %d machines, %d given back", 100*r.Over(), r.Took, r.Machines, r.Given)
	if r.Pending > 0 {
		t.Errorf("%d pods are pending in the end", r.Pending)
	}
}

// TestWholeArrive prints the same of 600 pods, by region and packer.
func TestWholeArrive(t *testing.T) {
	if !*whole {
		t.Skip("-whole makes the table")
	}
	for _, region := range regions {
		types := catalogue(t, region)
		for _, p := range packers {
			if !slices.Contains(strings.Split(*churnPlaced, ","), p.name) {
				continue
			}
			for at := range arrivals {
				for mend := range mends {
					if slices.Contains(strings.Split(*arriveMends, ","), mends[mend].name) {
						reportArrivals(t, region.Name, types, at, p.name, p.place, mend)
					}
				}
			}
		}
	}
}

func reportArrivals(t *testing.T, region string, types []Type, at int, placed string, place Placer, mend int) {
	t.Helper()
	var over, worst, stuck, took, given, pending float64
	for seed := range uint64(*seeds) {
		r := arrive(t, types, at, *churnPods, seed, place, mend, *arriveGangs)
		over, stuck, took, given = over+100*r.Over(), stuck+float64(r.Stuck), took+r.Took.Seconds(), given+float64(r.Given)
		worst, pending = max(worst, 100*r.Over()), pending+float64(r.Pending)
	}
	n := float64(*seeds)
	t.Logf("%s, %s, %s, mend %s: %.1f (%.1f) %% over the bound; %.0f pods pending when one was stuck first; %.1f pending in the end; all ran after %.0f s; %.1f machines given back",
		region, placed, arrivals[at].name, mends[mend].name, over/n, worst, stuck/n, pending/n, took/n, given/n)
}
