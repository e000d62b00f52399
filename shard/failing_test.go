package shard_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// failing is a provider whose next calls end as a test says, with the call made
// or not.
type failing struct {
	shard.Provider
	err  error
	made bool // the call is made all the same
	left int  // how many calls end so
	log  []string
}

func (f *failing) call(op string, carry func() (shard.Record, error)) (shard.Record, error) {
	f.log = append(f.log, op)
	if f.left == 0 {
		return carry()
	}
	f.left--
	if f.made {
		_, _ = carry()
	}
	return shard.Record{}, f.err
}

func (f *failing) Create(ctx context.Context, r shard.CreateRequest) (shard.Record, error) {
	return f.call("Create", func() (shard.Record, error) { return f.Provider.Create(ctx, r) })
}

func (f *failing) Configure(ctx context.Context, r shard.ConfigureRequest) (shard.Record, error) {
	return f.call("Configure", func() (shard.Record, error) { return f.Provider.Configure(ctx, r) })
}

func (f *failing) Drain(ctx context.Context, r shard.DrainRequest) (shard.Record, error) {
	return f.call("Drain", func() (shard.Record, error) { return f.Provider.Drain(ctx, r) })
}

func (f *failing) Delete(ctx context.Context, r shard.DeleteRequest) (shard.Record, error) {
	return f.call("Delete", func() (shard.Record, error) { return f.Provider.Delete(ctx, r) })
}

// failingWorld is a world whose first call fails with err.
func failingWorld(t *testing.T, ms []model.Machine, err error, options ...option) (*world, *failing) {
	f := &failing{err: err, left: 1}
	w := newWorld(t, ms, options...)
	f.Provider = w.fleet
	w.deps.Provider = f
	w.restart()
	return w, f
}

// everyOp has one machine and one demand for each call there is.
var everyOp = map[string]struct {
	machine model.Machine
	reports func(*world)
	action  string
	ends    model.State
}{
	"Create":    {machine("m", model.Speculative, ""), func(w *world) { w.report("c1", need(w.t, 1, 4)) }, "Provision m", model.Speculative},
	"Configure": {machine("m", model.Idle, ""), func(w *world) { w.report("c1", need(w.t, 1, 4)) }, "Bootstrap m", model.Idle},
	"Drain":     {machine("m", model.Configured, "c1"), func(w *world) { w.report("c1") }, "Reclaim m", model.Configured},
}

// TestUnsentCallIsUndone: the machine is as it was, and the action comes again.
func TestUnsentCallIsUndone(t *testing.T) {
	for op, x := range everyOp {
		t.Run(op, func(t *testing.T) {
			w, _ := failingWorld(t, []model.Machine{x.machine}, shard.ErrUnsent)
			x.reports(w)
			w.shard.SetPaused(true)
			w.step()
			before := w.get("m")
			w.shard.SetPaused(false)
			if got := w.steps(1); !slices.Equal(got, []string{x.action}) {
				t.Fatalf("got %v", got)
			}
			if after := w.get("m"); after.State != x.ends || after.Assigned != before.Assigned || after.Reservation != before.Reservation ||
				after.Cluster != before.Cluster || after.Host != before.Host || after.IdleSince != before.IdleSince {
				t.Errorf("was %+v\n is %+v", before, after)
			}
			if got := w.steps(1); !slices.Equal(got, []string{x.action}) {
				t.Errorf("tried again: %v", got)
			}
		})
	}
}

// TestFencedReplyStopsEverything: nothing is Failed, nothing is carried out
// until the epoch was read again, and then all goes on.
func TestFencedReplyStopsEverything(t *testing.T) {
	for op, x := range everyOp {
		t.Run(op, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			renewed := errors.New("another process is at work")
			w, f := failingWorld(t, []model.Machine{x.machine}, shard.ErrFenced, func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
				d.Renew = func(context.Context) error { return renewed }
			})
			w.deps.Registerer = reg
			w.restart()
			x.reports(w)
			w.step()
			if m := w.get("m"); m.State != x.ends {
				t.Fatalf("the machine is %s", m.State)
			}
			for range 3 {
				if c := w.step(); len(c.Started) != 0 || c.Disposition != shard.Fenced {
					t.Fatalf("fenced: %s, started %v", c.Disposition, c.Started)
				}
			}
			if n := testutil.ToFloat64(gaugeOf(t, reg, "bigfleet_shard_actuation_paused")); n != 1 {
				t.Errorf("actuation_paused is %v", n)
			}
			renewed = nil
			if got := w.steps(1); !slices.Equal(got, []string{x.action}) {
				t.Errorf("after the epoch was read again: %v", got)
			}
			if len(f.log) != 2 {
				t.Errorf("calls %v", f.log)
			}
		})
	}
}

