package fleet

import (
	"fmt"
	"maps"

	"github.com/tonnage/tonnage/engine/model"
)

// Fitted returns the world with acquisition by fit, and with more to choose from: many free machines get
// one of a dozen types, whose prices are proportional to their size, or not, or equal. Needs want
// more, so several types together cover them.
func Fitted(w World, seed int64) World {
	d := &draw{Rand: newRand(seed ^ 0x666974), w: w.Clone()}
	d.w.Fit = true
	if d.chance(0.2) {
		d.w.MaxMachineShare = pick(d, 0.05, 0.25, 0.5, 1)
	}
	types := d.types()
	probabilities := pick(d, []float64{0}, []float64{0, 0.05}, []float64{0, 0.05, 0.05, 0.3})
	free := pick(d, []model.State{model.Idle, model.Speculative}, []model.State{model.Speculative}, []model.State{model.Idle})
	bound, placed := pick(d, 0.1, 0.4, 1), d.chance(0.3)
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		isFree := m.State == model.Idle || m.State == model.Speculative
		if m.Reservation.Active() || !isFree && d.chance(bound) || !d.chance(0.9) {
			continue
		}
		if !placed { // so that most requirements are met
			m.InstanceType, m.CapacityType = "large", model.OnDemand
			m.Labels[keyGeneration], m.Labels[keyAccel] = "2", "a"
		}
		t := types[d.IntN(len(types))]
		m.Resources, m.Allocatable, m.PricePerHour = t.resources, nil, t.price
		m.InterruptionProbability = pick(d, probabilities...)
		if m.State == model.Configured || m.State == model.Configuring {
			d.setFree(m, pick(d, free...))
		}
	}
	d.addFree(types)
	for i := range d.w.Needs {
		n := &d.w.Needs[i]
		if n.Aggregate = times(n.Aggregate, pick(d, int64(1), 1, 2, 3, 5)); len(n.Aggregate) == 1 && d.chance(0.5) && n.MinAggregate == nil {
			n.Aggregate = model.NewResources(append(n.Aggregate, model.Amount{Name: "memory", Value: pick(d, int64(3), 17, 50) << 30})...)
		}
	}
	return d.w
}

// addFree adds machines like those that are free, of any type.
func (d *draw) addFree(types []machineType) {
	more := pick(d, 0, 1, 3)
	for _, m := range d.w.Machines {
		for range more {
			if m.Reservation.Active() || m.State != model.Idle && m.State != model.Speculative {
				break
			}
			x := m
			x.Labels = maps.Clone(m.Labels)
			t := types[d.IntN(len(types))]
			x.ID = fmt.Sprintf("%s-%d", m.ID, len(d.w.Machines))
			x.Resources, x.Allocatable, x.PricePerHour = t.resources, nil, t.price
			if x.Host != "" {
				x.Host = "host-" + x.ID
			}
			d.w.Machines = append(d.w.Machines, x)
		}
	}
}

// setFree makes a machine Idle or Speculative.
func (d *draw) setFree(m *model.Machine, s model.State) {
	m.State, m.Cluster, m.Assigned = s, "", model.Assignment{}
	if s == model.Speculative {
		m.Host, m.IdleSince = "", 0
		return
	}
	m.IdleSince = d.w.Now
}

// machineType is what machines of a type have and cost.
type machineType struct {
	resources model.Resources
	price     float64
}

// types draws a catalogue.
func (d *draw) types() []machineType {
	var out []machineType
	mode := d.IntN(3)
	for range 2 + d.IntN(11) {
		cpu := pick(d, int64(1000), 2000, 4000, 8000, 3900, 15_890)
		memory := cpu / 1000 * pick(d, int64(1), 2, 4, 8)
		t := machineType{resources: model.NewResources(
			model.Amount{Name: "cpu", Value: cpu},
			model.Amount{Name: "memory", Value: max(memory, 1) << 30},
			model.Amount{Name: "nvidia.com/gpu", Value: pick(d, int64(0), 0, 1, 4, 8)})}
		switch mode {
		case 0:
			t.price = float64(cpu)/16_000 + float64(memory)/64
		case 1:
			t.price = d.Float64() * 4
		default:
			t.price = pick(d, 0.25, 0.5, 0.5, 1)
		}
		if d.chance(0.05) {
			t.price = 0
		}
		out = append(out, t)
	}
	return out
}
