package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleet"
)

// TestSpreadOverZonesWithHeldMachines: Needs are spread over zones, and most Idle machines are held for one of these Needs. A machine has
// cores, or memory, or both. So a machine may be held for a Need that it does not help; the minimum of the skew counts its zone nevertheless.
func TestSpreadOverZonesWithHeldMachines(t *testing.T) {
	defer engine.SetComponentsMin(engine.SetComponentsMin(0))
	for _, seed := range fleetSeeds(fleetsToTry() / 2) {
		mustAgree(t, seed, heldOverZones(t, seed))
	}
}

func heldOverZones(t *testing.T, seed int64) fleet.World {
	d := rand.New(rand.NewPCG(uint64(seed), 1))
	w := fleet.World{Reported: map[string]bool{"a": true, "b": true}, Now: 1e18, Fit: d.IntN(2) == 0}
	for i := range 2 + d.IntN(4) {
		spec := model.ProfileSpec{
			Priority: []int32{10, 100, 1000}[d.IntN(3)],
			Spread:   []model.Spread{{Key: model.KeyZone, MaxSkew: 1 + d.Int32N(2), WhenUnsatisfiable: model.DoNotSchedule}},
		}
		profile, err := model.NewProfile(spec)
		if err != nil {
			t.Fatal(err)
		}
		n := model.Need{Cluster: []string{"a", "b"}[d.IntN(2)], Group: fmt.Sprint("g", i), Profile: profile, Arrival: w.Now - int64(d.IntN(3))*1e9}
		if i > 0 && d.IntN(3) == 0 { // another row of one stamp, for which the same machines are held
			last := &w.Needs[i-1]
			n.Cluster, n.Group, n.Profile = last.Cluster, last.Group, last.Profile
		}
		n.Aggregate = coresAndMemory(d.Int64N(13), d.Int64N(25))
		w.Needs = append(w.Needs, n)
	}
	zones := 2 + d.IntN(2)
	for i := range 5 + d.IntN(10) {
		id := fmt.Sprintf("m%02d", i)
		m := model.Machine{ID: id, Host: id, State: model.Idle, PricePerHour: float64(d.IntN(3))}
		shape := [][2]int64{{4, 0}, {4, 8}, {0, 8}, {2, 16}}[d.IntN(4)]
		m.Resources = coresAndMemory(shape[0], shape[1])
		if d.IntN(10) > 0 {
			m.Zone = fmt.Sprint("z", d.IntN(zones))
		}
		n := &w.Needs[d.IntN(len(w.Needs))]
		switch kind := d.IntN(10); {
		case kind < 5:
			p := n.Profile
			m.Reservation = model.Reservation{
				Owner:    model.Owner{Cluster: n.Cluster, Fingerprint: p.Fingerprint(), Group: n.Group},
				Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
			}
		case kind < 7:
			m.State, m.Cluster, m.Assigned = model.Configured, n.Cluster, stampOf(n)
		case kind < 8:
			m.State = model.Speculative
		}
		w.Machines = append(w.Machines, m)
	}
	return w
}

func coresAndMemory(cores, memory int64) model.Resources {
	var out model.Resources
	if cores > 0 {
		out = append(out, model.Amount{Name: "cpu", Value: cores})
	}
	if memory > 0 {
		out = append(out, model.Amount{Name: "memory", Value: memory})
	}
	return out
}
