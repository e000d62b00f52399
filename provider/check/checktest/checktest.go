// Package checktest holds a provider of pools over a driver to the checks of package check: what `tonnage provider check`
// tries, by the real protocol, over loopback. A driver's own test calls Run with one that makes real machines, or played ones.
//
// Changes take the time that the driver's far end takes, so what must be seen while a change is under way may come too late;
// such checks may be skipped. None may fail.
package checktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/check"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/server"
)

// Options say what is tried.
type Options struct {
	Pools string // the pools file, with one driver
	// Open opens the driver, and opens it anew after the restart of the provider.
	Open func(*pools.Driver) (driver.Driver, error)
	// Cluster is the cluster that machines are bound to. Machines can be bound to one with -2 behind the name too.
	Cluster string
	// Bootstrap is what machines are started with; nil = they can be with anything, and odd data are tried.
	Bootstrap []byte
	// Fail has the Configure fail that follows, of a machine that is observed so; nil = nothing exists of it yet.
	Fail func(context.Context, *driver.Observation) error
	// Vanish has a Configured machine be lost. It is called after Fail.
	Vanish func(context.Context, *driver.Observation) error
	// LateBound says that machines are made by Configure: Create and Delete are done at once.
	LateBound bool
}

const (
	within    = 2 * time.Minute        // of one check
	every     = 200 * time.Millisecond // between two rounds of the provider
	pollEvery = 20 * time.Millisecond
	bootWait  = time.Minute
	// tooLate is in the reason of a check that comes too late for what it must see.
	tooLate = "was done at once"
)

// skips are the checks that do not apply, each with a part of the reason that is said.
func (o *Options) skips() map[string]string {
	out := map[string]string{}
	if o.Bootstrap != nil {
		for _, id := range [...]string{"bootstrap.opaque", "bootstrap.none", "bootstrap.long"} {
			out[id] = "bootstrap data are given"
		}
	}
	if o.LateBound {
		for _, id := range [...]string{"create.repeat-under-way", "delete.repeat-under-way", "create.illegal-under-way", "delete.illegal-under-way"} {
			out[id] = tooLate
		}
	}
	return out
}

// rig is the provider, which can be restarted.
type rig struct {
	t       *testing.T
	o       Options
	dir     string
	file    *pools.File
	address string
	end     func()

	mu     sync.Mutex
	driver driver.Driver
	log    strings.Builder
}

// Write keeps the provider's log.
func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// Run makes all checks.
func Run(t *testing.T, o Options) {
	t.Helper()
	r := &rig{t: t, o: o, dir: t.TempDir(), address: "127.0.0.1:0"}
	path := filepath.Join(r.dir, "pools.yaml")
	r.must(os.WriteFile(path, []byte(o.Pools), 0o600))
	var err error
	r.file, err = pools.Read(path)
	r.must(err)
	r.start()
	t.Cleanup(func() {
		r.end()
		if t.Failed() {
			t.Logf("the provider's log:\n%s", r.log.String())
		}
	})
	conn, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	r.must(err)
	t.Cleanup(func() { _ = conn.Close() })
	x, err := check.New(t.Context(), check.Options{
		Conn: conn, Epoch: 10, Poll: pollEvery, AnswerWithin: check.AnswerWithinMax, Cluster: o.Cluster, Bootstrap: o.Bootstrap,
		Restart: func(context.Context) error { r.end(); r.start(); return nil },
		Fail:    func(ctx context.Context, id string) error { return o.Fail(ctx, r.observed(ctx, id)) },
		Vanish:  func(ctx context.Context, id string) error { return o.Vanish(ctx, r.observed(ctx, id)) },
	})
	r.must(err)
	r.must(x.Begin(t.Context()))
	if n := len(x.Claims()); n < 2 {
		t.Fatalf("%d machines may be used; two are needed at least", n)
	}
	r.tried(check.RunAll(t.Context(), x, check.Checks(), within, nil))
	for _, left := range x.Restore(t.Context()) {
		if !left.Asked && !strings.Contains(left.Why, "held back") && !strings.Contains(left.Why, driver.ErrOutOfStock.Error()) {
			t.Errorf("left: %+v", left)
		}
	}
}

// tried holds results to what is expected.
func (r *rig) tried(all []check.Result) {
	r.t.Helper()
	count, skip := map[check.Status]int{}, r.o.skips()
	for _, got := range all {
		count[got.Status]++
		expected, skips := skip[got.ID]
		switch {
		case got.Status == check.Failed:
			r.t.Errorf("%s: expected %s, saw %s", got.ID, got.Expected, got.Seen)
		case got.Status == check.Passed && skips:
			r.t.Errorf("%s passed, and it does not apply", got.ID)
		case got.Status == check.Skipped && !(skips && strings.Contains(got.Reason, expected)) && !strings.Contains(got.Reason, tooLate):
			r.t.Errorf("%s is skipped: %s", got.ID, got.Reason)
		case got.Status == check.Skipped:
			r.t.Logf("%s is skipped: %s", got.ID, got.Reason)
		}
	}
	r.t.Logf("%d of %d checks passed", count[check.Passed], len(all))
}

// observed returns what the driver observes of a machine, nil = nothing.
func (r *rig) observed(ctx context.Context, id string) (out *driver.Observation) {
	r.mu.Lock()
	d := r.driver
	r.mu.Unlock()
	if err := d.Observe(ctx, func(o *driver.Observation) {
		if o.ID == id {
			kept := *o
			out = &kept
		}
	}); err != nil {
		r.t.Errorf("observe: %v", err)
	}
	return out
}

// Serve runs a provider and serves it on an address of loopback, until end is called. at is the address, with its port.
func Serve(t *testing.T, p *provider.Provider, address string) (at string, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	g := server.New(p, nil).GRPC(nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- p.Run(ctx) }()
	go func() { ended <- g.Serve(l) }()
	return l.Addr().String(), func() {
		cancel()
		g.Stop()
		if err := errors.Join(<-ended, <-ended, p.Close()); err != nil {
			t.Error(err)
		}
	}
}

// start starts the provider, in the folder as it is.
func (r *rig) start() {
	r.t.Helper()
	p, err := provider.Open(provider.Config{
		Dir: r.dir, Pools: r.file, Every: every, Least: pollEvery, Log: slog.New(slog.NewTextHandler(r, nil)),
		Driver: func(d *pools.Driver) (driver.Driver, error) {
			opened, err := r.o.Open(d)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.driver = opened
			return opened, err
		},
	})
	r.must(err)
	r.address, r.end = Serve(r.t, p, r.address)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(bootWait); p.Ready() != nil || p.Len() == 0; <-tick.C {
		if time.Now().After(deadline) {
			r.t.Fatal(fmt.Errorf("the provider is not ready within %v: %w", bootWait, p.Ready()))
		}
	}
}
