package whatif

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
)

// role is what a machine is in a picture of a plan.
type role uint8

const (
	roleBusy    role = iota // serves somebody who keeps it
	roleFree                // serves nobody
	roleOwn                 // the need has it, or takes it now
	roleSpared              // was about to be taken, and stays
	roleExcess              // a victim that nobody claims
	roleElastic             // a victim that its gang can do without
	rolePlain               // a victim of a need that is no gang
	roleWhole               // a victim whose gang has less than its minimum then
)

var roleNames = [...]string{"stays", "free", "its own", "spared", "taken: nobody claims it", "taken: its gang keeps its minimum", "taken: in no gang", "taken: its gang is broken"}

// picture is a plan of preemption as it is drawn.
type picture struct {
	need      *world.NeedRow
	why       *world.NeedWhy
	wants     string // what the need asks of machines; empty = its name says it
	key       string // of the domains; empty = the whole shard is one
	machines  []box
	more      int   // machines that are not listed
	elsewhere []box // victims outside the chosen domain
	victims   []victims
}

// box is a machine of the picture.
type box struct {
	id   string
	role role
	of   string // the need that it serves
}

// victims are those of one need.
type victims struct {
	need    string // empty = nobody's
	cluster string
	role    role
	ids     []string
	count   int   // of the machines; ids may be some of them
	grace   int32 // seconds, the longest
}

// picturesMax bounds how many plans are drawn, the highest ranks first.
const picturesMax = 12

// picturesOf returns the plans of a decision about a world, by rank of their
// needs.
func picturesOf(w *world.World, answer *world.Answer) ([]picture, error) {
	subjects := &world.Subjects{Needs: map[string]bool{}, Machines: map[string]bool{}}
	var order []string
	for i := range answer.Actions {
		a := &answer.Actions[i]
		if a.Kind != engine.Preempt {
			continue
		}
		if !subjects.Needs[a.Need] {
			if len(order) == picturesMax {
				continue
			}
			order = append(order, a.Need)
		}
		subjects.Needs[a.Need], subjects.Machines[a.Machine] = true, true
	}
	if len(order) == 0 {
		return nil, nil
	}
	explained, err := w.Explain(subjects)
	if err != nil {
		return nil, err
	}
	d := newDrawer(w, explained)
	out := make([]picture, 0, len(order))
	for _, name := range order {
		out = append(out, d.picture(name))
	}
	return out, nil
}

// drawer knows a decision by names.
type drawer struct {
	world    *world.World
	answer   *world.Answer
	needs    map[string]*world.NeedRow
	profiles map[string]*world.Need
	whys     map[string]*world.NeedWhy
	machines map[string]*world.MachineWhy
	claims   map[string]string // machine → need
	has      map[string]model.Resources
	actions  map[string]*world.Action
	spared   map[string]bool // by need and machine
}

func newDrawer(w *world.World, a *world.Answer) *drawer {
	d := &drawer{
		world: w, answer: a, needs: map[string]*world.NeedRow{}, profiles: map[string]*world.Need{}, whys: map[string]*world.NeedWhy{},
		machines: map[string]*world.MachineWhy{}, claims: map[string]string{}, has: map[string]model.Resources{}, actions: map[string]*world.Action{}, spared: map[string]bool{},
	}
	for i := range w.Needs {
		d.profiles[w.Needs[i].Name] = &w.Needs[i]
	}
	for i := range w.Machines {
		d.has[w.Machines[i].ID] = w.Machines[i].EffectiveAllocatable()
	}
	for i := range a.Needs {
		n := &a.Needs[i]
		d.needs[n.Name] = n
		for _, id := range n.Claimed {
			d.claims[id] = n.Name
		}
	}
	for i := range a.Explain.Needs {
		n := &a.Explain.Needs[i]
		d.whys[n.Name] = n
		if n.Plan == nil {
			continue
		}
		for j := range n.Plan.Reprieved {
			for _, id := range n.Plan.Reprieved[j].Machines {
				d.spared[n.Name+"\x00"+id] = true
			}
		}
	}
	for i := range a.Explain.Machines {
		d.machines[a.Explain.Machines[i].Machine] = &a.Explain.Machines[i]
	}
	for i := range a.Actions {
		d.actions[a.Actions[i].Machine] = &a.Actions[i]
	}
	return d
}

func (d *drawer) picture(name string) picture {
	p := picture{need: d.needs[name], why: d.whys[name]}
	domain := ""
	if same := d.profiles[name].Profile.Same(); same != nil {
		p.key, domain = same.Key, p.need.Domain
	}
	groups := map[string]*victims{}
	for i := range d.world.Machines {
		m := &d.world.Machines[i]
		in := p.key == ""
		if !in {
			value, there := m.Attribute(p.key)
			in = there && value == domain
		}
		a := d.actions[m.ID]
		victim := a != nil && a.Kind == engine.Preempt && a.Need == name
		if !in && !victim || !shown(m) {
			continue
		}
		b := box{m.ID, d.role(m, name, victim), d.claims[m.ID]}
		if in {
			p.machines = append(p.machines, b)
		} else {
			p.elsewhere = append(p.elsewhere, b)
		}
		if victim {
			g := groups[b.of+"\x00"+a.Cluster]
			if g == nil {
				g = &victims{need: b.of, cluster: a.Cluster, role: b.role}
				groups[b.of+"\x00"+a.Cluster] = g
			}
			g.ids, g.count, g.grace = append(g.ids, m.ID), g.count+1, max(g.grace, a.GraceSeconds)
		}
	}
	for _, g := range groups {
		p.victims = append(p.victims, *g)
	}
	slices.SortFunc(p.victims, func(a, b victims) int {
		return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.need, b.need))
	})
	byRole := func(a, b box) int {
		return cmp.Or(cmp.Compare(b.role, a.role), cmp.Compare(a.of, b.of), cmp.Compare(a.id, b.id))
	}
	slices.SortFunc(p.machines, byRole)
	slices.SortFunc(p.elsewhere, byRole)
	return p
}

// shown are machines that are there: a slot to buy from is none.
func shown(m *model.Machine) bool {
	return m.State != model.Speculative && m.State != model.Deleting && m.State != model.Failed
}

// role says what a machine is to the plan of a need.
func (d *drawer) role(m *model.Machine, need string, victim bool) role {
	holder := d.claims[m.ID]
	switch {
	case !victim && holder == need:
		return roleOwn
	case !victim && holder == "" && m.State == model.Idle:
		return roleFree
	case !victim && d.spared[need+"\x00"+m.ID]:
		return roleSpared
	case !victim:
		return roleBusy
	case holder == "" || d.machines[m.ID] != nil && d.machines[m.ID].Why.Excess:
		return roleExcess
	}
	n := d.needs[holder]
	if d.profiles[holder].Profile.Same() == nil && d.profiles[holder].Group == "" || len(n.Claimed) < 2 {
		return rolePlain
	}
	var kept model.Resources
	for _, id := range n.Claimed {
		if a := d.actions[id]; a == nil || a.Kind != engine.Preempt {
			kept = kept.Add(d.has[id])
		}
	}
	if kept.Covers(d.profiles[holder].Minimum()) {
		return roleElastic
	}
	return roleWhole
}
