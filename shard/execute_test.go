package shard_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

type (
	provCfg = simulated.Config
	change  = simulated.Change
)

// TestCreatedMachineStaysItsNeeds: while it is created it counts for the Need,
// when it is Idle it is the Need's for ten minutes, once bound the hold is off.
func TestCreatedMachineStaysItsNeeds(t *testing.T) {
	w := newWorld(t, []model.Machine{machine("s", model.Speculative, "")}, latencies(20*time.Second, 10*time.Second, 0))
	n := need(t, 100, 4)
	w.report("c1", n)
	if got := w.steps(1); !slices.Equal(got, []string{"Provision s"}) {
		t.Fatalf("got %v", got)
	}
	m := w.get("s")
	n.Cluster = "c1"
	if m.State != model.Creating || m.Assigned.Fingerprint != n.Profile.Fingerprint() || m.Reservation.Owner != n.Owner() || m.Reservation.Deadline != 0 {
		t.Fatalf("while it is created: %+v", m)
	}
	if c := w.step(); len(c.Started) != 0 || !c.Plan.Satisfied(0) {
		t.Errorf("it is bought twice: %v", c.Started)
	}
	if got := w.steps(1); !slices.Equal(got, []string{"Bootstrap s"}) {
		t.Fatalf("when Idle: %v", got)
	}
	w.step()
	if m := w.get("s"); m.State != model.Configured || m.Reservation.Active() || m.Assigned.Priority != 100 {
		t.Errorf("once bound: %+v", m)
	}
}

func TestCreatedMachineIsHeldForTenMinutes(t *testing.T) {
	w := newWorld(t, []model.Machine{machine("s", model.Speculative, "")}, latencies(10*time.Second, 0, 0))
	w.report("c1", need(t, 100, 4))
	w.step()
	w.shard.SetPaused(true)
	w.step()
	if m := w.get("s"); m.State != model.Idle || m.Reservation.Deadline != w.now+shard.CreatedHold {
		t.Errorf("got %s, held for %d s", m.State, (m.Reservation.Deadline-w.now)/second)
	}
}

// TestVictimIsHeldForItsPreemptor: through the drain without a deadline, then
// for twice the grace.
func TestVictimIsHeldForItsPreemptor(t *testing.T) {
	w := newWorld(t, machines(1, model.Configured, "low"), latencies(0, 0, 30*time.Second))
	w.report("low", need(t, 1, 4))
	top := need(t, 600_000, 4)
	top.Group = "job"
	w.report("top", top)
	if got := w.steps(1); !slices.Equal(got, []string{"Preempt m-00"}) {
		t.Fatalf("got %v", got)
	}
	m := w.get("m-00")
	top.Cluster = "top"
	if m.State != model.Draining || m.Reservation.Owner != top.Owner() || m.Reservation.Priority != 600_000 || m.Reservation.Deadline != 0 {
		t.Fatalf("while it drains: %+v", m)
	}
	if got := w.steps(2); len(got) != 0 {
		t.Fatalf("while it drains: %v", got)
	}
	w.shard.SetPaused(true)
	w.step()
	if m := w.get("m-00"); m.State != model.Idle || m.Reservation.Deadline != w.now+2*30*second {
		t.Errorf("drained: %s, held for %d s", m.State, (m.Reservation.Deadline-w.now)/second)
	}
	w.shard.SetPaused(false)
	if got := w.steps(1); !slices.Equal(got, []string{"Bootstrap m-00"}) {
		t.Errorf("got %v", got)
	}
	if m := w.get("m-00"); m.Cluster != "top" || m.Reservation.Active() {
		t.Errorf("bound: %+v", m)
	}
}

func TestEndedReservationIsTakenOff(t *testing.T) {
	w := newWorld(t, machines(1, model.Configured, "low"), latencies(0, 0, 10*time.Second))
	w.report("low", need(t, 1, 4))
	w.report("top", need(t, 900, 4))
	w.step()
	w.report("top") // withdrawn in mid-drain
	w.step()
	if m := w.get("m-00"); m.Reservation.Active() {
		t.Errorf("still held for nobody: %+v", m)
	}
}

