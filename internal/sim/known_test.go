package sim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/internal/sim"
	"github.com/tonnage/tonnage/internal/world"
)

// loopsDir returns the directory of loops that are known to undo something, beside the repository.
func loopsDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "loops")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		t.Skip("../shared/loops is absent: the loops lie beside the repository, not in it")
	}
	return dir
}

// filesOf returns the names, without ending, of the loops in a directory.
func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	return names
}

// known is what a loop does at most as the rules are. It falls with the rules; docs/explanation/coming-to-rest.md has what it was.
type known struct {
	undone int           // actions
	beyond int           // of them, those that neither something larger nor something sooner explains
	broken sim.Invariant // that does not hold
}

var knownRuns = map[string]known{
	"below-its-minimum-a":             {},
	"below-its-minimum-b":             {},
	"bought-and-deleted":              {},
	"bound-and-preempted":             {},
	"preempted-and-bound-back":        {},
	"preempts-with-nothing-under-way": {undone: 1},
}

var knownMechanisms = map[string]known{
	"accepted-larger-plan":             {undone: 1},
	"bought-beside-own-plan":           {undone: 1},
	"c7-remainder":                     {},
	"c7-remainder-plain-role":          {},
	"c9-released-machine":              {undone: 1},
	"credit-makes-own-superfluous":     {undone: 1},
	"credit-overshoot-lower-buys":      {},
	"credit-overshoot-twins":           {},
	"excess-counted-but-not-reserved":  {},
	"gang-gathers-then-moves":          {undone: 2},
	"gang-gathers-then-moves-draining": {},
	"lower-binds-idle-of-higher-plan":  {},
	"machine-mode-idle-not-held":       {},
	"one-stamp-sibling-covers":         {undone: 2, beyond: 1},
	"other-machine-free-first":         {},
	"reservation-of-satisfied-owner":   {undone: 1},
	"reservation-owner-cannot-use":     {},
	"spread-credit-breaks-skew":        {},
	"spread-overshoot-bought":          {},
	"spread-overshoot-bound":           {},
}

// check compares what a loop did with what is known of it. A loop that is known to break an invariant
// may undo what it likes before.
func (k known) check(t *testing.T, undone map[string]int, explained int, err error) {
	t.Helper()
	violation := (*sim.Violation)(nil)
	switch {
	case errors.As(err, &violation) && violation.Invariant == k.broken:
		return
	case err != nil:
		t.Error(err)
	case k.broken != "":
		t.Errorf("holds %q, and is known not to: take that out of the table", k.broken)
	case history.Sum(undone) < k.undone:
		t.Errorf("undoes %v, and is known for %d: lower that", undone, k.undone)
	case history.Sum(undone) > k.undone:
		t.Errorf("undoes %v, and is known for %d", undone, k.undone)
	case history.Sum(undone)-explained != k.beyond:
		t.Errorf("undoes %v, of which %d are explained; the others are known to be %d", undone, explained, k.beyond)
	}
}

// TestKnownRuns: runs that undo something do as is known, and no worse.
func TestKnownRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long runs")
	}
	dir := loopsDir(t)
	for _, name := range filesOf(t, dir) {
		t.Run(name, func(t *testing.T) {
			k, listed := knownRuns[name]
			if !listed {
				t.Fatal("is not in the table")
			}
			text, err := os.ReadFile(filepath.Join(dir, name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			sc, err := world.ReadRun(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			last := 0
			s, explained, err := sim.RunExplained(t.Context(), *sc, func(c *sim.Cycle) error {
				if len(c.Actions) > 0 {
					last = c.Cycle
				}
				return nil
			})
			if err == nil && last > sc.Cycles-100 {
				err = sim.ErrRestless
			}
			k.check(t, s.Rest.Undone, explained, err)
		})
	}
}

// mechanism is the smallest world of one way to undo something.
type mechanism struct {
	Stages  []sim.Stage
	Latency struct {
		Cycles int
		Random bool
	}
	Lose  int
	World json.RawMessage
	Top   json.RawMessage
}

// course reads a mechanism.
func (x *mechanism) course(t *testing.T) *sim.Course {
	t.Helper()
	read := func(w json.RawMessage) *sim.Scenario {
		text, err := json.Marshal(map[string]any{"world": w, "cycles": 1})
		if err != nil {
			t.Fatal(err)
		}
		sc, err := world.ReadRun(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return sc
	}
	sc := read(x.World)
	l := sim.Latency{Min: x.Latency.Cycles, Max: x.Latency.Cycles}
	if x.Latency.Random {
		l.Min = 0
	}
	sc.Latencies = sim.Latencies{Create: l, Configure: l, Drain: l, Delete: l}
	c := &sim.Course{Scenario: *sc, Stages: x.Stages, StageCycles: 220, Lost: x.Lose, Draw: rand.New(rand.NewPCG(1, 2))}
	if c.Stages == nil {
		c.Stages = []sim.Stage{sim.Settle, sim.Lose, sim.Add, sim.Remove}
	}
	if x.Top != nil {
		top, err := json.Marshal(map[string]any{"needs": []json.RawMessage{x.Top}})
		if err != nil {
			t.Fatal(err)
		}
		c.Top = read(top).Demand[0].Needs[0]
	}
	return c
}

// TestKnownMechanisms: the smallest worlds that undo something do no worse than is known.
func TestKnownMechanisms(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long runs")
	}
	dir := filepath.Join(loopsDir(t), "mechanisms")
	for _, name := range filesOf(t, dir) {
		t.Run(name, func(t *testing.T) {
			k, listed := knownMechanisms[name]
			if !listed {
				t.Fatal("is not in the table")
			}
			text, err := os.ReadFile(filepath.Join(dir, name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var x mechanism
			if err := json.Unmarshal(text, &x); err != nil {
				t.Fatal(err)
			}
			o, err := x.course(t).Play(t.Context())
			explained := 0
			for stage := range o.Undone {
				explained += o.Parts[stage] + o.Sooner[stage]
			}
			k.check(t, o.Rest.Undone, explained, err)
		})
	}
}
