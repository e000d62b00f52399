package exec_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/exec"
)

// rig is a driver of one script.
type rig struct {
	*exec.Driver
	t   *testing.T
	dir string
	mu  sync.Mutex
	log bytes.Buffer
}

func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// logged returns what was logged, and forgets it.
func (r *rig) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.log.String()
	r.log.Reset()
	return text
}

// newRig makes a driver whose commands are one script. DIR is a folder of its own for it.
func newRig(t *testing.T, script string, change ...func(*exec.Settings)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	path := filepath.Join(r.dir, "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nset -eu\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := exec.ParseSettings(fmt.Appendf(nil, `{"command": [%q], "env": {"DIR": %q}}`, path, r.dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(s)
	}
	r.Driver = exec.New(s, slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})))
	return r
}

// file returns what the script has written into a file of DIR.
func (r *rig) file(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

func machine() *driver.Machine {
	return &driver.Machine{ID: "pool/a 1", Generation: 3, Host: "h7", Offer: driver.Offer{
		Key:         driver.Key{Pool: "p", InstanceType: "big", Zone: "z1", CapacityType: model.OnDemand},
		Resources:   model.NewResources(model.Amount{Name: "cpu", Value: 4000}, model.Amount{Name: "memory", Value: 8 << 30}),
		Allocatable: model.NewResources(model.Amount{Name: "cpu", Value: 3900}, model.Amount{Name: "memory", Value: 7 << 30}),
		Labels:      map[string]string{"rack": "r\"1\""}, Taints: []driver.Taint{{Key: "t", Effect: "NoSchedule"}},
		Template: json.RawMessage(`{"image": "x",` + "\n" + `"bootstrap": "no"}`),
	}}
}

func binding() *driver.Binding {
	return &driver.Binding{
		Owner: driver.Owner{Shard: "s1", Epoch: -7, Sequence: 1 << 60}, Cluster: "blue",
		Metadata: map[string]string{"": "empty", "a\nb": "\x00\x1b[0m", "z": strings.Repeat("é", 1000)}, Blob: []byte("user\ndata\x00\xff"),
	}
}

// run calls all verbs of a driver on a machine.
func (r *rig) run(verb string) error {
	ctx := r.t.Context()
	switch verb {
	case "create":
		return r.Create(ctx, machine(), driver.Owner{Shard: "s1", Epoch: 1, Sequence: 2})
	case "configure":
		return r.Configure(ctx, machine(), binding())
	case "drain":
		return r.Drain(ctx, machine(), time.Now().Add(90*time.Second))
	case "delete":
		return r.Delete(ctx, machine())
	}
	_, err := r.observe()
	return err
}

func (r *rig) observe() (out []driver.Observation, err error) {
	err = r.Observe(r.t.Context(), func(o *driver.Observation) { out = append(out, *o) })
	return out, err
}

// TestRequests: every verb's request is JSON with a key a line, and what the environment has
// agrees with it.
func TestRequests(t *testing.T) {
	r := newRig(t, `cat >"$DIR/$1"; env >"$DIR/$1.env"`)
	want := map[string][]string{
		"create":    {"record", "shard"},
		"configure": {"record", "shard", "cluster", "bootstrap"},
		"drain":     {"deadline", "graceSeconds"},
		"delete":    nil,
	}
	always := []string{
		"version", "verb", "name", "machine", "generation", "lateBound", "host", "pool", "instanceType", "zone", "capacityType",
		"resources", "allocatable", "labels", "taints", "template",
	}
	for verb, more := range want {
		if err := r.run(verb); err != nil {
			t.Fatal(err)
		}
		text := r.file(verb)
		var parsed map[string]any
		if err := json.Unmarshal([]byte(text), &parsed); err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
		keys := slices.Sorted(maps.Keys(parsed))
		if expected := slices.Sorted(slices.Values(append(slices.Clone(always), more...))); !slices.Equal(keys, expected) {
			t.Errorf("%s has the keys %v, want %v", verb, keys, expected)
		}
		if n := strings.Count(text, "\n"); n != len(keys)+2 {
			t.Errorf("%s: %d lines for %d keys:\n%s", verb, n, len(keys), text)
		}
		for _, key := range keys {
			if strings.Count(text, fmt.Sprintf("\n  %q: ", key)) != 1 {
				t.Errorf("%s: no line begins with the key %s", verb, key)
			}
		}
		for key, variable := range map[string]string{"machine": "MACHINE", "name": "NAME", "zone": "ZONE", "pool": "POOL", "host": "HOST", "generation": "GENERATION", "verb": "VERB", "lateBound": "LATE_BOUND", "capacityType": "CAPACITY_TYPE", "instanceType": "INSTANCE_TYPE"} {
			if line := fmt.Sprintf("TONNAGE_%s=%v\n", variable, parsed[key]); !strings.Contains("\n"+r.file(verb+".env"), "\n"+line) {
				t.Errorf("%s: the environment lacks %q", verb, line)
			}
		}
	}
	var c struct{ Cluster, Bootstrap, Name string }
	if err := json.Unmarshal([]byte(r.file("configure")), &c); err != nil {
		t.Fatal(err)
	}
	if blob, err := base64.StdEncoding.DecodeString(c.Bootstrap); err != nil || !bytes.Equal(blob, binding().Blob) || c.Cluster != "blue" {
		t.Errorf("configure was told of cluster %s and %q, %v", c.Cluster, blob, err)
	}
	if c.Name != driver.ObjectName("pool/a 1", 3) {
		t.Errorf("the name is %s", c.Name)
	}
	if log := r.logged(); strings.Count(log, "\n") != 4 || strings.Contains(log, c.Bootstrap) {
		t.Errorf("logged, where four lines without the blob were due:\n%s", log)
	}
}

// TestRecordsComeBack: what create and configure were told, observe gives back.
func TestRecordsComeBack(t *testing.T) {
	r := newRig(t, `
case $1 in
create|configure) sed -n 's/^  "record": "\(.*\)",*$/\1/p' >"$DIR/record" ;;
observe) printf '{"record":"%s","phase":"Configured","ref":"x://1","node":"n","labels":{"a":"b"},"taints":[],"allocatable":{"cpu":"3"}}\n' "$(cat "$DIR/record")" ;;
esac`)
	check := func(owner driver.Owner, cluster string, metadata map[string]string) {
		t.Helper()
		all, err := r.observe()
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		m, o := machine(), all[0]
		if o.ID != m.ID || o.Generation != m.Generation || o.Key != m.Offer.Key || o.HostName != m.Host || o.LateBound {
			t.Errorf("observed %+v of %+v", o, m)
		}
		if o.Owner != owner || o.Cluster != cluster || !maps.Equal(o.Metadata, metadata) {
			t.Errorf("observed owner %+v, cluster %q, metadata %q", o.Owner, o.Cluster, o.Metadata)
		}
		if o.Phase != driver.Configured || o.Ref != "x://1" || o.Node != "n" || o.Labels["a"] != "b" || o.Taints == nil || o.Allocatable.Get("cpu") != 3000 {
			t.Errorf("observed %+v", o)
		}
	}
	if err := r.run("create"); err != nil {
		t.Fatal(err)
	}
	check(driver.Owner{Shard: "s1", Epoch: 1, Sequence: 2}, "", nil)
	if err := r.run("configure"); err != nil {
		t.Fatal(err)
	}
	check(binding().Owner, "blue", binding().Metadata)
}

// TestExitCodes: what a command says by its exit code, its output and its standard error.
func TestExitCodes(t *testing.T) {
	for _, x := range []struct {
		script string
		is     error // that the error wraps; nil = transient
		says   []string
	}{
		{"exit 1", nil, []string{"exit code 1"}},
		{"echo first >&2; echo ' the disk is full ' >&2; echo >&2; exit 3", nil, []string{"the disk is full (exit code 3)"}},
		{"echo no such type >&2; exit 10", driver.ErrOutOfStock, []string{"insufficient capacity", "no such type (exit code 10)"}},
		{`echo '{"reason": "quota is used up"}'; echo other >&2; exit 10`, driver.ErrOutOfStock, []string{"quota is used up"}},
		{"echo bad template >&2; exit 20", driver.ErrPermanent, []string{"permanent", "bad template"}},
		{"kill -9 $$", nil, []string{"killed"}},
		{"printf 'a\\033[31mb\\377' >&2; exit 1", nil, []string{"a [31mb?"}},
		{"echo '{\"reason\": 3}'", nil, []string{"answer: reason: must be text"}},
		{"echo '{\"reasons\": \"x\"}'", nil, []string{"answer: reasons: unknown key; did you mean reason?"}},
		{"echo fine", nil, []string{`answer: must be a JSON object, got "fine"`}},
		{"echo '{}{}'", nil, []string{"answer: "}},
		{"sleep 50 & exit 0", nil, []string{"left something running that holds its output open"}},
	} {
		r := newRig(t, x.script)
		err := r.run("create")
		if err == nil {
			t.Errorf("%s: accepted", x.script)
			continue
		}
		for _, says := range append(x.says, filepath.Join(r.dir, "script")+": create: ") {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %q does not say %q", x.script, err, says)
			}
		}
		for _, kind := range []error{driver.ErrOutOfStock, driver.ErrPermanent} {
			if got := errors.Is(err, kind); got != errors.Is(x.is, kind) {
				t.Errorf("%s: is %v: %t", x.script, kind, got)
			}
		}
		if log := r.logged(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "verb=create") || !strings.Contains(log, "seconds=") || !strings.Contains(log, "level=WARN") {
			t.Errorf("%s: logged %q", x.script, log)
		}
	}
	for _, fine := range []string{"", "echo", "echo '{}'", `echo '{"reason": "slow today"}'`, "true; exec 0<&-"} {
		r := newRig(t, fine)
		if err := r.run("create"); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

// TestGroupsAreKilled: what a command has started is killed with it when it hangs, floods, or ends and leaves something that
// holds its output open.
func TestGroupsAreKilled(t *testing.T) {
	for _, x := range []struct{ name, script, says string }{
		{"hangs", "sleep 1000 & wait", "took longer than"},
		{"hangs with a closed output", "exec >&- 2>&-; sleep 1000 & wait", "took longer than"},
		{"does not listen", "trap '' TERM INT HUP; sleep 1000 & wait", "took longer than"},
		{"floods", "yes & wait", "wrote more than"},
		{"floods and ends", "sleep 1000 & yes", "wrote more than"},
		{"floods the log", "yes >&2 & wait", "took longer than"},
		{"leaves something", "sleep 1000 & exit 0", "left something running"},
		{"fails and leaves something", "sleep 1000 & exit 3", "exit code 3"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			for _, verb := range []string{"create", "observe"} {
				// On a busy machine a command may be killed before it has begun: it gets more time then.
				for timeout := 300 * time.Millisecond; !killedWhole(t, verb, x.script, x.says, timeout); timeout *= 2 {
					if timeout > patience {
						t.Fatalf("%s: killed before it has begun, after %v", verb, timeout)
					}
				}
			}
		})
	}
}

// killedWhole runs a command and checks that it is killed with what it has started. It returns false
// when it had not begun.
func killedWhole(t *testing.T, verb, script, says string, timeout time.Duration) bool {
	t.Helper()
	r := newRig(t, `exec 9<>"$DIR/alive"; : >"$DIR/begun"; `+script, func(s *exec.Settings) { s.Timeouts[verb] = timeout })
	alive := filepath.Join(r.dir, "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	err := r.run(verb)
	if err == nil || !strings.Contains(err.Error(), says) && !strings.Contains(err.Error(), "took longer than") {
		t.Errorf("%s: %v, want %q", verb, err, says)
	}
	gone(t, alive) // all that had it open are gone
	_, err = os.Stat(filepath.Join(r.dir, "begun"))
	return err == nil
}

// TestGivenUp: a context that ends ends the command, and a full house is no deadlock.
func TestGivenUp(t *testing.T) {
	r := newRig(t, `mkfifo "$DIR/alive"; exec 9<>"$DIR/alive"; : >"$DIR/begun"; sleep 1000`, func(s *exec.Settings) { s.Concurrency = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Delete(ctx, machine()) }()
	appears(t, filepath.Join(r.dir, "begun"))
	brief, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if err := r.Create(brief, machine(), driver.Owner{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 commands run already") {
		t.Errorf("beside another command: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	gone(t, filepath.Join(r.dir, "alive"))
}

// TestConcurrency: no more commands run at a time than allowed, and as many do.
func TestConcurrency(t *testing.T) {
	const limit, calls = 3, 12
	r := newRig(t, `
n=$(ls "$DIR/now" | wc -l); : >"$DIR/now/$$"
i=0; while [ "$(ls "$DIR/now" | wc -l)" -lt 3 ] && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done
ls "$DIR/now" | wc -l >>"$DIR/seen"
sleep 0.2
rm "$DIR/now/$$"`, func(s *exec.Settings) { s.Concurrency = limit })
	if err := os.Mkdir(filepath.Join(r.dir, "now"), 0o700); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if err := r.run("drain"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := strings.Fields(r.file("seen"))
	if len(seen) != calls || slices.Max(seen) != fmt.Sprint(limit) {
		t.Errorf("commands at a time: %v, want at most %d and once as many", seen, limit)
	}
}

// TestObserveIsWhole: what is wrong with an answer is named, and what is right is taken over.
func TestObserveIsWhole(t *testing.T) {
	r := newRig(t, `cat "$DIR/answer"`)
	record := recordOf(t)
	good := fmt.Sprintf(`{"record":%q,"phase":"Creating"}`, record)
	for _, x := range []struct {
		answer, says string
		machines     int
	}{
		{"", "", 0},
		{"\n\n", "", 0},
		{good + "\n", "", 1},
		{good, "the last line does not end", 0},
		{good + "\n{\n", "line 2: ", 1},
		{good + "\n" + good + "\n", `line 2: record: machine "pool/a 1" of generation 3 is in line 1 already`, 1},
		{"[]\n", "line 1: must be a JSON object", 0},
		{`{"phase":"Idle"}` + "\n", "line 1: record: is missing", 0},
		{`{"record":"","phase":"Creating"}` + "\n", "line 1: record: is empty", 0},
		{`{"record":"e30=","phase":"Creating"}` + "\n", "line 1: record: is of version 0", 0},
		{`{"record":"???","phase":"Creating"}` + "\n", "line 1: record: is not what a request gave as record", 0},
		{fmt.Sprintf(`{"record":%q,"phase":"idle","ref":"a"}`, record) + "\n", "line 1: phase: is one of", 0},
		{fmt.Sprintf(`{"record":%q,"phase":"Idle"}`, record) + "\n", "line 1: ref: is missing", 0},
		{fmt.Sprintf(`{"record":%q,"phase":"Configured","ref":"r"}`, record) + "\n", "line 1: node: is missing", 0},
		{fmt.Sprintf(`{"record":%q,"phase":"Failed"}`, record) + "\n", "line 1: reason: is missing", 0},
		{fmt.Sprintf(`{"record":%q,"phase":"Creating","outOfStock":true}`, record) + "\n", "line 1: outOfStock: ", 0},
		{fmt.Sprintf(`{"record":%q,"phase":"Failed","reason":"r","outOfStock":true}`, record) + "\n", "", 1},
		{fmt.Sprintf(`{"record":%q,"phase":"Idle","ref":"r","taken":true}`, record) + "\n", "line 1: taken: ", 0},
		{fmt.Sprintf(`{"record":%q,"phase":"Failed","reason":"r","taken":true}`, record) + "\n", "", 1},
		{fmt.Sprintf(`{"record":%q,"phase":"Configuring","incomplete":true}`, record) + "\n", "", 1},
		{fmt.Sprintf(`{"record":%q,"phase":"Creating","state":"x"}`, record) + "\n", "line 1: state: is called phase", 0},
		{fmt.Sprintf(`{"record":%q,"phase":"Creating","allocatable":{"cpu":"4x"}}`, record) + "\n", `line 1: allocatable.cpu: "4x" is not a quantity`, 0},
		{fmt.Sprintf(`{"record":%q,"phase":"Creating","taints":[{"key":"a"}]}`, record) + "\n", "line 1: taints[0].effect: is missing", 0},
		{strings.Repeat("x\n", 9), "and 4 more lines up to line 9", 0},
		{strings.Repeat("x\n", 200) + good + "\n", "and 95 more lines up to line 100", 0},
	} {
		if err := os.WriteFile(filepath.Join(r.dir, "answer"), []byte(x.answer), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := r.observe()
		switch {
		case len(all) != x.machines:
			t.Errorf("%q: %d machines, want %d", x.answer, len(all), x.machines)
		case x.says == "" && err != nil, x.says != "" && (err == nil || !strings.Contains(err.Error(), "script: observe: ") || !strings.Contains(err.Error(), x.says)):
			t.Errorf("%q: %v, want %q", x.answer, err, x.says)
		}
	}
	// A command that fails after some lines has said of these machines that they are there.
	r = newRig(t, `printf '%s\n' "$LINE"; printf '{"rec'; echo lost the connection >&2; exit 1`, func(s *exec.Settings) { s.Env["LINE"] = good })
	if all, err := r.observe(); len(all) != 1 || err == nil || !strings.Contains(err.Error(), "lost the connection (exit code 1)") {
		t.Errorf("of a command that failed: %+v, %v", all, err)
	}
}

// recordOf returns the record that a script is given.
func recordOf(t testing.TB) string {
	t.Helper()
	x, ok := t.(*testing.T)
	if !ok {
		return "e30="
	}
	r := newRig(x, `sed -n 's/^  "record": "\(.*\)",*$/\1/p' >"$DIR/record"`)
	if err := r.run("configure"); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(r.file("record"))
}
