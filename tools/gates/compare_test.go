package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planted makes pinned work slower by a fifth: less is not compared.
const planted = "TONNAGE_GATES_PLANT=20"

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
	head := tree{dir: root}
	for _, c := range []struct {
		says     string
		env      []string
		accepted map[string]string
		fails    bool
	}{
		{"no change", nil, nil, false},
		{"a fifth slower", []string{planted}, nil, true},
		{"a fifth slower, and meant", []string{planted}, map[string]string{tried[0]: "why", tried[1]: "why", tried[2]: "why"}, false},
	} {
		t.Run(c.says, func(t *testing.T) {
			var out strings.Builder
			g := compareGate{root: root, out: &out, counts: countsDefault}
			compared := comparison{base: tree{dir: root, revision: "before"}, head: head, trailers: trailers{accepted: c.accepted}}
			compared.build = func(round int) (sides [2]side, err error) {
				binaries, err := g.layouts(t.Context(), head, round)
				dir := filepath.Join(root, "benches")
				return [2]side{{name: "before", dir: dir, binaries: binaries}, {name: "after", dir: dir, binaries: binaries, env: c.env}}, err
			}
			err := g.judge(t.Context(), &compared, tried)
			t.Log(out.String())
			if errors.Is(err, errWorse) != c.fails || err != nil && !c.fails {
				t.Errorf("the verdict is %v", err)
			}
		})
	}
}

// answering makes a program that answers a question of a base or head with its cost.
func answering(t *testing.T, cost int) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "answers")
	script := fmt.Sprintf("#!/bin/sh\ni=0\nwhile read -r name; do i=$((i + 1)); echo $((%d + i %% 7)); done\n", cost)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{program}
}

// TestVerdicts judges sides that answer what they are told to, round by round.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		says     string
		costs    []int // of head by round; that of the base is 1000
		trailers trailers
		fails    bool
		rounds   int
		lines    []string // of the end of what is printed
	}{
		{says: "the same", costs: []int{1000}, rounds: 1},
		{says: "slower once", costs: []int{1300, 1010}, rounds: 2, lines: []string{"not confirmed"}},
		{says: "slower twice", costs: []int{1300, 1300, 1010}, rounds: 3, lines: []string{"not confirmed"}},
		{says: "slower each time", costs: []int{1300, 1200, 1250}, rounds: 3, fails: true,
			lines: []string{"FAILED: 1 of 1 pieces", "the median ratio is at least 10 % over 1, and p < 0.05", "round 1:", "+29.9 %", "round 2:", "round 3:",
				"trailers of the 5 commits in before..HEAD name kernel=other", "if it is meant, say so in the commit: \"Slower: kernel=x, the reason\""},
			trailers: trailers{commits: 5, accepted: map[string]string{"kernel=other": "why"}}},
		{says: "meant", costs: []int{1300}, rounds: 1, lines: []string{"slower, and meant: why"},
			trailers: trailers{accepted: map[string]string{"kernel=x": "why"}}},
		{says: "meant by a commit before the base, in a shallow clone", costs: []int{1300, 1300, 1300}, rounds: 3, fails: true,
			lines:    []string{"name nothing", "a shallow clone", "abc names kernel=x and lies before the base"},
			trailers: trailers{before: map[string]string{"kernel=x": "abc"}, shallow: true}},
	} {
		t.Run(c.says, func(t *testing.T) {
			var out strings.Builder
			g := compareGate{out: &out, counts: countsDefault}
			compared := comparison{base: tree{revision: "before"}, trailers: c.trailers}
			compared.build = func(round int) ([2]side, error) {
				return [2]side{{name: "base", dir: t.TempDir(), binaries: answering(t, 1000)}, {name: "head", dir: t.TempDir(), binaries: answering(t, c.costs[round])}}, nil
			}
			err := g.judge(t.Context(), &compared, []string{"kernel=x"})
			if errors.Is(err, errWorse) != c.fails || err != nil && !c.fails {
				t.Errorf("the verdict is %v", err)
			}
			if len(compared.rounds) != c.rounds {
				t.Errorf("%d rounds, want %d", len(compared.rounds), c.rounds)
			}
			for _, line := range c.lines {
				if !strings.Contains(out.String(), line) {
					t.Errorf("%q is not said", line)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

// TestLayoutsTakeTurns: each process of a side is of the next binary.
func TestLayoutsTakeTurns(t *testing.T) {
	s := side{name: "s", dir: t.TempDir(), binaries: append(answering(t, 100), answering(t, 900)...)}
	for number, want := range []float64{101, 901, 101} {
		v, err := s.serve(t.Context(), number)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.ask("work"); err != nil || got != want {
			t.Errorf("process %d: %v, %v, want %v", number, got, err, want)
		}
		if err := v.end(); err != nil {
			t.Error(err)
		}
	}
}

func TestDifference(t *testing.T) {
	steady := []float64{100, 101, 99, 100, 102, 98, 100, 101, 99, 100}
	times := func(by float64) (out []figure) {
		for i, v := range steady {
			out = append(out, figure{before: v, after: steady[(i+1)%len(steady)] * by, ratio: steady[(i+1)%len(steady)] * by / v})
		}
		return out
	}
	apart := func(after ...float64) (out []figure) {
		for i, v := range steady {
			out = append(out, figure{before: v, after: after[i], ratio: after[i] / v})
		}
		return out
	}
	for _, c := range []struct {
		says          string
		figures       []figure
		worse, better bool
	}{
		{"the same", times(1), false, false},
		{"significant, and little", times(1.08), false, false},
		{"significant, and enough", times(1.12), true, false},
		{"enough, but for one that other load spoiled", apart(120, 119, 121, 120, 122, 60, 120, 121, 119, 120), true, false},
		{"faster", times(0.85), false, true},
		{"far apart, by chance", apart(90, 120, 95, 130, 80, 125, 99, 112, 101, 115), false, false},
		{"nothing", nil, false, false},
	} {
		if d := differenceOf(c.figures); d.worse() != c.worse || d.better() != c.better {
			t.Errorf("%s: %+v, %.1f %%", c.says, d, d.percent())
		}
	}
}

func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		less, more int
		p          float64
	}{{0, 10, 2. / 1024}, {1, 9, 22. / 1024}, {9, 1, 22. / 1024}, {2, 8, 112. / 1024}, {5, 5, 1}, {0, 0, 1}} {
		if got := signTest(c.less, c.more); math.Abs(got-c.p) > 1e-12 {
			t.Errorf("%d less, %d more: p = %v, want %v", c.less, c.more, got, c.p)
		}
	}
}

// TestFigureOfPairs: load that slows both halves of a pair, or one half of few pairs, moves no figure.
func TestFigureOfPairs(t *testing.T) {
	f := figureOf([][2]float64{{100, 120}, {300, 360}, {100, 500}, {900, 120}, {100, 120}})
	if math.Abs(f.ratio-1.2) > 1e-12 || f.before != 100 || f.after != 120 {
		t.Errorf("%+v", f)
	}
	if f := figureOf([][2]float64{{0, 5}}); f.ratio != 1 {
		t.Errorf("of a base that took no time: %+v", f)
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
	s := side{name: "none", dir: t.TempDir(), binaries: []string{"/bin/false"}}
	v, err := s.serve(t.Context(), 0)
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
