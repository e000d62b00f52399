package shard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

func metered(t *testing.T, ms []model.Machine, options ...option) (*world, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	tick := time.Unix(0, 0)
	return newWorld(t, ms, append(options, func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Registerer = reg
		d.Clock = func() time.Time { tick = tick.Add(time.Millisecond); return tick }
	})...), reg
}

// series returns all samples as name{label="value",…} → value.
func series(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = valueOf(m)
		}
	}
	return out
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	}
	return float64(m.GetHistogram().GetSampleCount())
}

// TestDashboardSeriesAreThere: what the protocol's dashboards query, with its
// labels and values.
func TestDashboardSeriesAreThere(t *testing.T) {
	m := machine("s", model.Configured, "c2")
	m.CapacityType, m.Assigned.Priority = model.Spot, 5000
	w, reg := metered(t, append(machines(2, model.Idle, ""), m))
	n := need(t, 1000, 12)
	n.Profile = profile(t, model.ProfileSpec{Priority: 1000, Interruption: model.BucketForDollars(64)})
	w.report("c1", n)
	w.step()
	got := series(t, reg)
	want := map[string]float64{
		"bigfleet_shard_cycle_duration_seconds{}": 1,
		`bigfleet_shard_inventory_machines{capacity_type="BareMetal",interruption_penalty_bucket="64",state="Configured"}`:     2,
		`bigfleet_shard_inventory_machines{capacity_type="Spot",interruption_penalty_bucket="unspecified",state="Configured"}`: 1,
		`bigfleet_shard_demand_machines{interruption_penalty_bucket="64"}`:                                                     1,
		`bigfleet_shard_demand_machines{interruption_penalty_bucket="pinned"}`:                                                 0,
		"bigfleet_shard_shortfalls{}":                                                      1,
		`bigfleet_shard_shortfalls_by_priority{priority_class="service"}`:                  1,
		`bigfleet_shard_shortfalls_aged{bucket="1-9"}`:                                     1,
		"bigfleet_shard_active_sessions{}":                                                 0,
		`bigfleet_shard_actions_total{kind="Bootstrap"}`:                                   2,
		`bigfleet_shard_actions_total{kind="Delete"}`:                                      0,
		`bigfleet_shard_phase1_occ_proposals_total{outcome="committed"}`:                   1,
		`bigfleet_shard_phase1_occ_proposals_total{outcome="conflict"}`:                    0,
		"bigfleet_shard_actuation_paused{}":                                                0,
		`bigfleet_shard_machines_rejected_total{reason="structural"}`:                      0,
		`tonnage_shard_spend_dollars_per_hour{capacity_type="BareMetal"}`:                  2,
		"bigfleet_shard_provisioning_latency_seconds{}":                                    0,
		`bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap",outcome="success"}`: 2,
	}
	for _, p := range []string{"reconcile", "snapread", "phase1", "phase2", "phase3", "emit", "execute"} {
		want[fmt.Sprintf("bigfleet_shard_cycle_phase_duration_seconds{phase=%q}", p)] = 1
	}
	for name, value := range want {
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s: got %v, %v, want %v", name, v, ok, value)
		}
	}
}

func TestVanishedLabelSetsGoToZero(t *testing.T) {
	w, reg := metered(t, machines(1, model.Idle, ""))
	w.step()
	const idle = `bigfleet_shard_inventory_machines{capacity_type="BareMetal",interruption_penalty_bucket="unspecified",state="Idle"}`
	if v := series(t, reg)[idle]; v != 1 {
		t.Fatalf("got %v", v)
	}
	w.fleet.Lose("m-00")
	w.step()
	if v, ok := series(t, reg)[idle]; !ok || v != 0 {
		t.Errorf("got %v, %v, want 0", v, ok)
	}
}

func TestQuarantineAndRefusalsAreCountedByCluster(t *testing.T) {
	w, reg := metered(t, nil)
	w.report("c1", rows(t, 10)...)
	w.report("c1")
	if _, err := w.shard.ApplyRollup("c2", []model.Need{{}}, w.now); err == nil {
		t.Fatal("accepted")
	}
	got := series(t, reg)
	if got[`bigfleet_shard_rollup_quarantined{cluster="c1"}`] != 1 || got[`bigfleet_shard_rollups_rejected_total{cluster="c2"}`] != 1 {
		t.Errorf("got %v", got)
	}
	w.report("c1", rows(t, 10)...)
	if v, ok := series(t, reg)[`bigfleet_shard_rollup_quarantined{cluster="c1"}`]; !ok || v != 0 {
		t.Errorf("no longer held: %v, %v, want 0", v, ok)
	}
}

