package reference

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// gangKey names a gang: the Needs of one group of a cluster are its roles.
// Without a group each Same-Need is one by itself.
type gangKey struct {
	cluster, group string
	row            int // without a group: the Need's
}

// gang is demand that lives and dies together. Its members are the machines
// that its Needs claim.
type gang struct {
	gangKey
	needs []*need
}

// shortSecondsBroken is for how many seconds a gang must have been short, with
// nothing on its way to it, before it counts as broken.
const shortSecondsBroken = 60

// findGangs tells each Need which gang it belongs to, nil = none: that of all
// of its rows. Members of a fold that come from several gangs, or from none,
// share their machines, and nobody can say whose one of them is.
func (p *pass) findGangs() {
	gangs := map[gangKey]*gang{}
	rows := map[gangKey][]int{}
	unfolded := map[gangKey]bool{} // one of its Needs asks for co-location
	for _, n := range p.needs {
		for _, row := range n.rows {
			if k, ok := p.keyOf(n, row); ok {
				rows[k] = append(rows[k], row)
				unfolded[k] = unfolded[k] || n.Profile.Same() != nil
			}
		}
	}
	for k, rs := range rows {
		if unfolded[k] || len(rs) > 1 && p.needsSeveralMachines(rs) {
			gangs[k] = &gang{gangKey: k}
		}
	}
	for _, n := range p.needs {
		var of *gang
		for i, row := range n.rows {
			k, _ := p.keyOf(n, row)
			if i > 0 && gangs[k] != of {
				of = nil
				break
			}
			of = gangs[k]
		}
		if n.gang = of; of != nil {
			of.needs = append(of.needs, n)
		}
	}
}

// keyOf names the gang of a row of the Need, if it can have one.
func (p *pass) keyOf(n *need, row int) (gangKey, bool) {
	r := &p.in.Needs[row]
	switch {
	case r.Group != "":
		return gangKey{cluster: r.Cluster, group: r.Group}, true
	case n.fold || r.Profile.Same() == nil:
		return gangKey{}, false
	}
	return gangKey{cluster: r.Cluster, row: row}, true
}

// needsSeveralMachines: one of the rows asks for co-location, and no machine
// that could be theirs, bound or free, matches all of them and covers their sum.
// None covers a name that no machine offers.
func (p *pass) needsSeveralMachines(rows []int) bool {
	together := false
	var all model.Resources
	for _, i := range rows {
		if p.in.Needs[i].Profile.Same() != nil {
			if p.lacks[i].waits {
				return true
			}
			together = true
		}
		all = all.Add(p.in.Needs[i].Aggregate)
	}
	return together && !slices.ContainsFunc(p.machines, func(m *model.Machine) bool {
		return !slices.ContainsFunc(rows, func(i int) bool {
			one := p.in.Needs[i]
			one.Aggregate = all
			return !fitsWhole(&one, m)
		})
	})
}

// minimum is what the Need can live with: the sum of its rows' minima.
func (p *pass) minimum(n *need) model.Resources {
	var least model.Resources
	for _, i := range n.rows {
		least = least.Add(p.in.Needs[i].Minimum())
	}
	return least
}

// bodyOf returns the machines that the Need claims and that nobody has taken
// from it in this cycle.
func (p *pass) bodyOf(n *need) []*model.Machine {
	return filter(n.claims(), func(m *model.Machine) bool { return p.victimOf[m] == nil })
}

// members returns those of all of the gang's Needs, by id.
func (p *pass) members(g *gang) []*model.Machine {
	var ms []*model.Machine
	for _, n := range g.needs {
		ms = append(ms, p.bodyOf(n)...)
	}
	slices.SortFunc(ms, func(a, b *model.Machine) int { return cmp.Compare(a.ID, b.ID) })
	return ms
}

// gangState says what may be taken of a gang.
type gangState int

const (
	gangAlone  gangState = iota // left alone: it is assembling, or short for less than a minute
	gangBroken                  // short for a minute with nothing on its way: each member by itself
	gangSound                   // what is above its minimum, or all of it
)

func (p *pass) stateOf(g *gang) gangState {
	switch {
	case p.assembling(g):
		return gangAlone
	case !p.short(g):
		return gangSound
	case p.shortSeconds(g) >= shortSecondsBroken:
		return gangBroken
	}
	return gangAlone
}

// assembling: something is on its way to the gang or reserved for it, or a
// member is reserved for another and about to leave.
func (p *pass) assembling(g *gang) bool {
	for _, n := range g.needs {
		if len(n.reserved)+len(n.inFlight)+len(n.victims) > 0 || n.lost {
			return true
		}
		for _, m := range n.claims() {
			if _, held := p.holds[m]; held || m.State != model.Configured {
				return true
			}
		}
	}
	for m := range p.holds {
		if m.Cluster == g.cluster && m.State == model.Configured {
			continue
		}
		if slices.ContainsFunc(g.needs, func(n *need) bool { return p.reservedFor(n, m) }) {
			return true
		}
	}
	return false
}

// short: the claims of some role do not cover its minimum.
func (p *pass) short(g *gang) bool {
	return slices.ContainsFunc(g.needs, p.belowMinimum)
}

func (p *pass) belowMinimum(n *need) bool { return !sum(n.claims()).Covers(p.minimum(n)) }

// shortSeconds is for how long: since the earliest time that a row of a short
// role says; a row that says none is short since now.
func (p *pass) shortSeconds(g *gang) int64 {
	since := p.in.Now
	for _, n := range g.needs {
		if !p.belowMinimum(n) {
			continue
		}
		for _, i := range n.rows {
			if s := p.in.Needs[i].ShortSince; s != 0 {
				since = min(since, s)
			}
		}
	}
	return (p.in.Now - since) / 1e9
}

// gangPriority is the highest of its members.
func (p *pass) gangPriority(ms []*model.Machine) int32 {
	highest := p.priorityOf(ms[0])
	for _, m := range ms {
		highest = max(highest, p.priorityOf(m))
	}
	return highest
}
