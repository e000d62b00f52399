package fleet

import (
	"fmt"

	"github.com/tonnage/tonnage/engine/model"
)

// keyRole is a label by which the roles of a gang ask for different machines.
const keyRole = "example.com/role"

// gangFleet draws a world in which machines serve the rows that they are
// stamped for: gangs of several roles, some elastic, some short, some
// scattered, beside plain rows; and others that would have to preempt them.
func (d *draw) gangFleet(size Size) {
	machines := about(d, size.Machines)
	d.priorities = [][]int32{{100}, {100, 200}, {100, 101, 102, 300}, {-5, 100, 150_000, 700_000}}[d.IntN(4)]
	for len(d.w.Machines) < machines*3/4 {
		d.workload()
	}
	for len(d.w.Machines) < machines {
		m := d.gangMachine(pick(d, model.Idle, model.Idle, model.Speculative, model.Configured))
		if m.State == model.Configured { // nobody's, of a cluster that may not have reported
			m.Cluster = d.anyCluster()
			m.Assigned.Priority = pick(d, append([]int32{5000}, d.priorities...)...)
		}
		d.w.Machines = append(d.w.Machines, m)
	}
	for range 1 + d.IntN(1+size.Needs/3) {
		d.preemptor()
	}
}

// gpuUnit is what a machine with GPUs has for each.
var gpuUnit = model.NewResources(model.Amount{Name: "cpu", Value: 1000}, model.Amount{Name: "nvidia.com/gpu", Value: 1})

// gangMachine draws a machine in a rack of a zone, most of one size.
func (d *draw) gangMachine(state model.State) model.Machine {
	gpus := pick(d, int64(8), 8, 8, 8, 8, 4)
	rack := d.IntN(len(d.racks))
	m := model.Machine{
		ID: fmt.Sprintf("m%04d", len(d.w.Machines)), State: state, InstanceType: "gpu", Zone: d.zones[rack%len(d.zones)],
		Resources: times(gpuUnit, gpus),
		Labels:    map[string]string{keyRack: d.racks[rack]}, PricePerHour: pick(d, d.prices...),
	}
	if d.chance(0.1) {
		m.InstanceType, m.Resources = "small", model.NewResources(model.Amount{Name: "cpu", Value: 4000})
	}
	if d.chance(0.5) {
		m.Labels[keyRole] = pick(d, "server", "worker")
	}
	d.place(&m)
	return m
}

// workload draws a plain row, or a gang of one role or two, with the machines
// that serve it, not always as many as it asks for.
func (d *draw) workload() {
	group := fmt.Sprintf("g%d", len(d.w.Needs))
	cluster, priority := pick(d, d.clusters...), pick(d, d.priorities...)
	same := pick(d, "", model.KeyZone, model.KeyZone, keyRack)
	roles := 1
	if same == "" {
		group = ""
	} else if d.chance(0.3) {
		roles = 2
	}
	for i := range roles {
		count := 1 + d.IntN(5)
		spec := model.ProfileSpec{Priority: priority, Interruption: d.bucket(), Reclamation: d.bucket()}
		if d.chance(0.1) {
			spec.Priority = pick(d, d.priorities...)
		}
		if same != "" {
			spec.Requirements = append(spec.Requirements, model.Requirement{Key: same, Operator: model.Same})
		}
		if roles == 2 {
			spec.Requirements = append(spec.Requirements, model.Requirement{Key: keyRole, Operator: model.In, Values: []string{[]string{"server", "worker"}[i]}})
		}
		n := d.gangRow(cluster, group, spec, count)
		d.serve(&n, same, count)
	}
}

