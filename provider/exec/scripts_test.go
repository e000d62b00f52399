package exec_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/exec"
)

var scriptsSeed = flag.Uint64("scripts-seed", 0, "seed of what is killed when; 0 = by the clock")

// The scripts that are shipped as examples.
const scripts = "../../deploy/exec"

// seedData is what machines of the tests are started with: they join a folder.
const seedData = `#!/bin/sh
set -eu
case $1 in
join) echo "$NODE_LABELS" >"$CLUSTER/$NODE_NAME"; echo '"labels":'"$NODE_LABELS" ;;
drained) [ ! -e "$CLUSTER/$NODE_NAME.pods" ] ;;
leave) rm -f "$CLUSTER/$NODE_NAME" ;;
esac
`

// host is a host whose processes are machines.
type host struct {
	*exec.Driver
	t                 *testing.T
	machines, cluster string
}

func newHost(t *testing.T, env string) *host {
	t.Helper()
	h := &host{t: t, machines: t.TempDir(), cluster: t.TempDir()}
	path, err := filepath.Abs(filepath.Join(scripts, "process", "process"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := exec.ParseSettings(fmt.Appendf(nil, `{"command": [%q], "env": {"MACHINES": %q, "CLUSTER": %q %s}}`, path, h.machines, h.cluster, env))
	if err != nil {
		t.Fatal(err)
	}
	h.Driver = exec.New(s, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		for _, pid := range h.processes("") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return h
}

// processes returns the processes that are machines, of one name or all.
func (h *host) processes(name string) (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, file := range all {
		text, _ := os.ReadFile(file)
		args := strings.Split(string(text), "\x00")
		for i := range len(args) - 2 {
			if strings.HasSuffix(args[i], "/machine") && strings.HasPrefix(args[i+1], h.machines+"/"+name) {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				if err != nil {
					h.t.Fatal(err)
				}
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// phases returns what is observed, by id.
func (h *host) phases() map[string]driver.Observation {
	h.t.Helper()
	out := map[string]driver.Observation{}
	if err := h.Observe(h.t.Context(), func(o *driver.Observation) { out[o.ID] = *o }); err != nil {
		h.t.Fatal(err)
	}
	return out
}

// is waits until a machine is in a phase; 0 = is not there.
func (h *host) is(id string, phase driver.Phase) driver.Observation {
	h.t.Helper()
	var o driver.Observation
	await(h.t, fmt.Sprintf("%s is %v", id, phase), func() bool { o = h.phases()[id]; return o.Phase == phase })
	return o
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func plainMachine(id string) *driver.Machine {
	return &driver.Machine{ID: id, Generation: 1, Offer: driver.Offer{Key: driver.Key{Pool: "p", InstanceType: "small", Zone: "z", CapacityType: model.BareMetal}, Labels: map[string]string{"rack": "r1"}}}
}

// join is a binding whose machine runs a program.
func join(cluster, program string) *driver.Binding {
	return &driver.Binding{Owner: driver.Owner{Shard: "s", Epoch: 1, Sequence: 1}, Cluster: cluster, Metadata: map[string]string{"k": "v"}, Blob: []byte(program)}
}

// TestProcessLife: a machine that is a process, from nothing to nothing, each verb twice.
func TestProcessLife(t *testing.T) {
	h := newHost(t, `, "CAPACITY": "2"`)
	ctx, m := t.Context(), plainMachine("m/1")
	name := driver.ObjectName(m.ID, 1)
	twice := func(call func() error) {
		t.Helper()
		h.must(call())
		h.must(call())
	}
	twice(func() error { return h.Create(ctx, m, driver.Owner{Shard: "s"}) })
	if o := h.is("m/1", driver.Idle); o.Ref != "process://"+name || o.Owner.Shard != "s" || o.Node != "" {
		t.Errorf("an idle machine is observed as %+v", o)
	}
	await(t, "one process is the machine", func() bool { return len(h.processes("")) == 1 })
	twice(func() error { return h.Configure(ctx, m, join("blue", seedData)) })
	o := h.is("m/1", driver.Configured)
	if o.Node != name || o.Cluster != "blue" || o.Metadata["k"] != "v" || o.Labels["rack"] != "r1" || o.Labels[model.KeyInstanceType] != "small" {
		t.Errorf("a configured machine is observed as %+v", o)
	}
	pods := filepath.Join(h.cluster, name+".pods")
	h.must(os.WriteFile(pods, nil, 0o600))
	twice(func() error { return h.Drain(ctx, m, time.Now().Add(time.Hour)) })
	h.is("m/1", driver.Draining)
	h.must(os.Remove(pods))
	h.is("m/1", driver.Idle)
	if left, _ := os.ReadDir(h.cluster); len(left) != 0 {
		t.Errorf("after the drain there is %v", left)
	}

	// Pods that do not go are left behind at the deadline, also at one that was brought forward.
	h.must(h.Configure(ctx, m, join("green", seedData)))
	h.is("m/1", driver.Configured)
	h.must(os.WriteFile(pods, nil, 0o600))
	h.must(h.Drain(ctx, m, time.Now().Add(time.Hour)))
	h.is("m/1", driver.Draining)
	h.must(h.Drain(ctx, m, time.Now()))
	h.is("m/1", driver.Idle)
	h.must(os.Remove(pods))

	twice(func() error { return h.Delete(ctx, m) })
	h.is("m/1", 0)
	if left := h.processes(""); len(left) != 0 {
		t.Errorf("after the deletion there is %v", left)
	}
}

// TestProcessTrouble: what is observed of machines in trouble, and that it can be removed.
func TestProcessTrouble(t *testing.T) {
	h := newHost(t, `, "CAPACITY": "2"`)
	ctx := t.Context()
	wrong, lost, third := plainMachine("wrong"), plainMachine("lost"), plainMachine("third")
	h.must(h.Create(ctx, wrong, driver.Owner{}))
	h.must(h.Create(ctx, lost, driver.Owner{}))
	if err := h.Create(ctx, third, driver.Owner{}); err == nil || !strings.Contains(err.Error(), "insufficient capacity: this host has room for 2 machines (exit code 10)") {
		t.Errorf("a third machine: %v", err)
	}
	late := plainMachine("late")
	late.LateBound = true
	if err := h.Create(ctx, late, driver.Owner{}); err == nil || !strings.Contains(err.Error(), "permanent error: these machines exist before") {
		t.Errorf("a late-bound machine: %v", err)
	}
	h.is("wrong", driver.Idle)
	h.must(h.Configure(ctx, wrong, join("blue", "#!/bin/sh\n[ $1 != join ] || { echo 'no \"such\" cluster' >&2; exit 7; }\n")))
	if o := h.is("wrong", driver.Failed); o.Reason != "join: no such cluster (exit code 7)" {
		t.Errorf("the reason is %q", o.Reason)
	}
	h.must(h.Delete(ctx, wrong))
	h.is("wrong", 0)

	h.is("lost", driver.Idle)
	h.must(h.Configure(ctx, lost, join("blue", seedData)))
	h.is("lost", driver.Configured)
	for _, pid := range h.processes("") {
		h.must(syscall.Kill(pid, syscall.SIGKILL))
	}
	h.is("lost", 0)
	await(t, "nothing is left of a machine that was lost", func() bool {
		h.phases()
		nodes, _ := os.ReadDir(h.cluster)
		left, _ := os.ReadDir(h.machines)
		return len(nodes) == 0 && len(left) == 0
	})
	if err := h.Configure(ctx, lost, join("blue", seedData)); err == nil || !strings.Contains(err.Error(), "its process has ended") {
		t.Errorf("a lost machine is configured: %v", err)
	}
}

// TestProcessesUnderKills: scripts are killed at random moments, and machines. No machine ever
// has two processes, and in the end everything can be removed.
func TestProcessesUnderKills(t *testing.T) {
	seed := *scriptsSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-scripts-seed %d", seed)
	h := newHost(t, "")
	const machines, rounds = 6, 25
	var all sync.WaitGroup
	for i := range machines {
		all.Go(func() { h.torment(rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprintf("m%d", i), rounds) })
	}
	all.Wait()
	for i := range machines {
		m := plainMachine(fmt.Sprintf("m%d", i))
		await(t, m.ID+" is deleted", func() bool { return h.Delete(t.Context(), m) == nil })
	}
	await(t, "nothing is left", func() bool { return len(h.processes("")) == 0 && len(h.phases()) == 0 })
	for _, dir := range []string{h.machines, h.cluster} {
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s holds %v, %v", dir, left, err)
		}
	}
}

// torment has one machine go round, with scripts that are given little time.
func (h *host) torment(rng *rand.Rand, id string, rounds int) {
	m := plainMachine(id)
	for range rounds {
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Duration(rng.IntN(60))*time.Millisecond)
		switch o := h.phases()[id]; o.Phase {
		case 0, driver.Creating:
			_ = h.Create(ctx, m, driver.Owner{})
		case driver.Idle:
			if rng.IntN(4) == 0 {
				_ = h.Delete(ctx, m)
			} else {
				_ = h.Configure(ctx, m, join("blue", seedData))
			}
		case driver.Configuring:
			_ = h.Configure(ctx, m, join("blue", seedData))
		case driver.Configured, driver.Draining:
			_ = h.Drain(ctx, m, time.Now())
		case driver.Deleting, driver.Failed:
			_ = h.Delete(ctx, m)
		}
		cancel()
		pids := h.processes(driver.ObjectName(id, 1))
		if len(pids) > 1 {
			// One that has lost the race for the lock ends by itself.
			await(h.t, id+" has one process", func() bool { return len(h.processes(driver.ObjectName(id, 1))) <= 1 })
		}
		if len(pids) == 1 && rng.IntN(8) == 0 {
			_ = syscall.Kill(pids[0], syscall.SIGKILL)
		}
	}
}

// TestScriptsAreClean: shellcheck has nothing to say.
func TestScriptsAreClean(t *testing.T) {
	if _, err := osexec.LookPath("shellcheck"); err != nil {
		t.Skip("there is no shellcheck; tools/need shellcheck installs it on Debian as root")
	}
	var files []string
	err := filepath.WalkDir(scripts, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasPrefix(string(text), "#!/bin/sh") || strings.HasSuffix(path, ".sh") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 4 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		if out, err := osexec.Command("shellcheck", "-x", "-s", "sh", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}
