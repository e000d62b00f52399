package kubee2e

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/benches/buying"
	"github.com/tonnage/tonnage/internal/freeport"
)

var (
	dayMinutes = flag.Float64("day-minutes", 10, "run karpenter-day: how long the day takes, minutes")
	dayNumber  = flag.Int("day", 14, "run karpenter-day: which day of the trace, 0 to 33")
	dayLeast   = flag.Duration("day-least", 30*time.Minute, "run karpenter-day: pods that live shorter are left out, in the time of the trace")
	dayKeep    = flag.Duration("day-keep-spare", 10*time.Second, "run karpenter-day: --keep-spare of the pod controller, in the time of the run")
)

const (
	// dayEvery is the time between two roll-ups, dayCycle that between two cycles, dayTick that between two readings of the bill, and
	// dayBoundEvery that between two linear bounds.
	dayEvery, dayCycle = 2 * time.Second, time.Second
	dayTick            = 250 * time.Millisecond
	dayBoundEvery      = 2 * time.Second
	dayZone            = "z0"
	// unservedMax is what part of the pods' time may pass without a machine. A bill is worth nothing if it is low for want of machines.
	unservedMax = 0.25
)

// ordinary are the families that the NodePool of Karpenter's first steps allows: c, m and r of the third generation or a later one. Of all families
// Karpenter buys one machine of 448 cores for the pods that are there at the start, which nobody would let it.
var ordinary = regexp.MustCompile(`^[cmr][3-9]`)

// TestKarpenterDay has a day's trace of pods run in two clusters at once, with the same catalogue and the same Karpenter: in one a NodePool
// buys for them, in the other Tonnage by the driver karpenter. It reports what the machines of each cost, and how long pods waited.
func TestKarpenterDay(t *testing.T) {
	want(t, "karpenter-day")
	trace := dayOf(t, *dayNumber, *dayLeast)
	whole := time.Duration(*dayMinutes * float64(time.Minute))
	d := newDay(t, trace, wholeDay.Seconds()/whole.Seconds())
	t.Logf("day %d: %d pods; %d that live shorter than %v are left out, with %.1f %% of the core hours; a day takes %v, so that a second is %.0f s of it",
		*dayNumber, len(trace.pods), trace.left, *dayLeast, 100*(1-trace.kept), whole, d.faster)
	d.run()
	for _, s := range d.sides {
		t.Log(s.line())
		for _, kind := range s.dearest() {
			t.Logf("%s: %.2f $/h on average for machines of %s", s.name, s.byType[kind]/s.seconds, kind)
		}
	}
	t.Logf("%.2f $/h on average is the least by the linear bound", d.bound/d.boundN)
	for _, s := range d.sides {
		if s.unserved > unservedMax*s.podTime {
			t.Errorf("%s: more than %.0f %% of the time of the pods passed without a machine", s.name, 100*unservedMax)
		}
	}
}

// day is a run of a day's trace.
type day struct {
	*karpenterFleet
	trace  *dayTrace
	types  []marketType
	faster float64 // so many times
	sides  []*daySide
	begun  time.Time

	mu            sync.Mutex
	bound, boundN float64 // sum of the bounds, and how many there are
	least         float64 // the last of them
}

// daySide is who buys in one of the clusters, and what came of it. Sums are in the time of the run.
type daySide struct {
	name  string
	w     *watch
	price map[string]float64

	spend    float64 // dollars an hour times seconds
	seconds  float64
	podTime  float64 // seconds of pods that should run
	unserved float64 // of these, of pods that did not
	now      float64 // dollars an hour
	machines map[string]bool
	most     int                // machines at once
	byType   map[string]float64 // spend by instance type
}

