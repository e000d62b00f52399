package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

// decided returns an input, and its plan as lines of kind and machine.
func decided(t *testing.T, regime workload.Regime) (engine.Input, []string) {
	t.Helper()
	rung, err := workload.ByName("tiny")
	if err != nil {
		t.Fatal(err)
	}
	in, err := measure.Load(workload.Build(rung, 1), regime)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range plan.Actions {
		need := ""
		if a.Need >= 0 {
			cluster, row := plan.Identity(int(a.Need))
			need = fmt.Sprintf("%s/%d", cluster, row)
		}
		out = append(out, fmt.Sprintf("%s %s %s", a.Kind, in.Supply.ID(a.Machine), need))
	}
	return in, out
}

// TestKeptInputIsReplayed: decide gives the plan that the input belongs to.
func TestKeptInputIsReplayed(t *testing.T) {
	for _, regime := range []workload.Regime{workload.Cold, workload.Contended} {
		in, want := decided(t, regime)
		dir, err := openDataDir(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.close()
		file, err := dir.keepInput(42, in, engine.DefaultOptions())
		if err != nil || !strings.Contains(file, "-cycle-42.json") {
			t.Fatalf("kept in %q, %v", file, err)
		}
		got := call("", false, "decide", "-f", file)
		var answer struct {
			Actions []struct{ Kind, Machine, Need string }
		}
		if err := json.Unmarshal([]byte(got.out), &answer); err != nil || got.code != 0 {
			t.Fatalf("exit %d, %v: %s", got.code, err, got.err)
		}
		var replayed []string
		for _, a := range answer.Actions {
			replayed = append(replayed, a.Kind+" "+a.Machine+" "+a.Need)
		}
		if len(want) == 0 || strings.Join(replayed, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: %d actions replayed, %d decided; the first are %q and %q", regime, len(replayed), len(want), replayed[:min(len(replayed), 3)], want[:min(len(want), 3)])
		}
	}
}

// TestFewInputsAreKept: the disk does not fill up, and the first ones stay.
func TestFewInputsAreKept(t *testing.T) {
	in, _ := decided(t, workload.Cold)
	path := t.TempDir()
	dir, err := openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.close()
	for cycle := range uint64(inputsMax) {
		if _, err := dir.keepInput(cycle, in, engine.DefaultOptions()); err != nil {
			t.Fatal(err)
		}
	}
	before := inputs(t, path)
	if file, err := dir.keepInput(99, in, engine.DefaultOptions()); file != "" || err == nil || !strings.Contains(err.Error(), "move them elsewhere") {
		t.Errorf("one more: %q, %v", file, err)
	}
	if after := inputs(t, path); len(after) != inputsMax || strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("the folder holds %q, had %q", after, before)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if file, err := dir.keepInput(100, in, engine.DefaultOptions()); file != "" || err == nil {
		t.Errorf("the folder is gone: %q, %v", file, err)
	}
}

func inputs(t *testing.T, dir string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(dir, inputPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
