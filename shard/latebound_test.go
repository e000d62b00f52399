package shard_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// lateBound makes machines that are made when they are bound.
func lateBound(n int) []model.Machine {
	ms := machines(n, model.Speculative, "")
	for i := range ms {
		ms[i].Labels = map[string]string{model.LabelLateBound: "true"}
	}
	return ms
}

// TestALateBoundMachine: Create is answered with Idle, the next cycle binds it for whom it was created; Configure takes
// the time of making it. While it is Idle it costs nothing.
func TestALateBoundMachine(t *testing.T) {
	var last *shard.CycleReport
	w := newWorld(t, lateBound(1), latencies(20*time.Second, 10*time.Second, 0), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Observer = func(r *shard.CycleReport) { last = r }
	})
	w.report("c1", need(t, 100, 4))
	if got := w.steps(1); !slices.Equal(got, []string{"Provision m-00"}) {
		t.Fatalf("got %v", got)
	}
	if m := w.get("m-00"); m.State != model.Idle || !m.Reservation.Active() {
		t.Fatalf("after Create: %+v", m)
	}
	if s := w.shard.Summary(); s.Idle != 0 || s.Speculative != 1 {
		t.Errorf("the summary counts %d Idle and %d Speculative machines", s.Idle, s.Speculative)
	}
	w.shard.SetPaused(true)
	w.step() // it is Idle in this cycle, and stays it
	if spend := last.SpendPerHour[model.BareMetal]; spend != 0 || len(last.Free) != 0 {
		t.Errorf("while it is Idle: spend $%v, free %v", spend, last.Free)
	}
	w.shard.SetPaused(false)
	if got := w.steps(1); !slices.Equal(got, []string{"Bootstrap m-00"}) {
		t.Fatalf("got %v", got)
	}
	if got := w.steps(2); len(got) != 0 || w.get("m-00").State != model.Configuring {
		t.Errorf("while it is made: %v, %s", got, w.get("m-00").State)
	}
	w.step()
	if m := w.get("m-00"); m.State != model.Configured || m.Cluster != "c1" || last.SpendPerHour[model.BareMetal] != 1 {
		t.Errorf("made: %+v, spend $%v", m, last.SpendPerHour)
	}
}

// TestALateBoundMachineThatNobodyWants is deleted in the first cycle without its reservation, whatever its capacity type; no
// budget and no breaker counts it.
func TestALateBoundMachineThatNobodyWants(t *testing.T) {
	const n = 60
	w := newWorld(t, lateBound(n), configured(func(c *shard.Config) {
		c.DeleteCapFraction, c.BreakerShare, c.BreakerWindow = 0.01, 0.01, time.Hour
	}))
	w.report("c1", need(t, 100, 4*n))
	w.step()
	w.report("c1")
	if got := w.steps(1); len(got) != 0 { // the reservations end
		t.Errorf("while they are reserved: %v", got)
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("Delete m-%02d", i))
	}
	if got := w.steps(1); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := w.shard.Count(); got[model.Speculative] != n {
		t.Errorf("left are %v", got)
	}
	w.report("c1", need(t, 100, 4))
	if got := w.steps(1); !slices.Equal(got, []string{"Provision m-00"}) {
		t.Errorf("the breaker holds back what comes next: %v", got)
	}
}

// TestACycleFollowsALateBoundCreate: with cycles an hour apart, it is bound at once.
func TestACycleFollowsALateBoundCreate(t *testing.T) {
	w := newWorld(t, lateBound(3), configured(func(c *shard.Config) { c.Concurrency, c.CycleInterval = 4, time.Hour }))
	w.report("c1", need(t, 1, 12))
	stop := w.run()
	defer stop()
	waitFor(t, func() bool { return w.shard.Count()[model.Configured] == 3 })
}

// TestHintsOfLateBoundMachines: one that is Idle is no more certain than one that is Speculative, and not offered to other shards.
func TestHintsOfLateBoundMachines(t *testing.T) {
	ms := lateBound(2)
	ms[1].State = model.Idle
	w, o := toldWorld(t, ms, configured(func(c *shard.Config) { c.Paused = true }))
	w.report("c1", need(t, 1, 4))
	w.step()
	if got, want := o.hinted(), []string{fmt.Sprintf("c1 p1 2 %d $0", shard.ConfidenceMedium)}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if offers := w.shard.Offers(); len(offers) != 1 || offers[0].Machine.State != model.Speculative || offers[0].Count != 1 {
		t.Errorf("offered %+v", offers)
	}
}
