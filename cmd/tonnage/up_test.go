package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

func TestUpRefusesBadInputInOneLineWithARemedy(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	plainFile := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plainFile, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"a rung that does not exist", []string{"--rung", "huge"}, "use one of tiny, 5k, 50k"},
		{"a start that does not exist", []string{"--start", "burst"}, "--start must be cold or steady"},
		{"a port in use", []string{"--listen", busy.Addr().String()}, "the port is in use; choose another, as in --listen"},
		{"no port", []string{"--listen", "localhost"}, "give HOST:PORT"},
		{"a data dir that is a file", []string{"--data-dir", plainFile}, "cannot be written: not a directory; name a folder"},
		{"a data dir below a file", []string{"--data-dir", plainFile + "/x"}, "cannot be written"},
		{"no data dir", []string{"--data-dir", ""}, "--data-dir is empty"},
		{"a missing trace", []string{"--trace", "/nowhere"}, "no such file"},
		{"a list that does not exist", []string{"--trace", "x", "--trace-list", "y"}, "use one of default, gpushare40, gpuspec33, multigpu20"},
		{"an offer that does not exist", []string{"--trace", "x", "--trace-offer", "y"}, "use one of default, none, equivalents"},
		{"a speed that is none", []string{"--trace", "x", "--speed", "fast"}, "write it like 3600x"},
		{"no clusters", []string{"--trace", "x", "--clusters", "0"}, "--clusters must be between 1 and"},
		{"a rung and a trace", []string{"--trace", "x", "--rung", "tiny"}, "exclude each other"},
		{"a speed without a trace", []string{"--speed", "10x"}, "name its folder with --trace"},
		{"a latency that is none", []string{"--provider-latency", "slow"}, "like 2s or a range like 1s-5s"},
		{"a latency backward", []string{"--provider-latency", "5s-1s"}, "swap the two"},
		{"a latency without end", []string{"--provider-latency", "9999h"}, "at most"},
		{"a probability above 1", []string{"--provider-faults", "2"}, "between 0 and 1"},
		{"a cycle too short", []string{"--cycle", "1ms"}, "--cycle must be at least 10ms"},
		{"negative workers", []string{"--workers", "-1"}, "--workers must be between 0 and"},
		{"a negative duration", []string{"--duration", "-1s"}, "0 runs until stopped"},
		{"an unknown log level", []string{"--log-level", "loud"}, "debug, info, warn or error"},
		{"a scenario that does not exist", []string{"--scenario", "x"}, "use one of contended, launch-day, spot-storm, rack-loss, two-tenants"},
		{"a scenario and a rung", []string{"--scenario", "contended", "--rung", "5k"}, "exclude each other"},
		{"a scenario and a file", []string{"--scenario", "contended", "-f", "x"}, "exclude each other"},
		{"several shards for a scenario", []string{"--scenario", "contended", "--shards", "2"}, "run on one shard"},
		{"a file that is not there", []string{"-f", "/nowhere.yaml"}, "cannot open the file"},
		{"an argument", []string{"tiny"}, `unexpected argument "tiny"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := append([]string{"up", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--duration", "1ns"}, c.args...)
			if code := run(t.Context(), args, streams{in: strings.NewReader(""), out: &out, err: &errs}); code != exitBadInput {
				t.Errorf("exit code %d, want %d", code, exitBadInput)
			}
			if text := errs.String(); !strings.Contains(text, c.want) || strings.Count(text, "\n") != 1 {
				t.Errorf("it says %q, want one line with %q", text, c.want)
			}
			if out.Len() > 0 {
				t.Errorf("it printed %q", out.String())
			}
		})
	}
}

func TestUpTellsAllFaultsAtOnce(t *testing.T) {
	var errs bytes.Buffer
	run(t.Context(), []string{"up", "--rung", "x", "--provider-faults", "9", "--workers", "-4"}, streams{out: io.Discard, err: &errs})
	if got := strings.Count(errs.String(), "\n"); got != 3 {
		t.Errorf("%d lines, want one for each of 3 faults:\n%s", got, errs.String())
	}
}

func TestADataDirHasOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	first, err := openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(path); err == nil || !strings.Contains(err.Error(), "in use by another tonnage") {
		t.Errorf("a second owner got %v", err)
	}
	first.close()
	again, err := openDataDir(path)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	again.close()
}

// output is a writer that a test can wait on.
type output struct {
	lines chan string
	text  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.text.Write(b)
	for line := range strings.Lines(string(b)) {
		select {
		case o.lines <- line:
		default:
		}
	}
	return len(b), nil
}

func TestUpServesDecidesAndPrintsASummary(t *testing.T) {
	out := &output{lines: make(chan string, 64)}
	dir := t.TempDir()
	f := upFlags{acquire: "fit", shards: 1, rung: "tiny", start: "cold", seed: 1, listen: "127.0.0.1:0", dataDir: dir, cycle: 20 * time.Millisecond, latency: "10ms-30ms", faults: 0.02, logLevel: "error", profileOver: time.Second}
	plan, err := f.parse(func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- up(ctx, streams{out: out, err: io.Discard}, plan) }()
	var url string
	for url == "" {
		select {
		case line := <-out.lines:
			url = regexp.MustCompile(`http://[0-9.:]+`).FindString(line)
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		}
	}
	stream, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	waitFor(t, stream.Body, regexp.MustCompile(`"needs":(\d\d+),"satisfied":\d\d`))
	waitFor(t, stream.Body, regexp.MustCompile(`"kind":"Bootstrap".*"reason":"phase1.idle"`))
	began := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v to stop with a page open", took)
	}
	text := out.text.String()
	for _, want := range []string{"rung tiny", "Stopped after", "Configured", "Bootstrap", "cpu: ", "/h"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output does not say %q:\n%s", want, text)
		}
	}
	if kept, err := os.ReadFile(filepath.Join(dir, summaryFile)); err != nil || !strings.Contains(string(kept), "Stopped after") {
		t.Errorf("the summary is not kept: %v %q", err, kept)
	}
}

