package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// planted makes pinned work a fifth slower.
const planted = "TONNAGE_GATES_PLANT=1"

// tried is the work that the gates are tried on: a kernel, a table, a cycle.
var tried = []string{"kernel=and-not/bits=65536", "kernel=put/rung=tiny", "kernel=cycle/rung=tiny/regime=cold"}

// TestCompareFindsWhatIsPlanted runs the gate on this tree against itself, once
// as it is and once with one side made slower.
func TestCompareFindsWhatIsPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures for half a minute")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "pinned.test")
	if _, err := output(t.Context(), root, nil, "go", "test", "-c", "-o", binary, "./benches"); err != nil {
		t.Fatal(err)
	}
	before := side{name: "before", dir: filepath.Join(root, "benches"), binary: binary}
	slower := before
	slower.name, slower.env = "after", []string{planted}
	for _, c := range []struct {
		says     string
		after    side
		accepted map[string]string
		fails    bool
	}{
		{"no change", before, nil, false},
		{"a fifth slower", slower, nil, true},
		{"a fifth slower, and meant", slower, map[string]string{tried[0]: "why", tried[1]: "why", tried[2]: "why"}, false},
	} {
		t.Run(c.says, func(t *testing.T) {
			var out strings.Builder
			g := compareGate{root: root, out: &out, counts: countsDefault}
			err := g.judge(t.Context(), before, c.after, tried, c.accepted)
			t.Log(out.String())
			if errors.Is(err, errWorse) != c.fails || err != nil && !c.fails {
				t.Errorf("the verdict is %v", err)
			}
		})
	}
}

func TestDifference(t *testing.T) {
	steady := []float64{100, 101, 99, 100, 102, 98, 100, 101, 99, 100}
	times := func(by float64) (out []float64) {
		for _, v := range steady {
			out = append(out, v*by)
		}
		return out
	}
	for _, c := range []struct {
		says          string
		after         []float64
		worse, better bool
	}{
		{"the same", times(1), false, false},
		{"significant, and little", times(1.09), false, false},
		{"significant, and enough", times(1.11), true, false},
		{"faster", times(0.85), false, true},
		{"far apart, by chance", []float64{90, 120, 95, 130, 80, 125, 99, 112, 101, 115}, false, false},
	} {
		if d := differenceOf(steady, c.after); d.worse() != c.worse || d.better() != c.better {
			t.Errorf("%s: %+v, %.1f %%", c.says, d, d.percent())
		}
	}
}

func TestTurns(t *testing.T) {
	got := ""
	for i := range 8 {
		got += string("AB"[turn(i)])
	}
	if got != "ABBAABBA" {
		t.Errorf("the turns are %s", got)
	}
}

func TestServerSaysWhatIsWrong(t *testing.T) {
	s := side{name: "none", dir: t.TempDir(), binary: "/bin/false"}
	v, err := s.serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.ask("work"); err == nil || !strings.Contains(err.Error(), "none: work") {
		t.Errorf("asked: %v", err)
	}
	if err := v.end(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("ended: %v", err)
	}
}

func TestSlowerTrailers(t *testing.T) {
	got := fmt.Sprint(parseSlower("kernel=put/rung=tiny, two more indexes\n\n  kernel=lookup  \n"))
	if want := "map[kernel=lookup: kernel=put/rung=tiny:two more indexes]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
