package shard_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// held returns what the rails hold back.
func (w *world) held() (out shard.HeldBack) {
	w.t.Helper()
	if err := w.shard.Inspect(func(_ engine.Input, _ engine.Options, held *shard.HeldBack) error {
		out = *held
		out.Actions = slices.Clone(held.Actions)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// TestInspectSaysWhatTheLastCycleHeldBack: by what and for which row, and nothing of the cycle
// before.
func TestInspectSaysWhatTheLastCycleHeldBack(t *testing.T) {
	o := &operators{away: map[string]bool{"c1": true}}
	ms := append(machines(2, model.Idle, ""), machine("spec", model.Speculative, ""))
	w := newWorld(t, ms, latencies(time.Hour, time.Hour, time.Hour), bounded(func(c *shard.Config) { c.ProvisionCapFraction = 0.1 }), func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Operators = o })
	if h := w.held(); len(h.Actions) != 0 || h.Disposition != shard.Execute {
		t.Fatalf("before the first cycle: %+v", h)
	}
	w.report("c1", need(t, 9, 4), need(t, 5, 8))
	w.stepAfter(time.Second)
	h := w.held()
	slices.SortFunc(h.Actions, func(a, b shard.HeldAction) int { return int(a.By) - int(b.By) })
	if len(h.Actions) != 3 || !h.Starting || h.Actions[0] != (shard.HeldAction{Machine: "spec", Kind: engine.Provision, By: shard.ByProvisionBudget, Cluster: "c1", Row: 1}) ||
		h.Actions[1].Kind != engine.Bootstrap || h.Actions[1].By != shard.ByOperator || h.Actions[2].By != shard.ByOperator {
		t.Errorf("in the first interval, with the operator away: %+v", h)
	}
	o.away["c1"] = false
	w.step()
	if h := w.held(); len(h.Actions) != 0 || h.Starting {
		t.Errorf("in the second interval, with the operator there: %+v", h)
	}
}

// unlisted is a provider that does not list while it is set so.
type unlisted struct {
	shard.Provider
	silent bool
}

func (p *unlisted) List(ctx context.Context, r shard.ListRequest) (shard.ListResponse, error) {
	if p.silent {
		return shard.ListResponse{}, errors.New("no answer")
	}
	return p.Provider.List(ctx, r)
}

// TestACycleWithoutAListingKeepsWhatIsHeldBack: tables stay as they are, and nothing is done.
func TestACycleWithoutAListingKeepsWhatIsHeldBack(t *testing.T) {
	w := newWorld(t, machines(40, model.Configured, "c"), configured(func(c *shard.Config) { c.ReclaimCapFraction, c.Quarantine = 0.05, false }))
	p := &unlisted{Provider: w.fleet}
	w.deps.Provider = p
	w.restart()
	w.report("c")
	w.step()
	p.silent = true
	w.report("c", need(t, 1, 4*40))
	if _, err := w.shard.Step(context.Background(), w.now+second); err == nil {
		t.Fatal("the provider does not list, and the cycle decides")
	}
	if h := w.held(); len(h.Actions) != 38 || h.Actions[0].By != shard.ByReclaimBudget {
		t.Errorf("told is %+v", h)
	}
	p.silent = false
	if w.step(); len(w.held().Actions) != 0 {
		t.Errorf("told is %+v", w.held())
	}
}
