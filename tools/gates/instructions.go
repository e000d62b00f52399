package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// instructionsSlackPercent is by how much a count may pass what is expected.
const instructionsSlackPercent = 1

// goldenFile holds what is expected, from the module's root.
const goldenFile = "benches/testdata/instructions.json"

// golden are counts and what they hold for: another compiler or another target
// makes other instructions.
type golden struct {
	Go      string           `json:"go"`
	Target  string           `json:"target"`
	Kernels string           `json:"kernels"` // TONNAGE_SIMD
	Counts  map[string]int64 `json:"counts"`
}

func (g *golden) toolchain() string {
	return fmt.Sprintf("%s, %s, kernels %s", g.Go, g.Target, g.Kernels)
}

// countedKernels are what runs under valgrind: it knows no AVX-512, and the
// plain ones run everywhere.
const countedKernels = "generic"

// instructionsGate counts the instructions of pinned work.
type instructionsGate struct {
	root   string
	out    io.Writer
	update bool
	env    []string // beside what is still, to try the gate
}

func (g *instructionsGate) run(ctx context.Context) error {
	if _, err := exec.LookPath("valgrind"); err != nil {
		return errors.New("valgrind is not installed (Debian: apt-get install --no-install-recommends valgrind)")
	}
	got := golden{Kernels: countedKernels}
	var err error
	if got.Go, got.Target, err = toolchain(ctx, g.root); err != nil {
		return err
	}
	if got.Counts, err = g.count(ctx, tree{dir: g.root}, nil); err != nil {
		return err
	}
	if g.update {
		return writeGolden(filepath.Join(g.root, goldenFile), &got)
	}
	want, err := readGolden(filepath.Join(g.root, goldenFile))
	if err != nil {
		return err
	}
	if got.toolchain() != want.toolchain() {
		return g.againstBase(ctx, &got, want)
	}
	fmt.Fprintf(g.out, "against %s (%s):\n", goldenFile, want.toolchain())
	return g.judge(got.Counts, want.Counts)
}

// againstBase counts the base with the toolchain at hand, since what is written
// down holds for another.
func (g *instructionsGate) againstBase(ctx context.Context, got, want *golden) error {
	fmt.Fprintf(g.out, "%s holds for %s; here it is %s. Counting the base with this one instead; write the counts down with -update.\n",
		goldenFile, want.toolchain(), got.toolchain())
	var counts map[string]int64
	base, err := baseTree(ctx, g.root, os.Getenv(baseEnv), func(t tree) (err error) {
		counts, err = g.count(ctx, t, got.Counts)
		return err
	})
	if errors.Is(err, errNoBase) {
		fmt.Fprintf(g.out, "NOT COMPARED: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "against %s:\n", base.name())
	others, err := otherPlans(base.dir, g.root, sortedKeys(counts))
	if err != nil {
		return err
	}
	for _, name := range others {
		fmt.Fprintf(g.out, notCompared, name)
		delete(counts, name)
	}
	maps.DeleteFunc(got.Counts, func(name string, _ int64) bool { _, ok := counts[name]; return !ok })
	return g.judge(got.Counts, counts)
}

// judge prints a line for each piece of work, and fails when one takes more.
func (g *instructionsGate) judge(got, want map[string]int64) error {
	worse := 0
	for _, name := range sortedKeys(got) {
		n := got[name]
		expected, ok := want[name]
		if !ok {
			fmt.Fprintf(g.out, "  %-48s %12d  nothing is expected yet; write it down with -update\n", name, n)
			worse++
			continue
		}
		percent := 100 * (float64(n)/float64(expected) - 1)
		verdict := ""
		switch {
		case 100*n > (100+instructionsSlackPercent)*expected:
			verdict = fmt.Sprintf("FAILED: at most +%d %%; if it is meant, write it down with -update", instructionsSlackPercent)
			worse++
		case 100*n < (100-instructionsSlackPercent)*expected:
			verdict = "less than expected: write it down with -update"
		}
		fmt.Fprintf(g.out, "  %-48s %12d  %+6.2f %%  %s\n", name, n, percent, verdict)
	}
	for _, name := range sortedKeys(want) {
		if _, ok := got[name]; !ok {
			fmt.Fprintf(g.out, "  %-48s is expected and no longer there; write that down with -update\n", name)
			worse++
		}
	}
	if worse > 0 {
		return fmt.Errorf("%d pieces of work: %w", worse, errWorse)
	}
	return nil
}

// count counts the pinned work of a tree; of those in only, if there are any.
func (g *instructionsGate) count(ctx context.Context, t tree, only map[string]int64) (map[string]int64, error) {
	binary := filepath.Join(workDir(g.root), "instructions.test")
	if t.revision != "" {
		binary += "." + t.revision
	}
	overlay, err := stillRuntime(ctx, g.root)
	if err != nil {
		return nil, err
	}
	// Without -w the binary has debug information of a version that valgrind
	// may not read; the names of functions are kept.
	if _, err := output(ctx, t.dir, nil, "go", "test", "-c", "-overlay", overlay, "-ldflags=-w", "-o", binary, "./benches"); err != nil {
		return nil, err
	}
	work, err := pinnedWork(ctx, filepath.Join(t.dir, "benches"), binary)
	if err != nil {
		return nil, err
	}
	names := work.that(counted)
	if only != nil {
		names = slices.DeleteFunc(names, func(n string) bool { _, ok := only[n]; return !ok })
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no work of %s switches callgrind", errNoBase, t.name())
	}
	return countAll(ctx, t, binary, names, g.env)
}

// countAll counts as many pieces at a time as there are processors: counts do
// not depend on what else runs.
func countAll(ctx context.Context, t tree, binary string, names []string, env []string) (map[string]int64, error) {
	out := map[string]int64{}
	var faults []error
	var mu sync.Mutex
	places := make(chan struct{}, runtime.NumCPU())
	var running sync.WaitGroup
	for _, name := range names {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			n, err := countOne(ctx, t, binary, name, env)
			mu.Lock()
			defer mu.Unlock()
			out[name] = n
			faults = append(faults, err)
		})
	}
	running.Wait()
	return out, errors.Join(faults...)
}

