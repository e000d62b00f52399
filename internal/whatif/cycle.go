package whatif

import (
	"cmp"
	"io"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
)

// Drawing is a plan of preemption of a cycle that is over, as much of it as is
// drawn: at most boxesMax machines that it takes, and as many others.
type Drawing struct {
	picture picture
	takes   map[string]bool // ids of the machines in the picture that it takes
}

// Takes reports whether the drawing shows that a machine is taken.
func (d *Drawing) Takes(machine string) bool { return d.takes[machine] }

// WriteSVG draws the plan: the machines that it takes and, if it has a domain,
// the others there and the domains that it was chosen from; whom the stamps of its
// victims say that they serve, and how long these have.
func (d *Drawing) WriteSVG(out io.Writer) error {
	return writePictures(out, "A plan of preemption", []picture{d.picture})
}

// DrawingsOf keeps a cycle's plans of preemption, at most picturesMax of the
// highest ranks, before anything is done about them.
// Cost: O(actions and machines of the victims' Needs), and O(machines) where a plan
// has a domain.
func DrawingsOf(in engine.Input, plan *engine.Plan, words Words) []Drawing {
	c := cycle{in: in, plan: plan, words: words, at: map[int32]int{}, victims: map[uint32]bool{}, gangs: map[gangName]bool{}, roles: map[gangRole]bool{}}
	for i := range plan.Actions {
		if a := &plan.Actions[i]; a.Kind == engine.Preempt {
			c.note(a)
		}
	}
	if len(c.list) == 0 {
		return nil
	}
	c.survey()
	out := make([]Drawing, len(c.list))
	for i := range c.list {
		out[i] = c.list[i].drawing(&c)
	}
	return out
}

// Words say what things are called in drawings.
type Words struct {
	Profile func(*model.Profile) string
	// Need names a row of the demand, Holder the Need that a machine serves by its stamp; they may be nil, and Holder may not know.
	Need   func(cluster string, row int) string
	Holder func(cluster string, stamp model.Assignment) string
}

// cycle is a decision of which the plans are kept.
type cycle struct {
	in      engine.Input
	plan    *engine.Plan
	words   Words
	list    []draft
	at      map[int32]int // by need: its place in list
	victims map[uint32]bool
	gangs   map[gangName]bool // of victims; true = one of its roles has less than its minimum then
	roles   map[gangRole]bool // that were looked at
}

// gangName is a group of a cluster.
type gangName struct{ cluster, group string }

// gangRole is a row of a group, by the stamp of its machines.
type gangRole struct {
	gangName
	fingerprint uint64
}

// draft is a drawing in the making.
type draft struct {
	picture
	taken []engine.Action
	own   map[uint32]bool
	value string // of the domain
}

// note adds a Preempt to the plan that it is part of.
func (c *cycle) note(a *engine.Action) {
	at, known := c.at[a.Need]
	if !known {
		if len(c.list) == picturesMax {
			return
		}
		n := c.plan.Need(int(a.Need))
		at = len(c.list)
		c.at[a.Need] = at
		d := draft{own: map[uint32]bool{}, value: n.Domain}
		d.need = &world.NeedRow{Name: c.words.Profile(n.Profile), Cluster: n.Cluster, Domain: n.Domain}
		if c.words.Need != nil {
			d.wants, d.need.Name = d.need.Name, c.words.Need(n.Cluster, n.Row)
		}
		d.why = &world.NeedWhy{}
		d.why.Why.Preemption = c.plan.Compared(int(a.Need))
		if same := n.Profile.Same(); same != nil {
			d.key = same.Key
		}
		for _, r := range n.Claimed {
			d.own[uint32(r)] = true
		}
		c.list = append(c.list, d)
	}
	c.list[at].taken = append(c.list[at].taken, *a)
	c.victims[uint32(a.Machine)] = true
	stamp := c.in.Supply.Assigned(a.Machine)
	role := gangRole{gangName{c.in.Supply.Cluster(a.Machine), stamp.Group}, stamp.Fingerprint}
	if !c.roles[role] && stamp.Group != "" {
		c.roles[role] = true
		c.gangs[role.gangName] = c.gangs[role.gangName] || c.plan.Breaks(a.Machine)
	}
}

// survey looks at all machines once: who stands in the plans' domains.
func (c *cycle) survey() {
	keys, some := make([]int, len(c.list)), false
	for i := range c.list {
		if keys[i] = -1; c.list[i].key != "" {
			keys[i], some = c.in.Supply.Key(c.list[i].key), true
		}
	}
	if !some {
		return
	}
	s := c.in.Supply
	for r := range s.All() {
		for i, key := range keys {
			if d := &c.list[i]; key >= 0 && !c.victims[uint32(r)] && s.ValueString(s.Value(key, r)) == d.value && standing(s.State(r)) {
				d.add(box{id: s.ID(r), role: c.roleOf(uint32(r), s.State(r), d), of: s.Cluster(r)})
			}
		}
	}
}

// standing are states of machines that are there.
func standing(s model.State) bool {
	return s != model.Speculative && s != model.Deleting && s != model.Failed
}

// add keeps a machine that is not taken, of many only some.
func (d *draft) add(b box) {
	if len(d.machines) < boxesMax {
		d.machines = append(d.machines, b)
	} else {
		d.more++
	}
}

// roleOf says what a machine that no plan takes is to the need.
func (c *cycle) roleOf(r uint32, s model.State, d *draft) role {
	switch {
	case d.own[r]:
		return roleOwn
	case s == model.Idle:
		return roleFree
	}
	return roleBusy
}

// drawing adds the machines that are taken.
func (d *draft) drawing(c *cycle) Drawing {
	out := Drawing{takes: map[string]bool{}}
	type holder struct {
		gangName
		need string
	}
	groups := map[holder]int{}
	var taken []box
	for i := range d.taken {
		a := &d.taken[i]
		s := c.in.Supply
		stamp := s.Assigned(a.Machine)
		g := gangName{s.Cluster(a.Machine), stamp.Group}
		who := holder{gangName: g}
		if c.words.Holder != nil {
			who.need = c.words.Holder(g.cluster, stamp)
		}
		b := box{id: s.ID(a.Machine), of: cmp.Or(who.need, g.cluster), role: roleWhole}
		switch {
		case !c.plan.Claimed(a.Machine):
			b.role = roleExcess
		case stamp.Group == "":
			b.role = rolePlain
		case !c.gangs[g]:
			b.role = roleElastic
		}
		at, known := groups[who]
		if !known {
			at = len(d.victims)
			groups[who] = at
			d.victims = append(d.victims, victims{need: cmp.Or(who.need, g.group, "single machines"), cluster: g.cluster, role: b.role})
		}
		v := &d.victims[at]
		if v.count++; len(v.ids) < victimsMax {
			v.ids = append(v.ids, b.id)
		}
		v.grace = max(v.grace, a.GraceSeconds)
		if len(taken) == boxesMax {
			d.more++
			continue
		}
		taken = append(taken, b)
		out.takes[b.id] = true
	}
	slices.SortStableFunc(taken, func(a, b box) int { return cmp.Compare(b.role, a.role) })
	slices.SortStableFunc(d.machines, func(a, b box) int { return cmp.Compare(b.role, a.role) })
	all := slices.Concat(taken, d.machines)
	d.more += max(len(all)-boxesMax, 0)
	d.machines = all[:min(len(all), boxesMax)]
	out.picture = d.picture
	return out
}