func TestSuppressedActionsAreCountedApart(t *testing.T) {
	for name, c := range map[string]option{
		"suppressed": configured(func(c *shard.Config) { c.Paused = true }),
		"dryrun":     configured(func(c *shard.Config) { c.DryRun = true }),
	} {
		w, reg := metered(t, machines(2, model.Idle, ""), c)
		w.report("c1", need(t, 1, 8))
		w.step()
		got := series(t, reg)
		if v := got[fmt.Sprintf(`bigfleet_shard_actions_%s_total{kind="Bootstrap"}`, name)]; v != 2 {
			t.Errorf("%s: got %v", name, v)
		}
		if v := got[`bigfleet_shard_actions_total{kind="Bootstrap"}`]; v != 0 {
			t.Errorf("%s: counted as carried out: %v", name, v)
		}
	}
}

// TestProvisioningLatencyIsObservedOnce: from the roll-up that brought the
// demand to the first machine bound for it.
func TestProvisioningLatencyIsObservedOnce(t *testing.T) {
	w, reg := metered(t, machines(2, model.Speculative, ""), latencies(30*time.Second, 20*time.Second, 0))
	w.step()
	w.now += 5 * second
	w.report("c1", need(t, 1, 8))
	w.steps(10)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "bigfleet_shard_provisioning_latency_seconds" })
	h := families[i].GetMetric()[0].GetHistogram()
	// Ten seconds to the cycle that buys, 30 to Idle, 20 to Configured.
	if h.GetSampleCount() != 1 || h.GetSampleSum() != 60 {
		t.Errorf("%d observations, %v s", h.GetSampleCount(), h.GetSampleSum())
	}
	if b := h.GetBucket(); len(b) != 20 || b[19].GetUpperBound() != 0.01*(1<<19) {
		t.Errorf("%d buckets, the last ends at %v s; public dashboards expect 20, to 5,242.88 s", len(b), b[len(b)-1].GetUpperBound())
	}
}

// TestMemoryByPurpose: what the tables and the engine hold, and it grows with
// the machines; an old figure is shown until ten seconds have passed.
func TestMemoryByPurpose(t *testing.T) {
	w, reg := metered(t, machines(3, model.Idle, ""))
	w.report("c1", need(t, 1000, 1))
	w.step()
	name := func(purpose alloc.Purpose, kind string) string {
		return fmt.Sprintf("tonnage_shard_memory_bytes{kind=%q,purpose=%q}", kind, purpose)
	}
	first := series(t, reg)
	for p := range alloc.Purpose(alloc.NumPurposes) {
		used, thereUsed := first[name(p, "used")]
		reserved, thereReserved := first[name(p, "reserved")]
		if !thereUsed || !thereReserved || used > reserved {
			t.Errorf("%s: used %v (%v), reserved %v (%v)", p, used, thereUsed, reserved, thereReserved)
		}
	}
	for p := range alloc.Purpose(alloc.NumPurposes) {
		if first[name(p, "reserved")] == 0 {
			t.Errorf("nothing is held for %s", p)
		}
	}
	for _, wish := range []string{"mapping", "huge_pages", "node"} {
		if n, there := first[fmt.Sprintf("tonnage_shard_memory_refusals_total{wish=%q}", wish)]; !there || n < 0 {
			t.Errorf("refusals of %s: %v (%v)", wish, n, there)
		}
	}
	if _, there := first["tonnage_shard_memory_mapped_bytes{}"]; !there {
		t.Error("nothing says what is mapped")
	}

	w.report("c2", need(t, 1000, 1), need(t, 2000, 1))
	needs := name(alloc.Needs, "reserved")
	if _, err := w.shard.Step(t.Context(), w.now+second); err != nil {
		t.Fatal(err)
	}
	if got := series(t, reg)[needs]; got != first[needs] {
		t.Errorf("a second later: %v, want the old %v", got, first[needs])
	}
	w.step()
	if got := series(t, reg)[needs]; got <= first[needs] {
		t.Errorf("ten seconds later, with a further cluster: %v, was %v", got, first[needs])
	}
}

// TestMemoryOfRollupsOnTheirWay: what waits outside is used and held, what it is
// read with and into is held; the shard's own comes on top.
func TestMemoryOfRollupsOnTheirWay(t *testing.T) {
	const waiting, reading = 1 << 40, 1 << 30
	w, reg := metered(t, machines(3, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.RollupBytes = func() (int64, int64) { return waiting, reading }
	})
	w.report("c1", need(t, 1000, 1))
	w.step()
	got := series(t, reg)
	used, reserved := got[`tonnage_shard_memory_bytes{kind="used",purpose="ingest"}`], got[`tonnage_shard_memory_bytes{kind="reserved",purpose="ingest"}`]
	if used != waiting || reserved <= waiting+reading {
		t.Errorf("used %v, want %v; reserved %v, want more than %v", used, waiting, reserved, waiting+reading)
	}
}
