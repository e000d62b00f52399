package shard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

func observed(t *testing.T, ms []model.Machine, options ...option) (*world, *[]*shard.CycleReport) {
	var reports []*shard.CycleReport
	w := newWorld(t, ms, append(options, func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Observer = func(r *shard.CycleReport) { reports = append(reports, r) }
	})...)
	return w, &reports
}

func TestReportSaysHowThingsStand(t *testing.T) {
	spot := machine("spot", model.Configured, "c2")
	spot.CapacityType, spot.PricePerHour, spot.Assigned.Priority = model.Spot, 0.25, 5000
	w, reports := observed(t, append(machines(3, model.Idle, ""), spot, machine("s", model.Failed, "")))
	w.report("c1", need(t, 10, 20))
	w.step()
	r := (*reports)[0]
	if r.Machines != 5 || r.States[model.Configured] != 4 || r.States[model.Failed] != 1 || r.Needs != 1 || r.InFlight != 0 {
		t.Errorf("got %+v", r)
	}
	if r.Demand.Get("cpu") != 20 || r.Bound.Get("cpu") != 16 || r.Free.Get("cpu") != 0 {
		t.Errorf("demand %v, bound %v, free %v", r.Demand, r.Bound, r.Free)
	}
	if r.SpendPerHour[model.BareMetal] != 3 || r.SpendPerHour[model.Spot] != 0.25 {
		t.Errorf("spend %v", r.SpendPerHour)
	}
	if len(r.Actions) != 3 || r.Actions[0].For != "c1" || r.Actions[0].Need != "any machine" || r.Actions[0].Priority != 10 || r.Counts[engine.Bootstrap] != 3 {
		t.Errorf("actions %+v", r.Actions)
	}
	if r.UnmetTotal != 1 || r.Unmet[0].Cluster != "c1" || r.Unmet[0].Deficit.Get("cpu") != 8 || r.Unmet[0].Reason == engine.UnmetNone {
		t.Errorf("unmet %+v", r.Unmet)
	}
}

// TestRunningSaysWhenACycleRuns: before the provider is asked, until the report was made, also of a cycle that fails.
func TestRunningSaysWhenACycleRuns(t *testing.T) {
	var said []string
	say := func(words string) { said = append(said, words) }
	w := newWorld(t, machines(3, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Running = func(running bool) { say(fmt.Sprint("running ", running)) }
		d.Decided = func(engine.Input, *engine.Plan) { say("decided") }
		d.Observer = func(*shard.CycleReport) { say("observed") }
	})
	w.step()
	if got := strings.Join(said, ", "); got != "running true, decided, observed, running false" {
		t.Errorf("a cycle: %s", got)
	}
	said = nil
	w.shard.Close()
	if _, err := w.shard.Step(t.Context(), w.now); err == nil {
		t.Error("a closed shard has decided")
	}
	if got := strings.Join(said, ", "); got != "running true, running false" {
		t.Errorf("a cycle that fails: %s", got)
	}
}

// TestReportFollowsEveryChange: the sums that are kept with each change agree
// with a count from scratch, whatever happened.
func TestReportFollowsEveryChange(t *testing.T) {
	w, reports := observed(t, append(machines(10, model.Idle, ""), inRack(machine("s", model.Speculative, ""), "r")))
	w.report("c1", need(t, 10, 16))
	w.report("c2", need(t, 20, 60))
	for k := range 12 {
		switch k {
		case 2:
			w.report("c2", need(t, 20, 8))
		case 4:
			w.fleet.Lose("m-01", "m-02")
		case 6:
			price, alloc := 2.5, cpu(3)
			if err := w.fleet.Change("m-03", change{PricePerHour: &price, Allocatable: &alloc}); err != nil {
				t.Fatal(err)
			}
		case 8:
			w.restart()
			w.report("c1", need(t, 10, 8))
		}
		w.step()
		r := (*reports)[len(*reports)-1]
		var bound, free int64
		spend := 0.0
		w.shard.Machines(func(m model.Machine) bool {
			switch {
			case m.State.Bound():
				bound += m.EffectiveAllocatable().Get("cpu")
			case m.State == model.Idle:
				free += m.EffectiveAllocatable().Get("cpu")
			}
			if m.State != model.Speculative && m.State != model.Failed {
				spend += m.PricePerHour
			}
			return true
		})
		if r.Bound.Get("cpu") != bound || r.Free.Get("cpu") != free || r.SpendPerHour[model.BareMetal] != spend {
			t.Errorf("cycle %d: bound %v, free %v, spend %v; counted %d, %d, %v", k+1, r.Bound, r.Free, r.SpendPerHour, bound, free, spend)
		}
	}
}

func TestReportListsAreBoundedWorstFirst(t *testing.T) {
	w, reports := observed(t, machines(250, model.Idle, ""))
	var needs []model.Need
	for i := range 300 {
		n := need(t, int32(i), 4)
		if i%2 == 0 {
			n.MinUnit = cpu(5) // nothing fits
		}
		n.Group = fmt.Sprint(i)
		needs = append(needs, n)
	}
	w.report("c1", append(needs, need(t, 1000, 400))...)
	w.step()
	r := (*reports)[0]
	if len(r.Actions) != shard.ReportActionsMax || r.Counts[engine.Bootstrap] != 250 {
		t.Errorf("%d actions listed, %v", len(r.Actions), r.Counts)
	}
	if len(r.Unmet) != shard.ReportUnmetMax || r.UnmetTotal != 150 || r.Unmet[0].Priority != 298 || r.Unmet[49].Priority != 200 {
		t.Errorf("%d of %d unmet listed, from %d to %d", len(r.Unmet), r.UnmetTotal, r.Unmet[0].Priority, r.Unmet[len(r.Unmet)-1].Priority)
	}
}

func TestDescribe(t *testing.T) {
	p := profile(t, model.ProfileSpec{
		Requirements: []model.Requirement{
			{Key: "node.kubernetes.io/instance-type", Operator: model.In, Values: []string{"b", "a"}},
			{Key: "topology.kubernetes.io/rack", Operator: model.Same},
			{Key: "gen", Operator: model.Gt, Values: []string{"3"}},
		},
	})
	if got, want := shard.Describe(p), "gen Gt 3, instance-type in a|b, same rack"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
