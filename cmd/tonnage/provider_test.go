package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/client"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

// providerRun is `tonnage provider` within the test.
type providerRun struct {
	t       *testing.T
	address string
	metrics string
	stop    context.CancelFunc
	code    chan int
	log     *bytes.Buffer // to be read after stop
}

var providerLine = regexp.MustCompile(`^tonnage provider: \d+ machines on (\S+), metrics on (\S+)\n$`)

// startProvider runs the command on free ports until the test ends.
func startProvider(t *testing.T, args ...string) *providerRun {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	r := &providerRun{t: t, stop: cancel, code: make(chan int, 1), log: &bytes.Buffer{}}
	args = append([]string{"provider", "--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"}, args...)
	go func() {
		code := run(ctx, args, streams{in: strings.NewReader(""), out: out, err: r.log})
		out.Close()
		r.code <- code
	}()
	line, err := bufio.NewReader(in).ReadString('\n')
	m := providerLine.FindStringSubmatch(line)
	if err != nil || m == nil {
		cancel()
		t.Fatalf("it says %q, %v, exit %d: %s", line, err, <-r.code, r.log)
	}
	r.address, r.metrics = m[1], m[2]
	t.Cleanup(func() { r.end() })
	return r
}

// end stops the command in good order.
func (r *providerRun) end() {
	r.t.Helper()
	r.stop()
	if code := <-r.code; code != exitOK {
		r.t.Errorf("exit %d: %s", code, r.log)
	}
	r.code <- exitOK // for the end of the test
}

func (r *providerRun) client(change func(*client.Options)) *client.Client {
	r.t.Helper()
	e, err := epoch.Open(r.t.TempDir())
	if err != nil {
		r.t.Fatal(err)
	}
	o := client.Options{Address: r.address, Shard: "shard-0", Epoch: e, Attempts: 2, Backoff: time.Millisecond}
	if change != nil {
		change(&o)
	}
	c, err := client.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close(); e.Close() })
	return c
}

// get asks for a page until it says what is wanted.
func (r *providerRun) get(path, want string) {
	r.t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get("http://" + r.metrics + path)
		if err != nil {
			r.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && strings.Contains(string(body), want) {
			return
		}
		select {
		case <-limit:
			r.t.Fatalf("%s never says %q: %s", path, want, body)
		case <-tick.C:
		}
	}
}

func machinesOf(t *testing.T, c *client.Client) map[string]model.Machine {
	t.Helper()
	l, err := c.List(context.Background(), shard.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]model.Machine{}
	for i := range l.Batch.Len() {
		rec, err := l.Batch.Record(i)
		if err != nil {
			t.Fatal(err)
		}
		out[rec.Machine.ID] = rec.Machine
	}
	return out
}

// TestProviderKeepsItsMachines: the seeds are used once, and what was done stays
// done.
func TestProviderKeepsItsMachines(t *testing.T) {
	dir := t.TempDir()
	seeds := []string{"--data-dir", dir, "--seed-machines", "3", "--seed-speculative", "2", "--seed-spot", "1", "--latency", "0s", "--latency-create", "1h"}
	p := startProvider(t, seeds...)
	c := p.client(nil)
	before := machinesOf(t, c)
	if len(before) != 6 {
		t.Fatalf("%d machines", len(before))
	}
	if _, err := c.Configure(context.Background(), shard.ConfigureRequest{Machine: "idle-000001", Cluster: "c"}); err != nil {
		t.Fatal(err)
	}
	if rec, err := c.Create(context.Background(), shard.CreateRequest{Machine: "slot-000000"}); err != nil || rec.Machine.State != model.Creating {
		t.Fatalf("%s, %v", rec.Machine.State, err)
	}
	p.get("/metrics", `tonnage_provider_machines{state="Configured"} 1`)
	p.get("/healthz", "ok")
	p.get("/readyz", "ready")
	if got := call("", false, "provider", "--data-dir", dir, "--listen", "127.0.0.1:0", "--metrics-addr", "0"); got.code != exitBadInput || !strings.Contains(got.err, "in use by another tonnage provider") {
		t.Errorf("a second one on the folder: exit %d: %s", got.code, got.err)
	}
	p.end()

	p = startProvider(t, append(seeds, "--seed-machines", "50")...)
	after := machinesOf(t, p.client(nil))
	if len(after) != 6 || after["idle-000001"].Cluster != "c" || after["slot-000000"].State != model.Creating {
		t.Errorf("after a restart: %+v", after)
	}
	p.end()
	if !strings.Contains(p.log.String(), "seed flags are not used") {
		t.Errorf("the log does not say that the seeds are not used: %s", p.log)
	}
}

