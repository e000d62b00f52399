package advice

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/sim"
	"github.com/tonnage/tonnage/internal/world"
)

// suggestion is any kind of advice.
type suggestion struct {
	what  string
	edits *world.Edits
	loses []Loser
}

func suggestions(a *Advice) (out []suggestion) {
	for i := range a.Capacity {
		c := &a.Capacity[i]
		out = append(out, suggestion{"capacity " + c.Command(), c.Edits(), c.Losers})
	}
	if p := a.Priority; p != nil {
		out = append(out, suggestion{"priority " + p.Command(a.Need), p.Edits(), p.Losers})
	}
	for i := range a.Relax {
		out = append(out, suggestion{"without " + a.Relax[i].Leave, a.Relax[i].Edits(), a.Relax[i].Losers})
	}
	return out
}

// helped tells whether a Need is satisfied in a world, or waits for drains only.
func helped(t *testing.T, w *world.World, need string) bool {
	t.Helper()
	answer, err := w.Decide(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range answer.Needs {
		if n := &answer.Needs[i]; n.Name == need {
			return n.Satisfied || n.Reason == engine.UnmetAwaitingDrain
		}
	}
	t.Fatalf("no need %s", need)
	return false
}

// satisfiedIn runs a world in virtual time and tells whether a Need is satisfied at some time.
func satisfiedIn(t *testing.T, w *world.World, need string, cycles int) bool {
	t.Helper()
	run := sim.Scenario{Now: w.Now, Machines: w.Machines, Reported: w.Reported, Options: w.Options.Engine, Seed: 1, Cycles: cycles, Interval: 10 * time.Second}
	at := map[string]int{}
	for i := range w.Needs {
		n := w.Needs[i]
		if _, known := at[n.Cluster]; !known {
			at[n.Cluster] = len(run.Demand)
			run.Demand = append(run.Demand, sim.Rollup{Cluster: n.Cluster})
		}
		run.Demand[at[n.Cluster]].Needs = append(run.Demand[at[n.Cluster]].Needs, n)
	}
	good := false
	if _, err := sim.Run(context.Background(), run, func(c *sim.Cycle) error {
		good = good || !slices.Contains(c.Unsatisfied, need)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return good
}

// worlds yields the worlds of the scenarios that are decided about.
func worlds(t *testing.T, yield func(name string, w *world.World)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "scenario", "testdata", "*.json"))
	if err != nil || len(files) < 100 {
		t.Fatal(len(files), err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Command string
			Input   json.RawMessage
		}
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		if s.Command != "decide" {
			continue
		}
		if w, err := world.Read(bytes.NewReader(s.Input)); err == nil {
			yield(strings.TrimSuffix(filepath.Base(path), ".json"), w)
		}
	}
}

// TestAdviceHelps, in every world of the scenarios: what is suggested satisfies the Need by a decision from
// nothing and in a simulation, one machine less or one point of priority less does not, and nobody loses who is
// not named.
func TestAdviceHelps(t *testing.T) {
	counts := map[string]int{}
	worlds(t, func(name string, w *world.World) {
		answer, err := w.Decide(false, nil)
		if err != nil {
			return // a limit of the engine
		}
		for i := range answer.Needs {
			n := &answer.Needs[i]
			if n.Satisfied || n.Reason == engine.UnmetAwaitingDrain {
				continue
			}
			a, err := For(t.Context(), w, n.Name)
			if err != nil {
				t.Errorf("%s, %s: %v", name, n.Name, err)
				continue
			}
			for _, s := range suggestions(a) {
				kind, _, _ := strings.Cut(s.what, " ")
				counts[kind]++
				after := w.With(s.edits)
				if !helped(t, after, n.Name) {
					t.Errorf("%s, %s: %s does not help", name, n.Name, s.what)
				}
				if !satisfiedIn(t, after, n.Name, 100) {
					t.Errorf("%s, %s: %s does not satisfy it in a simulation", name, n.Name, s.what)
				}
			}
			minimal(t, name, w, a)
		}
	})
	for _, kind := range []string{"capacity", "priority", "without"} {
		if counts[kind] < 5 {
			t.Errorf("only %d suggestions of %s", counts[kind], kind)
		}
	}
	t.Log(counts)
}

// minimal holds advice against one less of it.
func minimal(t *testing.T, name string, w *world.World, a *Advice) {
	t.Helper()
	for i := range a.Capacity {
		c := &a.Capacity[i]
		fewer := *c.Edits()
		fewer.Machines = fewer.Machines[:c.Count-1]
		if helped(t, w.With(&fewer), a.Need) {
			t.Errorf("%s, %s: %s is one more than needed", name, a.Need, c.Command())
		}
	}
	if p := a.Priority; p != nil {
		lower := p.Edits().Needs[0]
		need, ok := with(&lower, func(spec *model.ProfileSpec) { spec.Priority-- })
		if ok && helped(t, w.With(&world.Edits{Needs: []world.Need{*need}}), a.Need) {
			t.Errorf("%s, %s: %s is higher than needed", name, a.Need, p.Command(a.Need))
		}
	}
}

func TestAdviceForNeedsThatAreNotShort(t *testing.T) {
	w, err := world.Read(strings.NewReader("machines:\n- {id: m-1, state: Idle, resources: {cpu: 4}}\n- {id: m-2, state: Configured, cluster: d, resources: {cpu: 8}, assigned: {need: low, priority: 1}}\n" +
		"needs:\n- {name: good, cluster: c, priority: 1, aggregate: {cpu: 4}}\n- {name: waits, cluster: c, priority: 9, aggregate: {cpu: 8}, minUnit: {cpu: 8}}\n- {name: low, cluster: d, priority: 1, aggregate: {cpu: 8}, minUnit: {cpu: 8}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"good": "it needs no help", "waits": "waits for machines that drain for it"} {
		a, err := For(t.Context(), w, name)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := a.WriteTable(&out, "-f world.yaml"); err != nil || !strings.Contains(out.String(), want) || len(suggestions(a)) != 0 {
			t.Errorf("%s: %v: %s", name, err, out.String())
		}
	}
	if _, err := For(t.Context(), w, "other"); err == nil {
		t.Error("a need that is not there is helped")
	}
}

// TestWhoPays: a priority that takes machines from others names them.
func TestWhoPays(t *testing.T) {
	w, err := world.Read(strings.NewReader("machines:\n- {id: m-1, state: Configured, cluster: d, resources: {cpu: 8}, pricePerHour: 2, assigned: {need: low, priority: 50}}\n" +
		"- {id: m-2, state: Configured, cluster: e, resources: {cpu: 8}, pricePerHour: 2, assigned: {need: high, priority: 90}}\n" +
		"needs:\n- {name: n, cluster: c, priority: 10, aggregate: {cpu: 8}, requirements: [{key: gen, operator: DoesNotExist}]}\n- {name: low, cluster: d, priority: 50, aggregate: {cpu: 8}}\n- {name: high, cluster: e, priority: 90, aggregate: {cpu: 8}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := For(t.Context(), w, "n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Loser{{Need: "low", Cluster: "d", Priority: 50, Machines: 1, Of: 1}}
	if a.Priority == nil || a.Priority.Priority != 51 || !slices.Equal(a.Priority.Losers, want) {
		t.Errorf("priority %+v", a.Priority)
	}
	if len(a.Capacity) == 0 || a.Capacity[0].Count != 1 || a.Capacity[0].AddedPerHour != 2 || a.Capacity[0].Losers != nil {
		t.Errorf("capacity %+v", a.Capacity)
	}
}

// TestWhoPaysIndirectly: a Need of the same cluster whose machine goes to the one that is helped loses it without a preemption, and
// takes another's in its turn.
func TestWhoPaysIndirectly(t *testing.T) {
	w, err := world.Read(strings.NewReader(`machines:
- {id: m-1, state: Configured, cluster: c, resources: {cpu: 8}, pricePerHour: 2, assigned: {need: own, priority: 50}}
- {id: m-2, state: Configured, cluster: d, resources: {cpu: 8}, pricePerHour: 2, assigned: {need: low, priority: 10}}
needs:
- {name: n, cluster: c, priority: 90, aggregate: {cpu: 8}, requirements: [{key: gen, operator: Exists}]}
- {name: own, cluster: c, priority: 50, aggregate: {cpu: 8}}
- {name: low, cluster: d, priority: 10, aggregate: {cpu: 8}}
`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := For(t.Context(), w, "n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Loser{{Need: "low", Cluster: "d", Priority: 10, Machines: 1, Of: 1}, {Need: "own", Cluster: "c", Priority: 50, Machines: 1, Of: 1}}
	if len(a.Relax) != 1 || !slices.Equal(a.Relax[0].Losers, want) {
		t.Errorf("without a requirement: %+v, want %+v", a.Relax, want)
	}
}

// TestInPartsIsFor: whoever waits between the parts gets the same answer, and each stage of each decision is a part.
func TestInPartsIsFor(t *testing.T) {
	w, err := world.Read(strings.NewReader("machines:\n- {id: m-1, state: Configured, cluster: d, resources: {cpu: 8}, pricePerHour: 2, assigned: {need: high, priority: 90}}\n" +
		"needs:\n- {name: low, cluster: c, priority: 10, aggregate: {cpu: 8}}\n- {name: high, cluster: d, priority: 90, aggregate: {cpu: 8}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := For(t.Context(), w, "low")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[Part]int{}
	got, err := InParts(t.Context(), w, "low", func(p Part) { parts[p]++ })
	if err != nil || !reflect.DeepEqual(suggestions(got), suggestions(plain)) || got.Tries != plain.Tries {
		t.Errorf("%v: %+v, want %+v", err, got, plain)
	}
	for stage := model.StageSnapshot; stage <= model.StagePhase3; stage++ {
		if first, others := parts[Part{stage, true}], parts[Part{stage, false}]; first != 1 || others != got.Tries-1 {
			t.Errorf("%v: %d parts of the first decision, %d of %d others", stage, first, others, got.Tries-1)
		}
	}
	if parts[Part{Stage: model.StageReconcile}] < 2 {
		t.Errorf("the tables are built in %d parts, want one for machines and one for Needs at least", parts[Part{Stage: model.StageReconcile}])
	}
}
