package kubee2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tonnage/tonnage/internal/freeport"
)

var (
	run      = flag.String("e2e", "", "what is run: short, pods, full, faults, exec, exec-guests, exec-virsh, karpenter, karpenter-faults, karpenter-charts, karpenter-day, capi, capi-dev or capi-charts, several with commas; empty = nothing")
	binaries = flag.String("binaries", "", "folder of tonnage, tonnage-operator and tonnage-provider; empty = they are built")
	interval = flag.Duration("interval", 10*time.Second, "time between two roll-ups of a cluster")
	early    = flag.Bool("early", true, "new requests are reported before the interval is over")
	limit    = flag.Duration("limit", 4*time.Minute, "how long each step may take")
	outage   = flag.Duration("outage", time.Minute, "how long an API server is down")
	machines = flag.Int("machines", 20, "how many machines there are, of the runs exec, karpenter and capi")
	guests   = flag.Int("guests", 3, "how many guests of QEMU are machines, of the run exec")
	kills    = flag.Int("kills", 6, "how often processes are killed, of the runs exec, karpenter and capi")
	e2eSeed  = flag.Uint64("seed", 0, "seed of what is killed when; 0 = by the clock")
	guestDir = flag.String("guest", "", "folder for kernel and initramfs of guests, kept; empty = none")
	timeline = flag.String("timeline", "", "file of the picture of the run; empty = none")
)

// fleet is everything that runs.
type fleet struct {
	t        *testing.T
	dir      string
	p        programs
	clusters []*cluster
	watches  []*watch
	maker    *maker
	shard    *process
	pods     int // of each kind in each cluster
	record   *recorder
}

// want leaves the test out unless it was asked for.
func want(t *testing.T, what string) {
	t.Helper()
	if !slices.Contains(strings.Split(*run, ","), what) {
		t.Skipf("run with -e2e %s, or make e2e", what)
	}
}

// newFleet starts clusters, provider and shard, with machines for so many pods of
// each kind.
func newFleet(t *testing.T, pods int, replicas []string, names ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), p: findPrograms(t), pods: pods}
	begun := time.Now()
	made := make([]*cluster, len(names))
	for i, name := range names {
		made[i] = newCluster(t, f.p, name)
		f.watches = append(f.watches, watchCluster(t, made[i]))
	}
	f.clusters = made
	ports := freeport.TakeN(t, 2)
	tonnage := filepath.Join(f.p.ours, "tonnage")
	start(t, f.dir, "provider", tonnage, "provider", "--listen="+ports[0], "--metrics-addr=0", "--data-dir="+filepath.Join(f.dir, "provider"),
		"--seed-file="+seed(t, f.dir, offer(pods, len(names))), "--latency=1s", "--latency-create=2s", "--latency-drain=12s")
	f.shard = start(t, f.dir, "shard", tonnage, "shard", "--listen="+ports[1], "--metrics-addr=0", "--provider-addr="+ports[0],
		"--data-dir="+filepath.Join(f.dir, "shard"), "--cycle-interval="+(*interval/2).String(), "--audit-log="+f.auditFile(), fmt.Sprintf("--reclaim-cap-fraction=%v", reclaimCap))
	f.maker = newMaker(t, ports[0], f.clusters)
	for _, c := range f.clusters {
		c.startOperators(ports[1], *interval, replicas...)
	}
	f.record = newRecorder(f)
	t.Logf("%d clusters, provider, shard and operators started within %.1f s", len(names), time.Since(begun).Seconds())
	return f
}

func (f *fleet) auditFile() string { return filepath.Join(f.dir, "audit.jsonl") }

// apply makes an object in a cluster.
func (f *fleet) apply(c *cluster, objects ...client.Object) {
	f.t.Helper()
	for _, o := range objects {
		ctx, cancel := brief()
		err := c.client.Create(ctx, o)
		cancel()
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// stand waits until the operators have sent three roll-ups: before, they send none
// early.
func (f *fleet) stand() {
	f.t.Helper()
	stood := time.NewTimer(2**interval + 3*time.Second)
	<-stood.C
	f.t.Logf("the clusters stand")
}

// fill makes the pods of all kinds and waits until they run.
func (f *fleet) fill() {
	f.t.Helper()
	f.record.mark("pods")
	for _, c := range f.clusters {
		for _, kind := range kinds {
			f.apply(c, deployment(kind, int32(f.pods)))
		}
	}
	took := eventually(f.t, *limit, "all pods run", func() string { return verdict(f.missing(kinds)) })
	f.t.Logf("%d pods of %d kinds in %d clusters run after %.1f s", f.pods*len(kinds)*len(f.clusters), len(kinds), len(f.clusters), took.Seconds())
}

// missing says which kinds do not run in full.
func (f *fleet) missing(of []string) (faults []string) {
	for _, w := range f.watches {
		for _, kind := range of {
			if n := w.running(kind); n != f.pods {
				faults = append(faults, fmt.Sprintf("%s: %d of %d pods of %s run", w.c.name, n, f.pods, kind))
			}
		}
	}
	return faults
}

// report prints how long pods took from created to Running.
func (f *fleet) report(of ...string) {
	f.t.Logf("from created to Running, roll-ups every %v (early: %v):", *interval, *early)
	line := func(name string, all []time.Duration) {
		slices.Sort(all)
		f.t.Logf("  %-8s %4d pods   p50 %5.1f s   p99 %5.1f s", name, len(all), quantile(all, 0.5), quantile(all, 0.99))
	}
	var idle []time.Duration
	for _, kind := range of {
		var all []time.Duration
		for _, w := range f.watches {
			all = append(all, w.waits(kind)...)
		}
		if kind != spread && kind != wave {
			idle = append(idle, all...)
		}
		line(kind, all)
	}
	if len(idle) > 0 {
		line("idle", idle) // those whose machines had not to be bought, or freed
		f.reportChain(slices.DeleteFunc(slices.Clone(of), func(kind string) bool { return kind == spread || kind == wave })...)
	}
}

// quantile returns the q-quantile of sorted durations in seconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Seconds()
}

// TestShort has pods of five kinds run in one cluster.
func TestShort(t *testing.T) {
	want(t, "short")
	f := newFleet(t, 6, []string{"a"}, "blue")
	f.stand()
	f.fill()
	f.report(kinds...)
	f.settle("in the end")
	f.record.write()
}

func TestMain(m *testing.M) {
	if os.Getenv(playedEnv) != "" {
		os.Exit(playInfrastructure())
	}
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
