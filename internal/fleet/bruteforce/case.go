package bruteforce

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// MachinesMax is the most machines of a case: every set of them is tried.
const MachinesMax = 12

const (
	rackKey = "topology.kubernetes.io/rack"
	roleKey = "example.com/role"
)

// Random draws a small fleet and one Need of higher priority than all others,
// which is the first row.
func Random(seed int64) reference.Input {
	d := &draw{Rand: rand.New(rand.NewPCG(uint64(seed), 0x676e67)), in: reference.Input{
		Reported: map[string]bool{}, Now: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Options: reference.DefaultOptions(),
	}}
	d.in.Options.Victims = reference.VictimsGang
	d.racks = 1 + d.IntN(3)
	d.mixed = d.IntN(4) == 0
	d.preemptor()
	for limit := 4 + d.IntN(MachinesMax-3); len(d.in.Machines) < limit; {
		d.workload(limit - len(d.in.Machines))
	}
	return d.in
}

type draw struct {
	*rand.Rand
	in    reference.Input
	racks int
	mixed bool // machines of several sizes
}

func (d *draw) row(cluster, group string, spec model.ProfileSpec, count int) *model.Need {
	p, err := model.NewProfile(spec)
	if err != nil {
		panic("bruteforce: drew an invalid profile: " + err.Error())
	}
	d.in.Reported[cluster] = true
	unit := gpus(8)
	if d.mixed {
		unit = gpus(4)
	}
	d.in.Needs = append(d.in.Needs, model.Need{
		Cluster: cluster, Group: group, Profile: p, MinUnit: unit, Aggregate: gpus(int64(8 * count)), ShortSince: d.in.Now,
	})
	return &d.in.Needs[len(d.in.Needs)-1]
}

func gpus(n int64) model.Resources {
	return model.NewResources(model.Amount{Name: "nvidia.com/gpu", Value: n})
}

func (d *draw) preemptor() {
	spec := model.ProfileSpec{Priority: 1000}
	switch d.IntN(3) {
	case 0:
		spec.Requirements = []model.Requirement{{Key: rackKey, Operator: model.Same}}
	case 1:
		spec.Requirements = []model.Requirement{{Key: model.KeyZone, Operator: model.Same}}
	}
	d.row("top", "", spec, 1+d.IntN(4))
}

// workload draws what serves at most so many machines: Idle ones, excess, a
// plain row, or a gang of one role or two.
func (d *draw) workload(most int) {
	cluster := fmt.Sprintf("c%d", len(d.in.Machines))
	rack := d.IntN(d.racks)
	switch d.IntN(8) {
	case 0:
		d.machine(model.Idle, "", rack)
		return
	case 1:
		d.in.Reported[cluster] = true
		d.machine(model.Configured, cluster, rack).Assigned.Priority = d.priority()
		return
	case 2, 3:
		d.row(cluster, "", d.victim(), 1)
		d.serve(1, rack, rack)
		return
	}
	spec := d.victim()
	spec.Requirements = []model.Requirement{{Key: model.KeyZone, Operator: model.Same}}
	scattered := d.IntN(3) == 0
	roles := 1
	if d.IntN(5) == 0 && most >= 4 {
		roles = 2
	}
	for i := range roles {
		count := min(2+d.IntN(3), most/roles)
		if count == 0 {
			return
		}
		role := spec
		if roles == 2 {
			role.Requirements = append(role.Requirements[:1:1], model.Requirement{Key: roleKey, Operator: model.In, Values: []string{fmt.Sprint(i)}})
		}
		n := d.row(cluster, "gang", role, count)
		if d.IntN(3) == 0 {
			n.MinAggregate = gpus(int64(8 * (1 + d.IntN(count))))
		}
		last := rack
		if scattered {
			last = d.racks - 1
		}
		for _, m := range d.serve(count, rack, last) {
			m.Labels[roleKey] = fmt.Sprint(i)
		}
	}
}

// victim draws the worth of a workload: few priorities, so that bands matter,
// and penalties that part machines of one priority.
func (d *draw) victim() model.ProfileSpec {
	return model.ProfileSpec{Priority: d.priority(), Interruption: d.penalty(), Reclamation: d.penalty()}
}

func (d *draw) priority() int32       { return []int32{100, 100, 200, 300, 2000}[d.IntN(5)] }
func (d *draw) penalty() model.Bucket { return []model.Bucket{3, 6, 6, 9}[d.IntN(4)] }
func (d *draw) price() float64        { return float64(d.IntN(3)) }

// serve adds machines for the last row, in any of the racks from the first to
// the last; the row asks for just what they have.
func (d *draw) serve(count, first, last int) []*model.Machine {
	n := &d.in.Needs[len(d.in.Needs)-1]
	from := len(d.in.Machines)
	var all model.Resources
	for range count {
		m := d.machine(model.Configured, n.Cluster, min(first, last)+d.IntN(max(first, last)-min(first, last)+1))
		m.Assigned = model.Assignment{
			Priority: n.Profile.Priority(), Interruption: n.Profile.Interruption(), Reclamation: n.Profile.Reclamation(),
			Fingerprint: n.Profile.Fingerprint(), Group: n.Group,
		}
		all = all.Add(m.Resources)
	}
	n.Aggregate = all
	n.MinAggregate = model.NewResources(model.Amount{Name: "nvidia.com/gpu", Value: min(n.MinAggregate.Get("nvidia.com/gpu"), all.Get("nvidia.com/gpu"))})
	var ms []*model.Machine
	for i := from; i < len(d.in.Machines); i++ {
		ms = append(ms, &d.in.Machines[i])
	}
	return ms
}

func (d *draw) machine(state model.State, cluster string, rack int) *model.Machine {
	size := int64(8)
	switch {
	case d.mixed && state == model.Idle:
		size = 4 // so that no gang folds onto it
	case d.mixed:
		size = []int64{8, 8, 4, 16}[d.IntN(4)]
	}
	d.in.Machines = append(d.in.Machines, model.Machine{
		ID: fmt.Sprintf("m%02d", len(d.in.Machines)), State: state, Cluster: cluster, Zone: "z", PricePerHour: d.price(), Resources: gpus(size),
		Labels: map[string]string{rackKey: fmt.Sprint("r", rack)}, IdleSince: d.in.Now,
	})
	return &d.in.Machines[len(d.in.Machines)-1]
}
