package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/search"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// ExplainNeed explains row i of the last plan. The tables must not have changed since that cycle.
// Domains that phase 2 searched, and plans, are known only with Options.Explain, of the rows that Input.ExplainOnly names. O(machines).
func (e *Engine) ExplainNeed(i int) NeedExplanation {
	p := e.last
	need := p.needAt(i)
	n := &p.Lines[need]
	x := NeedExplanation{Pinned: n.Is(state.IsPinned), Withheld: n.Is(state.IsWithheld), SearchEnded: p.LostTurnToBudget(need)}
	for _, r := range p.Snap.Order {
		x.Machines[p.verdict(r, need)]++
	}
	if p.KindOf(need).Same {
		x.Domains = p.explainDomains(need)
	}
	x.Preemption = p.triedFor(need)
	for i := range p.Told.PlanWhys {
		if p.Told.PlanWhys[i].Need == need {
			x.Plan = &p.Told.PlanWhys[i].PlanExplanation
		}
	}
	for i := range p.Told.TenancyWhys {
		if p.Told.TenancyWhys[i].Need == need {
			x.Tenancy = &p.Told.TenancyWhys[i].TenancyExplanation
		}
	}
	return x
}

// Compared returns the domains from which a row's plan of preemption was chosen, with what each plan
// would have destroyed. It is nil for a row without such a plan or without Same, with VictimsMachine,
// and beyond the first records.ComparedPlansMax plans of a cycle. Candidates are counted only with
// Options.Explain.
func (p *Plan) Compared(i int) []PreemptionExplanation { return p.pass.triedFor(p.pass.needAt(i)) }

// triedFor returns what is known of the domains in which phase 2 looked for a Need.
func (p *pass) triedFor(need int32) (list []PreemptionExplanation) {
	for i := range p.Told.Tried {
		if p.Told.Tried[i].Need == need {
			x := p.Told.Tried[i].PreemptionExplanation
			x.Missing = p.Resources(p.Told.Tried[i].Missing)
			list = append(list, x)
		}
	}
	// In which order the others were looked at depends on what Needs before this one had looked at.
	slices.SortStableFunc(list, func(a, b PreemptionExplanation) int {
		if c := exact.TrueFirst(!untried(&a), !untried(&b)); c != 0 || !untried(&a) {
			return c
		}
		return cmp.Compare(a.Domain, b.Domain)
	})
	return list
}

// untried reports whether no plan was made for a domain.
func untried(x *PreemptionExplanation) bool {
	return x.Rejected == records.RejectedCapacity || x.Rejected == records.RejectedTopDomains
}

// Domains explains the domains that a row with Same could choose from, best first; nil for a row
// without. The tables must not have changed since that cycle. O(machines).
func (p *Plan) Domains(i int) []DomainExplanation {
	need := p.pass.needAt(i)
	if !p.pass.KindOf(need).Same {
		return nil
	}
	return p.pass.explainDomains(need)
}

// verdict returns how the Need rated a machine at its turn.
func (p *pass) verdict(r columnar.Row, need int32) Verdict {
	k := p.KindOf(need)
	state := p.Snap.View.State[r]
	switch {
	case p.Claims.Of(r) == need:
		return VerdictClaimed
	case state == model.Deleting, state == model.Failed, state == model.Draining, state == model.Creating && !p.ComesTo(r, need), p.Snap.Supply.Departs(r):
		return VerdictState
	case !p.Snap.Classes[p.Snap.View.Class[r]].Matches(k.Matcher) || !p.InAnyDomain(k.Matcher, r):
		return VerdictRequirement
	case !p.Suits(p.Snap.View.Class[r], k):
		return VerdictSize
	case state.Bound() && p.Snap.ClusterOf[p.Snap.View.Cluster[r]] != p.ClusterOf(need):
		return VerdictCluster
	case p.claimedBefore(r, need):
		return VerdictRank
	case !p.open(r, need):
		return VerdictReserved
	case !p.InDomain(r, need):
		return VerdictDomain
	case p.forbiddenBySpread(r, need):
		return VerdictSpread
	}
	return VerdictUnneeded
}

// claimedBefore reports whether a Need of higher rank had claimed the machine before this Need's turn.
// Revoked acquisitions count.
func (p *pass) claimedBefore(r columnar.Row, need int32) bool {
	h := p.Claims.Of(r)
	if by, ok := p.Preempted.WithheldBy[r]; ok {
		h = by
	}
	return h != state.Unclaimed && p.RankOf[h] < p.RankOf[need]
}

