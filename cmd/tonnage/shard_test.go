package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// shardRun is a shard that runs within the test.
type shardRun struct {
	t       *testing.T
	out     *syncBuffer
	err     *syncBuffer
	metrics string
	stop    context.CancelFunc
	ended   chan int
}

// startShard runs the command until the test is over.
func startShard(t *testing.T, args ...string) *shardRun {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &shardRun{t: t, out: &syncBuffer{}, err: &syncBuffer{}, stop: cancel, ended: make(chan int, 1)}
	args = append([]string{"shard", "--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"}, args...)
	go func() { r.ended <- run(ctx, args, streams{in: strings.NewReader(""), out: r.out, err: r.err}) }()
	t.Cleanup(func() { cancel(); r.code() })
	at := regexp.MustCompile(`metrics on (\S+)`)
	r.wait(func() bool {
		m := at.FindStringSubmatch(r.out.String())
		if m != nil {
			r.metrics = m[1]
		}
		return m != nil
	})
	return r
}

func (r *shardRun) wait(done func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(end) {
			r.t.Fatalf("it does not come to pass; output:\n%s%s", r.out, r.err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// code stops the shard and returns its exit code.
func (r *shardRun) code() int {
	r.stop()
	select {
	case code := <-r.ended:
		r.ended <- code
		return code
	case <-time.After(20 * time.Second):
		r.t.Error("the shard does not end")
		return -1
	}
}

func (r *shardRun) get(path string) (int, string) {
	res, err := http.Get("http://" + r.metrics + path)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// TestShardServesItsProbes: health, readiness, metrics, profiles, and an end in
// good order.
func TestShardServesItsProbes(t *testing.T) {
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.jsonl")
	r := startShard(t, "--data-dir", filepath.Join(dir, "data"), "--seed-machines", "7", "--audit-log", audit, "--cycle-interval", "20ms", "--log-level", "debug")
	r.wait(func() bool { code, _ := r.get("/readyz"); return code == http.StatusOK })
	if code, body := r.get("/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	if code, body := r.get("/metrics"); code != http.StatusOK || !strings.Contains(body, `bigfleet_shard_inventory_machines{capacity_type="OnDemand",interruption_penalty_bucket="unspecified",state="Idle"} 7`) ||
		!strings.Contains(body, "tonnage_shard_epoch 1") {
		t.Errorf("metrics: %d\n%s", code, body)
	}
	if code, _ := r.get("/debug/pprof/cmdline"); code != http.StatusOK {
		t.Errorf("pprof from this machine: %d", code)
	}
	if code := r.code(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if log := r.err.String(); !strings.Contains(log, "execute-concurrency=64") || !strings.Contains(log, "epoch=1") {
		t.Errorf("the log does not say how it was set up:\n%s", log)
	}
	if _, err := os.Stat(audit); err != nil {
		t.Error(err)
	}
	if r := startShard(t, "--data-dir", filepath.Join(dir, "data")); !strings.Contains(r.err.String(), "epoch=2") {
		t.Errorf("started again, the log says:\n%s", r.err)
	}
}

// TestPauseAndDryRunByFile: while there is such a file, nothing is carried out.
func TestPauseAndDryRunByFile(t *testing.T) {
	dir := t.TempDir()
	r := startShard(t, "--data-dir", dir, "--cycle-interval", "10ms", "--seed-machines", "1")
	paused := func(want string) func() bool {
		return func() bool {
			_, body := r.get("/metrics")
			return strings.Contains(body, "bigfleet_shard_actuation_paused "+want)
		}
	}
	r.wait(paused("0"))
	if err := os.WriteFile(filepath.Join(dir, "pause"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.wait(paused("1"))
	if err := os.Remove(filepath.Join(dir, "pause")); err != nil {
		t.Fatal(err)
	}
	r.wait(paused("0"))
}

// TestShardRefusesBadSettings: every fault is named, from flags and from a file.
func TestShardRefusesBadSettings(t *testing.T) {
	dir := t.TempDir()
	file := func(content string) string {
		path := filepath.Join(dir, "shard.yaml")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, x := range map[string]struct {
		args []string
		says []string
	}{
		"several": {[]string{"--listen", "here", "--id", "", "--execute-concurrency", "0", "--reclaim-cap-fraction", "2", "--log-level", "loud"},
			[]string{"--listen must be HOST:PORT", "--id must be", "--execute-concurrency must be", "--reclaim-cap-fraction must be", "--log-level must be"}},
		"seed and provider": {[]string{"--provider-addr", "127.0.0.1:1", "--seed-machines", "3"}, []string{"--seed-machines is for machines in memory"}},
		"part of tls":       {[]string{"--tls-cert", "x.pem", "--data-dir", filepath.Join(dir, "a")}, []string{"--tls-key", "--tls-ca"}},
		"no such file":      {[]string{"--config", filepath.Join(dir, "none.yaml")}, []string{"--config", "no such file"}},
		"file": {[]string{"--config", file("execute-concurency: 3\ncycle-interval: soon\nlisten: [a]\nid: x\nid: y\n")},
			[]string{"execute-concurency: no such setting; did you mean execute-concurrency?", `cycle-interval: "soon" is no duration`, "listen: must be one value, it is a list", "id: occurs twice"}},
		"no object": {[]string{"--config", func() string {
			p := filepath.Join(dir, "list.yaml")
			_ = os.WriteFile(p, []byte("- a\n"), 0o644)
			return p
		}()}, []string{"must be an object"}},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"shard"}, x.args...), streams{in: strings.NewReader(""), out: &out, err: &errs})
		if code != exitBadInput {
			t.Errorf("%s: exit code %d", name, code)
		}
		for _, s := range x.says {
			if !strings.Contains(errs.String(), s) {
				t.Errorf("%s: does not say %q:\n%s", name, s, &errs)
			}
		}
	}
}

// TestEveryFaultIsNamedOnce: one line each, of a file and of flags together,
// under the name that it was given by.
func TestEveryFaultIsNamedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shard.yaml")
	text := "foo: 1\nworkers: -3\nreclaim-cap-fraction: 7\nid: \"\"\ncycle-interval: abc\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args, want []string
	}{
		"a file and flags": {[]string{"shard", "--config", file, "--cycle-interval", "1ms", "--log-level", "loud", "--tls-cert", "x.pem"},
			[]string{"--config " + file + ": foo: no such setting", "--id must be", "--workers must be between 0 and 256, got -3", "--reclaim-cap-fraction must be", "--cycle-interval must be", "--log-level must be", "--tls-cert without"}},
		"a file": {[]string{"shard", "--config", file},
			[]string{"foo: no such setting", `cycle-interval: "abc" is no duration`, "--id must be", "--workers must be", "--reclaim-cap-fraction must be"}},
		"a file of a provider": {[]string{"provider", "--config", file, "--failure-rate", "7"},
			[]string{"foo: no such setting", "workers: no such setting", "reclaim-cap-fraction: no such", "id: no such", "cycle-interval: no such", "--failure-rate is a probability"}},
		"flags": {[]string{"shard", "--workers", "999", "--execute-concurrency", "-1", "--max-actions-per-cycle", "-1", "--metrics-warmup-cycles", "-1", "--profile-over", "0s"},
			[]string{"--workers must be between 0 and 256, got 999", "--execute-concurrency must be", "--max-actions-per-cycle must be", "--metrics-warmup-cycles must be", "--profile-over must be"}},
		"a folder": {[]string{"shard", "--listen", "127.0.0.1:0", "--metrics-addr", "0", "--data-dir", t.TempDir(), "--profile-dir", "/proc/x"},
			[]string{"--profile-dir: mkdir /proc/x: no such file or directory; name a folder that can be written"}},
	} {
		got := call("", false, c.args...)
		if lines := strings.Count(got.err, "\n"); got.code != exitBadInput || lines != len(c.want) {
			t.Errorf("%s: exit %d, %d lines, want %d:\n%s", name, got.code, lines, len(c.want), got.err)
		}
		for _, want := range c.want {
			if strings.Count(got.err, want) != 1 {
				t.Errorf("%s: does not say %q once:\n%s", name, want, got.err)
			}
		}
	}
}

// TestFlagsCountMoreThanTheFile: which says the rest.
func TestFlagsCountMoreThanTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "shard.yaml")
	if err := os.WriteFile(path, []byte("id: shard-from-file\nseed-machines: 3\ndry-run: true\ncycle-interval: 20ms\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := startShard(t, "--data-dir", filepath.Join(dir, "data"), "--config", path, "--seed-machines", "5")
	r.wait(func() bool {
		_, body := r.get("/metrics")
		return strings.Contains(body, `state="Idle"} 5`)
	})
	if log := r.err.String(); !strings.Contains(log, "shard-from-file") || !strings.Contains(log, "dryRun=true") {
		t.Errorf("the log says:\n%s", log)
	}
}

// TestOneShardADataFolder: a second process is refused.
func TestOneShardADataFolder(t *testing.T) {
	dir := t.TempDir()
	startShard(t, "--data-dir", dir)
	var errs bytes.Buffer
	code := run(t.Context(), []string{"shard", "--data-dir", dir, "--listen", "127.0.0.1:0", "--metrics-addr", "0"}, streams{in: strings.NewReader(""), out: io.Discard, err: &errs})
	if code != exitBadInput || !strings.Contains(errs.String(), "--data-dir") {
		t.Errorf("exit code %d: %s", code, &errs)
	}
}

// TestDeadCoordinatorChangesNothing: cycles go on, and the end is in good order.
func TestDeadCoordinatorChangesNothing(t *testing.T) {
	r := startShard(t, "--data-dir", t.TempDir(), "--cycle-interval", "10ms", "--seed-machines", "1", "--coordinator-addr", "127.0.0.1:1, 127.0.0.1:2", "--coordinator-heartbeat-interval", "100ms")
	r.wait(func() bool {
		_, body := r.get("/metrics")
		return strings.Contains(body, `tonnage_shard_reports_total{outcome="error"}`) && !strings.Contains(body, `tonnage_shard_reports_total{outcome="error"} 0`) &&
			!strings.Contains(body, "bigfleet_shard_cycle_duration_seconds_count 0")
	})
	if code, _ := r.get("/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d", code)
	}
	if code := r.code(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestMetricsPassPromtool: as Prometheus's own checker reads them.
func TestMetricsPassPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; tools/need prometheus installs it")
	}
	r := startShard(t, "--data-dir", t.TempDir(), "--seed-machines", "5", "--seed-spot", "3", "--seed-cluster-total", "2", "--seed-configured-per-cluster", "2", "--cycle-interval", "20ms")
	r.wait(func() bool { code, _ := r.get("/readyz"); return code == http.StatusOK })
	_, body := r.get("/metrics")
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(body)
	out, err := check.CombinedOutput()
	var complaints []string
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		// Names of the protocol and of Go's own series are as they are.
		if line != "" && !promtoolExcused(line) {
			complaints = append(complaints, line)
		}
	}
	if len(complaints) > 0 {
		t.Errorf("promtool (%v):\n%s", err, strings.Join(complaints, "\n"))
	}
}

// TestFlagsMayHaveOneDash: as scripts for the public project's binaries write
// them.
func TestFlagsMayHaveOneDash(t *testing.T) {
	dir := t.TempDir()
	r := startShard(t, "-data-dir="+dir, "-id", "shard-9", "-dry-run", "-log-level=debug", "--seed-machines=3")
	r.wait(func() bool { code, _ := r.get("/readyz"); return code == http.StatusOK })
	if log := r.err.String(); !strings.Contains(log, "shard=shard-9") || !strings.Contains(log, "dryRun=true") {
		t.Errorf("the flags did not count: %s", log)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"shard", "-no-such-flag=1"}, "unknown shorthand flag"},
		{[]string{"coordinator", "-id"}, "needs an argument"},
		{[]string{"shard", "--", "-id=x"}, `unexpected argument "-id=x"`},
	} {
		if got := call("", false, c.args...); got.code != exitBadInput || !strings.Contains(got.err, c.want) {
			t.Errorf("%q: exit %d: %s; want %q", c.args, got.code, got.err, c.want)
		}
	}
}

func TestCreateLatencyOfMachinesInMemory(t *testing.T) {
	t.Setenv(createLatencyVariable, "soon")
	if got := call("", false, "shard", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--metrics-addr", "0"); got.code != exitBadInput || !strings.Contains(got.err, createLatencyVariable) {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	t.Setenv(createLatencyVariable, "2h")
	f := seedFlags{speculative: 1}
	p, err := f.fleet()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), shard.CreateRequest{Machine: "slot-000000"}); err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) model.State {
		t.Helper()
		p.(*clockedFleet).now = func() time.Time { return time.Now().Add(d) }
		l, err := p.List(t.Context(), shard.ListRequest{})
		if err != nil || len(l.Records) != 1 {
			t.Fatalf("%+v, %v", l, err)
		}
		return l.Records[0].Machine.State
	}
	if before, after := at(time.Hour), at(3*time.Hour); before != model.Creating || after != model.Idle {
		t.Errorf("after an hour it is %s, after three %s", before, after)
	}
}