func TestProviderSeeds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "world.json")
	if err := os.WriteFile(file, []byte(goodWorld), 0o644); err != nil {
		t.Fatal(err)
	}
	p := startProvider(t, "--data-dir", t.TempDir(), "--seed-file", file)
	if got := machinesOf(t, p.client(nil)); len(got) != 2 || got["m-2"].Cluster != "c2" {
		t.Errorf("of a world: %+v", got)
	}
	p = startProvider(t, "--data-dir", t.TempDir(), "--seed-rung", "tiny", "--seed-start", "steady")
	bound := 0
	all := machinesOf(t, p.client(nil))
	for _, m := range all {
		if m.State == model.Configured {
			bound++
		}
	}
	if len(all) != 1265 || bound != 305 {
		t.Errorf("of a rung: %d machines, %d bound", len(all), bound)
	}
	p = startProvider(t, "--data-dir", t.TempDir())
	p.end()
	if !strings.Contains(p.log.String(), "--seed-rung") {
		t.Errorf("without machines the log says: %s", p.log)
	}
}

func TestProviderFaultsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("faults:\n- {kind: fail, on: Configure, machine: idle-000000, times: 1}\n- {kind: refuse, on: Get, times: 1}\n")
	p := startProvider(t, "--data-dir", t.TempDir(), "--seed-machines", "4", "--faults-file", file, "--latency", "0s")
	c, ctx := p.client(nil), context.Background()
	if _, err := c.Configure(ctx, shard.ConfigureRequest{Machine: "idle-000000", Cluster: "c"}); err == nil {
		t.Error("the fault did not strike")
	}
	p.get("/metrics", `tonnage_provider_machines{state="Failed"} 1`)
	write("repair: [idle-000000]\nvanish: [idle-000003]\nprices: {idle-000001: 9.25}\n# and no faults\n")
	p.get("/metrics", `tonnage_provider_machines{state="Failed"} 0`)
	p.get("/metrics", `tonnage_provider_machines{state="Idle"} 3`)
	if got := machinesOf(t, c); len(got) != 3 || got["idle-000001"].PricePerHour != 9.25 {
		t.Errorf("got %+v", got)
	}
	write("faults:\n- {kind: late, probability: 1}\n")
	deadline := time.Now().Add(10 * time.Second)
	for failed := false; !failed; { // from when the file is read
		if time.Now().After(deadline) {
			t.Fatal("the file is not read again")
		}
		rec, err := c.Configure(ctx, shard.ConfigureRequest{Machine: "idle-000001", Cluster: "c"})
		if err == nil && rec.Machine.State == model.Configured {
			rec, err = c.Drain(ctx, shard.DrainRequest{Machine: "idle-000001"})
		}
		if err != nil {
			t.Fatal(err)
		}
		failed = rec.Machine.State == model.Failed
	}
	write("faults: [{kind: explode}]")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// TestAFaultsFileMayComeLater: which is said.