// open reports whether reservations left a machine open to the Need at its turn.
func (p *pass) open(r columnar.Row, need int32) bool {
	if !p.Reserved.Live(r) || p.Snap.View.State[r] != model.Idle || p.Reserved.OwnedBy(r, need) {
		return true
	}
	at := slices.IndexFunc(p.Reserved.Blocks, func(b holds.Block) bool { return b.Row == r })
	return p.Reserved.Blocks[at].From > p.RankOf[need]
}

// forbiddenBySpread reports whether hard spread explains that a free machine was not claimed.
func (p *pass) forbiddenBySpread(r columnar.Row, need int32) bool {
	if p.Snap.View.State[r].Bound() {
		return false
	}
	for _, s := range p.KindOf(need).Spread {
		if p.Snap.Supply.Values(p.Snap.Supply.Key(s.Key))[r] == 0 {
			return true
		}
	}
	return p.Lines[need].Is(state.IsSkewBlocked)
}

// explainDomains reconstructs the totals of a Same-Need's domains at its turn, and names the rule by
// which each lost.
func (p *pass) explainDomains(need int32) []DomainExplanation {
	n := &p.Lines[need]
	want := p.Aggregate(need)
	totals := p.totalsAtTurn(need)
	slices.SortFunc(totals, func(a, b *domains.Totals) int {
		switch {
		case a.Value == b.Value:
			return 0
		case domains.Better(p.Snap.Supply, a, b, want):
			return -1
		}
		return 1
	})
	at := slices.IndexFunc(totals, func(t *domains.Totals) bool { return t.Value == n.Domain })
	out := make([]DomainExplanation, len(totals))
	for i, t := range totals {
		out[i] = DomainExplanation{
			Domain: p.Snap.Supply.ValueString(t.Value), Chosen: i == at, Covers: t.Covers, Machines: t.Count,
			Total: search.DisplayScore(t.Total, want, true), Creditable: search.DisplayScore(t.Creditable, want, true),
			Own: search.DisplayScore(t.Own, want, true), Surplus: search.DisplayScore(t.Total, want, false), Share: search.LeastRatio(t.Total, want),
		}
		if i != at && at >= 0 {
			out[i].Rejected = rejectedBy(t, totals[at], want)
		}
	}
	return out
}

// totalsAtTurn sums, by domain, the machines that the verdicts show were claimable at the Need's turn.
func (p *pass) totalsAtTurn(need int32) []*domains.Totals {
	n, k := &p.Lines[need], p.KindOf(need)
	byValue := map[uint32]*domains.Totals{}
	var list []*domains.Totals
	for _, r := range p.Snap.Order {
		v := p.verdict(r, need)
		countable := v == VerdictClaimed || v == VerdictDomain || v == VerdictUnneeded
		free := p.Snap.View.State[r] == model.Idle || p.Snap.View.State[r] == model.Speculative
		if !countable || free && n.Is(state.IsParked) {
			continue
		}
		value, ok := p.Snap.Supply.Domain(k.Matcher, r)
		if !ok {
			continue
		}
		t := byValue[value]
		if t == nil {
			z := make([]int64, 3*p.Dims)
			t = &domains.Totals{Value: value, Total: z[:p.Dims], Creditable: z[p.Dims : 2*p.Dims], Own: z[2*p.Dims:]}
			byValue[value] = t
			list = append(list, t)
		}
		t.Count++
		columnar.SatAdd(t.Total, p.Vec(r))
		if !free {
			columnar.SatAdd(t.Creditable, p.Vec(r))
			if p.IsOwn(r, need) {
				columnar.SatAdd(t.Own, p.Vec(r))
			}
		}
	}
	src := p.SourceOf(need)
	least := make([]int64, p.Dims)
	p.AddMinimum(least, src.Block, int(need-src.Base))
	for _, t := range list {
		t.Covers, t.Viable = columnar.Covers(t.Total, p.Aggregate(need)), columnar.Covers(t.Total, least)
	}
	return list
}

// rejectedBy names the first rule by which a lost to b.
func rejectedBy(a, b *domains.Totals, want []int64) string {
	differ := func(x, y []int64, capped bool) bool { return exact.CompareScores(x, y, want, capped) != 0 }
	switch {
	case a.Covers != b.Covers:
		return "covers"
	case a.Viable != b.Viable:
		return "minimum"
	case differ(a.Own, b.Own, true):
		return "own"
	case !b.Covers && differ(a.Total, b.Total, true):
		return "total"
	case differ(a.Creditable, b.Creditable, true):
		return "creditable"
	case b.Covers && differ(a.Total, b.Total, false):
		return "surplus"
	case a.Count != b.Count:
		return "machines"
	}
	return "value"
}