// waitFor reads a stream until the pattern appears.
func waitFor(t *testing.T, in io.Reader, pattern *regexp.Regexp) {
	t.Helper()
	var seen []byte
	buffer := make([]byte, 64<<10)
	for !pattern.Match(seen) {
		n, err := in.Read(buffer)
		if err != nil {
			t.Fatalf("the stream ended without %s: %v", pattern, err)
		}
		seen = append(seen[max(0, len(seen)-64<<10):], buffer[:n]...)
	}
}

func TestThePagesNamesAreThoseOfTheEngine(t *testing.T) {
	for i, name := range web.States {
		if want := model.State(i + int(model.Speculative)).String(); name != want {
			t.Errorf("state %d is %s on the page, %s in the engine", i, name, want)
		}
	}
	if len(web.States) != model.NumStates-1 || len(web.Kinds) != engine.NumKinds || len(web.CapacityTypes) != model.NumCapacityTypes {
		t.Error("the page has another number of names than the engine")
	}
	for i, name := range web.Kinds {
		if want := engine.Kind(i).String(); name != want {
			t.Errorf("kind %d is %s on the page, %s in the engine", i, name, want)
		}
	}
	for i, name := range web.CapacityTypes {
		if want := model.CapacityType(i).String(); name != want {
			t.Errorf("capacity type %d is %s on the page, %s in the engine", i, name, want)
		}
	}
	names, err := os.ReadFile("../../web/assets/names.js")
	if err != nil {
		t.Fatal(err)
	}
	for u := engine.UnmetNone + 1; int(u) < engine.NumUnmet; u++ {
		if !strings.Contains(string(names), "\n  "+u.String()+": {\n") {
			t.Errorf("the page does not know the reason %s", u)
		}
	}
}

