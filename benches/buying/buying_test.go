package buying

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/tonnage/tonnage/engine"
)

var (
	whole = flag.Bool("whole", false, "every feed, size, rule and packer with ten seeds, as a table; some minutes")
	seeds = flag.Int("seeds", 10, "of -whole")
	feeds = flag.String("feeds", strings.Join(Feeds, ","), "of -whole")
	sizes = flag.String("pods", "500,2000,5000", "of -whole: how many pods")
	rules = flag.String("rules", "cheapest,fit", "of -whole: rules of acquisition")
)

// regions are A and B of the page that says what is to be shown, as near as the catalogue has them.
var regions = []Region{{"aws", "eu-west-1"}, {"gcp", "europe-west1"}}

// packers place pods: the operator's, and those of a kube-scheduler with some of its scores.
var packers = []struct {
	name  string
	place Placer
}{
	{"aligned", Aligned},
	{"default", Scheduled(Default)},
	{"balanced", Scheduled(BalancedAllocation)},
	{"most", Scheduled(MostAllocated)},
}

func catalogue(tb testing.TB, region Region) []Type {
	tb.Helper()
	path := filepath.Join("..", "..", "..", "shared", "data", "catalog", "instances.csv")
	f, err := os.Open(path)
	if err != nil {
		tb.Skip("the catalogue of prices is not here: ", err)
	}
	defer f.Close()
	types, err := ReadCatalogue(f, region)
	if err != nil {
		tb.Fatal(err)
	}
	return types
}

func run(tb testing.TB, types []Type, kind string, n int, seed uint64, rule engine.AcquireRule, place Placer) *Result {
	tb.Helper()
	pods, err := Feed(kind, n, seed)
	if err != nil {
		tb.Fatal(err)
	}
	options := engine.DefaultOptions()
	options.Acquire = rule
	r, err := Run(types, pods, place, options)
	if err != nil {
		tb.Fatalf("%s, %d pods, seed %d: %v", kind, n, seed, err)
	}
	return r
}

// TestEveryPodRuns: with either rule, the operator's code and the default scores of a
// kube-scheduler, no pod is pending in the end; and the machines of fit cost less.
func TestEveryPodRuns(t *testing.T) {
	for _, region := range regions {
		types := catalogue(t, region)
		for _, kind := range Feeds {
			cheapest := run(t, types, kind, 500, 1, engine.AcquireCheapest, Scheduled(Default))
			fit := run(t, types, kind, 500, 1, engine.AcquireFit, Scheduled(Default))
			if cheapest.Pending > 0 || fit.Pending > 0 {
				t.Errorf("%s, %s: %d pods are pending with cheapest, %d with fit", region.Name, kind, cheapest.Pending, fit.Pending)
			}
			// With GPUs most of the bill is for machines whose GPUs others' pods keep from being used.
			if kind != "gpus" && fit.Spend > cheapest.Spend {
				t.Errorf("%s, %s: fit costs $%.2f an hour, cheapest $%.2f", region.Name, kind, fit.Spend, cheapest.Spend)
			}
			if fit.Spend < fit.Bound {
				t.Errorf("%s, %s: $%.2f an hour is below the bound of $%.2f", region.Name, kind, fit.Spend, fit.Bound)
			}
		}
	}
}

// TestWhole prints how far the spend is above the bound.
func TestWhole(t *testing.T) {
	if !*whole {
		t.Skip("-whole makes the table")
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "region\tfeed\tpods\trule\tplaced by\tmean over %\tworst %\tpending\trounds, 9 of 10\tpending after round 1 %\tgiven back")
	for _, region := range regions {
		types := catalogue(t, region)
		for _, kind := range strings.Split(*feeds, ",") {
			for _, size := range strings.Split(*sizes, ",") {
				for _, rule := range strings.Split(*rules, ",") {
					for _, p := range packers {
						line(t, out, types, region, kind, size, rule, p.name, p.place)
					}
				}
			}
		}
	}
}

// line runs all seeds of one line of the table.
func line(t *testing.T, out *tabwriter.Writer, types []Type, region Region, kind, size, ruleName, placed string, place Placer) {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(size, &n); err != nil {
		t.Fatalf("-pods: %v", err)
	}
	rule, err := engine.ParseAcquireRule(ruleName)
	if err != nil {
		t.Fatal(err)
	}
	var sum, worst, first float64
	var pending, given int
	var rounds []int
	for seed := range uint64(*seeds) {
		r := run(t, types, kind, n, seed, rule, place)
		sum, worst, first = sum+r.Over(), max(worst, r.Over()), first+float64(r.First)/float64(n)
		pending, given, rounds = pending+r.Pending, given+r.Given, append(rounds, r.Rounds)
	}
	of := float64(*seeds) / 100
	fmt.Fprintf(out, "%s\t%s\t%d\t%s\t%s\t%.1f\t%.1f\t%d\t%d\t%.1f\t%d\n",
		region.Name, kind, n, rule, placed, sum/of, 100*worst, pending, quantile(rounds, 0.9), first/of, given)
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
}

// quantile returns the value that a part of all is not above.
func quantile(all []int, part float64) int {
	slices.Sort(all)
	return all[min(len(all)-1, int(math.Ceil(part*float64(len(all))))-1)]
}
