package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// countSpread is by what part counts of tables and whole cycles may differ from run to
// run: they look things up by pointer, and where the heap puts objects is not
// quite the same each time. Kernels over plain words must not differ at all.
const countSpread = 1000

// exact is the kernel over plain words that is tried.
const exact = "kernel=and-not/"

// triedCounts is the work that is counted when the gate is tried: what is compared
// when the other is, and cycles in which the runtime changes stacks.
var triedCounts = append(slices.Clone(tried), "kernel=cycle/rung=tiny/regime=steady", "kernel=stage/of=rank/rung=5k/regime=cold")

// plantedCount makes pinned work a twentieth slower.
const plantedCount = "TONNAGE_GATES_PLANT=5"

// TestCountsAreTheSame counts the same work twice, and once with more planted,
// whatever else the machine does.
func TestCountsAreTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the standard library anew")
	}
	if _, err := exec.LookPath("valgrind"); err != nil {
		t.Skip("needs valgrind (Debian: apt-get install --no-install-recommends valgrind)")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	only := map[string]int64{}
	for _, name := range triedCounts {
		only[name] = 0
	}
	g := instructionsGate{root: root, out: t.Output()}
	first, err := g.count(t.Context(), tree{dir: root}, only)
	if err != nil {
		t.Fatal(err)
	}
	again, err := g.count(t.Context(), tree{dir: root}, only)
	if err != nil {
		t.Fatal(err)
	}
	g.env = []string{plantedCount}
	more, err := g.count(t.Context(), tree{dir: root}, only)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range triedCounts {
		differ := max(first[name]-again[name], again[name]-first[name])
		if !strings.HasPrefix(name, exact) {
			differ = max(0, differ-first[name]/countSpread)
		}
		if differ != 0 || first[name] == 0 {
			t.Errorf("%s: %d instructions, then %d", name, first[name], again[name])
		}
		alone := instructionsGate{out: t.Output()}
		if err := alone.judge(map[string]int64{name: more[name]}, map[string]int64{name: first[name]}); !errors.Is(err, errWorse) {
			t.Errorf("planted: %v, %d against %d", err, more[name], first[name])
		}
	}
	if err := g.judge(again, first); err != nil {
		t.Errorf("no change: %v", err)
	}
}

func TestJudgeCounts(t *testing.T) {
	want := map[string]int64{"a": 1000, "b": 1000}
	for _, c := range []struct {
		says string
		got  map[string]int64
		line string // part of what is printed
		fail bool
	}{
		{"the same", map[string]int64{"a": 1000, "b": 1000}, "+0.00 %", false},
		{"within the slack", map[string]int64{"a": 1010, "b": 1000}, "+1.00 %", false},
		{"more", map[string]int64{"a": 1011, "b": 1000}, "FAILED: at most +1 %", true},
		{"less", map[string]int64{"a": 500, "b": 1000}, "less than expected", false},
		{"new", map[string]int64{"a": 1000, "b": 1000, "c": 1}, "nothing is expected yet", true},
		{"gone", map[string]int64{"a": 1000}, "no longer there", true},
	} {
		var out strings.Builder
		g := instructionsGate{out: &out}
		if err := g.judge(c.got, want); errors.Is(err, errWorse) != c.fail || !strings.Contains(out.String(), c.line) {
			t.Errorf("%s: %v\n%s", c.says, err, out.String())
		}
	}
}

func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "golden.json")
	if g, err := readGolden(path); err != nil || g.Counts != nil {
		t.Errorf("no file: %v, %v", g, err)
	}
	want := &golden{Go: "go1.1", Target: "t", Kernels: "k", Counts: map[string]int64{"a": 1}}
	if err := writeGolden(path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := readGolden(path); err != nil || got.toolchain() != want.toolchain() || got.Counts["a"] != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readGolden(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file: %v", err)
	}
}

func TestRuntimeThatChanged(t *testing.T) {
	for text, fails := range map[string]bool{"a\nb\n": false, "b\n": true, "a\na\n": true} {
		c := change{file: "x.go", from: "a\n", to: "c\n", because: "why"}
		got, err := c.apply(text)
		if (err != nil) != fails || err == nil && got != "c\nb\n" {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
