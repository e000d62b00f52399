package buying

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

	churnPods   = flag.Int("churn-pods", 600, "of -whole: pods that come and go")
	churnRounds = flag.Int("churn-rounds", 20, "of -whole: in how many rounds of 31 s a third of them is replaced")
	churnFeed   = flag.String("churn-feed", "plain", "of -whole: what they are drawn from")
	churnPlaced = flag.String("churn-placed", "default,tonnage", "of -whole: by whom they are placed")
	churnGangs  = flag.Int("churn-gangs", 0, "of -whole: groups of four pods with GPUs beside them")
	lambda      = flag.Float64("lambda", 0, "of -whole: fit.lambda, 0 = the default")
)

// regions are A and B of the page that says what is to be shown, as near as the catalogue has them.
var regions = []Region{{"aws", "eu-west-1"}, {"gcp", "europe-west1"}}

// packers place pods: the operator's, and those of a kube-scheduler with some of its scores.
var packers = []struct {
	name  string
	place Placer
}{
	{"packer", Packed},
	{"default", Scheduled(Default)},
	{"tonnage", Scheduled(Tonnage)},
	{"gained", Scheduled(BalanceGained)},
	{"older default", Scheduled(OlderDefault)},
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
	options.Fit.Lambda = cmp.Or(*lambda, options.Fit.Lambda)
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

// TestChurn: while a third of the pods is replaced by others within ten minutes, in one of two runs with a deploy that doubles one size, no machine is given back
// for one that left, every pod runs within two rounds, and the bill stays near the bound.
func TestChurn(t *testing.T) {
	const pods, rounds = 300, 20
	types := catalogue(t, regions[0])
	for seed := range uint64(2) {
		feed, err := Feed("plain", pods, seed)
		if err != nil {
			t.Fatal(err)
		}
		options := engine.DefaultOptions()
		options.Acquire = engine.AcquireFit
		r, err := Churn(types, feed, Scheduled(Default), options, Churning{Rounds: rounds, Swaps: pods / 3 / rounds, Deploy: seed == 1, Seed: seed})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		t.Logf("seed %d: %.1f %% over the bound, %d machines bought, %d given back, %d bought again, a pod was pending for %d rounds", seed, 100*r.Over(), r.Bought, r.Reclaim, r.Again, r.Longest)
		if r.Reclaim > 0 || r.Pending > 0 && r.Longest > 2 {
			t.Errorf("seed %d: %d machines were given back and %d of them bought again; a pod was pending for %d rounds, %d in the end", seed, r.Reclaim, r.Again, r.Longest, r.Pending)
		}
	}
}

// TestGangs: gangs of pods with GPUs come and go among plain pods, of which a third is replaced. The scheduler knows nothing of what
// was bought for whom, and in the end every pod runs.
func TestGangs(t *testing.T) {
	types := catalogue(t, regions[0])
	for _, seed := range []uint64{0, 3} {
		feed, err := Feed("plain", 150, seed)
		if err != nil {
			t.Fatal(err)
		}
		options := engine.DefaultOptions()
		options.Acquire = engine.AcquireFit
		r, err := Churn(types, feed, Scheduled(Tonnage), options, Churning{Rounds: 10, Swaps: 5, Gangs: 8, Rest: 8, Seed: seed})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		t.Logf("seed %d: %.1f %% over the bound (%.1f when all ran first), %d machines bought, %d given back, a pod was pending for %d rounds", seed, 100*r.MeanOver(), 100*r.First, r.Bought, r.Reclaim, r.Longest)
		if r.Pending > 0 {
			t.Errorf("seed %d: %d pods are pending in the end", seed, r.Pending)
		}
	}
}

// churnLine sums runs up.
type churnLine struct {
	n, bought, given, again, longest, pending int
	mean, worst, first                        float64
}

func (l *churnLine) add(r *ChurnResult) {
	l.n++
	l.bought, l.given, l.again, l.pending = l.bought+r.Bought, l.given+r.Reclaim, l.again+r.Again, l.pending+r.Pending
	l.longest = max(l.longest, r.Longest)
	l.first += 100 * r.First
	l.mean, l.worst = l.mean+100*r.MeanOver(), max(l.worst, 100*r.MeanOver())
}

func (l *churnLine) String() string {
	return fmt.Sprintf("%.1f %% over the bound on average (worst run %.1f; %.1f when all ran first), %d machines bought, %d given back, %d bought again, a pod was pending for %d rounds at the most, %d in the end",
		l.mean/float64(l.n), l.worst, l.first/float64(l.n), l.bought, l.given, l.again, l.longest, l.pending)
}

// TestWholeChurn prints the same with a deploy that doubles one size, by region and packer.
func TestWholeChurn(t *testing.T) {
	if !*whole {
		t.Skip("-whole makes the table")
	}
	for _, region := range regions {
		types := catalogue(t, region)
		for _, p := range packers {
			if !slices.Contains(strings.Split(*churnPlaced, ","), p.name) {
				continue
			}
			var at churnLine
			for seed := range uint64(*seeds) {
				feed, err := Feed(*churnFeed, *churnPods, seed)
				if err != nil {
					t.Fatal(err)
				}
				options := engine.DefaultOptions()
				options.Acquire = engine.AcquireFit
				options.Fit.Lambda = cmp.Or(*lambda, options.Fit.Lambda)
				r, err := Churn(types, feed, p.place, options, Churning{Rounds: *churnRounds, Swaps: max(1, *churnPods/3 / *churnRounds), Deploy: true, Gangs: *churnGangs, Seed: seed})
				if err != nil {
					t.Fatalf("%s, %s, seed %d: %v", region.Name, p.name, seed, err)
				}
				at.add(r)
			}
			t.Logf("%s, %s: %s", region.Name, p.name, &at)
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
	eachFeed(t, func(region Region, types []Type, kind string, n int) {
		for _, rule := range strings.Split(*rules, ",") {
			for _, p := range packers {
				line(t, out, types, region, kind, n, rule, p.name, p.place)
			}
		}
	})
}

// eachFeed calls f for each region, feed and number of pods of -whole.
func eachFeed(t *testing.T, f func(region Region, types []Type, kind string, pods int)) {
	t.Helper()
	for _, region := range regions {
		types := catalogue(t, region)
		for _, kind := range strings.Split(*feeds, ",") {
			for _, size := range strings.Split(*sizes, ",") {
				n, err := strconv.Atoi(size)
				if err != nil {
					t.Fatalf("-pods: %v", err)
				}
				f(region, types, kind, n)
			}
		}
	}
}

// line runs all seeds of one line of the table.
func line(t *testing.T, out *tabwriter.Writer, types []Type, region Region, kind string, n int, ruleName, placed string, place Placer) {
	t.Helper()
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
