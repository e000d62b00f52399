package contract

import (
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// Faults returns what is wrong with a plan by itself: the invariants that hold
// of every plan, whatever the world. It re-derives nothing.
func Faults(in reference.Input, plan reference.Plan) []string {
	c := &checker{in: &in, plan: &plan, machines: map[string]*model.Machine{}, claimer: map[string]int{}}
	for i := range in.Machines {
		c.machines[in.Machines[i].ID] = &in.Machines[i]
	}
	if len(plan.Needs) != len(in.Needs) {
		return []string{fmt.Sprintf("%d results for %d rows", len(plan.Needs), len(in.Needs))}
	}
	for i := range plan.Needs {
		c.need(i)
	}
	c.actions()
	c.preemptions()
	c.reclaims()
	if in.Options.Victims == reference.VictimsGang {
		c.drains()
		c.reservations()
	} else if len(plan.Reserved) > 0 {
		c.fault("%v is reserved by a plan, and victims are taken one by one", plan.Reserved)
	}
	return c.faults
}

type checker struct {
	in       *reference.Input
	plan     *reference.Plan
	machines map[string]*model.Machine
	claimer  map[string]int // by machine: the Fold of the row that claims it
	faults   []string
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// need: claims exist and match, are claimed once, and add up to the deficit.
func (c *checker) need(i int) {
	n, r := &c.in.Needs[i], &c.plan.Needs[i]
	if r.Fold != i {
		if first := c.plan.Needs[r.Fold]; !slices.Equal(first.Claimed, r.Claimed) || first.Satisfied != r.Satisfied {
			c.fault("row %d does not report the figures of its fold %d", i, r.Fold)
		}
		return
	}
	wants := c.wants(i)
	var has model.Resources
	for _, id := range r.Claimed {
		m := c.machines[id]
		if m == nil {
			c.fault("row %d claims %s, which does not exist", i, id)
			continue
		}
		if other, twice := c.claimer[id]; twice {
			c.fault("%s is claimed by rows %d and %d", id, other, i)
		}
		c.claimer[id] = i
		if !n.Profile.Matches(m) {
			c.fault("row %d claims %s, which does not match", i, id)
		}
		if m.Cluster != "" && m.Cluster != n.Cluster {
			c.fault("row %d of %s claims %s of %s", i, n.Cluster, id, m.Cluster)
		}
		has = has.Add(m.EffectiveAllocatable())
	}
	if left := wants.Sub(has); !left.Equal(r.Deficit) {
		c.fault("row %d: deficit %v, but claims leave %v", i, r.Deficit, left)
	}
	if r.Satisfied != r.Deficit.IsZero() || r.Satisfied != (r.Unmet == "") {
		c.fault("row %d: satisfied %v, deficit %v, reason %q", i, r.Satisfied, r.Deficit, r.Unmet)
	}
	if !r.Deficit.Covers(r.InFlight) {
		c.fault("row %d: in flight %v is more than the deficit %v", i, r.InFlight, r.Deficit)
	}
	if n.Profile.Same() != nil && !r.CouldCover && r.Satisfied {
		c.fault("row %d is satisfied, yet no domain could cover it", i)
	}
	c.oneDomain(i)
	c.noneSuperfluous(i, wants)
}

// noneSuperfluous: a row that is covered acquires nothing that it is covered without,
// unless hard spread binds it.
func (c *checker) noneSuperfluous(i int, wants model.Resources) {
	n, r := &c.in.Needs[i], &c.plan.Needs[i]
	if !r.Satisfied || len(n.Profile.HardSpread()) > 0 && n.Profile.Same() == nil {
		return
	}
	for _, without := range r.Claimed {
		if s := c.machines[without].State; s != model.Idle && s != model.Speculative {
			continue
		}
		var has model.Resources
		for _, id := range r.Claimed {
			if id != without {
				has = has.Add(c.machines[id].EffectiveAllocatable())
			}
		}
		if has.Covers(wants) {
			c.fault("row %d acquires %s, and is covered without it", i, without)
		}
	}
}

// wants is the row's aggregate, or the sum of its fold's.
func (c *checker) wants(i int) model.Resources {
	var sum model.Resources
	for j := range c.plan.Needs {
		if c.plan.Needs[j].Fold == i {
			sum = sum.Add(c.in.Needs[j].Aggregate)
		}
	}
	return sum
}

// oneDomain: a Same-Need's claims share one value of the key. A Need that
// preempts in another domain keeps its credit for one more cycle; then, too,
// the claims share a value.
func (c *checker) oneDomain(i int) {
	same, r := c.in.Needs[i].Profile.Same(), &c.plan.Needs[i]
	if same == nil || r.Domain == "" { // folded, or without a domain
		return
	}
	values := map[string]bool{}
	for _, id := range r.Claimed {
		v, _ := c.machines[id].Attribute(same.Key)
		values[v] = true
	}
	if len(values) > 1 {
		c.fault("row %d claims machines in %d domains", i, len(values))
	}
	if len(values) == 1 && !values[r.Domain] && r.Bootstrap+r.Provision > 0 {
		c.fault("row %d acquires outside of its domain %q", i, r.Domain)
	}
}

// actions: in order of kind, one on a machine, from the right state, and in
// accordance with the claims.
func (c *checker) actions() {
	kinds := []string{reference.Bootstrap, reference.Provision, reference.Preempt, reference.Reclaim, reference.Delete}
	from := map[string]model.State{
		reference.Bootstrap: model.Idle, reference.Provision: model.Speculative, reference.Preempt: model.Configured,
		reference.Reclaim: model.Configured, reference.Delete: model.Idle,
	}
	seen := map[string]bool{}
	counts := map[string]map[int]int{}
	lastKind, lastRank := 0, 0
	for _, a := range c.plan.Actions {
		m, kind := c.machines[a.Machine], slices.Index(kinds, a.Kind)
		if m == nil || kind < 0 || seen[a.Machine] {
			c.fault("%v: no such machine or kind, or its second action", a)
			continue
		}
		seen[a.Machine] = true
		if kind > lastKind {
			lastRank = 0
		}
		if kind < lastKind {
			c.fault("%s %s comes after %s", a.Kind, a.Machine, kinds[lastKind])
		}
		lastKind = kind
		if a.Need >= 0 {
			rank := c.plan.Needs[a.Need].Rank
			if rank < lastRank {
				c.fault("%s %s is of rank %d, and comes after rank %d", a.Kind, a.Machine, rank, lastRank)
			}
			lastRank = rank
			if counts[a.Kind] == nil {
				counts[a.Kind] = map[int]int{}
			}
			counts[a.Kind][a.Need]++
		}
		if m.State != from[a.Kind] {
			c.fault("%s of %s in state %s", a.Kind, a.Machine, m.State)
		}
		c.action(a, m)
	}
	for i, r := range c.plan.Needs {
		if r.Fold == i && (counts[reference.Bootstrap][i] != r.Bootstrap || counts[reference.Provision][i] != r.Provision || counts[reference.Preempt][i] != r.Preempt) {
			c.fault("row %d counts %d, %d, %d actions, and has others", i, r.Bootstrap, r.Provision, r.Preempt)
		}
	}
}

func (c *checker) action(a reference.Action, m *model.Machine) {
	claimer, claimed := c.claimer[a.Machine]
	switch a.Kind {
	case reference.Bootstrap, reference.Provision:
		if !claimed || claimer != a.Need || a.Cluster != c.in.Needs[a.Need].Cluster {
			c.fault("%v: row %d does not claim it (%v, %d)", a, a.Need, claimed, claimer)
		}
	case reference.Preempt:
		if a.Cluster != m.Cluster || a.PreemptorPriority != int(c.in.Needs[a.Need].Profile.Priority()) {
			c.fault("%v: not the victim's cluster or the preemptor's priority", a)
		}
	case reference.Reclaim:
		if claimed || !c.in.Reported[m.Cluster] || a.Need != reference.NoNeed || a.Grace != 600 {
			c.fault("%v: claimed by %v, reported %v", a, claimed, c.in.Reported[m.Cluster])
		}
	case reference.Delete:
		if claimed || m.CapacityType != model.OnDemand && m.CapacityType != model.Spot && m.Labels[model.LabelLateBound] != "true" {
			c.fault("%v: claimed %v, capacity type %s", a, claimed, m.CapacityType)
		}
	}
}

// preemptions: only of strictly lower priority, never for a satisfied or
// parked row, and for a Same-Need only if the whole is then covered.
func (c *checker) preemptions() {
	freed := map[int][]*model.Machine{}
	for _, a := range c.plan.Actions {
		if a.Kind == reference.Preempt {
			c.preemption(a)
			freed[a.Need] = append(freed[a.Need], c.machines[a.Machine])
		}
	}
	for i, victims := range freed {
		n, r := &c.in.Needs[i], &c.plan.Needs[i]
		if r.Satisfied {
			c.fault("row %d is satisfied and preempts", i)
		}
		if same := n.Profile.Same(); same != nil && r.Domain != "" {
			if r.Unmet != reference.UnmetAwaitingDrain {
				c.fault("row %d preempts for a part: %s", i, r.Unmet)
			}
			for _, m := range victims {
				// The rest of a gang goes wherever it is.
				if v, _ := m.Attribute(same.Key); v != r.Domain && c.in.Options.Victims == reference.VictimsMachine {
					c.fault("row %d preempts %s in %q, its domain is %q", i, m.ID, v, r.Domain)
				}
			}
		}
	}
}

func (c *checker) preemption(a reference.Action) {
	m := c.machines[a.Machine]
	priority := m.Assigned.Priority
	if i, ok := c.claimer[a.Machine]; ok {
		priority = c.in.Needs[i].Profile.Priority()
	}
	shared := len(c.in.Options.Tenants) > 0 && int(priority) == a.PreemptorPriority
	if int(priority) >= a.PreemptorPriority && !shared {
		c.fault("%v: the victim's priority is %d", a, priority)
	}
	if m.Cluster == c.in.Needs[a.Need].Cluster {
		c.fault("%v: of the preemptor's own cluster", a)
	}
}

// losers are the clusters from which a claimed machine is preempted.
func (c *checker) losers() map[string]bool {
	losers := map[string]bool{}
	for _, a := range c.plan.Actions {
		if _, claimed := c.claimer[a.Machine]; claimed && a.Kind == reference.Preempt {
			losers[a.Cluster] = true
		}
	}
	return losers
}

// reclaims: none in a cluster that loses a claimed machine.
func (c *checker) reclaims() {
	losers := c.losers()
	for _, a := range c.plan.Actions {
		if a.Kind == reference.Reclaim && losers[a.Cluster] {
			c.fault("Reclaim %s beside a preemption of a claimed machine of %s", a.Machine, a.Cluster)
		}
	}
}

// drains: what is preempted is held for whom it is preempted for.
func (c *checker) drains() {
	held := map[string]int{}
	for _, r := range c.plan.Reserved {
		held[r.Machine] = r.Need
	}
	for _, a := range c.plan.Actions {
		if a.Kind != reference.Preempt {
			continue
		}
		if need, ok := held[a.Machine]; !ok || need != a.Need {
			c.fault("%s is preempted for row %d and not held for it", a.Machine, a.Need)
		}
	}
}

// reservations: of a machine that can be reserved, once, in the plan's domain,
// and for a Need that waits.
func (c *checker) reservations() {
	actions := map[string]string{}
	for _, a := range c.plan.Actions {
		actions[a.Machine] = a.Kind
	}
	seen, losers := map[string]bool{}, c.losers()
	for _, r := range c.plan.Reserved {
		m := c.machines[r.Machine]
		if m == nil || seen[r.Machine] {
			c.fault("%v: no such machine, or its second reservation", r)
			continue
		}
		seen[r.Machine] = true
		allowed := map[model.State][]string{model.Idle: {""}, model.Configured: {reference.Preempt, reference.Reclaim}, model.Draining: {""}}
		later := m.State == model.Configured && actions[r.Machine] == "" && losers[m.Cluster] // excess, reclaimed in a later cycle
		if !slices.Contains(allowed[m.State], actions[r.Machine]) && !later {
			c.fault("%v: reserved in state %s, with the action %q", r, m.State, actions[r.Machine])
		}
		n, result := &c.in.Needs[r.Need], &c.plan.Needs[r.Need]
		if result.Satisfied || result.Fold != r.Need || r.Domain != result.Domain {
			c.fault("%v: the row is satisfied, or of another domain", r)
		}
		if same := n.Profile.Same(); same != nil && r.Domain != "" {
			if v, _ := m.Attribute(same.Key); v != r.Domain {
				c.fault("%v: the machine is in %q", r, v)
			}
		}
	}
}