// gaugeOf finds a metric without labels among those registered.
func gaugeOf(t *testing.T, reg *prometheus.Registry, name string) prometheus.Collector {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name})
			g.Set(f.GetMetric()[0].GetGauge().GetValue())
			return g
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

// TestCallWithoutAnAnswer: what was done shows in the listing, and is not done
// twice; what was not done is undone, and tried again.
func TestCallWithoutAnAnswer(t *testing.T) {
	for _, made := range []bool{true, false} {
		for op, x := range everyOp {
			w, f := failingWorld(t, []model.Machine{x.machine}, shard.ErrUncertain)
			f.made = made
			x.reports(w)
			first := w.steps(1)
			if m := w.get("m"); m.State == model.Failed || m.State == x.ends {
				t.Errorf("%s, made %v: at first %s", op, made, m.State)
			}
			rest := w.steps(12)
			calls := 0
			for _, name := range f.log {
				if name == op {
					calls++
				}
			}
			if want := map[bool]int{true: 1, false: 2}[made]; calls != want {
				t.Errorf("%s, made %v: %d calls, want %d (%v, then %v)", op, made, calls, want, first, rest)
			}
			if m := w.get("m"); m.State == model.Failed || m.State == x.machine.State && op != "Drain" {
				t.Errorf("%s, made %v: in the end %s", op, made, m.State)
			}
		}
	}
}

// TestFailedMachineComesBackMoreAndMoreSlowly: a provider that lists a machine
// as healthy and refuses every call for it does not keep the shard busy.
func TestFailedMachineComesBackMoreAndMoreSlowly(t *testing.T) {
	w, f := failingWorld(t, machines(1, model.Idle, ""), errors.New("refused"), configured(func(c *shard.Config) { c.AlwaysFull = true }))
	f.left = 1 << 30
	w.report("c1", need(t, 1, 4))
	w.steps(60)
	if n := len(f.log); n < 3 || n > 10 {
		t.Errorf("%d calls in ten minutes, want a few", n)
	}
	if m := w.get("m-00"); m.State != model.Failed {
		t.Errorf("it is %s", m.State)
	}
	f.left = 0
	if err := w.shard.Retire("m-00"); err != nil {
		t.Fatal(err)
	}
	if w.steps(2); w.get("m-00").State != model.Configured {
		t.Errorf("retired and tried again, it is %s", w.get("m-00").State)
	}
	if err := w.shard.Retire("m-00"); err == nil {
		t.Error("a healthy machine was retired")
	}
}

// TestFailedMachineIsRetiredByTheListing: at once when it failed once only.
func TestFailedMachineIsRetiredByTheListing(t *testing.T) {
	w, f := failingWorld(t, machines(1, model.Idle, ""), errors.New("refused"), configured(func(c *shard.Config) { c.AlwaysFull = true }))
	w.report("c1", need(t, 1, 4))
	w.step()
	if m := w.get("m-00"); m.State != model.Failed || m.LastError == "" {
		t.Fatalf("after the call: %+v", m)
	}
	if w.steps(2); w.get("m-00").State != model.Configured || len(f.log) != 2 {
		t.Errorf("it is %s after calls %v", w.get("m-00").State, f.log)
	}
}

// TestDrainTellsTheOperatorFirst: whatever becomes of that, the drain goes on.
func TestDrainTellsTheOperatorFirst(t *testing.T) {
	for name, x := range map[string]struct {
		cordon func(context.Context, shard.Cordon) error
		waits  time.Duration
	}{
		"acknowledged": {func(context.Context, shard.Cordon) error { return nil }, 0},
		"away":         {func(context.Context, shard.Cordon) error { return shard.ErrNoSession }, 0},
		"silent": {func(ctx context.Context, _ shard.Cordon) error {
			<-ctx.Done()
			return ctx.Err()
		}, shard.CordonTimeoutDefault},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *world
				var f *failing
				var asked []shard.Cordon
				w, f = failingWorld(t, machines(1, model.Configured, "low"), nil, func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
					d.Operators = &operators{cordon: func(ctx context.Context, c shard.Cordon) error {
						if len(f.log) != 0 {
							t.Error("the provider was called first")
						}
						asked = append(asked, c)
						return x.cordon(ctx, c)
					}}
				})
				f.left = 0
				w.report("low", need(t, 1, 4))
				w.report("top", need(t, 600_000, 4))
				start := time.Now()
				w.step()
				if took := time.Since(start); took != x.waits {
					t.Errorf("it took %v, want %v", took, x.waits)
				}
				want := shard.Cordon{Cluster: "low", Machine: "m-00", GraceSeconds: 30, PreemptorPriority: 600_000}
				if !slices.Equal(asked, []shard.Cordon{want}) || !slices.Equal(f.log, []string{"Drain"}) {
					t.Errorf("asked %+v, called %v", asked, f.log)
				}
			})
		})
	}
}

