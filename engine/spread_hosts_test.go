package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleet"
)

const keyHost = "kubernetes.io/hostname"

// overHosts gives machines a host, which a few share and a few lack, and makes most needs
// without Same spread over hosts too.
func overHosts(w fleet.World, seed int64) fleet.World {
	d := rand.New(rand.NewPCG(uint64(seed), 0))
	w = w.Clone()
	for i := range w.Machines {
		m := &w.Machines[i]
		if m.Labels = maps.Clone(m.Labels); m.Labels == nil {
			m.Labels = map[string]string{}
		}
		if d.IntN(12) > 0 {
			m.Labels[keyHost] = fmt.Sprintf("h%03d", i*2/3+d.IntN(2))
		}
	}
	over := map[uint64]*model.Profile{} // by the fingerprint of the original profile
	for i := range w.Needs {
		p := w.Needs[i].Profile
		if p.Same() != nil || d.IntN(5) == 0 {
			continue
		}
		if over[p.Fingerprint()] == nil {
			spec := model.ProfileSpec{Requirements: p.Requirements(), Spread: p.Spread(), Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation()}
			spec.Spread = append(spec.Spread[:len(spec.Spread):len(spec.Spread)], model.Spread{Key: keyHost, MaxSkew: 1 + d.Int32N(2), WhenUnsatisfiable: model.DoNotSchedule})
			over[p.Fingerprint()], _ = model.NewProfile(spec)
		}
		w.Needs[i].Profile = over[p.Fingerprint()]
	}
	for i := range w.Machines {
		if p := over[w.Machines[i].Reservation.Owner.Fingerprint]; p != nil {
			w.Machines[i].Reservation.Owner.Fingerprint = p.Fingerprint()
		}
	}
	return w
}

// TestSpreadOverHostsEqualsReference: the shared deal of machines into tuples gives the same
// result as the reference, which looks at machines one by one.
func TestSpreadOverHostsEqualsReference(t *testing.T) {
	defer engine.SetComponentsMin(engine.SetComponentsMin(0))
	sizes := []fleet.Size{fleet.Tiny, fleet.Small, fleet.Tiny, fleet.Small, fleet.Medium}
	for _, seed := range fleetSeeds(fleetsToTry()/2,
		32528,         // a Need that was credited something and then waits for its turn hid that from those below it
		394, 866, 213, // these alone tell, of 400, whether hard spread lists more victims when it needs them, and kinds are watched that find none
	) {
		mustAgree(t, seed, overHosts(fleet.Random(seed, sizes[seed%int64(len(sizes))]), seed))
	}
}
