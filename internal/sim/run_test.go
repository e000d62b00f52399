package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/twin"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

func cpu(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: n}) }

func machine(id string, s model.State, cluster string) model.Machine {
	return model.Machine{ID: id, State: s, Cluster: cluster, CapacityType: model.BareMetal, PricePerHour: 1, Resources: cpu(4)}
}

// rollup is the demand of a cluster: one need of so many machines.
func rollup(t testing.TB, cluster string, priority int32, machines int64, same string) *Rollup {
	t.Helper()
	spec := model.ProfileSpec{Priority: priority}
	if same != "" {
		spec.Requirements = []model.Requirement{{Key: same, Operator: model.Same}}
	}
	p, err := model.NewProfile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return &Rollup{Cluster: cluster, Needs: []Need{{
		Name: cluster + "-need", Need: model.Need{Cluster: cluster, Profile: p, Aggregate: cpu(4 * machines), MinUnit: cpu(4)},
	}}}
}

// play runs a scenario and returns "cycle: kind machine need" for each action.
func play(t testing.TB, sc Scenario) (actions []string, cycles []*Cycle, summary Summary) {
	t.Helper()
	if sc.Options.TopDomains == 0 {
		sc.Options = engine.DefaultOptions()
	}
	summary, err := Run(t.Context(), sc, func(c *Cycle) error {
		cycles = append(cycles, c)
		for _, a := range c.Actions {
			actions = append(actions, strings.TrimSpace(fmt.Sprintf("%d: %s %s %s", c.Cycle, a.Kind, a.Machine, a.Need)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return actions, cycles, summary
}

func wants(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestLatencies: what cycle k starts and takes d cycles is done in the snapshot
// of cycle k+d; with 0 within cycle k. Provision and Bootstrap are two actions
// in two cycles all the same.
func TestLatencies(t *testing.T) {
	for d := range 4 {
		sc := Scenario{
			Machines: []model.Machine{machine("s", model.Speculative, "")}, Demand: []Rollup{*rollup(t, "c1", 1, 1, "")}, Reported: []string{"c1"},
			Cycles: 12, Latencies: Latencies{Create: Latency{d, d}, Configure: Latency{d, d}},
		}
		got, cycles, _ := play(t, sc)
		second := 1 + max(d, 1)
		wants(t, got, "1: Provision s c1-need", fmt.Sprintf("%d: Bootstrap s c1-need", second))
		done := slices.IndexFunc(cycles, func(c *Cycle) bool { return c.States["Configured"] == 1 }) + 1
		if done != second+d {
			t.Errorf("latency %d: Configured in cycle %d, want %d", d, done, second+d)
		}
		if c := cycles[0]; d > 0 && (c.InFlight != 1 || c.States["Creating"] != 1) {
			t.Errorf("latency %d: cycle 1 ends with %v, in flight %d", d, c.States, c.InFlight)
		}
	}
}

func TestTransitionsOfTheWorldAreSeenInCycleOne(t *testing.T) {
	sc := Scenario{Machines: []model.Machine{machine("d", model.Draining, "c1")}, Cycles: 3}
	_, cycles, _ := play(t, sc)
	if cycles[0].States["Draining"] != 1 || cycles[1].States["Idle"] != 1 {
		t.Errorf("got %v, %v", cycles[0].States, cycles[1].States)
	}
}

func TestRestartForgetsDemandUntilItIsSentAgain(t *testing.T) {
	base := Scenario{
		Machines: []model.Machine{machine("a", model.Idle, ""), machine("b", model.Idle, "")},
		Demand:   []Rollup{*rollup(t, "c1", 9, 2, "")}, Reported: []string{"c1"}, Cycles: 8,
	}
	for _, resend := range []bool{false, true} {
		sc := base
		sc.Timeline = []Event{{At: 3, Restart: true, Resend: resend}, {At: 5, Lose: []string{"a"}}}
		got, cycles, _ := play(t, sc)
		wants(t, got, "1: Bootstrap a c1-need", "1: Bootstrap b c1-need")
		if len(cycles[2].Unsatisfied) != 0 {
			t.Error("the demand is known in the cycle of the restart")
		}
		if known := len(cycles[4].Unsatisfied) == 1; known != resend {
			t.Errorf("resend %v: unsatisfied after the loss: %v", resend, cycles[4].Unsatisfied)
		}
	}
}

func TestPauseSuppressesAndRestartKeepsIt(t *testing.T) {
	yes, no := true, false
	sc := Scenario{
		Machines: []model.Machine{machine("a", model.Idle, "")}, Cycles: 8,
		Timeline: []Event{
			{At: 2, Pause: &yes}, {At: 3, Replace: rollup(t, "c1", 1, 1, "")}, {At: 4, Restart: true, Resend: true}, {At: 7, Pause: &no},
		},
	}
	got, cycles, _ := play(t, sc)
	wants(t, got, "7: Bootstrap a c1-need")
	if cycles[2].Suppressed != 1 || cycles[4].Suppressed != 1 {
		t.Errorf("suppressed %d and %d", cycles[2].Suppressed, cycles[4].Suppressed)
	}
}

func TestLostMachinesAreReplacedOneForOne(t *testing.T) {
	for k := range 4 {
		for d := range 3 {
			var ms []model.Machine
			var lost []string
			for i := range 6 {
				m := machine(fmt.Sprintf("a%d", i), model.Idle, "")
				m.Labels = map[string]string{"rack": "r"}
				ms = append(ms, m)
				if i < k {
					lost = append(lost, m.ID)
				}
				m.ID, m.State = fmt.Sprintf("z%d", i), model.Speculative
				ms = append(ms, m)
			}
			sc := Scenario{
				Machines: ms, Cycles: 40, Timeline: []Event{{At: 10, Lose: lost}}, Demand: []Rollup{*rollup(t, "c1", 1, 6, "rack")}, Reported: []string{"c1"},
				Latencies: Latencies{Create: Latency{d, d + 2}, Configure: Latency{0, d}},
			}
			_, _, s := play(t, sc)
			want := map[string]int{"Bootstrap": 6 + k, "Provision": k}
			if s.Actions["Bootstrap"] != want["Bootstrap"] || s.Actions["Provision"] != k || s.Actions["Reclaim"]+s.Actions["Delete"] != 0 || len(s.Unsatisfied) != 0 {
				t.Errorf("%d lost, latency %d: %v, unsatisfied %v", k, d, s.Actions, s.Unsatisfied)
			}
		}
	}
}

func TestUnreportedClustersAreServedButNotReclaimed(t *testing.T) {
	sc := Scenario{
		Machines: []model.Machine{machine("a", model.Idle, ""), machine("x", model.Configured, "c1")},
		Demand:   []Rollup{*rollup(t, "c1", 1, 2, "")}, Cycles: 5,
		Timeline: []Event{{At: 3, Replace: &Rollup{Cluster: "c1"}}},
	}
	sc.Machines = append(sc.Machines, machine("y", model.Configured, "c2"))
	got, _, _ := play(t, sc)
	wants(t, got, "1: Bootstrap a c1-need", "3: Reclaim a", "3: Reclaim x")
}

func TestSameScenarioSameTrace(t *testing.T) {
	var traces []string
	for _, workers := range []int{1, 1, 3} {
		sc := Scenario{Seed: 5, Cycles: 30, Latencies: Latencies{Configure: Latency{0, 5}}, Faults: []Fault{{Op: shard.OpAny, Probability: 0.2}}, Options: engine.DefaultOptions()}
		sc.Options.Workers = workers
		for i := range 20 {
			sc.Machines = append(sc.Machines, machine(fmt.Sprint("m", i), model.Idle, ""))
		}
		sc.Demand, sc.Reported = []Rollup{*rollup(t, "c1", 1, 12, "")}, []string{"c1"}
		_, cycles, summary := play(t, sc)
		text, err := json.Marshal([]any{cycles, summary})
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, string(text))
	}
	if traces[0] != traces[1] || traces[0] != traces[2] {
		t.Error("one scenario, two traces")
	}
}

func TestCycleInJSON(t *testing.T) {
	sc := Scenario{Machines: []model.Machine{machine("a", model.Idle, "")}, Demand: []Rollup{*rollup(t, "c1", 1, 1, "")}, Reported: []string{"c1"}, Cycles: 1}
	_, cycles, _ := play(t, sc)
	got, err := json.Marshal(cycles[0])
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"cycle":1,"actions":[["Bootstrap","a","c1-need"]],"states":{"Configured":1},"inFlight":0,"unsatisfied":[],"shortfalls":0,"held":[],"suppressed":0,"digest":%q}`, cycles[0].Digest)
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRunEndsWithEmitAndContext(t *testing.T) {
	stop := errors.New("enough")
	sc := Scenario{Cycles: 9, Options: engine.DefaultOptions()}
	if s, err := Run(t.Context(), sc, func(c *Cycle) error {
		if c.Cycle == 3 {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) || s.Cycles != 3 {
		t.Errorf("got %v after %d cycles", err, s.Cycles)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, sc, func(*Cycle) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	sc.Latencies.Create = Latency{Min: 3, Max: 1}
	if _, err := Run(t.Context(), sc, func(*Cycle) error { return nil }); err == nil {
		t.Error("min above max is accepted")
	}
}

// TestOnlyReclaimsAreCapped: with a full budget in each cycle, the head of the
// order first; the rest is derived anew. Nothing else has a limit.
func TestOnlyReclaimsAreCapped(t *testing.T) {
	sc := Scenario{
		Demand:   []Rollup{{Cluster: "c1"}, *rollup(t, "c2", 1, 3, "")},
		Reported: []string{"c1", "c2"}, Cycles: 4, Rails: Rails{ReclaimCapFraction: 0.05},
	}
	for i := range 40 {
		sc.Machines = append(sc.Machines, machine(fmt.Sprintf("m-%02d", i), model.Configured, "c1"))
	}
	for _, id := range []string{"i-0", "i-1", "i-2"} {
		sc.Machines = append(sc.Machines, machine(id, model.Idle, ""))
	}
	got, _, _ := play(t, sc)
	wants(t, got, "1: Bootstrap i-0 c2-need", "1: Bootstrap i-1 c2-need", "1: Bootstrap i-2 c2-need",
		"1: Reclaim m-00", "1: Reclaim m-01", "2: Reclaim m-02", "3: Reclaim m-03", "4: Reclaim m-04")
}

// TestViolationsAreSeen: each invariant is broken by hand, since a run that is
// right breaks none.
func TestViolationsAreSeen(t *testing.T) {
	ms := []model.Machine{machine("a", model.Configured, "c1"), machine("b", model.Configured, "c1")}
	two := *rollup(t, "c1", 1, 1, "")
	two.Needs = append(two.Needs, two.Needs[0])
	fresh := func() (*run, engine.Input, *engine.Plan) {
		sc := &Scenario{Machines: ms, Demand: []Rollup{two}, Reported: []string{"c1"}, Options: engine.DefaultOptions(), Rails: Rails{ReclaimCapFraction: 0.05, Queue: 3}}
		r := newRun(sc)
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		r.cycle = 7
		in := engine.Input{Supply: supply.New(), Demand: demand.New()}
		for i := range ms {
			if err := in.Supply.Put(&ms[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Demand.Replace("c1", rowsOf(&two)); err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(sc.Options)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := e.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		return r, in, plan
	}
	started := func(n int, kind engine.Kind, err error) *shard.Cycle {
		c := &shard.Cycle{}
		for range n {
			c.Started = append(c.Started, shard.Started{Kind: kind, Cluster: "c1", Err: err})
		}
		return c
	}
	for _, x := range []struct {
		want  Invariant
		spoil func(r *run, in engine.Input, plan *engine.Plan)
	}{
		{"", func(r *run, in engine.Input, plan *engine.Plan) { r.decided(in, plan) }},
		{"", func(r *run, in engine.Input, plan *engine.Plan) {
			r.decided(in, plan)
			r.checkActions(started(1, engine.Reclaim, nil))
			r.checkPresence(r.expected)
		}},
		{ClaimedOnce, func(r *run, in engine.Input, plan *engine.Plan) {
			results := twin.Results(plan)
			results[1].Claimed = append([]columnar.Row{}, results[0].Claimed...)
			r.noteClaims(in, results)
		}},
		{EqualsReference, func(r *run, in engine.Input, plan *engine.Plan) {
			results := twin.Results(plan)
			results[0].Satisfied = false
			r.judge(in, plan, results)
		}},
		{LegalMoves, func(r *run, _ engine.Input, _ *engine.Plan) {
			r.checkActions(started(1, engine.Delete, fmt.Errorf("no: %w", simulated.ErrPosition)))
		}},
		{LegalMoves, func(r *run, _ engine.Input, _ *engine.Plan) {
			r.checkActions(&shard.Cycle{Illegal: []shard.Started{{}}})
		}},
		{LegalMoves, func(r *run, _ engine.Input, _ *engine.Plan) {
			r.checkActions(&shard.Cycle{Reconciled: shard.Reconciled{Diverged: 1}})
		}},
		{CapsHold, func(r *run, in engine.Input, plan *engine.Plan) {
			r.decided(in, plan)
			r.checkActions(started(2, engine.Reclaim, nil))
		}},
		{CapsHold, func(r *run, _ engine.Input, _ *engine.Plan) { r.checkActions(started(4, engine.Bootstrap, nil)) }},
		{NothingVanishes, func(r *run, _ engine.Input, _ *engine.Plan) { r.checkPresence(map[string]struct{}{"a": {}}) }},
		{NothingVanishes, func(r *run, _ engine.Input, _ *engine.Plan) {
			r.checkPresence(map[string]struct{}{"a": {}, "b": {}, "c": {}})
		}},
	} {
		r, in, plan := fresh()
		x.spoil(r, in, plan)
		switch {
		case x.want == "" && r.violation != nil:
			t.Errorf("nothing is wrong, but: %v", r.violation)
		case x.want != "" && (r.violation == nil || r.violation.Invariant != x.want || r.violation.Cycle != 7):
			t.Errorf("%s: got %v", x.want, r.violation)
		}
	}
}

func TestCycleTimes(t *testing.T) {
	m := machine("m", model.Idle, "")
	m.CapacityType = model.Spot
	sc := Scenario{Machines: []model.Machine{m}, Cycles: 10, Interval: 7 * time.Second, Options: engine.DefaultOptions()}
	sc.Options.Release = engine.Release{Spot: 20 * time.Second}
	got, _, _ := play(t, sc)
	wants(t, got, "4: Delete m") // 21 s after the first cycle
}