// ExplainAction explains action i of Plan.Actions of the last plan. The tables must not have changed
// since that cycle.
func (e *Engine) ExplainAction(i int) ActionExplanation {
	p, a := e.last, e.plan.Actions[i]
	r := a.Machine
	price := p.Snap.Classes[p.Snap.View.Class[r]].Price
	x := ActionExplanation{Price: price, EffectiveCost: price, Holder: -1}
	if h := p.Claims.Of(r); h != state.Unclaimed && a.Kind == Preempt {
		x.Holder = p.NumberOfNeed(h)
	}
	if a.Need >= 0 {
		need := p.needAt(int(a.Need))
		x.Reserved = p.Reserved.OwnedBy(r, need)
		if a.Kind == Bootstrap || a.Kind == Provision {
			x.Acquired = p.explainAcquired(r, need)
		}
		switch a.Kind {
		case Provision:
			x.EffectiveCost = free.EffectiveCost(&p.Snap.Classes[p.Snap.View.Class[r]], p.KindOf(need).Penalty)
		case Preempt:
			x.Excess = p.IsExcess(r)
			t := p.ScoreTerms(r, p.KindOf(need).Priority, p.PriorityOf(r))
			x.Gap, x.Drain, x.Interruption, x.Reclamation, x.Score = t[0], t[1], t[2], t[3], t[0]+t[1]+t[2]+t[3]
		}
	}
	if a.Kind == Delete {
		x.IdleSeconds = math.Max(0, float64(p.Snap.Now-p.Snap.View.IdleSince[r])/1e9)
	}
	return x
}

// explainAcquired explains why a Need acquired a machine. O(classes + machines of the Need), and in the worst
// case O(machines).
func (p *pass) explainAcquired(r columnar.Row, need int32) *AcquiredExplanation {
	x := &AcquiredExplanation{Rule: p.Opts.Acquire}
	want, v := p.Aggregate(need), p.Vec(r)
	others := make([]int64, p.Dims)
	for n, m := p.Claims.Walk(&p.Lines[need]); m != columnar.None; m = p.Claims.Next(m, n) {
		if m != r {
			columnar.SatAdd(others, p.Vec(m))
		}
	}
	names := p.Snap.Demand.Dims()
	for d, w := range want {
		if w > 0 {
			x.Covers = append(x.Covers, CoveredPart{Name: names[d], Part: float64(min(v[d], w)) / float64(w)})
		}
	}
	slices.SortFunc(x.Covers, func(a, b CoveredPart) int { return cmp.Compare(a.Name, b.Name) })
	x.RunnerUp, x.RunnerUpCost = p.runnerUp(r, need, others)
	return x
}

// runnerUpLooks is how many machines the search for a runner-up looks at, at most.
const runnerUpLooks = 1 << 12

// runnerUp returns the cheapest machine of another price or size that could replace a free machine.
func (p *pass) runnerUp(r columnar.Row, need int32, others []int64) (best columnar.Row, cost float64) {
	k, want, stage := p.KindOf(need), p.Aggregate(need), p.StageOf(r)
	costs := p.Costs(k, stage)
	own := p.Snap.View.Class[r]
	classes := slices.Clone(k.Classes)
	looks := 0
	slices.SortStableFunc(classes, func(a, b uint32) int { return cmp.Compare(costs[a], costs[b]) })
	for _, c := range classes {
		if costs[c] == costs[own] && slices.Equal(p.Vector(c), p.Vector(own)) || !p.coversWith(c, others, want) {
			continue
		}
		for _, m := range p.Stock.Free[stage].Lists.At(int(c)) {
			if looks++; looks > runnerUpLooks {
				return columnar.None, 0
			}
			if p.verdict(m, need) == VerdictUnneeded {
				return m, p.CostIn(c, k, stage)
			}
		}
	}
	return columnar.None, 0
}

// coversWith reports whether a machine of a class and others together cover what is wanted.
func (p *pass) coversWith(class uint32, others, want []int64) bool {
	for d, x := range p.Vector(class) {
		if d < len(want) && want[d] > 0 && model.SatAdd(others[d], x) < want[d] {
			return false
		}
	}
	return true
}
