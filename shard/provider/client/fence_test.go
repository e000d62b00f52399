package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated/store"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/client"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

// raw returns the generated client, for calls that ours does not make.
func raw(t *testing.T, address string) pb.CapacityProviderClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewCapacityProviderClient(conn)
}

// copyOf returns another folder with the same epoch, as of a machine that was
// cloned.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "epoch"))
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "epoch"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return other
}

// TestAReplacedProcessIsFencedOff: from the moment that its successor has
// touched a machine, the older process changes nothing there, and stops.
func TestAReplacedProcessIsFencedOff(t *testing.T) {
	p := start(t, store.Config{Seed: machines(machine("a", model.Speculative), machine("b", model.Speculative))}, "")
	dir := t.TempDir()
	old := dial(t, p.address, func(o *client.Options) { o.Epoch = openEpoch(t, dir) })
	if _, err := do(old, shard.OpCreate, "a"); err != nil {
		t.Fatal(err)
	}
	successor := dial(t, p.address, func(o *client.Options) { o.Epoch = openEpoch(t, copyOf(t, dir)) })
	if _, err := do(successor, shard.OpConfigure, "a"); err != nil {
		t.Fatal(err)
	}
	// A repeat of what is done already would be a success; a replaced process
	// does not learn that. Nor does it learn what exists.
	for _, id := range []string{"a", "a"} {
		if _, err := do(old, shard.OpDrain, id); !errors.Is(err, shard.ErrFenced) || errors.Is(err, shard.ErrUncertain) {
			t.Errorf("drain by the old process: %v", err)
		}
	}
	if got := list(t, old, nil).records["a"].Machine.State; got != model.Configured {
		t.Errorf("a is %s", got)
	}
	// b was never touched by the successor: the old process itself holds back.
	if _, err := do(old, shard.OpCreate, "b"); !errors.Is(err, shard.ErrFenced) || !old.Fenced() {
		t.Errorf("create by the old process: %v", err)
	}
	if got := list(t, successor, nil).records["b"].Machine.State; got != model.Speculative {
		t.Errorf("b is %s", got)
	}
	if successor.Fenced() {
		t.Error("the successor is fenced")
	}
}

