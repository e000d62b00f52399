package shard_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// TestWastedActionsAreCounted: a plan is made, kept and completed; one whose owner goes has
// drained in vain. Needs that a quiet cycle takes over are not credited again.
func TestWastedActionsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := contested(t, func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Registerer = reg })
	expect := func(when string, want map[string]float64) {
		t.Helper()
		got := series(t, reg)
		for name, n := range want {
			if is, there := got[name]; !there || is != n {
				t.Errorf("%s: %s is %v (there: %v), want %v", when, name, is, there, n)
			}
		}
	}
	again, kept := `tonnage_shard_needs_credited_total{credit="again"}`, `tonnage_shard_needs_credited_total{credit="kept"}`
	before := series(t, reg)
	w.step()
	quiet := series(t, reg)
	if quiet[again] != before[again] || quiet[kept] <= before[kept] {
		t.Errorf("a quiet cycle: %v Needs are credited again, were %v; %v taken over, were %v", quiet[again], before[again], quiet[kept], before[kept])
	}
	w.report("top", gang(t, 1000, 8))
	w.step()
	expect("a plan is made", map[string]float64{
		"tonnage_shard_plans_made_total{}": 1, "tonnage_shard_plans_kept_total{}": 0, "tonnage_shard_machines_drained_in_vain_total{}": 0,
		`tonnage_shard_actions_undone_total{actions="bound_preempted",changed="nothing"}`: 0,
	})
	w.step()
	expect("while it drains", map[string]float64{"tonnage_shard_plans_kept_total{}": 1})
	w.report("top")
	w.step()
	expect("when the owner has gone", map[string]float64{
		`tonnage_shard_plans_ended_total{cause="owner_gone"}`: 1, "tonnage_shard_machines_drained_in_vain_total{}": 2,
		`tonnage_shard_plans_ended_total{cause="completed"}`: 0,
	})
	w.steps(6)
	w.report("top", gang(t, 1000, 8))
	w.steps(8)
	expect("when a plan is carried out", map[string]float64{
		`tonnage_shard_plans_ended_total{cause="completed"}`: 1, "tonnage_shard_machines_drained_in_vain_total{}": 2,
	})
}

// TestAdoptedStampsAreCounted: a machine that comes to serve another Need of its cluster.
func TestAdoptedStampsAreCounted(t *testing.T) {
	w, reg := metered(t, machines(1, model.Idle, ""))
	w.report("c1", need(t, 1, 4))
	w.steps(2)
	if got := series(t, reg)["tonnage_shard_stamps_adopted_total{}"]; got != 0 {
		t.Errorf("%v stamps before anything changes", got)
	}
	w.report("c1", need(t, 2, 4))
	w.step()
	if got := series(t, reg)["tonnage_shard_stamps_adopted_total{}"]; got != 1 {
		t.Errorf("%v stamps, want 1", got)
	}
}
