package advice

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/world"
)

// shortIn names the Needs of a world that are short and do not only wait for drains.
func shortIn(t *testing.T, w *world.World) map[string]bool {
	t.Helper()
	answer, err := w.Decide(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for i := range answer.Needs {
		if n := &answer.Needs[i]; !n.Satisfied && n.Reason != engine.UnmetAwaitingDrain {
			out[n.Name] = true
		}
	}
	return out
}

// satisfiedBy names the Needs that are short in a world and no longer are with so many machines of a relief.
func satisfiedBy(t *testing.T, w *world.World, r *Relief, count int) (met []string) {
	t.Helper()
	edits := *r.Capacity.Edits()
	edits.Machines = edits.Machines[:count]
	after := shortIn(t, w.With(&edits))
	for name := range shortIn(t, w) {
		if !after[name] {
			met = append(met, name)
		}
	}
	return met
}

// TestReliefSatisfies, in every world of the scenarios: the machines satisfy as many Needs as it says by a decision from nothing, and one
// machine less satisfies fewer.
func TestReliefSatisfies(t *testing.T) {
	found := 0
	worlds(t, func(name string, w *world.World) {
		if _, err := w.Decide(false, nil); err != nil {
			return // a limit of the engine
		}
		r, err := ForShort(t.Context(), w, func(Part) {})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if short := len(shortIn(t, w)); r.Short > short { // one that is parked is tried again, and may not be short then
			t.Errorf("%s: %d Needs are short, it says %d", name, short, r.Short)
		}
		if r.Capacity == nil {
			if r.Satisfies != 0 {
				t.Errorf("%s: nothing satisfies %d", name, r.Satisfies)
			}
			return
		}
		found++
		got := satisfiedBy(t, w, r, r.Capacity.Count)
		if len(got) != r.Satisfies || len(r.Needs) != min(r.Satisfies, reliefNamesMax) {
			t.Errorf("%s: %d machines like %s satisfy %v, it says %d: %v", name, r.Capacity.Count, r.Capacity.Like, got, r.Satisfies, r.Needs)
		}
		for _, need := range r.Needs {
			if !slices.Contains(got, need) {
				t.Errorf("%s: %d machines like %s satisfy %v, it says %v", name, r.Capacity.Count, r.Capacity.Like, got, r.Needs)
			}
		}
		if fewer := r.Capacity.Count - 1; fewer > 0 {
			if got := satisfiedBy(t, w, r, fewer); len(got) >= r.Satisfies {
				t.Errorf("%s: %d machines like %s satisfy %v already", name, fewer, r.Capacity.Like, got)
			}
		}
	})
	if found < 5 {
		t.Errorf("something helps in %d worlds only", found)
	}
}

func TestReliefChoosesWhatHelpsMost(t *testing.T) {
	const fleet = "machines:\n- {id: a, state: Configured, cluster: d, instanceType: old, resources: {cpu: 8}, pricePerHour: 1, assigned: {need: top, priority: 99}}\n" +
		"- {id: b, state: Configured, cluster: d, instanceType: new, resources: {cpu: 8}, pricePerHour: 5, labels: {gen: \"2\"}, assigned: {need: top, priority: 99}}\n" +
		"needs:\n- {name: top, cluster: d, priority: 99, aggregate: {cpu: 16}}\n"
	for name, x := range map[string]struct {
		needs, like             string
		short, satisfies, count int
	}{
		"the kind that fits all":              {"- {name: n, cluster: c, priority: 1, aggregate: {cpu: 8}}\n- {name: m, cluster: c, priority: 2, aggregate: {cpu: 16}, requirements: [{key: gen, operator: Exists}]}\n", "b", 2, 2, 3},
		"the cheaper of two that fit as many": {"- {name: n, cluster: c, priority: 1, aggregate: {cpu: 8}}\n", "a", 1, 1, 1},
		"nothing fits":                        {"- {name: n, cluster: c, priority: 1, aggregate: {gpu: 8}}\n", "", 1, 0, 0},
		"nothing is short":                    {"", "", 0, 0, 0},
	} {
		w, err := world.Read(strings.NewReader(fleet + x.needs))
		if err != nil {
			t.Fatal(err)
		}
		r, err := ForShort(t.Context(), w, func(Part) {})
		if err != nil {
			t.Fatal(err)
		}
		if r.Short != x.short || r.Satisfies != x.satisfies || (r.Capacity == nil) != (x.like == "") || r.Capacity != nil && (r.Capacity.Like != x.like || r.Capacity.Count != x.count) {
			t.Errorf("%s: %+v %+v", name, r, r.Capacity)
		}
	}
	w, err := world.Read(strings.NewReader(fleet))
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := ForShort(over, w, func(Part) {}); err == nil {
		t.Error("it answers without time for a decision")
	}
	if r, err := ForShort(t.Context(), &world.World{}, func(Part) {}); err != nil || r.Short != 0 {
		t.Errorf("of an empty world: %v %+v", err, r)
	}
}