// TestRenewGoesOnAboveTheProvidersEpoch: a shard whose folder was lost is
// fenced until somebody writes the epoch that the provider knows.
func TestRenewGoesOnAboveTheProvidersEpoch(t *testing.T) {
	p := start(t, store.Config{Seed: machines(machine("m", model.Speculative))}, "")
	before := t.TempDir()
	for range 6 {
		e, err := epoch.Open(before)
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
	}
	if _, err := do(dial(t, p.address, func(o *client.Options) { o.Epoch = openEpoch(t, before) }), shard.OpCreate, "m"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := dial(t, p.address, func(o *client.Options) { o.Epoch = openEpoch(t, dir) })
	if err := c.Renew(context.Background()); err != nil {
		t.Errorf("nothing is wrong yet: %v", err)
	}
	_, err := do(c, shard.OpConfigure, "m")
	if !errors.Is(err, shard.ErrFenced) || !strings.Contains(err.Error(), "epoch 7") {
		t.Errorf("after the folder is lost: %v; want the epoch that is known named", err)
	}
	if err := c.Renew(context.Background()); err == nil || !c.Fenced() {
		t.Error("renewed without a newer epoch")
	}
	if err := os.WriteFile(filepath.Join(dir, "epoch"), []byte("7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.Renew(context.Background()); err != nil || c.Fenced() {
		t.Errorf("renew: %v", err)
	}
	if _, err := do(c, shard.OpConfigure, "m"); err != nil {
		t.Errorf("with epoch 8: %v", err)
	}
}

// TestLateAndRepeatedAttempts: what arrives behind its time is refused, whatever
// the state of the machine would allow.
func TestLateAndRepeatedAttempts(t *testing.T) {
	p := start(t, store.Config{Seed: machines(machine("m", model.Idle), machine("n", model.Configured))}, "")
	c, ctx := raw(t, p.address), context.Background()
	configure := func(id, shardID string, epoch, seq int64) error {
		_, err := c.Configure(ctx, &pb.ConfigureRequest{MachineId: id, ClusterId: "c", ShardId: shardID, ShardEpoch: epoch, SequenceNumber: seq})
		return err
	}
	drain := func(id string, epoch, seq int64) error {
		_, err := c.Drain(ctx, &pb.DrainRequest{MachineId: id, ShardId: "s", ShardEpoch: epoch, SequenceNumber: seq})
		return err
	}
	create := func(id string, epoch, seq int64) error {
		_, err := c.Create(ctx, &pb.CreateRequest{MachineId: id, ShardId: "s", ShardEpoch: epoch, SequenceNumber: seq})
		return err
	}
	for _, step := range []struct {
		what string
		err  error
		want codes.Code
	}{
		{"first contact", configure("m", "s", 3, 10), codes.OK},
		{"the same attempt again", configure("m", "s", 3, 10), codes.FailedPrecondition},
		{"an older attempt of another call", drain("m", 3, 9), codes.FailedPrecondition},
		{"an older process", drain("m", 2, 99), codes.FailedPrecondition},
		{"a repeat with a new token", configure("m", "s", 3, 11), codes.OK},
		{"a newer process begins at one", configure("m", "s", 4, 1), codes.OK},
		{"no such machine, first contact", drain("x", 3, 1), codes.NotFound},
		{"no such machine, late", drain("x", 3, 1), codes.FailedPrecondition},
		{"a call of the wrong position", create("n", 5, 5), codes.Internal},
		{"a refused one counts all the same", configure("n", "s", 5, 5), codes.FailedPrecondition},
		{"another shard has its own tokens", configure("m", "s2", 1, 1), codes.OK},
		{"no token at all", configure("m", "", 0, 0), codes.OK},
		{"no shard", configure("m", "", 1, 1), codes.InvalidArgument},
		{"a negative epoch is a low one", configure("m", "s", -1, 1), codes.FailedPrecondition},
	} {
		if got := status.Code(step.err); got != step.want {
			t.Errorf("%s: %s, want %s (%v)", step.what, got, step.want, step.err)
		}
	}
}

// TestTokensOutliveTheProvider: a replaced process is not let in again because
// the provider was restarted.
func TestTokensOutliveTheProvider(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	seed := machines(machine("m", model.Speculative))
	p := start(t, store.Config{Path: path, Seed: seed}, "")
	dir := t.TempDir()
	old := dial(t, p.address, func(o *client.Options) { o.Epoch = openEpoch(t, dir) })
	successor := dial(t, p.address, func(o *client.Options) { o.Epoch = openEpoch(t, copyOf(t, dir)) })
	if _, err := do(successor, shard.OpCreate, "m"); err != nil {
		t.Fatal(err)
	}
	p.end()
	start(t, store.Config{Path: path, Seed: seed}, p.address)
	if _, err := do(old, shard.OpConfigure, "m"); !errors.Is(err, shard.ErrFenced) {
		t.Errorf("got %v", err)
	}
	if _, err := do(successor, shard.OpConfigure, "m"); err != nil {
		t.Errorf("the successor: %v", err)
	}
}

// TestOneCallAMachine: many callers at once, with answers that get lost, are
// never taken for a replaced process.
func TestOneCallAMachine(t *testing.T) {
	var ms []model.Machine
	for i := range 8 {
		ms = append(ms, machine(fmt.Sprint("m", i), model.Speculative))
	}
	p := start(t, store.Config{Seed: machines(ms...)}, "")
	if err := p.server.SetTrouble([]server.Trouble{
		{Kind: server.Lose, Method: server.MethodAny, Probability: 0.2}, {Kind: server.Refuse, Method: server.MethodAny, Probability: 0.1},
	}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, p.address, func(o *client.Options) { o.Attempts = 20 })
	var callers sync.WaitGroup
	for g := range 24 {
		callers.Go(func() {
			for k := range 5 {
				id := fmt.Sprint("m", (g+k)%8)
				if rec, err := do(c, shard.OpCreate, id); err != nil || rec.Machine.ID != id || rec.Machine.State != model.Idle {
					t.Errorf("%s: %+v, %v", id, rec.Machine, err)
				}
			}
		})
	}
	callers.Wait()
}

// TestAReplacedProcessTouchesNoOtherMachine: our clients have their epoch held against the whole
// shard, also by a provider that was restarted; without that metadata each machine is fenced by
// itself, as the protocol says.
func TestAReplacedProcessTouchesNoOtherMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	cfg := store.Config{Path: path, Seed: machines(machine("m0", model.Speculative), machine("m1", model.Speculative), machine("m2", model.Speculative), machine("m3", model.Speculative))}
	p := start(t, cfg, "")
	dir := t.TempDir()
	old := dial(t, p.address, func(o *client.Options) { o.Epoch = openEpoch(t, dir) })
	if _, err := do(old, shard.OpCreate, "m0"); err != nil {
		t.Fatal(err)
	}
	successor := dial(t, p.address, func(o *client.Options) { o.Epoch = openEpoch(t, copyOf(t, dir)) })
	if _, err := do(successor, shard.OpCreate, "m1"); err != nil {
		t.Fatal(err)
	}
	p.end()
	p = start(t, cfg, p.address)
	if _, err := do(old, shard.OpCreate, "m2"); !errors.Is(err, shard.ErrFenced) {
		t.Errorf("the old process, which wakes up, creates another machine: %v", err)
	}
	if _, err := do(successor, shard.OpConfigure, "m0"); err != nil {
		t.Errorf("the successor is fenced on a machine of the old process: %v", err)
	}
	plain := raw(t, p.address)
	_, err := plain.Create(t.Context(), &pb.CreateRequest{MachineId: "m3", ShardId: "s1", ShardEpoch: 1, SequenceNumber: 99})
	if err != nil {
		t.Errorf("without the metadata the fence is not that of the machine: %v", err)
	}
}
