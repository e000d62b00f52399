package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

// TestZombie: two processes act as one shard. The one with the older epoch stops
// as soon as the provider refuses it, no machine is Failed for it, and it goes on
// when whoever looks after it has raised its epoch.
func TestZombie(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := freeport.Take(t)
	processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=10ms", "--seed-machines=6")
	st := openStore(t, at)
	shardAt := func(name, epoch string) (*processtest.Process, string) {
		data, sessions := filepath.Join(dir, name), freeport.Take(t)
		if err := os.MkdirAll(data, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "epoch"), []byte(epoch), 0o644); err != nil {
			t.Fatal(err)
		}
		return processtest.Start(t, "shard", "--id=shard-7", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+data, "--cycle-interval=100ms"), sessions
	}
	bound := func(cluster string) (n int) {
		for _, m := range st.machines() {
			if m.State == pb.MachineState_MACHINE_STATE_CONFIGURED && m.Cluster == cluster {
				n++
			}
		}
		return n
	}
	newer, newerSessions := shardAt("newer", "40")
	connect(t, newerSessions, time.Second, []string{"c1"}).clusters[0].demands(machinesNeed(3))
	processtest.Eventually(t, patience, "the newer process binds", func() bool { return bound("c1") == 3 })
	newer.Kill() // it is the older one's turn to look after c1

	older, olderSessions := shardAt("older", "7")
	fleet := connect(t, olderSessions, time.Second, []string{"c1", "c2"})
	fleet.clusters[0].demands(machinesNeed(2)) // one is to be reclaimed
	processtest.Eventually(t, patience, "the older process is fenced", func() bool { return older.Metric("bigfleet_shard_actuation_paused") == 1 })
	fleet.clusters[1].demands(machinesNeed(1))
	processtest.Eventually(t, patience, "it decides, and carries nothing out", func() bool {
		return older.Metric("bigfleet_shard_actions_suppressed_total", `kind="Bootstrap"`) > 3
	})
	if n := older.Metric("bigfleet_shard_inventory_machines", `state="Failed"`); n != 0 || bound("c1") != 3 || bound("c2") != 0 {
		t.Errorf("fenced: %v machines Failed, c1 has %d, c2 has %d", n, bound("c1"), bound("c2"))
	}
	if n := older.Metric("bigfleet_shard_action_execute_outcomes_total", `outcome="fenced"`); n < 1 {
		t.Errorf("%v calls were fenced", n)
	}
	st.check()

	if err := os.WriteFile(filepath.Join(dir, "older", "epoch"), []byte("50"), 0o644); err != nil {
		t.Fatal(err)
	}
	processtest.Eventually(t, patience, "it goes on with a newer epoch", func() bool { return bound("c1") == 2 && bound("c2") == 1 })
	if epoch := older.Metric("tonnage_shard_epoch"); epoch != 51 {
		t.Errorf("its epoch is %v", epoch)
	}
	processtest.Eventually(t, patience, "sessions that were open hear of the epoch with the next roll-up", func() bool { return fleet.clusters[0].epoch("rollup") == 51 })
	if epoch := fleet.clusters[0].epoch("hello"); epoch != 8 {
		t.Errorf("a session that began before was greeted with epoch %d, want 8", epoch)
	}
	fleet.cutAll()
	processtest.Eventually(t, patience, "those that begin hear of it at once", func() bool {
		return fleet.clusters[0].epoch("hello") == 51 && fleet.clusters[1].epoch("hello") == 51
	})
	st.check()
}

// TestFrozenReplacedWoken: a process is stopped in its tracks, another one takes its place with a
// copy of its epoch, and the first one goes on: it binds nothing more, not even machines that
// its successor has not touched.
func TestFrozenReplacedWoken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := freeport.Take(t)
	processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=10ms", "--seed-machines=40")
	st := openStore(t, at)
	shardIn := func(name string) (*processtest.Process, *operator) {
		sessions := freeport.Take(t)
		p := processtest.Start(t, "shard", "--id=shard-7", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, name), "--cycle-interval=100ms")
		return p, connect(t, sessions, 200*time.Millisecond, []string{name}).clusters[0]
	}
	bound := func(cluster string) (n int) {
		for _, m := range st.machines() {
			if m.State == pb.MachineState_MACHINE_STATE_CONFIGURED && m.Cluster == cluster {
				n++
			}
		}
		return n
	}
	old, served := shardIn("old")
	served.demands(machinesNeed(3))
	processtest.Eventually(t, patience, "the first process binds", func() bool { return bound("old") == 3 })
	epoch, err := os.ReadFile(filepath.Join(dir, "old", "epoch"))
	if err != nil {
		t.Fatal(err)
	}
	old.Signal(syscall.SIGSTOP)
	if err := os.MkdirAll(filepath.Join(dir, "new"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new", "epoch"), epoch, 0o600); err != nil {
		t.Fatal(err)
	}
	_, other := shardIn("new")
	other.demands(machinesNeed(2))
	processtest.Eventually(t, patience, "its successor binds", func() bool { return bound("new") == 2 })
	served.demands(machinesNeed(23))
	old.Signal(syscall.SIGCONT)
	processtest.Eventually(t, patience, "the first process stops acting", func() bool { return old.Metric("bigfleet_shard_actuation_paused") == 1 })
	processtest.Eventually(t, patience, "what had begun has ended", st.atRest)
	if n := bound("old"); n != 3 {
		t.Errorf("it has bound %d machines, want the 3 of before", n)
	}
	if n := bound("new"); n != 2 {
		t.Errorf("its successor has %d machines, want 2", n)
	}
	st.check()
}

// TestTheCoordinatorTellsWhoIsReplaced: two processes act as one shard, over providers of their
// own that fence nobody. The one with the older epoch stops when the coordinator has heard of the
// newer one, and the newer one does not.
func TestTheCoordinatorTellsWhoIsReplaced(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), freeport.Take(t)
	processtest.Start(t, "coordinator", "--bootstrap", "--listen="+at, "--raft-bind="+freeport.Take(t), "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "coordinator"))
	shardAt := func(epoch string) *processtest.Process {
		data := filepath.Join(dir, epoch)
		if err := os.MkdirAll(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "epoch"), []byte(epoch), 0o600); err != nil {
			t.Fatal(err)
		}
		return processtest.Start(t, "shard", "--id=shard-7", "--seed-machines=4", "--listen="+freeport.Take(t), "--metrics-addr="+freeport.Take(t),
			"--data-dir="+data, "--cycle-interval=100ms", "--coordinator-addr="+at, "--coordinator-heartbeat-interval=100ms")
	}
	older := shardAt("4")
	// A folder with an epoch and nothing else has lost its domains: the coordinator confirms them.
	acts := func(p *processtest.Process) func() bool {
		return func() bool {
			return p.Get("/readyz") != "" && p.Metric("tonnage_shard_reports_total", `outcome="success"`) > 0 && p.Metric("bigfleet_shard_actuation_paused") == 0
		}
	}
	processtest.Eventually(t, patience, "the older process is heard and acts", acts(older))
	newer := shardAt("8")
	processtest.Eventually(t, patience, "the older process stops", func() bool { return older.Metric("bigfleet_shard_actuation_paused") == 1 })
	processtest.Eventually(t, patience, "the newer process acts", acts(newer))
	if older.Metric("bigfleet_shard_actuation_paused") != 1 || older.Metric("tonnage_shard_domains_lost") != 0 {
		t.Error("the older process goes on, or has stopped for another reason")
	}
}
