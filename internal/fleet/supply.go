package fleet

import (
	"fmt"
	"math"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// machine draws a record. Ids have the same length, so that their byte order
// is their number's.
func (d *draw) machine(i, of int) model.Machine {
	m := model.Machine{
		ID:           fmt.Sprintf("m%0*d", len(fmt.Sprint(of*2)), i),
		State:        pick(d, d.states...),
		CapacityType: model.CapacityType(d.IntN(model.NumCapacityTypes)),
		PricePerHour: pick(d, d.prices...),
	}
	m.InterruptionProbability = pick(d, 0, 0, 0.05, 0.3)
	d.shape(&m)
	d.label(&m)
	d.place(&m)
	if d.chance(d.stamps) {
		d.stamp(&m)
	}
	if m.State == model.Creating {
		d.createdFor(&m)
	} else if d.chance(d.holds) {
		d.reserve(&m)
	}
	if err := m.Validate(true); err != nil {
		panic("fleet: drew an invalid machine: " + err.Error())
	}
	return m
}

// shape draws what the machine offers. Some have nothing that a Need asks for,
// some advertise less to workloads than they have.
func (d *draw) shape(m *model.Machine) {
	r := func(cpu, gib, gpus int64) model.Resources {
		return model.NewResources(
			model.Amount{Name: "cpu", Value: cpu},
			model.Amount{Name: "memory", Value: gib << 30},
			model.Amount{Name: "nvidia.com/gpu", Value: gpus})
	}
	switch d.IntN(10) {
	case 0, 1, 2:
		m.InstanceType, m.Resources = "small", r(2000, 4, 0)
	case 3, 4, 5:
		m.InstanceType, m.Resources = "large", r(4000, 16, 0)
	case 6, 7:
		m.InstanceType, m.Resources = "gpu", r(8000, 32, 8)
	case 8:
		m.InstanceType, m.Resources = "gpu", r(0, 0, 4)
	case 9:
		m.Resources = model.NewResources(model.Amount{Name: "example.com/disk", Value: 5})
		if d.chance(0.5) {
			m.Resources = nil
		}
	}
	if d.chance(d.huge) {
		m.Resources = r(pick(d, math.MaxInt64, int64(1)<<62), 16, 8)
	}
	if d.chance(0.15) {
		m.Allocatable = pick(d, r(1500, 3, 0), r(3900, 0, 0), r(0, 0, 8), r(6000, 24, 7))
	}
}

func (d *draw) label(m *model.Machine) {
	m.Labels = map[string]string{}
	if d.chance(0.85) {
		m.Labels[keyRack] = pick(d, d.racks...)
	}
	switch {
	case d.chance(0.85):
		m.Zone = pick(d, d.zones...)
	case d.chance(0.5):
		m.Labels[model.KeyZone] = pick(d, d.zones...)
	}
	if d.chance(0.6) {
		m.Labels[keyGeneration] = pick(d, "0", "1", "2", "3", "new", "")
	}
	if d.chance(0.3) {
		m.Labels[keyAccel] = pick(d, "a", "b", "c")
	}
}

// place fills what the state asks for.
func (d *draw) place(m *model.Machine) {
	switch m.State {
	case model.Configured, model.Draining:
		m.Cluster = d.anyCluster()
	case model.Configuring:
		if d.chance(0.9) {
			m.Cluster = d.anyCluster()
		}
	case model.Idle:
		held := pick(d, 0, 30*time.Second, time.Minute, 10*time.Minute-1, 10*time.Minute, time.Hour)
		m.IdleSince = d.w.Now - int64(held)
	case model.Failed:
		m.LastError = "drawn as failed"
	}
	switch m.State {
	case model.Speculative, model.Creating:
	default:
		m.Host = "host-" + m.ID
	}
}

// stamp marks the machine as serving a Need: one of the demand, of its own
// cluster where it has one, as a row or as a fold; or one that is gone.
func (d *draw) stamp(m *model.Machine) {
	m.Assigned = model.Assignment{
		Priority:     pick(d, d.priorities...),
		Interruption: d.bucket(),
		Reclamation:  d.bucket(),
	}
	n := d.someNeed(m.Cluster)
	switch {
	case n == nil || d.chance(0.15):
		m.Assigned.Fingerprint = pick(d, uint64(0), 12345)
		return
	case d.chance(0.3):
		m.Assigned.Fingerprint = n.Profile.Folded().Fingerprint()
		m.Assigned.Group = pick(d, "", n.Group)
	default:
		m.Assigned.Fingerprint, m.Assigned.Group = n.Profile.Fingerprint(), n.Group
	}
	if d.chance(0.7) {
		m.Assigned.Priority = n.Profile.Priority()
	}
}

// someNeed prefers one of the cluster; nil when there is no demand.
func (d *draw) someNeed(cluster string) *model.Need {
	if len(d.w.Needs) == 0 {
		return nil
	}
	n := &d.w.Needs[d.IntN(len(d.w.Needs))]
	for range 4 {
		if cluster == "" || n.Cluster == cluster {
			break
		}
		n = &d.w.Needs[d.IntN(len(d.w.Needs))]
	}
	return n
}

// createdFor stamps a machine for the Need that it is being created for; some
// have lost their stamp or their owner.
func (d *draw) createdFor(m *model.Machine) {
	n := d.someNeed("")
	if n == nil || d.chance(0.1) {
		return
	}
	owner := n.Owner()
	m.Assigned.Fingerprint, m.Assigned.Group = n.Profile.Fingerprint(), n.Group
	m.Assigned.Priority = n.Profile.Priority()
	if d.chance(0.3) {
		m.Assigned.Fingerprint, m.Assigned.Group = n.Profile.Folded().Fingerprint(), ""
		owner.Fingerprint, owner.Group = m.Assigned.Fingerprint, ""
	}
	d.hold(m, n, owner)
}

// reserve holds the machine for somebody, if its state can carry it: a Need,
// a fold, one that is gone, or one of a cluster that has not reported.
func (d *draw) reserve(m *model.Machine) {
	switch m.State {
	case model.Idle, model.Draining, model.Configured:
	default:
		return
	}
	n := d.someNeed("")
	var owner model.Owner
	switch {
	case n == nil || d.chance(0.1):
		owner = model.Owner{Cluster: pick(d, d.clusters...), Fingerprint: 777}
	case d.chance(0.1):
		owner = model.Owner{Cluster: "u9", Fingerprint: 777}
	case d.chance(0.2):
		owner = model.Owner{Cluster: n.Cluster, Fingerprint: n.Profile.Folded().Fingerprint()}
	default:
		owner = n.Owner()
	}
	d.hold(m, n, owner)
}

func (d *draw) hold(m *model.Machine, n *model.Need, owner model.Owner) {
	r := model.Reservation{Owner: owner, Priority: pick(d, d.priorities...), Interruption: d.bucket(), Reclamation: d.bucket()}
	if n != nil && d.chance(0.7) {
		r.Priority, r.Interruption, r.Reclamation = n.Profile.Priority(), n.Profile.Interruption(), n.Profile.Reclamation()
		r.Arrival = n.Arrival
	}
	if m.State != model.Creating && d.chance(d.plans) {
		r.Plan = 1 + uint64(len(owner.Group)) // several plans, each of one owner
		if n != nil && n.Profile.Same() != nil && d.chance(0.9) {
			r.Domain, _ = m.Attribute(n.Profile.Same().Key)
		}
	}
	r.Deadline = pick(d, 0, 0, d.w.Now+60e9, d.w.Now+60e9, d.w.Now, d.w.Now-1)
	m.Reservation = r
}