// still is the environment of a process whose instructions are counted: one
// processor, no collection, nothing by the clock or at random, and no fast
// paths that some processors lack. Valgrind knows no RDTSCP, which the runtime reads the clock with when it starts
// a thread for goroutines that are locked to theirs, now and then. The environment is complete, so that no other variable
// has a say.
func still() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"GOMAXPROCS=1", "GOGC=off", "TONNAGE_SIMD=" + countedKernels,
		"GODEBUG=asyncpreemptoff=1,memprofilerate=0,gcstoptheworld=2,cpu.avx512f=off,cpu.erms=off,cpu.rdtscp=off",
	}
}

var collected = regexp.MustCompile(`(?m)^(?:summary|totals): (\d+)`)

func countOne(ctx context.Context, t tree, binary, name string, env []string) (int64, error) {
	dir, err := os.MkdirTemp("", "gates")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "callgrind.out")
	_, err = output(ctx, filepath.Join(t.dir, "benches"), append(still(), env...), "valgrind", "--tool=callgrind", "--callgrind-out-file="+file,
		"--collect-atstart=no", binary, "-test.run", "^TestPinnedWork$", "-pinned", name)
	if err != nil {
		return 0, err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	m := collected.FindSubmatch(raw)
	if m == nil {
		return 0, fmt.Errorf("%s: valgrind wrote no sum", name)
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s: nothing was counted; the work has not switched callgrind on", name)
	}
	return n, err
}

// counted and timed are what can be done with pinned work, as the test binary
// lists it.
const (
	counted = "counted"
	timed   = "timed"
)

// workList is pinned work by name, with what can be done with it.
type workList map[string][]string

// that are the names of the work with which something can be done.
func (w workList) that(can string) []string {
	return slices.DeleteFunc(sortedKeys(w), func(name string) bool { return !slices.Contains(w[name], can) })
}

// pinnedWork asks a test binary what work it has.
func pinnedWork(ctx context.Context, dir, binary string) (workList, error) {
	out, err := output(ctx, dir, nil, binary, "-test.run", "^TestPinnedWork$", "-pinned", "list")
	if err != nil {
		return nil, err
	}
	work := workList{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "pinned" {
			work[f[1]] = f[2:]
		}
	}
	if len(work) == 0 {
		return nil, fmt.Errorf("%s lists no pinned work", binary)
	}
	return work, nil
}

func readGolden(path string) (*golden, error) {
	g := &golden{}
	return g, readJSON(path, g)
}

func writeGolden(path string, g *golden) error {
	raw, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}
