package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/simulated/cloud"
)

// childVariable makes this test's binary the command itself.
const childVariable = "TONNAGE_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// child is the command in a process of its own.
type child struct {
	cmd     *exec.Cmd
	address string
	metrics string
}

// command is serve, which is to be started. Its log goes into a file in dir.
func command(t *testing.T, dir, listen string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	cmd := exec.Command(self, append([]string{"serve", "--pools", filepath.Join(dir, "pools.yaml"), "--data-dir", dir, "--listen", listen, "--metrics-addr", "0"}, args...)...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = log
	return cmd
}

// spawn starts serve, and returns when it serves.
func spawn(t *testing.T, dir, listen string, args ...string) *child {
	t.Helper()
	cmd := command(t, dir, listen, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, ok := strings.Cut(line, " so far, on ")
	address, rest, _ := strings.Cut(rest, ",")
	if err != nil || !ok {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		said, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("the command says %q: %v\n%s", line, err, said)
	}
	_, metrics, _ := strings.Cut(strings.TrimSpace(rest), "metrics on ")
	return &child{cmd, address, metrics}
}

func (c *child) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL)
	_ = c.cmd.Wait()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

const crashPools = `drivers:
- {name: sim, kind: simulated, launchesPerMinute: 60000, launchBurst: 1000, config: {create: 20ms, configure: 20ms, drain: 20ms, delete: 20ms}}
pools:
- {name: early, driver: sim, machines: 12, freeSlots: 12, zones: [a], types: [{name: t, resources: {cpu: 2}, prices: [{capacityType: OnDemand, pricePerHour: 1}]}]}
- {name: late, driver: sim, lateBound: true, machines: 12, freeSlots: 12, zones: [a], types: [{name: t, resources: {cpu: 2}, prices: [{capacityType: OnDemand, pricePerHour: 1}]}]}
`

// walker moves some machines through their states, and holds the provider to what it has answered.
type walker struct {
	t      *testing.T
	client pb.CapacityProviderClient
	rng    *rand.Rand
	shard  string
	tokens int64
	acked  int
}

// settled waits until a machine is in a state that no change leaves by itself.
func (w *walker) settled(ctx context.Context, id string) *pb.Machine {
	for ctx.Err() == nil {
		m, err := w.client.Get(ctx, &pb.MachineRef{Id: id})
		if err == nil {
			switch m.GetState() {
			case pb.MachineState_MACHINE_STATE_SPECULATIVE, pb.MachineState_MACHINE_STATE_IDLE, pb.MachineState_MACHINE_STATE_CONFIGURED, pb.MachineState_MACHINE_STATE_FAILED:
				return m
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nil
}

// step makes one change of a machine, and has it be where the change leads in the end, once it was acknowledged.
func (w *walker) step(ctx context.Context, id string) {
	m := w.settled(ctx, id)
	if m == nil {
		return
	}
	w.tokens++
	cluster := "c" + strconv.Itoa(w.rng.IntN(3))
	var call func() (*pb.TransitionAck, error)
	to := pb.MachineState_MACHINE_STATE_IDLE
	switch bound := w.rng.IntN(3) > 0; {
	case m.GetState() == pb.MachineState_MACHINE_STATE_SPECULATIVE:
		call = func() (*pb.TransitionAck, error) {
			return w.client.Create(ctx, &pb.CreateRequest{MachineId: id, ShardId: w.shard, ShardEpoch: 1, SequenceNumber: w.tokens})
		}
	case m.GetState() == pb.MachineState_MACHINE_STATE_IDLE && bound:
		to = pb.MachineState_MACHINE_STATE_CONFIGURED
		call = func() (*pb.TransitionAck, error) {
			return w.client.Configure(ctx, &pb.ConfigureRequest{MachineId: id, ClusterId: cluster, BootstrapBlob: []byte("b"), ShardId: w.shard, ShardEpoch: 1, SequenceNumber: w.tokens, ShardMetadata: map[string]string{"to": cluster}})
		}
	case m.GetState() == pb.MachineState_MACHINE_STATE_IDLE:
		to = pb.MachineState_MACHINE_STATE_SPECULATIVE
		call = func() (*pb.TransitionAck, error) {
			return w.client.Delete(ctx, &pb.DeleteRequest{MachineId: id, ShardId: w.shard, ShardEpoch: 1, SequenceNumber: w.tokens})
		}
	default:
		call = func() (*pb.TransitionAck, error) {
			return w.client.Drain(ctx, &pb.DrainRequest{MachineId: id, ShardId: w.shard, ShardEpoch: 1, SequenceNumber: w.tokens})
		}
	}
	if _, err := call(); err != nil {
		return // it may have been carried out all the same
	}
	w.acked++
	if got := w.settled(ctx, id); got != nil && (got.GetState() != to || to == pb.MachineState_MACHINE_STATE_CONFIGURED && (got.GetCluster() != cluster || got.GetShardMetadata()["to"] != cluster)) {
		w.t.Errorf("machine %s was acknowledged to become %v for %s, and is %v for %q (%s)", id, to, cluster, got.GetState(), got.GetCluster(), got.GetLastError())
	}
}

// kills is how many times the provider is killed: 5, or what TONNAGE_KILLS says.
func kills(t *testing.T) int {
	text := os.Getenv("TONNAGE_KILLS")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("TONNAGE_KILLS=%q is no number of kills", text)
	}
	return n
}

// TestKilledAtRandomMoments: what was acknowledged comes true, every object has a machine and every machine an object, and none
// has two, however often the process is killed.
func TestKilledAtRandomMoments(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pools.yaml"), []byte(crashPools), 0o600); err != nil {
		t.Fatal(err)
	}
	c := spawn(t, dir, "127.0.0.1:0")
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := pb.NewCapacityProviderClient(conn)
	ids := slotsOf(t, client, 24)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	walkers := make([]*walker, 8)
	for i := range walkers {
		w := &walker{t: t, client: client, rng: rand.New(rand.NewPCG(seed, uint64(i+2))), shard: fmt.Sprintf("s%d", i)}
		walkers[i] = w
		mine := ids[3*i : 3*i+3]
		all.Go(func() {
			for ctx.Err() == nil {
				w.step(ctx, mine[w.rng.IntN(len(mine))])
			}
		})
	}
	n := kills(t)
	for range n {
		pause(ctx, time.Duration(rng.IntN(1500))*time.Millisecond)
		c.kill()
		c = spawn(t, dir, c.address, "--standby")
	}
	pause(ctx, 2*time.Second)
	cancel()
	all.Wait()
	acked := 0
	last := &walker{t: t, client: client}
	machines := map[string]*pb.Machine{}
	wait, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for _, id := range ids {
		if machines[id] = last.settled(wait, id); machines[id] == nil {
			t.Fatalf("machine %s does not settle", id)
		}
	}
	for _, w := range walkers {
		acked += w.acked
	}
	pause(wait, 2*time.Second)
	c.kill()
	account(t, dir, machines)
	t.Logf("%d kills, %d calls acknowledged", n, acked)
	if acked < n {
		t.Errorf("only %d calls were acknowledged over %d kills", acked, n)
	}
}

// slotsOf waits until there are so many slots.
func slotsOf(t *testing.T, client pb.CapacityProviderClient, n int) (ids []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for len(ids) < n {
		ids = ids[:0]
		l, err := client.List(ctx, &pb.ListFilter{})
		if err := errors.Join(err, ctx.Err()); err != nil {
			t.Fatal(err)
		}
		for _, m := range l.GetMachines() {
			ids = append(ids, m.GetId())
		}
		pause(ctx, 20*time.Millisecond)
	}
	return ids
}

// earlyOf returns a slot that becomes a machine with Create.
func earlyOf(ids []string) string {
	return ids[slices.IndexFunc(ids, func(id string) bool { return strings.HasPrefix(id, "early-") })]
}

// account compares what the provider said with what exists in the cloud.
func account(t *testing.T, dir string, machines map[string]*pb.Machine) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "simulated-*.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of the cloud: %q, %v", files, err)
	}
	objects, err := cloud.Open(cloud.Config{File: files[0]}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	seen := map[string]int{}
	err = objects.Observe(t.Context(), func(o *driver.Observation) {
		seen[o.ID]++
		m := machines[o.ID]
		if m.GetCluster() != o.Cluster || o.Phase != driver.Idle && o.Phase != driver.Configured {
			t.Errorf("object %s/%d is %v for %q, and listed as %v for %q", o.ID, o.Generation, o.Phase, o.Cluster, m.GetState(), m.GetCluster())
		}
	})
	if err != nil {
		t.Error(err)
	}
	for id, m := range machines {
		want := 1
		if m.GetState() == pb.MachineState_MACHINE_STATE_SPECULATIVE || m.GetState() == pb.MachineState_MACHINE_STATE_IDLE && strings.HasPrefix(id, "late-") {
			want = 0
		}
		if seen[id] != want {
			t.Errorf("machine %s is %v, and %d objects exist of it", id, m.GetState(), seen[id])
		}
		if m.GetState() == pb.MachineState_MACHINE_STATE_FAILED {
			t.Errorf("machine %s failed: %s", id, m.GetLastError())
		}
	}
}