func TestAFaultyMachineIsRepairedAfterAWhile(t *testing.T) {
	f := newTestFleet(t)
	if _, err := f.Configure(t.Context(), shard.ConfigureRequest{Machine: "m", Cluster: "c"}); err == nil {
		t.Fatal("the call should have failed")
	}
	stateOf := func() model.State {
		t.Helper()
		if _, err := f.List(t.Context(), shard.ListRequest{}); err != nil {
			t.Fatal(err)
		}
		r, _ := f.Get("m")
		return r.Machine.State
	}
	if got := stateOf(); got != model.Failed || f.failed.Load() != 1 {
		t.Fatalf("the machine is %s after %d failures, want Failed after 1", got, f.failed.Load())
	}
	at := f.now().Add(repairAfter - time.Nanosecond)
	f.now = func() time.Time { return at }
	if got := stateOf(); got != model.Failed {
		t.Errorf("the machine is %s before its repair is due", got)
	}
	at = at.Add(time.Nanosecond)
	if got := stateOf(); got != model.Idle || len(f.broken) != 0 {
		t.Errorf("the machine is %s after its repair, with %d repairs left", got, len(f.broken))
	}
}

func TestStatusFitsTheTerminal(t *testing.T) {
	f := web.Frame{Cycle: 3, Needs: 1234, Satisfied: 1200, Machines: [8]int{2: 60, 4: 225_000}, CycleMillis: 1.234, ActionsTotal: 12_345, Mode: web.ModePaused}
	line := statusLine(&f, web.Quantiles{P99: 12.3}, 75*time.Second)
	want := "paused · 1m15s · 1,200 of 1,234 Needs satisfied · 225,000 bound, 60 idle · cycle 1.23 ms (p99 12.3 ms) · 12,345 actions (0 in this cycle) · $0.00/h"
	if line != want {
		t.Errorf("got  %q\nwant %q", line, want)
	}
	if got := fit(line, 60); got != "paused · 1m15s · 1,200 of 1,234 Needs satisfied" {
		t.Errorf("on 60 columns: %q", got)
	}
	if got := fit("oneword", 3); got != "one" {
		t.Errorf("on 3 columns: %q", got)
	}
}

func TestLogLinesStandAboveTheStatus(t *testing.T) {
	var screen bytes.Buffer
	c := &console{out: &screen, terminal: true}
	c.show("status")
	if _, err := (logWriter{c, &screen}).Write([]byte("log\n")); err != nil {
		t.Fatal(err)
	}
	c.print("line")
	c.clear()
	if want := eraseLine + "status" + eraseLine + "log\nstatus" + eraseLine + "line\nstatus" + eraseLine; screen.String() != want {
		t.Errorf("got  %q\nwant %q", screen.String(), want)
	}
	screen.Reset()
	plain := &console{out: &screen}
	plain.show("a")
	plain.show("b")
	if screen.String() != "a\nb\n" {
		t.Errorf("elsewhere than on a terminal: %q", screen.String())
	}
}

func TestFiguresAreWrittenForPeople(t *testing.T) {
	for v, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 225_000: "225,000", -1_234_567: "-1,234,567"} {
		if got := grouped(v); got != want {
			t.Errorf("grouped(%d) = %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.5: "0.50 ms", 12.34: "12.3 ms", 123.4: "123 ms", 1234: "1.23 s"} {
		if got := millis(v); got != want {
			t.Errorf("millis(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestASummaryBeforeTheFirstCycle(t *testing.T) {
	s := runSummary{}
	if got := s.text(); got != "Stopped before the first cycle.\n" {
		t.Errorf("got %q", got)
	}
}

func TestAPartThatFailsStopsTheOthers(t *testing.T) {
	out := &output{lines: make(chan string, 64)}
	f := upFlags{acquire: "fit", shards: 1, rung: "tiny", start: "steady", listen: "127.0.0.1:0", dataDir: t.TempDir(), cycle: time.Second, latency: "0s", logLevel: "error", profileOver: time.Second}
	plan, err := f.parse(func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := newTestProcess(t, plan, out)
	l.Close() // serving fails at once
	err = x.run(t.Context(), l)
	if err == nil || !strings.Contains(err.Error(), "serve") {
		t.Errorf("got %v, want the failure to serve", err)
	}
}
