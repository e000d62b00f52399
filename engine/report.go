package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// report writes the pass into the plan.
func (p *pass) report(plan *Plan) {
	p.reportActions(plan)
	p.reportNeeds(plan)
	p.reportEnded(plan)
	plan.claimed = p.claimed.Words()
	st := &plan.Stats
	st.Machines, st.Needs, st.Folded, st.Probes = p.s.Supply.Len(), len(p.f.rows), len(p.needs), p.probes
	for i := range p.s.Classes {
		if p.s.Classes[i].Live {
			st.Classes++
		}
	}
	for i := range plan.Needs {
		if plan.Needs[i].Satisfied {
			st.Satisfied++
		} else {
			st.Unsatisfied++
		}
	}
	for i := range plan.Actions {
		st.Actions[plan.Actions[i].Kind]++
	}
}

// reportActions emits in the contract's order.
func (p *pass) reportActions(plan *Plan) {
	for _, state := range [...]model.State{model.Idle, model.Speculative} {
		kind, reason := Bootstrap, ReasonIdle
		if state == model.Speculative {
			kind, reason = Provision, ReasonSpeculative
		}
		for i := range p.needs {
			n := &p.needs[i]
			for _, r := range p.claims[n.acquireFrom:n.claimTo] {
				if p.s.View.State[r] == state {
					plan.Actions = append(plan.Actions, Action{Kind: kind, Machine: r, Need: n.first, Reason: reason})
				}
			}
		}
	}
	for _, v := range p.victims {
		n := &p.needs[v.need]
		plan.Actions = append(plan.Actions, Action{
			Kind: Preempt, Machine: v.row, Need: n.first, GraceSeconds: v.grace,
			PreemptorPriority: n.profile.Priority(), Reason: ReasonPreempt,
		})
	}
	for _, r := range p.reclaims {
		plan.Actions = append(plan.Actions, Action{Kind: Reclaim, Machine: r, Need: -1, GraceSeconds: graceFull, Reason: ReasonExcess})
	}
	for _, r := range p.deletes {
		plan.Actions = append(plan.Actions, Action{Kind: Delete, Machine: r, Need: -1, Reason: ReasonRelease})
	}
}

func (p *pass) reportNeeds(plan *Plan) {
	results := make([]NeedResult, len(p.needs))
	for i := range p.needs {
		results[i] = p.result(i)
	}
	plan.Needs = slices.Grow(plan.Needs, len(p.f.rows))
	for i, ref := range p.f.rows {
		r := results[p.rankOf[p.f.of[i]]]
		r.Cluster, r.Row = ref.block.Cluster(), int(ref.row)
		plan.Needs = append(plan.Needs, r)
	}
}

func (p *pass) result(need int) NeedResult {
	n := &p.needs[need]
	r := NeedResult{
		Fold: n.first, Rank: int32(need), Folded: n.folded, Profile: n.profile, Group: n.group,
		Claimed:   p.claims[n.claimFrom:n.claimTo:n.claimTo],
		Bootstrap: n.bootstrap, Provision: n.provision, Preempt: int32(n.victimTo - n.victimFrom),
		Satisfied: n.satisfied, CouldCover: n.couldCover || n.pinned, Awaiting: n.awaiting,
	}
	if n.domain != 0 {
		r.Domain = p.s.Supply.ValueString(n.domain)
	}
	if !n.satisfied {
		r.Deficit = p.resources(p.deficit(need))
		r.Unmet = p.unmet(need)
	}
	inFlight := slices.Clone(p.vector(p.vectors.inFlight, need))
	for d, x := range p.deficit(need) {
		inFlight[d] = min(inFlight[d], x)
	}
	r.InFlight = p.resources(inFlight)
	return r
}

// resources names a vector's dimensions again.
func (p *pass) resources(v []int64) model.Resources {
	if columnar.IsZero(v) {
		return nil
	}
	amounts := make([]model.Amount, 0, len(v))
	for d, x := range v {
		if x > 0 {
			amounts = append(amounts, model.Amount{Name: p.s.Dims[d], Value: x})
		}
	}
	return model.NewResources(amounts...)
}

// unmet returns the first reason that holds for an unsatisfied need.
func (p *pass) unmet(need int) Unmet {
	n := &p.needs[need]
	switch {
	case n.parked:
		return UnmetParked
	case !p.anySupply(need):
		return UnmetNoMatchingSupply
	case n.awaiting:
		return UnmetAwaitingDrain
	case n.found:
		return UnmetPreemptionExhausted
	case n.profile.Same() != nil:
		return UnmetTopology
	case n.skewBlocked:
		return UnmetSpread
	}
	return UnmetPriorityStarved
}

// usableStates are the states in which a machine may yet serve somebody.
var usableStates = [...]model.State{model.Speculative, model.Creating, model.Idle, model.Configuring, model.Configured, model.Draining}

// anySupply reports whether any machine in a usable state matches the need and
// covers its minimum unit.
func (p *pass) anySupply(need int) bool {
	m := p.needs[need].matcher
	if p.usable == nil {
		p.usable = map[uint32][]uint32{}
	}
	classes, ok := p.usable[m]
	if !ok {
		classes = p.usableClasses(m)
		p.usable[m] = classes
	}
	return slices.ContainsFunc(classes, func(c uint32) bool { return p.suits(c, need) })
}

// usableClasses lists the classes that have a machine in a usable state which
// the matcher accepts.
func (p *pass) usableClasses(matcher uint32) []uint32 {
	seen := make([]bool, len(p.s.Classes))
	var out []uint32
	for _, s := range usableStates {
		rows := p.s.Supply.Matching(s, matcher)
		if rows == nil {
			continue
		}
		for it := rows.Iterator(); it.HasNext(); {
			if c := p.s.View.Class[it.Next()]; !seen[c] {
				seen[c] = true
				out = append(out, c)
			}
		}
	}
	return out
}

// reportEnded lists the machines whose reservation is over.
func (p *pass) reportEnded(plan *Plan) {
	for r, res := range p.s.Supply.Reservations() {
		if p.ended(r, res) {
			plan.Ended = append(plan.Ended, r)
		}
	}
	slices.SortFunc(plan.Ended, func(a, b columnar.Row) int { return cmp.Compare(p.s.IDRank[a], p.s.IDRank[b]) })
}

func (p *pass) ended(r columnar.Row, res model.Reservation) bool {
	if !p.reserved.live(r) {
		return !p.mayHold(r, res) || p.s.Demand.Reported(res.Owner.Cluster)
	}
	members := p.reserved.members[r]
	if h := p.holder[r]; h != unheld && p.s.View.State[r] != model.Configured {
		return !slices.Contains(members, h) // somebody else took it
	}
	if len(members) == 0 || slices.Contains(members, p.holder[r]) {
		return false
	}
	return !slices.ContainsFunc(members, func(n int32) bool { return !p.needs[n].satisfied })
}
