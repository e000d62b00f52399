package reference_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/fleet/contract"
	"github.com/tonnage/tonnage/internal/scenario"
	"github.com/tonnage/tonnage/internal/twin"
	"github.com/tonnage/tonnage/internal/world"
)

// scenarios returns the files of the acceptance scenarios whose names match a pattern.
func scenarios(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "internal", "scenario", "testdata", pattern+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no scenarios match %q", pattern)
	}
	return files
}

// TestScenarios runs every scenario of decide on the reference: those of gangs
// show it by itself, the others that it is the engine's twin.
func TestScenarios(t *testing.T) {
	for _, path := range scenarios(t, "*") {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if strings.HasPrefix(name, "bad-") { // refused before anything is decided
			continue
		}
		t.Run(name, func(t *testing.T) {
			s, err := scenario.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if s.Command != "decide" || s.Expect["exit"] != nil {
				t.Skip("not a plan")
			}
			if bytes.Contains(s.Input, []byte("reclaimCapFraction")) {
				t.Skip("about what the shard lets through")
			}
			for _, f := range s.Check(decide) {
				t.Errorf("%s\n%s", s.Says, f)
			}
		})
	}
}

// decide answers as the command would, by the reference.
func decide(_ string, input []byte) scenario.Output {
	w, in, err := read(input)
	if err != nil {
		return scenario.Output{Exit: 2, Stderr: err.Error()}
	}
	out, err := json.Marshal(answer(w, in, reference.Decide(in)))
	if err != nil {
		return scenario.Output{Exit: 1, Stderr: err.Error()}
	}
	return scenario.Output{Stdout: string(out)}
}

// read turns a file into the reference's input.
func read(input []byte) (*world.World, reference.Input, error) {
	w, err := world.Read(bytes.NewReader(input))
	if err != nil {
		return nil, reference.Input{}, err
	}
	in := reference.Input{
		Machines: w.Machines, Now: w.Now, Reported: map[string]bool{}, DrainSeconds: w.Options.DrainSeconds,
		Options: twin.ReferenceOptions(&w.Options.Engine),
	}
	for i := range w.Needs {
		in.Needs = append(in.Needs, w.Needs[i].Need)
	}
	for _, c := range w.Reported {
		in.Reported[c] = true
	}
	return w, in, nil
}

// TestCasesOfGangsHaveOneOutcome: twenty orders of the file, one plan.
func TestCasesOfGangsHaveOneOutcome(t *testing.T) {
	for _, path := range scenarios(t, "gangs-*") {
		s, err := scenario.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if s.Command != "decide" {
			continue
		}
		_, in, err := read(s.Input)
		if err != nil {
			t.Fatal(err)
		}
		plan := reference.Decide(in)
		for seed := range int64(20) {
			w, from := fleet.Shuffle(fleet.World{Machines: in.Machines, Needs: in.Needs}, seed)
			shuffled := in
			shuffled.Machines, shuffled.Needs = w.Machines, w.Needs
			if d := contract.Diff(contract.Relabel(reference.Decide(shuffled), from), plan); d != "" {
				t.Errorf("%s, order %d: %s", s.Name, seed, d)
			}
		}
	}
}

// answer writes what the expectations of scenarios look at.
func answer(w *world.World, in reference.Input, plan reference.Plan) any {
	type object = map[string]any
	actions, needs := []object{}, []object{}
	claimed := []string{}
	for _, a := range plan.Actions {
		name := ""
		if a.Need != reference.NoNeed {
			name = w.Needs[a.Need].Name
		}
		actions = append(actions, object{
			"kind": a.Kind, "machine": a.Machine, "cluster": a.Cluster, "need": name,
			"graceSeconds": a.Grace, "preemptorPriority": a.PreemptorPriority, "reason": a.Reason,
		})
	}
	for i, n := range plan.Needs {
		needs = append(needs, object{
			"name": w.Needs[i].Name, "cluster": in.Needs[i].Cluster, "satisfied": n.Satisfied, "deficit": quantities(n.Deficit), "domain": n.Domain,
			"claimed": append([]string{}, n.Claimed...), "bootstrap": n.Bootstrap, "provision": n.Provision, "reason": n.Unmet,
		})
		claimed = append(claimed, n.Claimed...)
	}
	slices.Sort(claimed)
	return object{"actions": actions, "needs": needs, "claimed": slices.Compact(claimed), "stats": object{}}
}

func quantities(r model.Resources) map[string]string {
	out := map[string]string{}
	for _, a := range r {
		out[a.Name] = model.FormatQuantity(a.Name, a.Value)
	}
	return out
}