// gangRow adds a row for a number of machines.
func (d *draw) gangRow(cluster, group string, spec model.ProfileSpec, count int) model.Need {
	p, err := model.NewProfile(spec)
	if err != nil {
		panic("fleet: drew an invalid profile: " + err.Error())
	}
	unit := model.NewResources(model.Amount{Name: "nvidia.com/gpu", Value: 8})
	if d.chance(0.2) {
		unit = unit.Add(model.NewResources(model.Amount{Name: "cpu", Value: pick(d, int64(2000), 8000)}))
	}
	n := model.Need{Cluster: cluster, Group: group, Profile: p, Arrival: d.arrival(), Aggregate: times(unit, int64(count)), MinUnit: unit}
	if d.chance(0.2) {
		n.MinUnit = pick(d, nil, times(unit, 1), model.NewResources(model.Amount{Name: "nvidia.com/gpu", Value: 4}))
	}
	if d.chance(d.elastic) {
		n.MinAggregate = d.minimum(n.Aggregate)
	}
	d.shortSince(&n)
	d.w.Needs = append(d.w.Needs, n)
	return n
}

// serve adds the row's machines, in one domain or, where the row allows it,
// scattered over several racks.
func (d *draw) serve(n *model.Need, same string, count int) {
	count = max(0, count+pick(d, 0, 0, 0, 0, 0, -1, 1))
	scattered := d.chance(0.4) && same != keyRack
	rack := pick(d, d.racks...)
	for range count {
		m := d.gangMachine(model.Configured)
		if d.chance(0.08) {
			m.State = pick(d, model.Configuring, model.Draining, model.Idle, model.Idle)
		}
		if m.Cluster = n.Cluster; m.State == model.Idle {
			m.Cluster = ""
		}
		if !scattered {
			m.Labels[keyRack] = rack
		}
		if same == model.KeyZone {
			m.Zone = d.zones[0]
		}
		for _, r := range n.Profile.Requirements() {
			if r.Key == keyRole {
				m.Labels[keyRole] = r.Values[0]
			}
		}
		m.Assigned = model.Assignment{
			Priority: n.Profile.Priority(), Interruption: n.Profile.Interruption(), Reclamation: n.Profile.Reclamation(),
			Fingerprint: n.Profile.Fingerprint(), Group: n.Group,
		}
		if d.chance(0.1) {
			m.Assigned.Interruption = d.bucket()
		}
		d.w.Machines = append(d.w.Machines, m)
	}
}

// preemptor adds a row that outranks most, and now and then machines that are
// reserved for it.
func (d *draw) preemptor() {
	spec := model.ProfileSpec{Priority: pick(d, int32(1000), 1000, 2000, 150, 1_000_000), Interruption: d.bucket(), Reclamation: d.bucket()}
	count, group := 1+d.IntN(5), ""
	switch key := pick(d, "", keyRack, keyRack, model.KeyZone); {
	case key != "":
		group = fmt.Sprintf("p%d", len(d.w.Needs))
		spec.Requirements = append(spec.Requirements, model.Requirement{Key: key, Operator: model.Same})
	case d.chance(d.spread):
		spec.Spread = append(spec.Spread, model.Spread{Key: d.topologyKey(), MaxSkew: pick(d, int32(1), 2), WhenUnsatisfiable: model.DoNotSchedule})
	}
	if d.chance(0.2) {
		spec.Requirements = append(spec.Requirements, model.Requirement{Key: keyRole, Operator: model.In, Values: []string{pick(d, "server", "worker")}})
	}
	n := d.gangRow(pick(d, append([]string{"top", "king"}, d.clusters...)...), group, spec, count)
	d.w.Reported[n.Cluster] = true
	if !d.chance(d.plans) || !d.chance(0.5) {
		return
	}
	rack := d.IntN(len(d.racks))
	for range 1 + d.IntN(count) {
		m := d.gangMachine(pick(d, model.Draining, model.Draining, model.Idle, model.Configured))
		if d.chance(0.8) {
			m.Labels[keyRack], m.Zone = d.racks[rack], d.zones[rack%len(d.zones)]
		}
		d.hold(&m, &n, n.Owner())
		d.w.Machines = append(d.w.Machines, m)
	}
}
