package shard_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// TestNeedKeepsWhatServesIt: of a cluster's machines a Need keeps those that it
// came to use, also such as were acquired for another: one that is cheaper and is
// freed for a gang of the cluster goes to the gang, and the gang preempts once.
func TestNeedKeepsWhatServesIt(t *testing.T) {
	dear := machine("dear", model.Idle, "")
	dear.PricePerHour = 9
	a, b := inRack(machine("rack-a", model.Idle, ""), "r"), inRack(machine("rack-b", model.Idle, ""), "r")
	w := newWorld(t, []model.Machine{a, b, dear}, configured(byGangs), latencies(0, 0, 30*time.Second))
	passing := need(t, 3, 4)
	w.report("low", need(t, 1, 8))
	w.steps(2)
	w.report("both", passing)
	w.steps(2)
	// What was acquired for one Need of the cluster serves another now.
	plain := need(t, 900, 4)
	w.report("both", plain)
	w.steps(2)
	if m := w.get("dear"); m.Assigned.Fingerprint != plain.Profile.Fingerprint() || m.Assigned.Priority != 900 {
		t.Fatalf("it serves priority 900, and its stamp is %+v", m.Assigned)
	}
	w.report("both", plain, gang(t, 500, 8))
	want := []string{"Preempt rack-a", "Preempt rack-b", "Bootstrap rack-a", "Bootstrap rack-b"}
	if got := w.steps(12); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestStampsAreTrueUnderPause: whom a machine serves is noted, though nothing is
// carried out.
func TestStampsAreTrueUnderPause(t *testing.T) {
	w := newWorld(t, machines(1, model.Idle, ""))
	w.report("c1", need(t, 1, 4))
	w.steps(2)
	w.shard.SetPaused(true)
	other := need(t, 2, 4)
	w.report("c1", other)
	w.step()
	id := machines(1, model.Idle, "")[0].ID
	if got := w.get(id).Assigned.Fingerprint; got != other.Profile.Fingerprint() {
		t.Errorf("the stamp is %x, want %x", got, other.Profile.Fingerprint())
	}
}
