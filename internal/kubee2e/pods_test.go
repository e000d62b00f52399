package kubee2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"flag"

	"github.com/tonnage/tonnage/internal/freeport"
)

var (
	podsCount    = flag.Int("pods-count", 600, "run pods: how many pods there are on average")
	podsMinutes  = flag.Float64("pods-minutes", 10, "run pods: for how long pods come and go, minutes")
	podsRegions  = flag.String("pods-regions", "A", "run pods: A, B or A,B: "+regionText)
	podsProfiles = flag.String("pods-profiles", "tonnage", "run pods: configurations of the scheduler, with commas between: default, tonnage (deploy/scheduler), or files")
	podsFeeds    = flag.String("pods-feeds", "plain", "run pods: plain, gangs (the same with GPU pods in gangs) or plain,gangs")
	podsWithin   = flag.Duration("pods-within", 0, "run pods: a pod that takes longer to run is a fault; 0 = it is only reported")
	podsOver     = flag.String("pods-over", "", "run pods: how far the mean bill may be above the mean bound, percent, by region and profile, as A/tonnage=8,A/default=10; what is not named is only reported")
	podsAgain    = flag.Bool("pods-again", false, "run pods: a class of machine that is bought within ten minutes after one was reclaimed is a fault")
	podsNominate = flag.Bool("pods-nominate", true, "run pods: nodes wait until the operator has nominated pods for them")
	podsJSON     = flag.String("pods-json", "", "run pods: file of what was measured; empty = none")
)

// configureLatency is how long a machine that is there takes to be of a cluster.
const configureLatency = 5 * time.Second

// TestPods has pods of thirty sizes come and go in a cluster whose machines are bought for them from
// a real price list, and reports how long pods were pending and what the machines cost.
func TestPods(t *testing.T) {
	want(t, "pods")
	var all []*podsResult
	for _, region := range strings.Split(*podsRegions, ",") {
		for _, profile := range strings.Split(*podsProfiles, ",") {
			for _, feed := range strings.Split(*podsFeeds, ",") {
				t.Run(strings.Join([]string{region, filepath.Base(profile), feed}, "/"), func(t *testing.T) {
					runPods(t, region, profile, feed, func(r *podsResult) { all = append(all, r) })
				})
			}
		}
	}
	writeResults(t, all)
}

// runPods is one run. keep is handed what was measured, also when the run fails halfway.
func runPods(t *testing.T, region, profile, feedName string, keep func(*podsResult)) {
	t.Helper()
	types := marketOf(t, region)
	seed := *e2eSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	w := newWorkload(t, feedName, *podsCount, seed)
	f := newMarketFleet(t, types, w, profile)
	f.stand()
	m := newMeter(f, types)
	sumUp := sync.OnceValue(func() *podsResult {
		m.finish()
		r := m.result(w)
		r.Region, r.Profile, r.Feed, r.Seed, r.Nominate, r.Failed = region, profile, feedName, seed, *podsNominate, t.Failed()
		r.log(t)
		keep(r)
		return r
	})
	defer sumUp()
	d := &churner{f: f, w: w, m: m}
	d.fill()
	d.churn(time.Duration(*podsMinutes * float64(time.Minute)))
	d.rest()
	sumUp().judge(t)
	if v := verdict(f.maker.abandoned()); v != "" {
		t.Error("machines left with pods on them: ", v)
	}
}

// newMarketFleet starts one cluster, a shard that buys by fit, and a provider that has the machines of a
// price list on offer.
func newMarketFleet(t *testing.T, types []marketType, w *podsWorkload, profile string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), p: findPrograms(t)}
	begun := time.Now()
	c := (&cluster{t: t, name: "blue", p: f.p, scheduler: schedulerProfile(t, profile), nominates: *podsNominate}).begin()
	f.clusters, f.watches = []*cluster{c}, []*watch{watchCluster(t, c)}
	ports := freeport.TakeN(t, 2)
	tonnage := filepath.Join(f.p.ours, "tonnage")
	start(t, f.dir, "provider", tonnage, "provider", "--listen="+ports[0], "--metrics-addr=0", "--data-dir="+filepath.Join(f.dir, "provider"),
		"--seed-file="+market(t, f.dir, types, w), "--latency=1s", "--latency-create=2s", "--latency-configure="+configureLatency.String(), "--latency-drain=12s")
	f.shard = start(t, f.dir, "shard", tonnage, "shard", "--acquire=fit", "--listen="+ports[1], "--metrics-addr=0", "--provider-addr="+ports[0],
		"--data-dir="+filepath.Join(f.dir, "shard"), "--cycle-interval="+(*interval/2).String(), "--audit-log="+f.auditFile(), "--incremental-reconcile")
	f.maker = newMaker(t, ports[0], f.clusters, paidFor...)
	c.startOperators(ports[1], *interval, "a")
	f.record = newRecorder(f)
	t.Logf("cluster, provider, shard and operators started within %.1f s", time.Since(begun).Seconds())
	return f
}

// picture is the file of a run's picture: each of several runs has its own.
func picture(t *testing.T) string {
	if *timeline == "" {
		return ""
	}
	parts := strings.Split(t.Name(), "/")
	if len(parts) == 1 {
		return *timeline
	}
	ext := filepath.Ext(*timeline)
	return fmt.Sprintf("%s-%s%s", strings.TrimSuffix(*timeline, ext), strings.Join(parts[1:], "-"), ext)
}