func TestFailedCallLeavesTheMachineFailed(t *testing.T) {
	for op, x := range map[shard.Op]struct {
		m    model.Machine
		want string
	}{
		shard.OpCreate:    {machine("m", model.Speculative, ""), "Provision m"},
		shard.OpConfigure: {machine("m", model.Idle, ""), "Bootstrap m"},
		shard.OpDrain:     {machine("m", model.Configured, "c2"), "Reclaim m"},
	} {
		w := newWorld(t, []model.Machine{x.m}, func(_ *shard.Config, _ *shard.Deps, p *provCfg) {
			p.Faults = []simulated.Fault{{Op: op, Times: 1}}
		})
		w.report("c2")
		if op != shard.OpDrain {
			w.report("c1", need(t, 1, 4))
		}
		c := w.step()
		if len(c.Started) != 1 || !errors.Is(c.Started[0].Err, simulated.ErrInjected) || c.Started[0].Kind.String()+" m" != x.want {
			t.Errorf("%s: %+v", op, c.Started)
		}
		if m := w.get("m"); m.State != model.Failed || m.LastError == "" || m.Reservation.Active() {
			t.Errorf("%s: %+v", op, m)
		}
		if got := w.steps(3); len(got) != 0 {
			t.Errorf("%s: a Failed machine is acted on: %v", op, got)
		}
	}
}

// TestRollBackBeforeTheProviderWasCalled: without what a machine needs to join
// it stays Idle, with the hold that it had, and is tried again.
func TestRollBackBeforeTheProviderWasCalled(t *testing.T) {
	fail := true
	w := newWorld(t, []model.Machine{machine("s", model.Speculative, "")}, func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Operators = &operators{bootstrap: func(_ context.Context, cluster string, p *model.Profile) (shard.Blob, error) {
			if cluster != "c1" || p == nil {
				t.Errorf("asked for cluster %q, profile %v", cluster, p)
			}
			if fail {
				return shard.Blob{}, errors.New("the operator is away")
			}
			return shard.Blob{Data: []byte("join")}, nil
		}}
	})
	w.report("c1", need(t, 1, 4))
	if got := w.steps(2); !slices.Equal(got, []string{"Provision s", "Bootstrap s"}) {
		t.Fatalf("got %v", got)
	}
	if m := w.get("s"); m.State != model.Idle || !m.Reservation.Active() || m.Cluster != "" {
		t.Fatalf("rolled back: %+v", m)
	}
	if rec, _ := w.fleet.Get("s"); rec.Machine.State != model.Idle {
		t.Fatalf("the provider was called: %s", rec.Machine.State)
	}
	fail = false
	if got := w.steps(1); !slices.Equal(got, []string{"Bootstrap s"}) || w.get("s").State != model.Configured {
		t.Errorf("tried again: %v, %s", got, w.get("s").State)
	}
}

// TestFoldStampsItsOwnIdentity: a gang that fits one machine is plain demand,
// and its machine is stamped as such.
func TestFoldStampsItsOwnIdentity(t *testing.T) {
	w := newWorld(t, []model.Machine{inRack(machine("m", model.Idle, ""), "r")})
	g := gang(t, 50, 4)
	w.report("c1", g)
	w.step()
	if a := w.get("m").Assigned; a.Fingerprint != g.Profile.Folded().Fingerprint() || a.Group != "" {
		t.Errorf("got %+v", a)
	}
	if got := w.steps(3); len(got) != 0 {
		t.Errorf("it acts again: %v", got)
	}
}

func TestGangStampsItsGroup(t *testing.T) {
	var ms []model.Machine
	for _, m := range machines(2, model.Idle, "") {
		ms = append(ms, inRack(m, "r"))
	}
	w := newWorld(t, ms)
	g := gang(t, 50, 8)
	w.report("c1", g)
	w.step()
	if a := w.get("m-01").Assigned; a.Fingerprint != g.Profile.Fingerprint() || a.Group != "g" {
		t.Errorf("got %+v", a)
	}
}

func TestDeleteGivesTheHostBack(t *testing.T) {
	m := machine("m", model.Idle, "")
	m.CapacityType = model.Spot
	w := newWorld(t, []model.Machine{m}, configured(func(c *shard.Config) { c.Engine.Release = engine.Release{Spot: 30 * time.Second} }))
	var got []string
	for i := 1; len(got) == 0 && i < 10; i++ {
		if got = w.steps(1); len(got) > 0 && i != 4 {
			t.Errorf("deleted in cycle %d, held from the first for 30 s", i)
		}
	}
	if m := w.get("m"); !slices.Equal(got, []string{"Delete m"}) || m.State != model.Speculative || m.Host != "" {
		t.Errorf("got %v, %+v", got, m)
	}
}
