package rails

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/pace"
)

func cpu(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: n}) }

// planOf has a plan that reclaims the machines of cluster away and buys for row 1 of
// cluster in.
func planOf(t *testing.T, reclaims, purchases int) (*supply.Table, *engine.Plan) {
	t.Helper()
	machines, wanted := supply.New(), demand.New()
	for i := range reclaims + purchases {
		m := model.Machine{ID: fmt.Sprintf("q-%05d", i), State: model.Speculative, InstanceType: "t", Resources: cpu(4)}
		if i < reclaims {
			m.ID, m.State, m.Cluster = fmt.Sprintf("b-%05d", i), model.Configured, "away"
		}
		if err := machines.Put(&m); err != nil {
			t.Fatal(err)
		}
	}
	p, err := model.NewProfile(model.ProfileSpec{Priority: 1})
	if err != nil {
		t.Fatal(err)
	}
	huge, err := model.NewProfile(model.ProfileSpec{Priority: 2})
	if err != nil {
		t.Fatal(err)
	}
	rows := []model.Need{
		{Profile: huge, Aggregate: cpu(100), MinUnit: cpu(100)},
		{Profile: p, Aggregate: cpu(4 * int64(purchases)), MinUnit: cpu(4)},
	}
	if err := wanted.Load("in", rows); err != nil {
		t.Fatal(err)
	}
	wanted.MarkReported("in")
	wanted.MarkReported("away")
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	plan, err := e.Cycle(engine.Input{Supply: machines, Demand: wanted, Now: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n := CountKinds(plan.Actions); n[engine.Reclaim] != reclaims || n[engine.Provision] != purchases {
		t.Fatalf("the plan has %v", n)
	}
	return machines, plan
}

// newRails has rails that have begun at second 1 and are in their second interval of ten seconds.
func newRails(machines *supply.Table, l Limits, change func(*Deps)) *Rails {
	p := pace.New(nil)
	d := Deps{Pace: p, Machines: machines, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&d)
	}
	r := New(l, false, &d)
	if l.BudgetInterval > 0 {
		p.Begin(int64(time.Second))
		r.budgets.fill(p.Now)
	}
	p.Begin(int64(12 * time.Second))
	return r
}

// TestWhatBudgetsHoldBackIsListed: with machine, kind, budget and Need, in the order of rank.
func TestWhatBudgetsHoldBackIsListed(t *testing.T) {
	machines, plan := planOf(t, 40, 140)
	r := newRails(machines, Limits{BudgetInterval: 10 * time.Second, ReclaimCapFraction: 0.05, ProvisionCapFraction: 0.1}, nil)
	out := r.Apply(plan)
	h := r.HeldBack()
	if len(out.Held) != 40+38 || len(h.Actions) != len(out.Held) || h.More != 0 || h.Disposition != Execute || h.Reason != "" || h.Interval != 10*time.Second || h.Starting {
		t.Fatalf("%d are held; told is %d and %d more, %v %q, interval %v, starting %v", len(out.Held), len(h.Actions), h.More, h.Disposition, h.Reason, h.Interval, h.Starting)
	}
	for i, a := range out.Held {
		want := HeldAction{Machine: machines.ID(a.Machine), Kind: a.Kind, By: ByReclaimBudget}
		if a.Kind == engine.Provision {
			want.By, want.Cluster, want.Row = ByProvisionBudget, "in", 1
		}
		if h.Actions[i] != want {
			t.Fatalf("action %d is told as %+v, want %+v", i, h.Actions[i], want)
		}
	}
	if r.ForgetHeld(); len(r.HeldBack().Actions) != 0 {
		t.Error("the next cycle keeps what the one before held back")
	}
}

// TestWhatTheLimitOfACycleHoldsBackIsListed: beyond it nothing is held by budgets.
func TestWhatTheLimitOfACycleHoldsBackIsListed(t *testing.T) {
	machines, plan := planOf(t, 5, 20)
	r := newRails(machines, Limits{MaxActionsPerCycle: 7}, nil)
	out := r.Apply(plan)
	h := r.HeldBack()
	if len(out.Rest) != 18 || len(h.Actions) != 18 || h.Actions[0].By != ByActionLimit || h.Actions[0].Kind != engine.Provision || h.Actions[0].Row != 1 || h.Actions[17].Kind != engine.Reclaim {
		t.Errorf("%d are cut off; told is %+v", len(out.Rest), h.Actions)
	}
}

// TestWhatIsHeldBackIsBounded: the first of the order are listed, the others counted.
func TestWhatIsHeldBackIsBounded(t *testing.T) {
	const held = HeldActionsMax + 500
	machines, plan := planOf(t, held-100, 100)
	r := newRails(machines, Limits{BudgetInterval: time.Hour, ReclaimCapFraction: 0.05, ProvisionCapFraction: 0.1}, nil)
	r.Apply(plan)
	h := r.HeldBack()
	if len(h.Actions) != HeldActionsMax || h.More != 500 || h.Actions[99].Kind != engine.Provision || h.Actions[100].Kind != engine.Reclaim || !h.Starting {
		t.Errorf("%d are listed and %d more, starting %v", len(h.Actions), h.More, h.Starting)
	}
}

// TestToHoldBackAllocatesNothing: once the list is as long as it has to be.
func TestToHoldBackAllocatesNothing(t *testing.T) {
	machines, plan := planOf(t, 400, 0)
	r := newRails(machines, Limits{}, nil)
	cycle := func(actions []engine.Action) func() {
		return func() {
			r.ForgetHeld()
			r.HoldBack(plan, actions, ByQueue)
		}
	}
	cycle(plan.Actions)()
	for _, actions := range [][]engine.Action{nil, plan.Actions} {
		if n := testing.AllocsPerRun(10, cycle(actions)); n != 0 {
			t.Errorf("%v allocations for %d actions", n, len(actions))
		}
	}
}

// TestWhyNothingIsCarriedOut: each reason, and nothing of budgets beside it.
func TestWhyNothingIsCarriedOut(t *testing.T) {
	machines, plan := planOf(t, 200, 0)
	var set Switches
	switches := func(d *Deps) { d.Switches = func() Switches { return set } }
	for _, x := range []struct {
		at     Disposition
		reason string
		limits Limits
		set    Switches
		change func(*Rails)
	}{
		{at: Paused, reason: "there is a file pause in its data folder", set: Switches{Paused: true}},
		{at: Paused, reason: "it was started with --actuation-paused", change: func(r *Rails) { r.SetPaused(true) }},
		{at: Paused, reason: "there is a file pause in its data folder, and it was started with --actuation-paused", set: Switches{Paused: true}, change: func(r *Rails) { r.SetPaused(true) }},
		{at: DryRun, reason: "there is a file dry-run in its data folder", set: Switches{DryRun: true}},
		{at: DryRun, reason: "it was started with --dry-run", limits: Limits{DryRun: true}},
		{at: Fenced, reason: "the coordinator knows a newer process of this shard", set: Switches{Replaced: true}},
		{at: Fenced, reason: "refused\x1b", change: func(r *Rails) { r.Fence(errors.New("refused\x1b")) }},
		{at: DomainsLost, reason: "which domains are this shard's is not known", change: func(r *Rails) { r.LoseDomains(true) }},
		{at: Tripped, reason: "it had tripped before this process began", limits: Limits{BreakerShare: 0.2}, set: Switches{Tripped: true}},
		{at: Tripped, reason: "and 60 more are to be: more than 50", limits: Limits{BreakerShare: 0.2, ReclaimCapFraction: 0.3}},
	} {
		set = x.set
		r := newRails(machines, x.limits, switches)
		r.Control(r.ReadSwitches())
		if x.change != nil {
			x.change(r)
		}
		r.Apply(plan)
		if h := r.HeldBack(); h.Disposition != x.at || !strings.Contains(h.Reason, x.reason) || len(h.Actions)+h.More != 0 {
			t.Errorf("%v %q with %d actions, want %v %q", h.Disposition, h.Reason, len(h.Actions), x.at, x.reason)
		}
	}
	r := newRails(machines, Limits{}, func(d *Deps) { d.Renew = func(context.Context) error { return nil } })
	r.Fence(errors.New(strings.Repeat("é", ReasonBytesMax)))
	if h := r.HeldBack(); len(h.Reason) > ReasonBytesMax || !strings.HasSuffix(h.Reason, "é…") {
		t.Errorf("a long reason has %d bytes and ends with %q", len(h.Reason), h.Reason[len(h.Reason)-8:])
	}
	if r.Unfence(); r.HeldBack().Reason != "" {
		t.Errorf("it acts again, since %q", r.HeldBack().Reason)
	}
}

// TestTheLogSaysWhatBudgetsHold: once, as information, with the interval where there is one.
func TestTheLogSaysWhatBudgetsHold(t *testing.T) {
	for interval, want := range map[time.Duration]string{0: "reclaims are limited per cycle: 38 wait", 10 * time.Second: "reclaims are limited per 10s: 38 wait"} {
		machines, plan := planOf(t, 40, 0)
		var log bytes.Buffer
		r := newRails(machines, Limits{BudgetInterval: interval, ReclaimCapFraction: 0.05}, func(d *Deps) { d.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		held := len(r.Apply(plan).Held)
		want = strings.Replace(want, "38", fmt.Sprint(held), 1)
		r.noteHeld(plan.Actions)
		if got := log.String(); held == 0 || strings.Count(got, want) != 1 || strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=INFO") {
			t.Errorf("interval %v, %d held: the log is %q, want %q", interval, held, got, want)
		}
	}
}