func TestAFaultsFileMayComeLater(t *testing.T) {
	file := filepath.Join(t.TempDir(), "later.yaml")
	p := startProvider(t, "--data-dir", t.TempDir(), "--seed-machines", "4", "--faults-file", file)
	if err := os.WriteFile(file, []byte("vanish: [idle-000003]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.get("/metrics", `tonnage_provider_machines{state="Idle"} 3`)
	p.end()
	if log := p.log.String(); strings.Count(log, "--faults-file is not there; it makes trouble when it comes") != 1 {
		t.Errorf("the log does not say once that there is no file:\n%s", log)
	}
}

func TestFaultsFilesAreRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		"faults: [{kind: explode, times: 1}]":                "faults[0].kind",
		"faults: [{kind: fail, on: List, times: 1}]":         "faults[0].on",
		"faults: [{kind: fail, on: Frobnicate, times: 1}]":   "faults[0].on",
		"faults: [{kind: fail}]":                             "faults[0]",
		"faults: [{kind: fail, times: 1, probability: 0.5}]": "faults[0]",
		"faults: [{kind: fail, times: 1, delay: 2s}]":        "faults[0]",
		"faults: [{kind: slow, times: 1}]":                   "faults[0]",
		"faults: [{kind: slow, times: 1, delay: 48h}]":       "faults[0].delay",
		"fault: []":       "did you mean faults",
		"prices: {m: -1}": "prices.m",
		"[":               "",
		"faults: [{kind: fail, times: 1}] #" + strings.Repeat("x", faultsBytesMax): "longer than",
	} {
		file := filepath.Join(t.TempDir(), "faults.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got := call("", false, "provider", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--metrics-addr", "0", "--faults-file", file)
		if got.code != exitBadInput || !strings.Contains(got.err, want) || !strings.Contains(got.err, "--faults-file") {
			t.Errorf("%.60q: exit %d: %s; want %q named", text, got.code, got.err, want)
		}
	}
}

func TestProviderFlagsAreChecked(t *testing.T) {
	got := call("", false, "provider", "--listen", "foo", "--metrics-addr", "bar", "--data-dir", "", "--latency", "5s-1s", "--latency-drain", "x",
		"--seed-rung", "huge", "--seed-start", "warm", "--seed-machines", "-1", "--failure-rate", "2", "--late-failure-rate", "-1", "--repair-after", "-1s", "--log-level", "loud")
	if got.code != exitBadInput {
		t.Fatalf("exit %d", got.code)
	}
	for _, flag := range []string{"listen", "metrics-addr", "data-dir", "latency ", "latency-drain", "seed-rung", "seed-start", "seed-machines", "failure-rate", "late-failure-rate", "repair-after", "log-level"} {
		if !strings.Contains(got.err, "--"+flag) {
			t.Errorf("--%s is not named in:\n%s", flag, got.err)
		}
	}
	for name, args := range map[string][]string{
		"exclude each other": {"--seed-rung", "tiny", "--seed-file", "x"},
		"--seed-rung":        {"--seed-rung", "tiny", "--seed-spot", "1"},
		"belongs to a rung":  {"--seed-start", "steady"},
		"--tls-key":          {"--tls-cert", "x"},
		"no such file":       {"--seed-file", "/does/not/exist"},
		"sed-rung":           {"--sed-rung", "tiny"},
	} {
		args = append([]string{"provider", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--metrics-addr", "0"}, args...)
		if got := call("", false, args...); got.code != exitBadInput || !strings.Contains(got.err, name) {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "data-dir: %q\nseed-machines: 2\nlisten: 127.0.0.1:1\n", t.TempDir()), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := machinesOf(t, startProvider(t, "--config", settings).client(nil)); len(got) != 2 {
		t.Errorf("by a file of settings: %d machines", len(got))
	}
}

func TestProviderWithMutualTLS(t *testing.T) {
	a := mtlstest.NewAuthority(t)
	serves, dials := a.Files(t, "bigfleet://shard/provider"), a.Files(t, "bigfleet://shard/shard-0")
	p := startProvider(t, "--data-dir", t.TempDir(), "--seed-machines", "1", "--tls-cert", serves.Cert, "--tls-key", serves.Key, "--tls-ca", serves.CA)
	c := p.client(func(o *client.Options) { o.TLS = material(t, dials) })
	if got := machinesOf(t, c); len(got) != 1 {
		t.Errorf("%d machines", len(got))
	}
	if _, err := p.client(nil).List(context.Background(), shard.ListRequest{}); err == nil {
		t.Error("plaintext is answered")
	}
}

func material(t *testing.T, files mtls.Files) *mtls.Material {
	t.Helper()
	m, err := mtls.Load(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
