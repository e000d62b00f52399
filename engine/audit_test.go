package engine_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/invariants"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

// auditParts is in how many cycles an engine of these tests is audited once; auditSparse as many times as many where it looks things
// up one by one.
const (
	auditParts  = 3
	auditSparse = 10
)

// auditedFleet is a fleet in which every machine is bound, and an engine that spreads its checks over cycles.
func auditedFleet(t *testing.T) (*engine.Engine, engine.Input) {
	t.Helper()
	rung, err := workload.ByName("5k")
	if err != nil {
		t.Fatal(err)
	}
	in, err := measure.Load(workload.Build(rung, 7), workload.Steady)
	if err != nil {
		t.Fatal(err)
	}
	opts := engine.DefaultOptions()
	opts.Workers, opts.CheckCycles = 2, auditParts
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	e.SetAuditMin(0)
	return e, in
}

// TestAuditsFindWhatIsSpoilt: whatever of what is kept is made wrong, an audit finds it within a round. Then the engine starts from
// nothing, decides what it decided before, and finds nothing any more.
func TestAuditsFindWhatIsSpoilt(t *testing.T) {
	for _, spoil := range engine.Spoils {
		t.Run(spoil.Name, func(t *testing.T) {
			if spoil.Snapshot && invariants.Enabled {
				t.Skip("the invariants build compares the whole snapshot, and stops")
			}
			e, in := auditedFleet(t)
			cycle := func() *engine.Plan {
				t.Helper()
				plan, err := e.Cycle(in)
				if err != nil {
					t.Fatal(err)
				}
				return plan
			}
			cycle()
			right := cycle()
			digest, clusters := right.Digest(), right.Stats.Clusters
			audited := 0
			for range auditParts * auditSparse {
				plan := cycle()
				if audited += plan.Stats.Audited; plan.Stats.Differs || plan.Stats.Full || plan.Digest() != digest {
					t.Fatalf("before anything is spoilt: %+v", plan.Stats)
				}
			}
			if audited != clusters*auditSparse {
				t.Errorf("%d clusters were audited, %d are there, and each is audited %d times", audited, clusters, auditSparse)
			}
			if !e.Spoil(spoil) {
				t.Fatal("the fleet has nothing of the kind")
			}
			within := auditParts
			if spoil.Sparse {
				within *= auditSparse
			}
			found := 0
			for i := 1; i <= within && found == 0; i++ {
				if cycle().Stats.Differs {
					found = i
				}
			}
			if found == 0 {
				t.Fatalf("not found in %d cycles", within)
			}
			for i := range auditParts * auditSparse {
				if plan := cycle(); plan.Stats.Full != (i == 0) || plan.Stats.Differs || plan.Digest() != digest {
					t.Fatalf("cycle %d after it was found: %+v", i, plan.Stats)
				}
			}
		})
	}
}

// TestAuditsMayBeRare: an engine that is hardly ever checked audits next to nothing, however large the number is.
func TestAuditsMayBeRare(t *testing.T) {
	e, in := auditedFleet(t)
	opts := e.Options()
	opts.CheckCycles = math.MaxInt
	rare, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer rare.Close()
	rare.SetAuditMin(0)
	for i := range 4 {
		plan, err := rare.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Stats.Audited > 1 || plan.Stats.Checked || plan.Stats.Differs {
			t.Errorf("cycle %d: %+v", i, plan.Stats)
		}
	}
}

// TestAuditsFindNothing: while a fleet changes all the time, no audit finds anything, and plans are those of an engine that builds on
// nothing. No cycle is decided a second time meanwhile.
func TestAuditsFindNothing(t *testing.T) {
	rung, err := workload.ByName("5k")
	if err != nil {
		t.Fatal(err)
	}
	batches := 60
	if testing.Short() {
		batches = 20
	}
	for _, seed := range []int64{1, 2, 3, 4} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			x := newRungScript(t, rung, seed)
			defer x.stop()
			opts := x.running[1].Options()
			opts.CheckCycles = auditParts
			e, err := engine.New(opts)
			if err != nil {
				t.Fatal(err)
			}
			x.running = append(x.running, e)
			e.SetAuditMin(0)
			var last *engine.Plan
			audited, checked := 0, false
			for i := range batches {
				x.batch(t, last)
				in := engine.Input{Supply: x.supply, Demand: x.demand, Now: x.now, DrainSeconds: x.drains, BackingOff: x.backing}
				want, err := x.running[0].Cycle(in)
				if err != nil {
					t.Fatal(err)
				}
				plan, err := e.Cycle(in)
				if err != nil {
					t.Fatal(err)
				}
				if plan.Stats.Differs || plan.Digest() != want.Digest() {
					t.Fatalf("batch %d: differs %v, digest %x, want %x", i, plan.Stats.Differs, plan.Digest(), want.Digest())
				}
				audited, checked = audited+plan.Stats.Audited, checked || plan.Stats.Checked
				last = plan
			}
			if audited == 0 || checked {
				t.Errorf("%d clusters were audited, and a whole cycle decided a second time: %v", audited, checked)
			}
		})
	}
}