// TestBlobIsUsedWithinItsTime: when its time is over before the call has left,
// it is fetched anew; an answer that comes too late is not used either.
func TestBlobIsUsedWithinItsTime(t *testing.T) {
	for name, x := range map[string]struct {
		answerTakes, sendTakes time.Duration // the first time
		fetches, calls         int
	}{
		"in time":         {0, 0, 1, 1},
		"provider is off": {0, 3 * time.Second, 2, 2},
		"slow operator":   {3 * time.Second, 0, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fetches := 0
				s := &slowSender{takes: x.sendTakes}
				w := newWorld(t, machines(1, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
					d.Operators = &operators{bootstrap: func(context.Context, string, *model.Profile) (shard.Blob, error) {
						if fetches++; fetches == 1 {
							<-time.After(x.answerTakes)
						}
						return shard.Blob{Data: []byte{byte(fetches)}, TTL: 2 * time.Second}, nil
					}}
				})
				s.Provider = w.fleet
				w.deps.Provider = s
				w.restart()
				w.report("c1", need(t, 1, 4))
				w.step()
				if fetches != x.fetches || len(s.blobs) != x.calls || w.get("m-00").State != model.Configured {
					t.Errorf("%d fetches, calls with %v, machine %s", fetches, s.blobs, w.get("m-00").State)
				}
				if last := s.blobs[len(s.blobs)-1]; int(last) != x.fetches {
					t.Errorf("bound with blob %d of %d", last, x.fetches)
				}
			})
		})
	}
}

// slowSender takes a while until its first call could leave.
type slowSender struct {
	shard.Provider
	takes time.Duration
	blobs []byte
}

func (s *slowSender) Configure(ctx context.Context, r shard.ConfigureRequest) (shard.Record, error) {
	s.blobs = append(s.blobs, r.Blob...)
	takes := s.takes
	s.takes = 0
	select {
	case <-ctx.Done():
		return shard.Record{}, shard.ErrUnsent
	case <-time.After(takes):
	}
	return s.Provider.Configure(ctx, r)
}

// TestOperatorThatRefusesIsAskedLessAndLess: the machine stays Idle.
func TestOperatorThatRefusesIsAskedLessAndLess(t *testing.T) {
	asked := 0
	o := &operators{bootstrap: func(context.Context, string, *model.Profile) (shard.Blob, error) {
		asked++
		return shard.Blob{}, shard.ErrOperator
	}}
	w := newWorld(t, machines(1, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Operators = o })
	w.report("c1", need(t, 1, 4))
	waited := 0
	for range 60 {
		waited += w.step().Waiting
	}
	if asked < 3 || asked > 10 || waited != 60-asked || w.get("m-00").State != model.Idle {
		t.Errorf("asked %d times, waited %d cycles, machine %s", asked, waited, w.get("m-00").State)
	}
}

// TestNoSessionLeavesTheMachineAlone: an operator that is away is not waited
// for, and once it is there all goes on.
func TestNoSessionLeavesTheMachineAlone(t *testing.T) {
	o := &operators{away: map[string]bool{"c1": true}}
	w := newWorld(t, machines(1, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Operators = o })
	w.report("c1", need(t, 1, 4))
	if c := w.step(); len(c.Started) != 0 || c.Waiting != 1 {
		t.Errorf("while it is away: %+v", c.Started)
	}
	o.away = nil
	if w.steps(1); w.get("m-00").State != model.Configured {
		t.Errorf("once it is there: %s", w.get("m-00").State)
	}
}

// TestSwitchesCallOffWhatWaits: calls that wait in the queue when the shard is
// stopped are not made, and their machines are as before.
func TestSwitchesCallOffWhatWaits(t *testing.T) {
	var set counter
	w, g := gatedWorld(t, machines(8, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Switches = func() shard.Switches { return shard.Switches{Paused: set.value() > 0} }
	})
	w.report("c1", need(t, 1, 32))
	stop := w.run()
	defer stop()
	g.entered.wait(t, 4)
	set.add(1)
	w.shard.Wake()
	waitFor(t, func() bool { return w.shard.Disposition() == shard.Paused })
	g.open()
	waitFor(t, func() bool {
		n := w.shard.Count()
		return n[model.Configured] == 4 && n[model.Idle] == 4
	})
	set.add(-1)
	w.shard.Wake()
	waitFor(t, func() bool { return w.shard.Count()[model.Configured] == 8 })
}

// slow is a provider whose answers show a machine as it was before the call.
type slow struct {
	shard.Provider
	before map[string]model.Machine
	never  bool // nothing is done at all
	calls  int
}

