package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/internal/measure"
)

func TestBenchPrintsOneObject(t *testing.T) {
	got := call("", false, "bench", "--rung", "tiny", "--regime", "contended", "--cycles", "2", "--workers", "1", "--seed", "7", "--verify", "-o", "json")
	if got.code != 0 || got.err != "" {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	var r measure.Result
	d := json.NewDecoder(strings.NewReader(got.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || d.More() {
		t.Fatalf("%v: %s", err, got.out)
	}
	if r.Regime != "contended" || r.Cycles != 2 || r.Workers != 1 || r.Seed != 7 || r.Verified != measure.VerifiedReference || len(r.PlanChecksum) != 16 {
		t.Errorf("got %s", got.out)
	}
}

// TestBenchCountsWhatBuiltOnNothing: --full lets no cycle build on another, and
// the plans are the same; --pin changes nothing about them either.
func TestBenchCountsWhatBuiltOnNothing(t *testing.T) {
	run := func(more ...string) (r measure.Result) {
		args := append([]string{"bench", "--regime", "steady", "--cycles", "6", "--workers", "3", "--verify", "-o", "json"}, more...)
		got := call("", false, args...)
		if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != 0 {
			t.Fatalf("exit %d, %v: %s", got.code, err, got.err)
		}
		return r
	}
	built, full, pinned := run(), run("--full"), run("--pin")
	if built.FullCycles != 0 || full.FullCycles != 6 || pinned.FullCycles != 0 || pinned.Workers != 3 {
		t.Errorf("%d, with --full %d, with --pin %d of 6 cycles are full; %d workers", built.FullCycles, full.FullCycles, pinned.FullCycles, pinned.Workers)
	}
	if built.PlanChecksum != full.PlanChecksum || built.PlanChecksum != pinned.PlanChecksum {
		t.Errorf("checksums %s, with --full %s, with --pin %s", built.PlanChecksum, full.PlanChecksum, pinned.PlanChecksum)
	}
}

func TestBenchPrintsATable(t *testing.T) {
	got := call("", true, "bench", "--cycles", "1", "--regime", "steady")
	if got.code != 0 || !strings.HasPrefix(got.out, "tiny steady: 1265 machines") || got.err != "" {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
}

func TestBenchRefusesBadFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--rung 6k", `--rung: no rung named "6k"; use one of tiny, 5k, 50k, 500k, 500k-rows, 500k-flat`},
		{"--regime hot", `--regime: no regime named "hot"; use one of cold, steady, burst, shrink, contended`},
		{"--cycles 0", "--cycles must be between 1 and 100000, got 0"},
		{"--changed-clusters 5", "--changed-clusters goes with --regime burst or shrink and is between 1 and 100, got 5"},
		{"--regime burst --changed-clusters 101", "--changed-clusters goes with --regime burst or shrink and is between 1 and 100, got 101"},
		{"--cycles 100001", "--cycles must be between 1 and 100000, got 100001"},
		{"--workers -1", "--workers must be between 0 and 256, got -1"},
		{"--seed -1", "--seed"},
		{"-o xml", `unknown output format "xml"`},
		{"--cpuprofile .", "--cpuprofile: open ."},
		{"tiny", `unexpected argument "tiny"`},
	} {
		got := call("", false, append([]string{"bench"}, strings.Fields(c.args)...)...)
		if got.code != exitBadInput || got.out != "" || !strings.Contains(got.err, c.want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("bench %s: exit %d, %s%s, want %s", c.args, got.code, got.out, got.err, c.want)
		}
	}
}

func TestBenchGivesADifferenceItsExitCode(t *testing.T) {
	err := benchError(&measure.Difference{Cycle: 2, With: "reference", Text: "action 1 is missing"})
	if exit, ok := errors.AsType[*exitError](err); !ok || exit.code != exitInvariant || !strings.Contains(err.Error(), "cycle 2") {
		t.Errorf("got %v", err)
	}
}

func TestBenchWritesAProfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpu.out")
	if got := call("", false, "bench", "--cycles", "1", "--cpuprofile", path); got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	if raw, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		t.Errorf("%d bytes: %v", len(raw), err)
	}
}

// profileTexts reads the table of texts of a profile, which the names of what is
// sampled are in. Go's own tool would do: the go command compiles it, and the standard
// library for it.
func profileTexts(path string) ([]string, error) {
	const texts = 6 // the field of a Profile in pprof's profile.proto
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, err
	}
	var out []string
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		raw = raw[n:]
		if n = protowire.ConsumeFieldValue(number, kind, raw); n < 0 {
			return nil, protowire.ParseError(n)
		}
		if number == texts {
			text, _ := protowire.ConsumeString(raw)
			out = append(out, text)
		}
		raw = raw[n:]
	}
	return out, nil
}

// TestBenchWritesProfiles: each is there, whole, and of its kind.
func TestBenchWritesProfiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	if got := call("", false, "bench", "--cycles", "3", "--regime", "steady", "--profile", dir); got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	for name, samples := range map[string]string{profileCPU: "cpu", profileHeapBefore: "inuse_space", profileHeap: "inuse_space", profileMutex: "contentions", profileBlock: "contentions"} {
		if texts, err := profileTexts(filepath.Join(dir, name)); err != nil || !slices.Contains(texts, samples) {
			t.Errorf("%s is no profile of %s: %v, %d texts", name, samples, err, len(texts))
		}
	}
	if got := call("", false, "bench", "--profile", dir, "--cpuprofile", "x"); got.code != exitBadInput || !strings.Contains(got.err, "cpuprofile") {
		t.Errorf("both: exit %d, %s", got.code, got.err)
	}
	file := filepath.Join(dir, profileCPU)
	if got := call("", false, "bench", "--profile", file); got.code != exitBadInput || !strings.Contains(got.err, "--profile: mkdir "+file) {
		t.Errorf("a file for a folder: exit %d, %s", got.code, got.err)
	}
}

func TestBenchProgress(t *testing.T) {
	var out bytes.Buffer
	p := newBenchProgress(&out)
	p.show(measure.Progress{Stage: "measuring", Done: 1, Cycles: 2})
	p.clear()
	if out.Len() != 0 {
		t.Errorf("there is no terminal, and it says %q", out.String())
	}
	p = &benchProgress{console: &console{out: &out, terminal: true}}
	p.show(measure.Progress{Stage: "building tiny", Cycles: 8})
	for done := range 5 { // at once: the stage's first line only
		p.show(measure.Progress{Stage: "measuring", Done: done + 1, Cycles: 8})
	}
	if want := eraseLine + "building tiny" + eraseLine + "cycle 1 of 8"; !strings.HasPrefix(out.String(), want) || strings.Contains(out.String(), "cycle 2") {
		t.Errorf("the progress is %q", out.String())
	}
	line := benchLine(measure.Progress{Stage: "measuring", Done: 12, Cycles: 60, LastNanos: 41_200_000}, 12*time.Second)
	if want := "cycle 12 of 60 · last 41.2 ms · about 48s left"; line != want {
		t.Errorf("got %q, want %q", line, want)
	}
}
