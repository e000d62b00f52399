package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/internal/sim"
)

// outcome is what a command line gave.
type outcome struct {
	code     int
	out, err string
}

// call runs a command line in process.
func call(stdin string, terminal bool, args ...string) outcome {
	var out, errs bytes.Buffer
	code := run(context.Background(), args, streams{in: strings.NewReader(stdin), out: &out, err: &errs, terminal: terminal})
	return outcome{code, out.String(), errs.String()}
}

const goodWorld = `{"machines": [{"id": "m-1", "state": "Idle", "resources": {"cpu": "4"}}, {"id": "m-2", "state": "Configured", "cluster": "c2", "resources": {"cpu": "1"}}],
 "needs": [{"name": "n1", "cluster": "c1", "aggregate": {"cpu": "6"}}]}`

const goodRun = `{"world": ` + goodWorld + `, "cycles": 3, "provider": {"configure": 1}}`

func TestDecide(t *testing.T) {
	got := call(goodWorld, false, "decide", "-f", "-")
	if got.code != 0 || got.err != "" {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	var plan struct {
		Actions []struct{ Kind, Machine, Need string }
		Needs   []struct{ Deficit map[string]string }
		Explain json.RawMessage
	}
	if err := json.Unmarshal([]byte(got.out), &plan); err != nil {
		t.Fatalf("%v: %s", err, got.out)
	}
	if len(plan.Actions) != 2 || plan.Actions[0].Machine != "m-1" || plan.Actions[0].Need != "n1" || plan.Needs[0].Deficit["cpu"] != "2" || plan.Explain != nil {
		t.Errorf("plan is %s", got.out)
	}
	explained := call(goodWorld, false, "decide", "-f", "-", "--explain")
	if err := json.Unmarshal([]byte(explained.out), &plan); err != nil || plan.Explain == nil {
		t.Errorf("explained plan is %s, %v", explained.out, err)
	}
}

func TestOutputFormats(t *testing.T) {
	for _, c := range []struct {
		terminal bool
		flag     string
		want     string
	}{
		{false, "", "{"}, {false, "json", "{"}, {true, "json", "{"}, {true, "", "NEED"}, {true, "table", "NEED"}, {false, "table", "NEED"},
	} {
		args := []string{"decide", "-f", "-"}
		if c.flag != "" {
			args = append(args, "-o", c.flag)
		}
		if got := call(goodWorld, c.terminal, args...); got.code != 0 || !strings.HasPrefix(got.out, c.want) {
			t.Errorf("terminal %v, -o %q: exit %d, %.20q %s, want %s", c.terminal, c.flag, got.code, got.out, got.err, c.want)
		}
	}
	if got := call(goodRun, true, "simulate", "-f", "-"); got.code != 0 || !strings.HasPrefix(got.out, "CYCLE") {
		t.Errorf("exit %d: %s %s", got.code, got.out, got.err)
	}
}

func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	var first string
	for _, workers := range []string{"1", "2", "7"} {
		got := call(goodRun, false, "simulate", "-f", "-")
		plan := call(goodWorld, false, "decide", "-f", "-", "--workers", workers, "-o", "table")
		if text := got.out + plan.out; first == "" {
			first = text
		} else if text != first {
			t.Errorf("--workers %s gives\n%s, want\n%s", workers, text, first)
		}
	}
}