func (x *slow) answer(machine string, carry func() error) (shard.Record, error) {
	x.calls++
	if !x.never {
		if err := carry(); err != nil {
			return shard.Record{}, err
		}
	}
	return shard.Record{Machine: x.before[machine]}, nil
}

func (x *slow) Create(ctx context.Context, r shard.CreateRequest) (shard.Record, error) {
	return x.answer(r.Machine, func() error { _, err := x.Provider.Create(ctx, r); return err })
}

func (x *slow) Configure(ctx context.Context, r shard.ConfigureRequest) (shard.Record, error) {
	return x.answer(r.Machine, func() error { _, err := x.Provider.Configure(ctx, r); return err })
}

func (x *slow) Drain(ctx context.Context, r shard.DrainRequest) (shard.Record, error) {
	return x.answer(r.Machine, func() error { _, err := x.Provider.Drain(ctx, r); return err })
}

// TestAnAnswerThatShowsNoChangeYet: the machine counts as under way, so that
// nobody else gets it and nothing is called for twice; the listing tells how it
// went. A provider that accepts a call and does nothing about it is called again.
func TestAnAnswerThatShowsNoChangeYet(t *testing.T) {
	under := map[string][2]model.State{
		"Create": {model.Creating, model.Idle}, "Configure": {model.Configuring, model.Configured}, "Drain": {model.Draining, model.Idle},
	}
	for op, x := range everyOp {
		for _, never := range []bool{false, true} {
			w := newWorld(t, []model.Machine{x.machine}, latencies(15*time.Second, 15*time.Second, 15*time.Second))
			late := &slow{Provider: w.fleet, before: map[string]model.Machine{"m": x.machine}, never: never}
			w.deps.Provider = late
			w.restart()
			x.reports(w)
			if got := w.steps(1); !slices.Equal(got, []string{x.action}) || w.get("m").State != under[op][0] {
				t.Fatalf("%s: %v, and the machine is %s", op, got, w.get("m").State)
			}
			if never {
				if got := w.steps(shard.FullListAfterFailureCycles + 2); !slices.Equal(got, []string{x.action}) || late.calls != 2 {
					t.Errorf("%s, not done: %v in the next cycles, %d calls", op, got, late.calls)
				}
				continue
			}
			if op == "Create" {
				w.report("c1") // or it would be bound next
			}
			if got := w.steps(3); len(got) != 0 && op != "Create" || late.calls != 1 || w.get("m").State != under[op][1] {
				t.Errorf("%s: %v in the next cycles, %d calls, and the machine is %s", op, got, late.calls, w.get("m").State)
			}
		}
	}
}

// TestAReplacedProcessStops: what the coordinator knows stops it, and it goes on when its epoch is the
// newest again.
func TestAReplacedProcessStops(t *testing.T) {
	replaced, renewed := false, 0
	w := newWorld(t, machines(4, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Switches = func() shard.Switches { return shard.Switches{Replaced: replaced} }
		d.Renew = func(context.Context) error { renewed++; return nil }
	})
	replaced = true
	w.report("c1", need(t, 1, 16))
	for range 3 {
		if c := w.step(); c.Disposition != shard.Fenced || len(c.Started) != 0 {
			t.Fatalf("%v, it starts %v", c.Disposition, c.Started)
		}
	}
	if renewed != 3 {
		t.Errorf("the epoch was looked at %d times in 3 cycles", renewed)
	}
	replaced = false
	if c := w.step(); c.Disposition != shard.Execute || len(c.Started) != 4 {
		t.Errorf("afterwards: %v, it starts %v", c.Disposition, c.Started)
	}
}

// TestAfterAPauseItIsFoundOut: a process that was stopped for more than two intervals looks
// whether it was replaced before it acts, and not otherwise.
func TestAfterAPauseItIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var stopped atomic.Int64 // how long the clock has stood still for the process, nanoseconds
		begin := time.Now()
		w := newWorld(t, machines(4, model.Idle, ""), func(c *shard.Config, d *shard.Deps, _ *provCfg) {
			c.Concurrency, c.CycleInterval = 4, time.Second
			d.Clock = func() time.Time { return begin.Add(time.Since(begin) + time.Duration(stopped.Load())) }
			d.Awake = func(context.Context) { asked.Add(1) }
		})
		stop := w.run()
		<-time.After(10*time.Second + 500*time.Millisecond) // between two cycles
		if n := asked.Load(); n != 0 {
			t.Errorf("it was asked %d times while cycles ran", n)
		}
		stopped.Store(int64(3 * time.Second))
		<-time.After(5 * time.Second)
		if n := asked.Load(); n != 1 {
			t.Errorf("it was asked %d times after a pause, want once", n)
		}
		stop()
		w.shard.Close()
	})
}