// newDay starts both clusters, and the provider and shard of the second one.
func newDay(t *testing.T, trace *dayTrace, faster float64) *day {
	t.Helper()
	d := &day{karpenterFleet: noKarpenterFleet(t), trace: trace, faster: faster}
	d.types = slices.DeleteFunc(marketOf(t, "A"), func(x marketType) bool { return !ordinary.MatchString(x.Name) })
	d.offered = d.market
	// As in the other runs, pods that did not fit are not kept from a new try.
	d.scheduler = schedulerProfile(t, strings.Split(*podsProfiles, ",")[0]) + "podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\n"
	for _, name := range []string{"karpenter", "tonnage"} {
		c := d.cluster(name)
		d.clusters = append(d.clusters, c)
		w := watchCluster(t, c)
		d.watches = append(d.watches, w)
		s := &daySide{name: name, w: w, price: map[string]float64{}, machines: map[string]bool{}, byType: map[string]float64{}}
		for i := range d.types {
			s.price[d.types[i].Name] = d.types[i].Price
		}
		d.sides = append(d.sides, s)
	}
	d.nodePool(d.clusters[0], "all", map[string]any{"requirements": []any{
		map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"on-demand"}},
	}})
	ours := d.clusters[1]
	ports := freeport.TakeN(t, 2)
	d.provider = startAgain(t, true, d.dir, "provider", filepath.Join(d.p.ours, "tonnage-provider"), "serve", "--listen="+ports[0], "--metrics-addr=0",
		"--data-dir="+filepath.Join(d.dir, "provider"), "--pools="+d.poolOf(ours))
	d.shard = startAgain(t, true, d.dir, "shard", filepath.Join(d.p.ours, "tonnage"), "shard", "--listen="+ports[1], "--metrics-addr=0", "--provider-addr="+ports[0],
		"--data-dir="+filepath.Join(d.dir, "shard"), "--cycle-interval="+dayCycle.String(), "--audit-log="+d.auditFile(), "--reclaim-cap-fraction=0", "--breaker-share=0")
	d.maker = newMaker(t, ports[0], nil, paidFor...)
	ours.podsMore = []string{"--keep-spare=" + dayKeep.String()}
	ours.startOperators(ports[1], dayEvery, "a")
	return d
}

// market writes what the cloud of both clusters has: the catalogue of a region, on demand, in one zone. Karpenter keeps a tenth of a processor
// and 10 MiB of each machine back, so machines have that on top of what pods may use.
func (d *day) market() string {
	all := []any{}
	in := func(key, value string) any {
		return map[string]any{"key": key, "operator": "In", "values": []string{value}}
	}
	for i := range d.types {
		x := &d.types[i]
		all = append(all, map[string]any{
			"name": x.Name, "architecture": "amd64", "operatingSystems": []string{"linux"},
			"offerings": []any{map[string]any{"Price": x.Price, "Available": true, "Requirements": []any{in("karpenter.sh/capacity-type", "on-demand"), in(corev1.LabelTopologyZone, dayZone)}}},
			"resources": map[string]string{"cpu": fmt.Sprintf("%dm", x.Capacity[dimCPU]+100), "memory": fmt.Sprintf("%dMi", x.Capacity[dimMemory]+10), "pods": fmt.Sprint(x.Capacity[dimPods])},
		})
	}
	return d.writeJSON("market.json", all)
}

// poolOf writes a pools file with the same catalogue.
func (d *day) poolOf(c *cluster) string {
	all := []any{}
	for i := range d.types {
		x := &d.types[i]
		has := map[string]string{}
		for name, q := range amounts(&x.Capacity) {
			has[string(name)] = q.String()
		}
		delete(has, gpu)
		all = append(all, map[string]any{"name": x.Name, "resources": has, "prices": []any{map[string]any{"capacityType": "OnDemand", "pricePerHour": x.Price}}})
	}
	clusters := map[string]any{c.name: map[string]any{"kubeconfig": c.ca.file("tonnage-provider.kubeconfig")}}
	return d.writePools(declaredFor(clusters, map[string]any{"machines": 1000, "freeSlots": 16, "zones": []string{dayZone}, "types": all}))
}

// writeJSON writes a file.
func (d *day) writeJSON(name string, what any) string {
	d.t.Helper()
	text, err := json.Marshal(what)
	if err != nil {
		d.t.Fatal(err)
	}
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// run has the pods come and go in both clusters, while the bill is read.
func (d *day) run() {
	d.t.Helper()
	d.record = newRecorder(d.fleet)
	d.record.show([]panelOf{{"dollars an hour", []line{{"Karpenter", "#2166ac", nth(0)}, {"Tonnage", "#e08214", nth(1)}, {"bound", "#999999", nth(2)}}}}, d.figures)
	ctx, cancel := context.WithCancel(context.Background())
	d.begun = time.Now()
	var reading sync.WaitGroup
	reading.Go(func() { d.read(ctx) })
	stop := func() { cancel(); reading.Wait() }
	defer stop()
	events := d.events()
	for _, at := range slices.Sorted(maps.Keys(events)) {
		next := time.NewTimer(time.Until(d.begun.Add(at)))
		<-next.C
		var both sync.WaitGroup
		for _, c := range d.clusters {
			both.Go(func() {
				for _, change := range events[at] {
					change(c)
				}
			})
		}
		both.Wait()
	}
	stop()
}

// events are what is done to a cluster, by the time of the run.
func (d *day) events() map[time.Duration][]func(*cluster) {
	out := map[time.Duration][]func(*cluster){}
	add := func(at time.Duration, what func(*cluster)) {
		at = time.Duration(float64(at) / d.faster)
		out[at] = append(out[at], what)
	}
	for i := range d.trace.pods {
		p := &d.trace.pods[i]
		add(p.begin, func(c *cluster) { d.comes(c, p) })
		if p.end < wholeDay {
			add(p.end, func(c *cluster) { d.goes(c, p) })
		}
	}
	add(wholeDay, func(*cluster) {})
	return out
}

// comes makes the pod of the trace, which is made again where it is evicted.
func (d *day) comes(c *cluster, p *dayPod) {
	of := deploymentOf(p.name, p.size, 1)
	set := &appsv1.ReplicaSet{
		ObjectMeta: of.ObjectMeta, Spec: appsv1.ReplicaSetSpec{Replicas: of.Spec.Replicas, Selector: of.Spec.Selector, Template: of.Spec.Template},
	}
	d.try(c, func(ctx context.Context) error { return client.IgnoreAlreadyExists(c.client.Create(ctx, set)) })
}

func (d *day) goes(c *cluster, p *dayPod) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.name}}
	d.try(c, func(ctx context.Context) error {
		return client.IgnoreNotFound(c.client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	})
}

