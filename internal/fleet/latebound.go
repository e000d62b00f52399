package fleet

import (
	"github.com/tonnage/tonnage/engine/model"
)

// LateBound returns the world with late-bound machines: of some or all that are free, being created, drained or
// deleted. Some Speculative machines have become Idle, so both are chosen among each other. The label may say
// that a machine is not late-bound, and machines that are bound may have it, where it means nothing.
func LateBound(w World, seed int64) World {
	d := &draw{Rand: newRand(seed ^ 0x6c617465), w: w.Clone()}
	share, become := pick(d, 0.1, 0.5, 1), pick(d, 0, 0.3, 0.7)
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		if !d.chance(share) {
			continue
		}
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[model.LabelLateBound] = pick(d, "true", "true", "true", "true", "true", "false")
		if m.State == model.Speculative && d.chance(become) {
			m.State, m.Host, m.IdleSince = model.Idle, "host-"+m.ID, d.w.Now
		}
	}
	return d.w
}
