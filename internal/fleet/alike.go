package fleet

import "github.com/tonnage/tonnage/engine/model"

// alikeUnit is what each machine of a world of one size has.
var alikeUnit = model.NewResources(
	model.Amount{Name: "cpu", Value: 4000},
	model.Amount{Name: "memory", Value: 16 << 30},
	model.Amount{Name: "nvidia.com/gpu", Value: 8})

// Alike returns the world with machines of one size in one place and Needs that accept any of
// them, without gangs, spread and penalties: whom a Need preempts is the lowest priority. Machines keep
// their state, price and cluster, and the Need that their stamp names; nothing is reserved. Needs keep their
// cluster, priority and size.
func Alike(w World) World {
	w = w.Clone()
	stamps := map[model.Owner]uint64{}
	for i := range w.Needs {
		n := &w.Needs[i]
		p, err := model.NewProfile(model.ProfileSpec{Priority: n.Profile.Priority()})
		if err != nil {
			panic("fleet: a profile without requirements is invalid: " + err.Error())
		}
		for _, fp := range [...]uint64{n.Profile.Fingerprint(), n.Profile.WithoutSame().Fingerprint()} {
			stamps[model.Owner{Cluster: n.Cluster, Fingerprint: fp, Group: n.Group}] = p.Fingerprint()
		}
		n.Profile, n.Group, n.MinAggregate = p, "", nil
	}
	for i := range w.Machines {
		m := &w.Machines[i]
		m.InstanceType, m.Zone, m.Labels = "alike", "za", nil
		m.Resources, m.Allocatable = alikeUnit, nil
		m.Assigned.Interruption, m.Assigned.Reclamation = 0, 0
		if fp, known := stamps[model.Owner{Cluster: m.Cluster, Fingerprint: m.Assigned.Fingerprint, Group: m.Assigned.Group}]; known {
			m.Assigned.Fingerprint, m.Assigned.Group = fp, ""
		}
		m.Reservation = model.Reservation{}
	}
	w.Nested, w.BackingOff = nil, nil
	return w
}