// try does something to a cluster until it succeeds. It is called by several goroutines, which must not end the test.
func (d *day) try(c *cluster, do func(context.Context) error) {
	var err error
	for range 5 {
		ctx, cancel := brief()
		err = do(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	d.t.Errorf("%s: %v", c.name, err)
}

// read reads the bill of both until it is told to end.
func (d *day) read(ctx context.Context) {
	ticker := time.NewTicker(dayTick)
	defer ticker.Stop()
	last, bounded := d.begun, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		pods := d.trace.at(time.Duration(float64(now.Sub(d.begun)) * d.faster))
		d.mu.Lock()
		for _, s := range d.sides {
			s.read(len(pods), now.Sub(last).Seconds())
		}
		d.mu.Unlock()
		last = now
		if now.Sub(bounded) < dayBoundEvery {
			continue
		}
		bounded = now
		least, err := buying.Bound(d.types, pods)
		if err != nil {
			d.t.Error(err)
			return
		}
		d.mu.Lock()
		d.bound, d.boundN, d.least = d.bound+least, d.boundN+1, least
		d.mu.Unlock()
	}
}

// read counts what a side has, for so many seconds in which so many pods should run.
func (s *daySide) read(pods int, seconds float64) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.now = 0
	for name, n := range s.w.nodes {
		kind := n.Labels[corev1.LabelInstanceTypeStable]
		s.now += s.price[kind]
		s.byType[kind] += s.price[kind] * seconds
		s.machines[name] = true
	}
	running := 0
	for _, p := range s.w.live {
		if p.Namespace == "default" && runs(p) && s.w.nodes[p.Spec.NodeName] != nil {
			running++
		}
	}
	s.most = max(s.most, len(s.w.nodes))
	s.spend += s.now * seconds
	s.seconds += seconds
	s.podTime += float64(pods) * seconds
	s.unserved += float64(max(0, pods-running)) * seconds
}

// figures are what the further panel of the picture shows.
func (d *day) figures() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return []int{int(d.sides[0].now + 0.5), int(d.sides[1].now + 0.5), int(d.least + 0.5)}
}

// line says what came of a side. Waits are in the time of the run.
func (s *daySide) line() string {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var waits []time.Duration
	named := map[string]bool{}
	for _, p := range s.w.pods {
		named[p.kind] = true
		if !p.running.IsZero() {
			waits = append(waits, p.running.Sub(p.created))
		}
	}
	slices.Sort(waits)
	return fmt.Sprintf("%s: %.2f $/h on average, $%.0f for the day; %.2f %% of the pods' time without a machine; pods ran after p50 %.1f s, p99 %.1f s, at most %.1f s; %d were evicted and made again; %d machines, %d at once at most",
		s.name, s.spend/s.seconds, s.spend/s.seconds*wholeDay.Hours(), 100*s.unserved/s.podTime, quantile(waits, 0.5), quantile(waits, 0.99), quantile(waits, 1), len(s.w.pods)-len(named), len(s.machines), s.most)
}

// dearest are the instance types that most was spent on.
func (s *daySide) dearest() []string {
	all := slices.SortedFunc(maps.Keys(s.byType), func(a, b string) int { return cmp.Compare(s.byType[b], s.byType[a]) })
	return all[:min(5, len(all))]
}
