package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/provider/simulated/store"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/client"
)

// childVariable makes this test's binary a provider: folder and address.
const childVariable = "TONNAGE_TEST_PROVIDER"

func TestMain(m *testing.M) {
	if dir, address, ok := strings.Cut(os.Getenv(childVariable), "|"); ok {
		child(dir, address)
		return
	}
	os.Exit(m.Run())
}

const crashMachines = 40

func crashSeed(yield func(*model.Machine) bool) {
	for i := range crashMachines {
		if m := machine(fmt.Sprintf("m%02d", i), model.Speculative); !yield(&m) {
			return
		}
	}
}

// child serves until it is killed.
func child(dir, address string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	quick := simulated.Latency{Max: 15 * time.Millisecond, Step: time.Millisecond}
	s, err := store.Open(store.Config{
		Path: filepath.Join(dir, "store"), Seed: crashSeed,
		Latencies: simulated.Latencies{Create: quick, Configure: quick, Drain: quick, Delete: quick},
	})
	if err != nil {
		fail(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		fail(err)
	}
	fmt.Println("serving", l.Addr())
	fail(server.New(s, nil).Serve(context.Background(), l, nil))
}

// kid is a provider in a process of its own.
type kid struct {
	cmd     *exec.Cmd
	address string
}

// spawn starts a provider, and returns when it serves.
func spawn(dir, address string) (*kid, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env = append(os.Environ(), childVariable+"="+dir+"|"+address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, at, ok := strings.Cut(strings.TrimSpace(line), "serving ")
	if err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("the child says %q: %w", line, err), cmd.Process.Kill(), cmd.Wait())
	}
	return &kid{cmd, at}, nil
}

func (k *kid) kill() {
	_ = k.cmd.Process.Signal(syscall.SIGKILL)
	_ = k.cmd.Wait()
}

// pause waits without holding up anything that could end the test.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// worker walks some machines through their states, and holds the provider to
// what it has answered.
type worker struct {
	t       *testing.T
	ctx     context.Context
	client  *client.Client
	rng     *rand.Rand
	answers chan<- struct{} // takes one for each call that was answered
	called  *sync.Map       // machines of which a call was answered
}

// settled waits until a machine is in a state that no transition leaves by
// itself.
func (w *worker) settled(id string) (model.Machine, bool) {
	for w.ctx.Err() == nil {
		rec, err := w.client.Get(w.ctx, id)
		if err == nil {
			switch m := rec.Machine; m.State {
			case model.Speculative, model.Idle, model.Configured, model.Failed:
				return m, true
			}
		}
		pause(w.ctx, 2*time.Millisecond)
	}
	return model.Machine{}, false
}

// step makes the call that is next for a machine. What was answered must show,
// and what was not carried out must not.
func (w *worker) step(id string) {
	before, ok := w.settled(id)
	if !ok {
		return
	}
	var op shard.Op
	var to model.State
	cluster := ""
	switch before.State {
	case model.Speculative:
		op, to = shard.OpCreate, model.Idle
	case model.Idle:
		op, to = shard.OpDelete, model.Speculative
		if w.rng.IntN(4) > 0 {
			op, to, cluster = shard.OpConfigure, model.Configured, "c1"
		}
	case model.Configured:
		op, to = shard.OpDrain, model.Idle
	default:
		w.t.Errorf("%s is %s: %s", id, before.State, before.LastError)
		return
	}
	_, err := do(w.client, op, id)
	after, ok := w.settled(id)
	if !ok {
		return
	}
	moved := after.State == to && after.Cluster == cluster
	switch {
	case err == nil:
		select {
		case w.answers <- struct{}{}:
		default: // nobody counts now
		}
		w.called.Store(id, true)
		if !moved {
			w.t.Errorf("%s of %s was answered, but it is %s in cluster %q", op, id, after.State, after.Cluster)
		}
	case errors.Is(err, shard.ErrUnsent):
		if after.State != before.State {
			w.t.Errorf("%s of %s never left, but it went from %s to %s: %v", op, id, before.State, after.State, err)
		}
	case errors.Is(err, shard.ErrUncertain):
		if !moved && after.State != before.State {
			w.t.Errorf("%s of %s, with no answer, led from %s to %s", op, id, before.State, after.State)
		}
	case w.ctx.Err() == nil:
		w.t.Errorf("%s of %s: %v", op, id, err)
	}
}

// TestKilledAtAnyMoment kills the provider's process again and again while
// shards work with it.
func TestKilledAtAnyMoment(t *testing.T) {
	const kills, workers, answersMin = 12, 8, 5
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	k, err := spawn(dir, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := k.address
	c := dial(t, address, func(o *client.Options) { o.AttemptTimeout, o.Attempts = 2*time.Second, 3 })
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan struct{}, answersMin)
	var all sync.WaitGroup
	var called sync.Map
	for g := range workers {
		w := &worker{t: t, ctx: ctx, client: c, rng: rand.New(rand.NewPCG(seed, uint64(g+2))), answers: answers, called: &called}
		all.Go(func() {
			for ctx.Err() == nil {
				w.step(fmt.Sprintf("m%02d", g+workers*w.rng.IntN(crashMachines/workers)))
			}
		})
	}
	limit := time.After(time.Minute)
	for range kills {
		for range answersMin { // however slow it is today, something is done between two kills
			select {
			case <-answers:
			case <-limit:
				t.Error("hardly any call is answered")
			}
		}
		pause(ctx, time.Duration(rng.IntN(150))*time.Millisecond)
		k.kill()
		if k, err = spawn(dir, address); err != nil {
			cancel()
			all.Wait()
			t.Fatal(err)
		}
	}
	pause(ctx, 200*time.Millisecond)
	cancel()
	all.Wait()
	if c.Fenced() {
		t.Error("the only process of its shard is fenced")
	}
	stale := raw(t, address)
	called.Range(func(id, _ any) bool { // with a newer token than this, or with this one
		_, err := stale.Create(context.Background(), &pb.CreateRequest{MachineId: id.(string), ShardId: "s1", ShardEpoch: 1, SequenceNumber: 1})
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: a token that is long gone: %v", id, err)
		}
		return true
	})
	k.kill()
	checkStore(t, dir)
}

// checkStore holds what is left of a killed provider to the rules of machines.
func checkStore(t *testing.T, dir string) {
	t.Helper()
	s, err := store.Open(store.Config{Path: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Len() != crashMachines {
		t.Errorf("%d machines, want %d", s.Len(), crashMachines)
	}
	err = s.Administer(context.Background(), func(f *simulated.Fleet) error {
		f.Changed(0, func(e *simulated.Entry) bool {
			m := &e.Machine
			if err := m.Validate(true); err != nil {
				t.Error(err)
			}
			if bound := m.State == model.Configuring || m.State == model.Configured || m.State == model.Draining; bound != (len(e.Metadata) == 2) {
				t.Errorf("%s is %s with metadata %q", m.ID, m.State, e.Metadata)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
