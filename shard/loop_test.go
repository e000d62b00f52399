package shard_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// patience is how long a test waits for what goes on beside it.
const patience = 20 * time.Second

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			t.Fatal("it does not come to pass")
		}
		select {
		case <-t.Context().Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// counter can be waited on.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
}

func (c *counter) value() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counter) wait(t *testing.T, n int) {
	t.Helper()
	waitFor(t, func() bool { return c.value() >= n })
}

// gate holds up Configure until it is opened.
type gate struct {
	shard.Provider
	entered counter
	inside  counter
	most    counter
	opened  chan struct{}
	once    sync.Once
}

func (g *gate) Configure(ctx context.Context, req shard.ConfigureRequest) (shard.Record, error) {
	g.entered.add(1)
	g.inside.add(1)
	defer g.inside.add(-1)
	if now := g.inside.value(); now > g.most.value() {
		g.most.add(now - g.most.value())
	}
	select {
	case <-g.opened:
	case <-ctx.Done():
		return shard.Record{}, ctx.Err()
	}
	return g.Provider.Configure(ctx, req)
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// gatedWorld is a world with workers whose Configure calls wait for the gate.
// Its loop makes one cycle at once, and one whenever the test wakes it.
func gatedWorld(t *testing.T, ms []model.Machine, options ...option) (*world, *gate) {
	g := &gate{opened: make(chan struct{})}
	t.Cleanup(g.open)
	w := newWorld(t, ms, append([]option{func(c *shard.Config, _ *shard.Deps, _ *provCfg) {
		c.Concurrency, c.CycleInterval = 4, time.Hour
	}}, options...)...)
	g.Provider = w.fleet
	w.deps.Provider = g
	w.restart()
	return w, g
}

// run starts the loop; the result stops it and waits for its end.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.shard.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

// TestWorkersBindEverything: more actions than the queue takes are carried out
// in the end, with no more calls at a time than there are workers.
func TestWorkersBindEverything(t *testing.T) {
	w, g := gatedWorld(t, machines(100, model.Idle, ""))
	w.report("c1", need(t, 1, 400))
	stop := w.run()
	g.entered.wait(t, 4)
	g.open()
	waitFor(t, func() bool { return w.shard.Count()[model.Configured] == 100 })
	stop()
	if n := g.most.value(); n > 4 {
		t.Errorf("%d calls at a time, want at most 4", n)
	}
}

// TestQueueIsBounded: what does not fit is dropped, the lowest ranks first, and
// a machine in flight gets no second action.
func TestQueueIsBounded(t *testing.T) {
	cycles := make(chan *shard.CycleReport, 16)
	looked := make(chan struct{}) // what is held back is that of the last cycle: the next one waits
	look := sync.OnceFunc(func() { close(looked) })
	w, g := gatedWorld(t, machines(40, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Observer = func(r *shard.CycleReport) { cycles <- r; <-looked }
	})
	w.report("low", need(t, 1, 80))
	w.report("top", need(t, 2, 80))
	stop := w.run()
	defer stop()
	defer look()
	first := <-cycles
	// Eight places in the queue, and what workers took meanwhile.
	if n := len(first.Actions); n < 8 || n > 12 || first.Dropped != 40-n {
		t.Fatalf("%d accepted, %d dropped", n, first.Dropped)
	}
	if h := w.held(); len(h.Actions) != first.Dropped || h.Actions[0].By != shard.ByQueue {
		t.Errorf("%d are dropped; told is %+v", first.Dropped, h.Actions)
	}
	look()
	for _, a := range first.Actions {
		if a.Cluster != "top" {
			t.Errorf("%s for %s went before the rest of top", a.Machine, a.Cluster)
		}
	}
	g.entered.wait(t, 4)
	seen := map[string]bool{}
	for _, a := range first.Actions {
		seen[a.Machine] = true
	}
	w.shard.Wake()
	for _, a := range (<-cycles).Actions {
		if seen[a.Machine] {
			t.Errorf("%s: a second action while the first is in flight", a.Machine)
		}
	}
}

func TestRollupWakesTheLoop(t *testing.T) {
	cycles := make(chan *shard.CycleReport, 64)
	w, g := gatedWorld(t, machines(2, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Observer = func(r *shard.CycleReport) { cycles <- r }
	})
	g.open()
	stop := w.run()
	defer stop()
	<-cycles // the one at the start
	w.report("c1", need(t, 1, 8))
	if r := <-cycles; r.Needs != 1 || len(r.Actions) != 2 {
		t.Errorf("the cycle after the roll-up: %d needs, %d actions", r.Needs, len(r.Actions))
	}
}

// TestWakeUpsCoalesce: at most one waits.
func TestWakeUpsCoalesce(t *testing.T) {
	cycles := make(chan *shard.CycleReport)
	w, g := gatedWorld(t, nil, func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Observer = func(r *shard.CycleReport) { cycles <- r }
	})
	g.open()
	stop := w.run()
	<-cycles
	for range 50 {
		w.shard.Wake()
	}
	got := 0
	for quiet := false; !quiet; {
		select {
		case <-cycles:
			got++
		case <-time.After(100 * time.Millisecond):
			quiet = true
		}
	}
	if got < 1 || got > 2 {
		t.Errorf("50 wake-ups made %d cycles, want 1 or 2", got)
	}
	stop()
}

// TestStopLeavesTheQueueAlone: calls under way end, those that wait are not
// made.
func TestStopLeavesTheQueueAlone(t *testing.T) {
	w, g := gatedWorld(t, machines(40, model.Idle, ""))
	w.report("c1", need(t, 1, 160))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.shard.Run(ctx) }()
	g.entered.wait(t, 4)
	cancel()
	g.open()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := g.entered.value(); n != 4 {
		t.Errorf("%d calls were made, 4 were under way", n)
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	cfg := shard.Config{CycleInterval: -1, ReclaimCapFraction: 2, MaxActionsPerCycle: -1, Concurrency: -1, FullListCycles: -1}
	cfg.Engine.Workers = -1
	_, err := shard.New(cfg, shard.Deps{Provider: &scripted{}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"workers", "cycleInterval", "reclaimCapFraction", "maxActionsPerCycle", "concurrency", "callTimeout", "fullListCycles"} {
		if !slices.ContainsFunc(linesOf(err), func(l string) bool { return len(l) > len(want) && l[:len(want)] == want }) {
			t.Errorf("%q is not named in:\n%v", want, err)
		}
	}
	if _, err := shard.New(shard.DefaultConfig(), shard.Deps{}); err == nil {
		t.Error("accepted without a provider")
	}
	reg := prometheus.NewRegistry()
	for i := range 2 {
		_, err := shard.New(shard.DefaultConfig(), shard.Deps{Provider: &scripted{}, Registerer: reg})
		if (err == nil) != (i == 0) {
			t.Errorf("shard %d on one registry: %v", i, err)
		}
	}
}

// linesOf returns the faults that were joined, at every depth.
func linesOf(err error) (out []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			out = append(out, linesOf(e)...)
		}
		return out
	}
	return []string{err.Error()}
}