func TestSimulate(t *testing.T) {
	got := call(goodRun, false, "simulate", "-f", "-")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != 0 || len(lines) != 4 || !strings.HasPrefix(lines[0], `{"cycle": 1, "actions": [["Bootstrap", "m-1", "n1"]`) || !strings.HasPrefix(lines[3], `{"summary": {"cycles": 3, `) {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
}

func TestABrokenInvariantIsExitCode3(t *testing.T) {
	err := runError(&sim.Violation{Invariant: sim.ClaimedOnce, Cycle: 7, Detail: `machine "m"`})
	if exit, ok := errors.AsType[*exitError](err); !ok || exit.code != exitInvariant || !strings.Contains(err.Error(), "cycle 7: invariant broken: "+string(sim.ClaimedOnce)) {
		t.Errorf("got %v", err)
	}
}

func TestBadUse(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("machines:\n- {id: m, state: Gone, colour: red}\nneeds: [{name: n}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want []string // lines on the error stream, by their beginning
	}{
		{"decide", []string{"no file given; name one with -f FILE, or - for standard input"}},
		{"decide -f " + filepath.Join(dir, "none.json"), []string{"cannot open the file: open "}},
		{"decide -f " + dir, []string{"cannot read the input: "}},
		{"decide -f " + bad, []string{bad + ":3:9: needs[0].cluster: is missing", bad + ":2:24: machines[0].colour: unknown key", bad + `:2:18: machines[0].state: unknown state "Gone"`}},
		{"simulate -f " + bad, []string{bad + ":1:1: machines: unknown key", bad + ":3:1: needs: unknown key", bad + ":1:1: world: is missing", bad + ":1:1: cycles: is missing"}},
		{"decide -f - -o xml", []string{`unknown output format "xml"; use -o json, -o yaml or -o table`}},
		{"decide -f - --workers 257", []string{"--workers must be between 0 and 256, got 257"}},
		{"decide -f - --workers x", []string{`invalid argument "x" for "--workers" flag`}},
		{"decide -f - extra", []string{"unexpected argument \"extra\" (see `tonnage decide --help`)"}},
		{"decide -f", []string{"flag needs an argument"}},
		{"decide --fiel x", []string{"unknown flag: --fiel; did you mean --file? (see `tonnage decide --help`)"}},
		{"decid", []string{"unknown command \"decid\"; did you mean decide?"}},
		{"simulate", []string{"no file given"}},
		{"version x", []string{`unexpected argument "x"`}},
		{"completion bash x", []string{`unexpected argument "x"`}},
		{"completion foo", []string{`unknown command "foo" (see ` + "`tonnage completion --help`)"}},
		{"help foo", []string{`unknown command "foo" (see ` + "`tonnage --help`)"}},
		{"help ctl machine", []string{`unknown command "machine"; did you mean machines? (see ` + "`tonnage ctl --help`)"}},
		{"help decide x", []string{`unexpected argument "x"`}},
	} {
		got := call("", false, strings.Fields(c.args)...)
		lines := strings.Split(strings.TrimSuffix(got.err, "\n"), "\n")
		ok := got.code == exitBadInput && got.out == "" && len(lines) == len(c.want)
		for i := range min(len(lines), len(c.want)) {
			ok = ok && strings.HasPrefix(lines[i], c.want[i])
		}
		if !ok {
			t.Errorf("tonnage %s: exit %d, stdout %q, stderr\n%swant\n%s", c.args, got.code, got.out, got.err, strings.Join(c.want, "\n"))
		}
	}
}

func TestHelp(t *testing.T) {
	for args, want := range map[string]string{
		"":                   "Additional Commands:",
		"--help":             "Look at and change what is running:",
		"help":               "Additional Commands:",
		"help decide":        "tonnage decide -f world.yaml",
		"help ctl needs":     "tonnage ctl needs --cluster",
		"decide --help":      "tonnage decide -f world.yaml",
		"simulate --help":    "tonnage simulate -f run.yaml",
		"version":            "tonnage ",
		"--version":          "tonnage ",
		"completion bash":    "bash completion",
		"completion --help":  "zsh",
		"completion fish -h": "fish",
	} {
		if got := call("", false, strings.Fields(args)...); got.code != 0 || !strings.Contains(got.out, want) || got.err != "" {
			t.Errorf("tonnage %s: exit %d, %q, want %q; %s", args, got.code, got.out, want, got.err)
		}
	}
}

// failing is a stream that cannot be written to.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestOutputThatCannotBeWrittenIsExitCode1(t *testing.T) {
	for _, args := range [][]string{{"decide", "-f", "-", "-o", "json"}, {"decide", "-f", "-", "-o", "table"}} {
		var errs bytes.Buffer
		code := run(context.Background(), args, streams{in: strings.NewReader(goodWorld), out: failing{}, err: &errs})
		if code != exitInternal || errs.String() != "disk full\n" {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
	}
	var errs bytes.Buffer
	if code := run(context.Background(), []string{"simulate", "-f", "-"}, streams{in: strings.NewReader(goodRun), out: failing{}, err: &errs}); code != exitInternal {
		t.Errorf("simulate: exit %d, %q", code, errs.String())
	}
}

func TestSimulateStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"simulate", "-f", "-"}, streams{in: strings.NewReader(goodRun), out: &out, err: &errs})
	if code != exitInternal || !strings.HasPrefix(errs.String(), "interrupted") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

// TestASignalEndsWhatDecides: also while standard input says nothing.
func TestASignalEndsWhatDecides(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{{"decide", "-f", "-"}, {"explain", "machine", "-f", "-", "m"}, {"what-if", "-f", "-", "--price", "m=1"}} {
		silent, end := io.Pipe()
		var out, errs bytes.Buffer
		code := run(ctx, args, streams{in: silent, out: &out, err: &errs})
		_ = end.Close()
		if code != exitInternal || !strings.HasPrefix(errs.String(), "interrupted") {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
	}
}
