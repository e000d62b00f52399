package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/twin"
	"github.com/tonnage/tonnage/internal/workload"
)

func tiny(t *testing.T) workload.Rung {
	t.Helper()
	r, err := workload.ByName("tiny")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustRun(t *testing.T, cfg Config) *Result {
	t.Helper()
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// contractKeys are those that scripts rely on.
var contractKeys = []string{
	"rung", "regime", "workers", "cycles", "fullCycles", "checkedCycles", "machines", "needs",
	"cycleMillis.min", "cycleMillis.p50", "cycleMillis.p99", "cycleMillis.max",
	"phaseMillis.snapshot.min", "phaseMillis.snapshot.p50", "phaseMillis.snapshot.p99", "phaseMillis.snapshot.max",
	"phaseMillis.normalise.p50", "phaseMillis.rank.p50", "phaseMillis.phase1.p50", "phaseMillis.phase2.p50", "phaseMillis.phase3.max",
	"floorMillis", "timesFloor", "p50TimesFloor", "allocsPerCycle", "bytesPerMachine", "bytesPerNeed", "rssBytes", "proposals", "conflicts", "displacements",
	"actions.Bootstrap", "actions.Provision", "actions.Preempt", "actions.Reclaim", "actions.Delete", "satisfied", "unsatisfied",
	"planChecksum", "verified", "cpu", "goamd64", "simd", "load1",
}

func TestResultHasTheKeysOfTheContract(t *testing.T) {
	var out bytes.Buffer
	result := mustRun(t, Config{Rung: tiny(t), Regime: workload.Cold, Cycles: 2, Seed: 1})
	if err := result.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(out.Bytes(), &object); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	for _, key := range contractKeys {
		var at any = object
		for part := range strings.SplitSeq(key, ".") {
			inner, _ := at.(map[string]any)
			at = inner[part]
		}
		if at == nil {
			t.Errorf("%s is missing", key)
		}
	}
}

func TestResultSaysWhatWasMeasured(t *testing.T) {
	r := mustRun(t, Config{Rung: tiny(t), Regime: workload.Cold, Cycles: 3, Workers: 1, Seed: 1, Verify: true})
	if r.Rung != "tiny" || r.Regime != "cold" || r.Cycles != 3 || r.Workers != 1 || r.Machines != 1265 {
		t.Errorf("result is of %s %s, %d cycles, %d workers, %d machines", r.Rung, r.Regime, r.Cycles, r.Workers, r.Machines)
	}
	if r.Satisfied != r.Needs || r.Actions["Bootstrap"] == 0 || r.ActionsTotal["Bootstrap"] != 3*r.Actions["Bootstrap"] {
		t.Errorf("%d of %d satisfied, %v in a cycle, %v in all", r.Satisfied, r.Needs, r.Actions, r.ActionsTotal)
	}
	if r.Verified != VerifiedReference || r.VerifiedCycles != 2 {
		t.Errorf("verified: %s, %d cycles", r.Verified, r.VerifiedCycles)
	}
	if r.FloorMillis <= 0 || r.TimesFloor != r.CycleMillis.Min/r.FloorMillis || r.P50TimesFloor != r.CycleMillis.P50/r.FloorMillis {
		t.Errorf("floor %v ms, %v and %v times that for cycles of %+v", r.FloorMillis, r.TimesFloor, r.P50TimesFloor, r.CycleMillis)
	}
	if v := r.VerifyMillis; v.Min <= 0 || v.Min > v.Max {
		t.Errorf("the reference took %+v ms", v)
	}
	sum := r.PhaseMillis.Snapshot.Min + r.PhaseMillis.Normalise.Min + r.PhaseMillis.Rank.Min + r.PhaseMillis.Phase1.Min + r.PhaseMillis.Phase2.Min + r.PhaseMillis.Phase3.Min
	if sum <= 0 || sum > r.CycleMillis.Max || r.CycleMillis.Min > r.CycleMillis.P50 || r.CycleMillis.P50 > r.CycleMillis.Max {
		t.Errorf("phases take %v ms together, cycles %+v", sum, r.CycleMillis)
	}
	if r.BytesPerMachine <= 0 || r.BytesPerNeed <= 0 || r.RSSBytes <= 0 || r.MemoryBytes["machines"] <= 0 {
		t.Errorf("memory: %v and %v, %v, resident %d", r.BytesPerMachine, r.BytesPerNeed, r.MemoryBytes, r.RSSBytes)
	}
}

// TestEveryRegimeIsTheSameAgain: neither workers nor a second process change a
// plan, and every regime is held to the reference.
func TestEveryRegimeIsTheSameAgain(t *testing.T) {
	for _, regime := range Regimes() {
		t.Run(regime.String(), func(t *testing.T) {
			cfg := Config{Rung: tiny(t), Regime: regime, Cycles: 9, Seed: 3, Verify: true}
			first := mustRun(t, cfg)
			cfg.Workers = 3
			if again := mustRun(t, cfg); again.PlanChecksum != first.PlanChecksum {
				t.Errorf("checksum %s, and %s with 3 workers", first.PlanChecksum, again.PlanChecksum)
			}
			cfg.Seed, cfg.Verify = 4, false
			if other := mustRun(t, cfg); other.PlanChecksum == first.PlanChecksum {
				t.Error("the seed changes nothing")
			}
			if first.Verified != VerifiedReference || first.VerifiedCycles == 0 {
				t.Errorf("verified: %s, %d cycles", first.Verified, first.VerifiedCycles)
			}
		})
	}
}

// TestCyclesBuildOnTheOneBefore where the fleet runs on, and never where two
// worlds take turns; what they decide is the same.
func TestCyclesBuildOnTheOneBefore(t *testing.T) {
	for _, regime := range Regimes() {
		cfg := Config{Rung: tiny(t), Regime: regime, Cycles: 4, Seed: 1}
		r := mustRun(t, cfg)
		want, known := map[workload.Regime]int{workload.Cold: 4, workload.Contended: 4, workload.Steady: 0, workload.Burst: 0}[regime]
		if known && r.FullCycles != want || r.CheckedCycles != 0 {
			t.Errorf("%s: %d of 4 cycles built on nothing, want %d; %d were checked", regime, r.FullCycles, want, r.CheckedCycles)
		}
		cfg.Full = true
		if full := mustRun(t, cfg); full.FullCycles != 4 || full.PlanChecksum != r.PlanChecksum {
			t.Errorf("%s, full: %d of 4 cycles; checksum %s, want %s", regime, full.FullCycles, full.PlanChecksum, r.PlanChecksum)
		}
	}
	if r := mustRun(t, Config{Rung: tiny(t), Regime: workload.Steady, Cycles: 120, Seed: 1}); r.CheckedCycles+r.FullCycles == 0 || r.CheckedCycles > 1 {
		t.Errorf("of 120 cycles %d were checked, %d built on nothing", r.CheckedCycles, r.FullCycles)
	}
}

func TestRegimesAreWhatTheySay(t *testing.T) {
	kinds := map[workload.Regime]string{
		workload.Cold: "Bootstrap", workload.Steady: "Bootstrap", workload.Burst: "Provision", workload.Shrink: "Reclaim", workload.Contended: "Preempt",
	}
	for regime, kind := range kinds {
		r := mustRun(t, Config{Rung: tiny(t), Regime: regime, Cycles: 3, Seed: 1})
		if r.ActionsTotal[kind] == 0 {
			t.Errorf("%s has no %s: %v", regime, kind, r.ActionsTotal)
		}
		fromScratch := regime == workload.Cold || regime == workload.Contended
		if (r.ChangedNeeds == 0) != fromScratch || (r.ChangedMachines > 0) != (regime == workload.Steady) {
			t.Errorf("%s: %d Needs and %d machines changed", regime, r.ChangedNeeds, r.ChangedMachines)
		}
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	for want, cfg := range map[string]Config{
		"rung":                       {Cycles: 1},
		"cycles":                     {Rung: tiny(t)},
		"workers":                    {Rung: tiny(t), Cycles: 1, Workers: -1},
		"between 1 and 100, got 101": {Rung: tiny(t), Cycles: 1, Regime: workload.Burst, ClustersPercent: 101},
		"cold changes all of them":   {Rung: tiny(t), Cycles: 1, Regime: workload.Cold, ClustersPercent: 5},
	} {
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	measured := 0
	_, err := Run(ctx, Config{Rung: tiny(t), Regime: workload.Cold, Cycles: 1000, Seed: 1, Progress: func(p Progress) {
		if measured = p.Done; measured == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || measured != 2 {
		t.Errorf("%v after %d cycles", err, measured)
	}
}

func TestTableNamesEveryFigure(t *testing.T) {
	var out bytes.Buffer
	r := mustRun(t, Config{Rung: tiny(t), Regime: workload.Contended, Cycles: 2, Seed: 1})
	r.AtRest = false
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"tiny contended: 365 machines", "phase 2", "cpu", "Preempt", "resident", r.PlanChecksum, "at rest"} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("the table lacks %q:\n%s", word, out.String())
		}
	}
}

// planted returns the input and plan of a cold fleet, and a world that lacks
// the last machine that the plan binds.
func planted(t *testing.T) (in engine.Input, plan *engine.Plan, other engine.Input) {
	t.Helper()
	f := workload.Build(tiny(t), 1)
	in, err := Load(f, workload.Cold)
	if err != nil {
		t.Fatal(err)
	}
	if other, err = Load(f, workload.Cold); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if plan, err = e.Cycle(in); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(plan.Actions, func(a engine.Action) bool { return a.Kind == engine.Provision })
	if !other.Supply.Remove(in.Supply.ID(plan.Actions[i-1].Machine)) {
		t.Fatal("the plan binds a machine that does not exist")
	}
	return in, plan, other
}

func TestVerifyFindsAPlantedDifference(t *testing.T) {
	in, plan, other := planted(t)
	for _, with := range []string{VerifiedReference, VerifiedSequential} {
		v := &verifier{with: with, opts: engine.DefaultOptions(), first: 1}
		if err := v.check(0, in, plan); err != nil || len(v.took) != 1 {
			t.Errorf("%s: a plan differs from itself: %v", with, err)
		}
		// The same rows name the same machines in both worlds, so that the plan
		// can be read in the other's terms.
		var difference *Difference
		if err := v.check(0, other, plan); !errors.As(err, &difference) || difference.With != with || difference.Cycle != 1 {
			t.Errorf("%s: one machine is gone, and: %v", with, err)
		}
	}
}

// TestVerifyComparesAllThatDiffer: where cycles decide on one thing again and again, the
// first; else all, of which the reference is asked for some.
func TestVerifyComparesAllThatDiffer(t *testing.T) {
	for _, c := range []struct {
		regime           workload.Regime
		cycles           int
		want, references int
	}{{workload.Cold, 1, 1, 1}, {workload.Cold, 20, 2, 2}, {workload.Shrink, 20, 1, 1}, {workload.Steady, 5, 5, 5}, {workload.Steady, 21, 21, 7}} {
		r := mustRun(t, Config{Rung: tiny(t), Regime: c.regime, Cycles: c.cycles, Seed: 1, Verify: true})
		if r.VerifiedCycles != c.want || r.ReferenceCycles != c.references {
			t.Errorf("%s: %d of %d cycles are compared, %d with the reference, want %d and %d",
				c.regime, r.VerifiedCycles, c.cycles, r.ReferenceCycles, c.want, c.references)
		}
	}
}

func TestUnequalPlansOfOneInputAreAnError(t *testing.T) {
	r := &run{Driver: &Driver{course: &turns{}}}
	if err := errors.Join(r.addSum(0, 1), r.addSum(1, 1)); err != nil {
		t.Fatal(err)
	}
	var difference *Difference
	if err := r.addSum(2, 2); !errors.As(err, &difference) || difference.Cycle != 3 {
		t.Errorf("got %v", err)
	}
}

func TestChecksumSeesWhatMatters(t *testing.T) {
	in, plan, _ := planted(t)
	was := Checksum(plan, in.Supply)
	results := twin.Results(plan)
	need := slices.IndexFunc(results, func(n engine.NeedResult) bool { return len(n.Claimed) > 1 })
	claimed, actions := results[need].Claimed, plan.Actions
	for what, change := range map[string]func(){
		"grace":         func() { actions[0].GraceSeconds++ },
		"kind":          func() { actions[0].Kind = engine.Delete },
		"order":         func() { actions[0], actions[1] = actions[1], actions[0] },
		"need":          func() { actions[0].Need++ },
		"machine":       func() { actions[0].Machine = actions[1].Machine },
		"a claim less":  func() { results[need].Claimed = claimed[1:] },
		"deficit":       func() { results[need].Deficit = model.NewResources(model.Amount{Name: "cpu", Value: 1}) },
		"ended":         func() { plan.Ended = claimed[:1] },
		"action less":   func() { plan.Actions = actions[1:] },
		"unmet":         func() { results[need].Unmet = engine.UnmetParked },
		"nothing (not)": func() {},
	} {
		actionsWere, needsWere := slices.Clone(plan.Actions), slices.Clone(results)
		change()
		if same := checksum(plan, func(i int) engine.NeedResult { return results[i] }, in.Supply) == was; same != (what == "nothing (not)") {
			t.Errorf("%s: the same checksum is %v", what, same)
		}
		copy(actions, actionsWere)
		copy(results, needsWere)
		plan.Actions, plan.Ended = actions, nil
	}
}
