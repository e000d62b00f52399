// Package viewtest runs a shard with a page, cycle by cycle, for tests of what the page shows.
package viewtest

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

// Interval is the time between two cycles.
const Interval = time.Second

// Fleet is a shard, its provider and its page. It has one owner.
type Fleet struct {
	Shard    *shard.Shard
	Provider *simulated.Fleet
	Recorder *fleetview.Recorder
	View     *fleetview.View
	Feed     *web.Feed
	Album    *fleetview.Album
	// Around runs the shard's part of each cycle, and nothing else of it; nil = it just runs.
	Around func(cycle func())

	tb      testing.TB
	now     time.Time
	metrics *prometheus.Registry
	// clock is what durations are measured by; Slow moves it on.
	clock time.Time
	slow  time.Duration
}

// New starts a shard on machines. Nothing is asked for yet. names says what Needs are called; it may be nil.
func New(tb testing.TB, machines []model.Machine, opts engine.Options, began time.Time, names world.Names) *Fleet {
	tb.Helper()
	f := &Fleet{tb: tb, now: began, metrics: prometheus.NewRegistry(), clock: began, Album: &fleetview.Album{}}
	const change = 2 * Interval
	each := simulated.Latency{Min: change, Max: change}
	var err error
	f.Provider, err = simulated.New(simulated.Config{
		Machines: machines, Latencies: simulated.Latencies{Create: each, Configure: each, Drain: each, Delete: each}, Now: began.UnixNano(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	f.Feed = web.NewFeed(web.Info{Version: "test", Source: "a fleet in contention", Provider: "machines in memory", Started: began, CycleInterval: Interval})
	f.Recorder = fleetview.NewRecorder(fleetview.Config{Publish: f.Feed.Publish, Failed: func() int64 { return 0 }, Album: f.Album, Names: names})
	cfg := shard.DefaultConfig()
	cfg.Engine = opts
	cfg.Unbounded()
	cfg.DoubtListings, cfg.Quarantine, cfg.Concurrency = false, false, 0
	f.Shard, err = shard.New(cfg, shard.Deps{Provider: f.Provider, Observer: f.Recorder.Observe, Running: f.Recorder.Running, Decided: f.Recorder.Decided, Registerer: f.metrics, Clock: f.time})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(f.Shard.Close)
	f.View = fleetview.NewView(f.Album, fleetview.Part{Recorder: f.Recorder, Inspect: f.Shard.Inspect})
	return f
}

// time is a clock that stands still, but in a cycle that is to be slow.
func (f *Fleet) time() time.Time {
	f.clock = f.clock.Add(f.slow)
	return f.clock
}

// Report makes rows a cluster's whole demand.
func (f *Fleet) Report(cluster string, rows []model.Need) {
	f.tb.Helper()
	if _, err := f.Shard.ApplyRollup(cluster, rows, f.now.UnixNano()); err != nil {
		f.tb.Fatal(err)
	}
}

// Step runs one cycle, when the bills of those before are known: a shard computes them beside its cycles, and gathering
// its metrics waits for them.
func (f *Fleet) Step() {
	f.tb.Helper()
	if _, err := f.metrics.Gather(); err != nil {
		f.tb.Fatal(err)
	}
	f.now = f.now.Add(Interval)
	f.Provider.Advance(f.now.UnixNano())
	cycle := func() {
		if _, err := f.Shard.Step(context.Background(), f.now.UnixNano()); err != nil {
			f.tb.Fatal(err)
		}
	}
	if f.Around == nil {
		cycle()
	} else {
		f.Around(cycle)
	}
}

// Slow runs one cycle in which each look at the clock finds it so much later.
func (f *Fleet) Slow(each time.Duration) {
	f.tb.Helper()
	f.slow = each
	f.Step()
	f.slow = 0
}

// Now returns the time of the last cycle.
func (f *Fleet) Now() time.Time { return f.now }

// Site returns what serves the page.
func (f *Fleet) Site() *web.Site {
	return web.New(web.Config{Feed: f.Feed, Plan: f.Album.Write, Queries: f.View.Queries()})
}

// Contended is a fleet of 112 machines in three zones, in which a gang preempts another after the first cycle:
//
//   - racks a-r1, a-r2, b-r1 of 16 GPU machines; a-r1 and half of a-r2 are the cluster batch's, at low priority
//   - racks a-c1, b-c1, c-c1, c-c2 of 16 plain machines, some of them spot
//   - 8 slots from which plain machines can be bought
//   - train wants a gang of 16 in one rack, at high priority; research wants what no machine has
//   - the tenants platform (web, ci) and science (batch, research, train), which is above its share
func Contended(tb testing.TB, began time.Time) *Fleet {
	tb.Helper()
	w, err := world.Read(strings.NewReader(contended(began)))
	if err != nil {
		tb.Fatal(err)
	}
	type identity struct {
		cluster, group string
		fingerprint    uint64
	}
	names := map[identity]string{}
	for i := range w.Needs {
		n := &w.Needs[i]
		names[identity{n.Cluster, n.Group, n.Profile.Fingerprint()}] = n.Name
	}
	f := New(tb, w.Machines, w.Options.Engine, began, func(cluster string, n *model.Need) string {
		return names[identity{cluster, n.Group, n.Profile.Fingerprint()}]
	})
	rows := map[string][]model.Need{}
	for i := range w.Needs {
		n := w.Needs[i].Need
		rows[n.Cluster] = append(rows[n.Cluster], n)
	}
	for cluster, list := range rows {
		if cluster != "train" {
			f.Report(cluster, list)
		}
	}
	f.Step()
	f.Step()
	f.Report("train", rows["train"])
	for range 6 {
		f.Step()
	}
	return f
}

// contended writes the world of Contended.
func contended(began time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "now: %s\n", began.UTC().Format(time.RFC3339))
	b.WriteString(`options: {tenancy: {tenants: [{name: platform, clusters: [web, ci], share: {cpu: "1000"}}, {name: science, clusters: [batch, research, train], share: {nvidia.com/gpu: "120"}}]}}
machines:
`)
	machine := func(rack string, i int, rest string) {
		fmt.Fprintf(&b, "- {id: %s-m%02d, zone: %s, labels: {topology.kubernetes.io/rack: %s}, %s}\n", rack, i, rack[:1], rack, rest)
	}
	const gpu = `instanceType: a3-highgpu-8g, capacityType: OnDemand, pricePerHour: 12, resources: {cpu: "96", nvidia.com/gpu: "8"}`
	for _, rack := range []string{"a-r1", "a-r2", "b-r1"} {
		for i := range 16 {
			state := ", state: Idle"
			if rack == "a-r1" || rack == "a-r2" && i < 8 {
				state = ", state: Configured, cluster: batch, assigned: {priority: 10, need: nightly}"
			}
			if rack == "b-r1" && i < 12 {
				state = ", state: Configured, cluster: research, assigned: {priority: 100, need: models}"
			}
			machine(rack, i, gpu+state)
		}
	}
	for _, rack := range []string{"a-c1", "b-c1", "c-c1", "c-c2"} {
		for i := range 16 {
			how := "capacityType: Reserved, pricePerHour: 0.6"
			if rack == "c-c2" {
				how = "capacityType: Spot, pricePerHour: 0.2, interruptionProbability: 0.05"
			}
			machine(rack, i, `instanceType: m6i.4xlarge, `+how+`, resources: {cpu: "16"}, state: Idle`)
		}
	}
	for i := range 8 {
		fmt.Fprintf(&b, "- {id: slot-%02d, state: Speculative, zone: c, instanceType: m6i.4xlarge, capacityType: OnDemand, pricePerHour: 0.8, resources: {cpu: \"16\"}}\n", i)
	}
	b.WriteString(`needs:
- {name: nightly, cluster: batch, priority: 10, aggregate: {nvidia.com/gpu: "192"}, minUnit: {nvidia.com/gpu: "8"}}
- {name: models, cluster: research, priority: 100, aggregate: {nvidia.com/gpu: "96"}, minUnit: {nvidia.com/gpu: "8"}, interruptionPenalty: 16}
- {name: volta, cluster: research, priority: 100, aggregate: {nvidia.com/gpu: "16"}, minUnit: {nvidia.com/gpu: "8"}, requirements: [{key: gpu-model, operator: In, values: [V100]}]}
- {name: volta-2, cluster: research, priority: 90, aggregate: {nvidia.com/gpu: "24"}, minUnit: {nvidia.com/gpu: "8"}, group: v2, requirements: [{key: gpu-model, operator: In, values: [V100]}]}
- {name: volta-3, cluster: research, priority: 80, aggregate: {nvidia.com/gpu: "8"}, minUnit: {nvidia.com/gpu: "8"}, requirements: [{key: gpu-model, operator: In, values: [V100]}]}
- {name: shop, cluster: web, priority: 1000, aggregate: {cpu: "480"}, minUnit: {cpu: "2"}, interruptionPenalty: 64}
- {name: builds, cluster: ci, priority: 50, aggregate: {cpu: "200"}, minUnit: {cpu: "4"}}
- {name: llm, cluster: train, priority: 5000, group: llm, aggregate: {nvidia.com/gpu: "128"}, minUnit: {nvidia.com/gpu: "8"}, requirements: [{key: topology.kubernetes.io/rack, operator: Same}]}
`)
	return b.String()
}

// Source is demand over time, as workload.Live is.
type Source interface {
	Machines(now int64) iter.Seq[*model.Machine]
	Due(now int64) []workload.Rollup
}

// FromSource starts a shard on the first so many of a source's machines that have a host; step runs a cycle with what clusters have reported until
// then.
func FromSource(tb testing.TB, source Source, most int, began time.Time) (f *Fleet, step func()) {
	tb.Helper()
	var machines []model.Machine
	for m := range source.Machines(began.UnixNano()) {
		if m.State != model.Speculative && len(machines) < most {
			machines = append(machines, *m)
		}
	}
	f = New(tb, machines, engine.DefaultOptions(), began, nil)
	return f, func() {
		for {
			due := source.Due(f.now.UnixNano())
			for _, r := range due {
				f.Report(r.Cluster, r.Needs)
			}
			if len(due) < workload.RollupsPerCallMax {
				break
			}
		}
		f.Step()
	}
}
