package reference

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// pass is the state of one cycle.
type pass struct {
	in    *Input
	needs []*need // in rank order
	lacks []lack  // by index of in.Needs

	machines    []*model.Machine // by id
	bound       map[string][]*model.Machine
	creating    []*model.Machine
	idle        []*model.Machine // keep order, without late-bound ones
	speculative map[model.Bucket][]*model.Machine

	owners    map[stamp]*need         // the last in rank order
	holds     map[*model.Machine]hold // live reservations
	claimedBy map[*model.Machine]*need
	victimOf  map[*model.Machine]*need
	// countedFor is whose deficit an in-flight machine has been subtracted from.
	countedFor map[*model.Machine]*need

	// What the search for plans has met: pairs of a Same-Need and a domain that
	// covers it, and machines that were offered there.
	pairs, offered int

	// With gangs: takenBy is whose plan counts on a machine, remainder are
	// victims that nobody has a use for yet, and voided are machines whose plan
	// ended in this pass.
	takenBy   map[*model.Machine]*need
	remainder map[*model.Machine]bool
	voided    map[*model.Machine]hold
	withheld  map[*model.Machine]bool // acquired and given up, because the plan went elsewhere
	// acquired are the Idle machines that Needs have acquired when phase 2 begins, and the priority above which a plan may
	// count on each.
	acquired map[*model.Machine]int32
}

// Decide returns the plan of one cycle.
func Decide(in Input) Plan {
	lacks := leaveOut(&in)
	p := newPass(&in, lacks)
	for _, n := range p.needs {
		p.phase1(n)
	}
	p.giveBackTogether()
	p.beginPhase2()
	for _, n := range p.needs {
		p.phase2(n)
	}
	p.reclaimBetweenTenants()
	return p.plan()
}

func newPass(in *Input, lacks []lack) *pass {
	p := &pass{
		in:          in,
		lacks:       lacks,
		bound:       map[string][]*model.Machine{},
		speculative: map[model.Bucket][]*model.Machine{},
		claimedBy:   map[*model.Machine]*need{},
		victimOf:    map[*model.Machine]*need{},
		countedFor:  map[*model.Machine]*need{},
		takenBy:     map[*model.Machine]*need{},
		remainder:   map[*model.Machine]bool{},
		voided:      map[*model.Machine]hold{},
		withheld:    map[*model.Machine]bool{},
	}
	for i := range in.Machines {
		p.machines = append(p.machines, &in.Machines[i])
	}
	slices.SortFunc(p.machines, func(a, b *model.Machine) int { return cmp.Compare(a.ID, b.ID) })
	for _, m := range p.machines {
		switch m.State {
		case model.Configured, model.Configuring:
			p.bound[m.Cluster] = append(p.bound[m.Cluster], m)
		case model.Creating:
			p.creating = append(p.creating, m)
		case model.Idle:
			if !isBought(m) {
				p.idle = append(p.idle, m)
			}
		}
	}
	slices.SortFunc(p.idle, keepOrder)
	p.normalise()
	p.findOwners()
	p.findHolds()
	p.findGangs()
	return p
}

// usable: the machine matches, covers the minimum unit on its own, and has
// something of what the Need asks for.
func usable(n *need, m *model.Machine) bool { return serves(&n.Need, m) }

func serves(n *model.Need, m *model.Machine) bool {
	has := m.EffectiveAllocatable()
	return useful(m, n.Aggregate) && has.Covers(n.MinUnit) && n.Profile.Matches(m)
}

// useful: the machine has something of a dimension still missing.
func useful(m *model.Machine, missing model.Resources) bool {
	has := m.EffectiveAllocatable()
	return slices.ContainsFunc(missing, func(a model.Amount) bool { return has.Get(a.Name) > 0 })
}

// sum adds up what machines offer, saturating.
func sum(ms []*model.Machine) model.Resources {
	var total model.Resources
	for _, m := range ms {
		total = total.Add(m.EffectiveAllocatable())
	}
	return total
}

// walk takes whole machines, in order, until nothing is missing; it passes
// over those that are not useful. It returns what it took and what remains.
func walk(ms []*model.Machine, missing model.Resources) (took []*model.Machine, left model.Resources) {
	for _, m := range ms {
		if missing.IsZero() {
			break
		}
		if useful(m, missing) {
			took = append(took, m)
			missing = missing.Sub(m.EffectiveAllocatable())
		}
	}
	return took, missing
}

// bySpeculativeCost returns every Speculative machine, and every late-bound one that is Idle, in the
// order of the penalty.
func (p *pass) bySpeculativeCost(penalty model.Bucket) []*model.Machine {
	sorted, ok := p.speculative[penalty]
	if !ok {
		sorted = filter(p.machines, isBought)
		slices.SortFunc(sorted, speculativeOrder(penalty))
		p.speculative[penalty] = sorted
	}
	return sorted
}
