package ledgers

import (
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// arrivals are the machines that became available, or were bound, since the last decision. What they
// are worth is found out once for all rows of a profile and minimum unit: there may be thousands of
// rows and of machines.
type arrivals struct {
	table    *supply.Table
	ids      []string
	machines []model.Machine // read when they are first asked for
	worth    map[rowKind]worth
}

// rowKind is what rows of all clusters may share: the numbers of profile and minimum unit
// in the table of demand. They hold while that is not changed.
type rowKind struct{ profile, unit uint32 }

// worth is which clusters can use one of the machines.
type worth struct {
	all bool // a machine is free, or machines of two clusters can be preempted
	// from is the cluster whose machines can be preempted, by all others; empty = no machine can.
	from string
}

// read reads the machines; those that are gone are left out.
func (x *arrivals) read() {
	for _, id := range x.ids {
		if r, ok := x.table.Lookup(id); ok {
			x.machines = append(x.machines, x.table.Get(r))
		}
	}
	x.ids = nil
}

// of finds out which clusters can use a machine for a Need.
func (x *arrivals) of(p *model.Profile, minUnit model.Resources) (w worth) {
	x.read()
	for i := range x.machines {
		m := &x.machines[i]
		bound := m.State == model.Configured
		if bound && (m.Assigned.Priority >= p.Priority() || m.Cluster == w.from) || !m.EffectiveAllocatable().Covers(minUnit) || !p.Matches(m) {
			continue
		}
		if !bound || w.from != "" {
			return worth{all: true}
		}
		w.from = m.Cluster
	}
	return w
}

// suits tells whether the cluster can use one of the machines.
func (w worth) suits(cluster string) bool { return w.all || w.from != "" && w.from != cluster }
