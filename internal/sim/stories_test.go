package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// more is a roll-up with one more need.
func more(t *testing.T, d *Rollup, priority int32, machines int64) *Rollup {
	t.Helper()
	n := rollup(t, d.Cluster, priority, machines, "").Needs[0]
	n.Name += "-2"
	return &Rollup{Cluster: d.Cluster, Needs: append(slices.Clone(d.Needs), n)}
}

// only keeps the actions of a kind.
func only(kind engine.Kind, actions []string) (out []string) {
	for _, a := range actions {
		if strings.Contains(a, ": "+kind.String()+" ") {
			out = append(out, a)
		}
	}
	return out
}

// TestAVoidPlanIsNotPaidForTwice: a higher rank takes the first machine that has
// drained for a Need, which voids its plan. What drains on is still the Need's:
// one machine more is preempted, in place of the one that was taken, and no
// second.
func TestAVoidPlanIsNotPaidForTwice(t *testing.T) {
	var ms []model.Machine
	for _, id := range []string{"m-0", "m-1", "m-2", "m-3", "m-4"} {
		ms = append(ms, machine(id, model.Configured, "low"))
	}
	got, _, _ := play(t, Scenario{
		Machines: ms, Demand: []Rollup{*rollup(t, "low", 1, 5, ""), *rollup(t, "mid", 100, 1, "")}, Reported: []string{"low", "mid"},
		Cycles: 30, Latencies: Latencies{Drain: Latency{4, 4}, Configure: Latency{1, 1}},
		Timeline: []Event{
			{At: 2, Replace: rollup(t, "mid", 100, 3, "")},
			{At: 5, Replace: rollup(t, "high", 1000, 1, "")},
		},
	})
	wants(t, only(engine.Preempt, got), "1: Preempt m-0 mid-need", "2: Preempt m-1 mid-need", "2: Preempt m-2 mid-need", "5: Preempt m-3 mid-need")
	wants(t, only(engine.Bootstrap, got), "5: Bootstrap m-0 high-need", "6: Bootstrap m-1 mid-need", "6: Bootstrap m-2 mid-need", "9: Bootstrap m-3 mid-need")
}

// TestAMachineComesBackByWayOfAHigherRank: freed for a Need, it is taken by a
// higher rank, as it may be; when that has gone, a lower Need of the same cluster
// has the machine, and the first, which has been short all the time, preempts it
// again. That is no second preemption for what the first one freed: a higher rank
// has had it.
func TestAMachineComesBackByWayOfAHigherRank(t *testing.T) {
	high := rollup(t, "high", 1000, 1, "")
	sc := Scenario{
		Machines: []model.Machine{machine("m", model.Configured, "low")},
		Demand:   []Rollup{*rollup(t, "low", 1, 1, ""), *rollup(t, "mid", 100, 1, "")}, Reported: []string{"low", "mid"},
		Cycles: 30, Latencies: Latencies{Drain: Latency{4, 4}, Configure: Latency{1, 1}}, Options: engine.DefaultOptions(),
		Timeline: []Event{
			{At: 5, Replace: more(t, high, 10, 1)},
			{At: 12, Replace: &Rollup{Cluster: "high", Needs: more(t, high, 10, 1).Needs[1:]}},
		},
	}
	got, _, _ := play(t, sc)
	wants(t, got, "1: Preempt m mid-need", "5: Bootstrap m high-need", "12: Preempt m mid-need", "16: Bootstrap m mid-need")
	f, _, err := contend(t, sc)
	if err != nil || f.Passed != 1 || f.Twice != 0 || f.Drained != 2 {
		t.Errorf("%v; %d of %d after a higher rank, %d twice", err, f.Passed, f.Drained, f.Twice)
	}
}
