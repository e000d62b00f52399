package client_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated/store"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/client"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

func machine(id string, s model.State) model.Machine {
	m := model.Machine{
		ID: id, State: s, InstanceType: "t", Zone: "z", CapacityType: model.OnDemand, PricePerHour: 1,
		Resources: model.NewResources(model.Amount{Name: "cpu", Value: 4000}), Labels: map[string]string{"rack": "r-" + id},
	}
	if s == model.Configured || s == model.Draining || s == model.Configuring {
		m.Cluster = "c1"
	}
	return m
}

// process is a provider as it runs, with its store and address.
type process struct {
	t       *testing.T
	store   *store.Store
	server  *server.Server
	grpc    *grpc.Server
	address string
}

// start starts a provider; the address "" takes a free port.
func start(t *testing.T, cfg store.Config, address string) *process {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "store")
	}
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, store: s, server: server.New(s, nil)}
	p.grpc = p.server.GRPC(nil)
	p.address = listen(t, p.grpc, address)
	t.Cleanup(p.end)
	return p
}

func (p *process) end() {
	p.grpc.Stop()
	if err := p.store.Close(); err != nil {
		p.t.Error(err)
	}
}

// listen serves on loopback until the test ends, and returns the address.
func listen(t testing.TB, g *grpc.Server, address string) string {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func machines(ms ...model.Machine) func(func(*model.Machine) bool) {
	return func(yield func(*model.Machine) bool) {
		for i := range ms {
			if !yield(&ms[i]) {
				return
			}
		}
	}
}

func openEpoch(t testing.TB, dir string) *epoch.File {
	t.Helper()
	e, err := epoch.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// dial returns a client of shard s1 that is quick to try again.
func dial(t *testing.T, address string, change func(*client.Options)) *client.Client {
	t.Helper()
	o := client.Options{Address: address, Shard: "s1", Cursors: true, Backoff: time.Millisecond, CallTimeout: 20 * time.Second}
	if change != nil {
		change(&o)
	}
	if o.Epoch == nil {
		o.Epoch = openEpoch(t, t.TempDir())
	}
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// do makes a call by its name.
func do(c shard.Provider, op shard.Op, id string) (shard.Record, error) {
	ctx := context.Background()
	switch op {
	case shard.OpCreate:
		return c.Create(ctx, shard.CreateRequest{Machine: id, Metadata: map[string]string{"stays": "here"}})
	case shard.OpConfigure:
		return c.Configure(ctx, shard.ConfigureRequest{Machine: id, Cluster: "c1", Blob: []byte("\x00blob"), Metadata: map[string]string{"k": "v\x00", "": ""}})
	case shard.OpDrain:
		return c.Drain(ctx, shard.DrainRequest{Machine: id, GraceSeconds: 30, Metadata: map[string]string{"stays": "here"}})
	}
	return c.Delete(ctx, shard.DeleteRequest{Machine: id})
}

// listed is a listing, read.
type listed struct {
	records  map[string]shard.Record
	full     bool
	revision []byte
	refused  int
}

func list(t *testing.T, c shard.Provider, since []byte) listed {
	t.Helper()
	l, err := c.List(context.Background(), shard.ListRequest{SinceRevision: since})
	if err != nil {
		t.Fatal(err)
	}
	out := listed{records: map[string]shard.Record{}, full: l.Full, revision: l.Revision}
	for i := range l.Batch.Len() {
		rec, err := l.Batch.Record(i)
		if err != nil {
			out.refused++
			continue
		}
		out.records[rec.Machine.ID] = *rec
	}
	return out
}

func (l *listed) ids() (out []string) {
	for id := range l.records {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func TestACycleOfAMachine(t *testing.T) {
	p := start(t, store.Config{Seed: machines(machine("m", model.Speculative))}, "")
	c := dial(t, p.address, nil)
	for _, step := range []struct {
		op      shard.Op
		state   model.State
		cluster string
		echo    int
	}{
		{shard.OpCreate, model.Idle, "", 0}, {shard.OpConfigure, model.Configured, "c1", 2},
		{shard.OpDrain, model.Idle, "", 0}, {shard.OpDelete, model.Speculative, "", 0},
	} {
		rec, err := do(c, step.op, "m")
		if err != nil {
			t.Fatal(err)
		}
		m := rec.Machine
		if m.State != step.state || m.Cluster != step.cluster || len(rec.Metadata) != step.echo {
			t.Errorf("%s: answered %+v with metadata %q", step.op, m, rec.Metadata)
		}
		if err := m.Validate(true); err != nil {
			t.Errorf("%s: %v", step.op, err)
		}
		again, err := do(c, step.op, "m")
		if err != nil || again.Machine.State != step.state {
			t.Errorf("%s again: %s, %v", step.op, again.Machine.State, err)
		}
		l := list(t, c, nil)
		if got := l.records["m"]; got.Machine.State != step.state || len(got.Metadata) != step.echo || step.echo > 0 && got.Metadata["k"] != "v\x00" {
			t.Errorf("%s: listed %+v with metadata %q", step.op, got.Machine, got.Metadata)
		}
		if got, err := c.Get(context.Background(), "m"); err != nil || got.Machine.State != step.state || got.Machine.Labels["rack"] != "r-m" {
			t.Errorf("%s: got %+v, %v", step.op, got.Machine, err)
		}
	}
}

func TestWhatErrorsSay(t *testing.T) {
	p := start(t, store.Config{Seed: machines(machine("m", model.Speculative))}, "")
	c := dial(t, p.address, func(o *client.Options) { o.Attempts = 2 })
	classes := []error{shard.ErrFenced, shard.ErrUnsent, shard.ErrUncertain, shard.ErrNoMachine}
	trouble := func(x ...server.Trouble) {
		t.Helper()
		if err := p.server.SetTrouble(x); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, err error, want error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: no error", what)
		}
		for _, class := range classes {
			if wanted := errors.Is(want, class); errors.Is(err, class) != wanted {
				t.Errorf("%s: %v; want %v only", what, err, want)
			}
		}
	}
	_, err := do(c, shard.OpCreate, "nobody")
	check("no machine", err, shard.ErrNoMachine)
	_, err = c.Get(context.Background(), "nobody")
	check("get no machine", err, shard.ErrNoMachine)
	_, err = do(c, shard.OpDrain, "m")
	check("wrong position", err, nil)
	_, err = c.Configure(context.Background(), shard.ConfigureRequest{Machine: "m"})
	check("no cluster", err, nil)

	trouble(server.Trouble{Kind: server.Refuse, Method: "Create", Times: 2})
	_, err = do(c, shard.OpCreate, "m")
	check("nobody answers", err, shard.ErrUncertain)
	trouble(server.Trouble{Kind: server.Lose, Method: "Create", Times: 1})
	if rec, err := do(c, shard.OpCreate, "m"); err != nil || rec.Machine.State != model.Idle {
		t.Errorf("a lost answer: %+v, %v", rec.Machine, err)
	}
	trouble(server.Trouble{Kind: server.Lose, Method: "Configure", Times: 2})
	_, err = do(c, shard.OpConfigure, "m")
	check("all answers lost", err, shard.ErrUncertain)
	if rec, err := do(c, shard.OpConfigure, "m"); err != nil || rec.Machine.State != model.Configured {
		t.Errorf("asked again: %+v, %v", rec.Machine, err)
	}
	trouble(server.Trouble{Kind: server.Slow, Method: "Drain", Times: 1, Delay: time.Hour})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = c.Drain(ctx, shard.DrainRequest{Machine: "m"})
	check("too slow", err, shard.ErrUncertain)

	done, cancelled := context.WithCancel(context.Background())
	cancelled()
	_, err = c.Drain(done, shard.DrainRequest{Machine: "m"})
	check("called off before", err, shard.ErrUnsent)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = do(dial(t, l.Addr().String(), nil), shard.OpDrain, "m")
	check("nobody there", err, shard.ErrUnsent)
}

// TestAnAttemptThatHangsIsTriedAgain: a provider that does not answer one
// attempt gets another one, with a newer token.
func TestAnAttemptThatHangsIsTriedAgain(t *testing.T) {
	p := start(t, store.Config{Seed: machines(machine("m", model.Speculative))}, "")
	c := dial(t, p.address, func(o *client.Options) { o.AttemptTimeout = 50 * time.Millisecond })
	if err := p.server.SetTrouble([]server.Trouble{{Kind: server.Slow, Method: "Create", Times: 2, Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if rec, err := do(c, shard.OpCreate, "m"); err != nil || rec.Machine.State != model.Idle {
		t.Errorf("%+v, %v", rec.Machine, err)
	}
}

func TestOptionsNameEveryFault(t *testing.T) {
	_, err := client.New(client.Options{Attempts: client.AttemptsMax + 1, Backoff: -1})
	for _, want := range []string{"address:", "shard:", "epoch:", "attempts:", "backoff:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in: %v", want, err)
		}
	}
}
