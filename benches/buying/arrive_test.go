package buying

import (
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

func arrive(t *testing.T, types []Type, at, pods int, seed uint64, place Placer) *ArriveResult {
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
	r, err := Arrive(types, feed, place, options, Arriving{PodsPerSecond: how.pods, NodesPerSecond: how.nodes, Latency: 11 * time.Second, Decide: 5 * time.Second, Limit: 5 * time.Minute})
	if err != nil {
		t.Fatalf("seed %d, %s: %v", seed, how.name, err)
	}
	return r
}

// TestArrive: however pods and machines come, every pod runs within the limit. Where pods come by size, and nodes one after the
// other, the bill is farther above the bound than where all are there at once: that is what a real scheduler has.
func TestArrive(t *testing.T) {
	types := catalogue(t, regions[0])
	for at := range arrivals {
		r := arrive(t, types, at, 300, 1, Scheduled(Tonnage))
		t.Logf("%s: %.1f %% over the bound after %v, %d machines, %d given back", arrivals[at].name, 100*r.Over(), r.Took, r.Machines, r.Given)
		if r.Pending > 0 {
			t.Errorf("%s: %d pods are pending in the end", arrivals[at].name, r.Pending)
		}
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
				var over, stuck, took, given float64
				for seed := range uint64(*seeds) {
					r := arrive(t, types, at, *churnPods, seed, p.place)
					over, stuck, took, given = over+100*r.Over(), stuck+float64(r.Stuck), took+r.Took.Seconds(), given+float64(r.Given)
				}
				n := float64(*seeds)
				t.Logf("%s, %s, %s: %.1f %% over the bound; %.0f pods pending when one was stuck first; all ran after %.0f s; %.1f machines given back",
					region.Name, p.name, arrivals[at].name, over/n, stuck/n, took/n, given/n)
			}
		}
	}
}
