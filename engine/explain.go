package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// ExplainNeed explains row i of the last plan. The tables must not have changed since that cycle.
// Domains that phase 2 searched, and plans, are known only with Options.Explain. O(machines).
func (e *Engine) ExplainNeed(i int) NeedExplanation {
	p := e.last
	need := p.needAt(i)
	n := &p.lines[need]
	x := NeedExplanation{Pinned: n.Is(state.IsPinned), Withheld: n.Is(state.IsWithheld), SearchEnded: p.isCut(need)}
	for _, r := range p.s.Order {
		x.Machines[p.verdict(r, need)]++
	}
	if p.kindOf(need).Same {
		x.Domains = p.explainDomains(need)
	}
	x.Preemption = p.triedFor(need)
	for i := range p.told.planWhys {
		if p.told.planWhys[i].Need == need {
			x.Plan = &p.told.planWhys[i].PlanExplanation
		}
	}
	for i := range p.told.tenancyWhys {
		if p.told.tenancyWhys[i].Need == need {
			x.Tenancy = &p.told.tenancyWhys[i].TenancyExplanation
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
	for i := range p.told.tried {
		if p.told.tried[i].Need == need {
			x := p.told.tried[i].PreemptionExplanation
			x.Missing = p.resources(p.told.tried[i].Missing)
			list = append(list, x)
		}
	}
	return list
}

// Domains explains the domains that a row with Same could choose from, best first; nil for a row
// without. The tables must not have changed since that cycle. O(machines).
func (p *Plan) Domains(i int) []DomainExplanation {
	need := p.pass.needAt(i)
	if !p.pass.kindOf(need).Same {
		return nil
	}
	return p.pass.explainDomains(need)
}

// verdict returns how the Need rated a machine at its turn.
func (p *pass) verdict(r columnar.Row, need int32) Verdict {
	n, k := &p.lines[need], p.kindOf(need)
	state := p.s.View.State[r]
	switch {
	case p.claims.Of(r) == need:
		return VerdictClaimed
	case state == model.Deleting, state == model.Failed, state == model.Draining, state == model.Creating && !p.comesTo(r, need), p.s.Supply.Departs(r):
		return VerdictState
	case !p.s.Classes[p.s.View.Class[r]].Matches(k.Matcher) || !p.inAnyDomain(k.Matcher, r):
		return VerdictRequirement
	case !p.suits(p.s.View.Class[r], k):
		return VerdictSize
	case state.Bound() && p.s.ClusterOf[p.s.View.Cluster[r]] != n.Cluster:
		return VerdictCluster
	case p.claimedBefore(r, need):
		return VerdictRank
	case !p.open(r, need):
		return VerdictReserved
	case !p.inDomain(r, need):
		return VerdictDomain
	case p.forbiddenBySpread(r, need):
		return VerdictSpread
	}
	return VerdictUnneeded
}

// comesTo reports whether a machine is being created for a Need.
func (p *pass) comesTo(r columnar.Row, need int32) bool {
	return p.countsFor(r) == p.lines[need].Cluster && (p.isOwn(r, need) || p.isCreatedFor(r, need))
}

// claimedBefore reports whether a Need of higher rank had claimed the machine before this Need's turn.
// Revoked acquisitions count.
func (p *pass) claimedBefore(r columnar.Row, need int32) bool {
	h := p.claims.Of(r)
	if by, ok := p.preempted.withheldBy[r]; ok {
		h = by
	}
	return h != state.Unclaimed && p.rankOf[h] < p.rankOf[need]
}

// open reports whether reservations left a machine open to the Need at its turn.
func (p *pass) open(r columnar.Row, need int32) bool {
	if !p.reserved.Live(r) || p.s.View.State[r] != model.Idle || p.reserved.OwnedBy(r, need) {
		return true
	}
	at := slices.IndexFunc(p.reserved.Blocks, func(b holds.Block) bool { return b.Row == r })
	return p.reserved.Blocks[at].From > p.rankOf[need]
}

// forbiddenBySpread reports whether hard spread explains that a free machine was not claimed.
func (p *pass) forbiddenBySpread(r columnar.Row, need int32) bool {
	if p.s.View.State[r].Bound() {
		return false
	}
	for _, s := range p.kindOf(need).Spread {
		if p.s.Supply.Values(p.s.Supply.Key(s.Key))[r] == 0 {
			return true
		}
	}
	return p.lines[need].Is(state.IsSkewBlocked)
}

// explainDomains reconstructs the totals of a Same-Need's domains at its turn, and names the rule by
// which each lost.
func (p *pass) explainDomains(need int32) []DomainExplanation {
	n := &p.lines[need]
	want := p.aggregate(need)
	totals := p.totalsAtTurn(need)
	slices.SortFunc(totals, func(a, b *domains.Totals) int {
		switch {
		case a.Value == b.Value:
			return 0
		case domains.Better(p.s.Supply, a, b, want):
			return -1
		}
		return 1
	})
	at := slices.IndexFunc(totals, func(t *domains.Totals) bool { return t.Value == n.Domain })
	out := make([]DomainExplanation, len(totals))
	for i, t := range totals {
		out[i] = DomainExplanation{
			Domain: p.s.Supply.ValueString(t.Value), Chosen: i == at, Covers: t.Covers, Machines: t.Count,
			Total: score(t.Total, want, true), Creditable: score(t.Creditable, want, true),
			Own: score(t.Own, want, true), Surplus: score(t.Total, want, false), Share: share(t.Total, want),
		}
		if i != at && at >= 0 {
			out[i].Rejected = rejectedBy(t, totals[at], want)
		}
	}
	return out
}

// totalsAtTurn sums, by domain, the machines that the verdicts show were claimable at the Need's turn.
func (p *pass) totalsAtTurn(need int32) []*domains.Totals {
	n, k := &p.lines[need], p.kindOf(need)
	byValue := map[uint32]*domains.Totals{}
	var list []*domains.Totals
	for _, r := range p.s.Order {
		v := p.verdict(r, need)
		countable := v == VerdictClaimed || v == VerdictDomain || v == VerdictUnneeded
		free := p.s.View.State[r] == model.Idle || p.s.View.State[r] == model.Speculative
		if !countable || free && n.Is(state.IsParked) {
			continue
		}
		value, ok := p.s.Supply.Domain(k.Matcher, r)
		if !ok {
			continue
		}
		t := byValue[value]
		if t == nil {
			z := make([]int64, 3*p.dims)
			t = &domains.Totals{Value: value, Total: z[:p.dims], Creditable: z[p.dims : 2*p.dims], Own: z[2*p.dims:]}
			byValue[value] = t
			list = append(list, t)
		}
		t.Count++
		columnar.SatAdd(t.Total, p.vec(r))
		if !free {
			columnar.SatAdd(t.Creditable, p.vec(r))
			if p.isOwn(r, need) {
				columnar.SatAdd(t.Own, p.vec(r))
			}
		}
	}
	src := &p.sources[n.Cluster]
	least := make([]int64, p.dims)
	p.addMinimum(least, src.Block, int(need-src.Base))
	for _, t := range list {
		t.Covers, t.Viable = columnar.Covers(t.Total, p.aggregate(need)), columnar.Covers(t.Total, least)
	}
	return list
}

// score is a domain's score in floating point, for display; decisions use exact.CompareScores.
func score(have, want []int64, capped bool) float64 {
	sum := 0.0
	for i, w := range want {
		if w <= 0 {
			continue
		}
		h := have[i]
		if capped {
			h = min(h, w)
		}
		sum += float64(h) / float64(w)
	}
	return sum
}

// share is the smallest ratio of have to want, at most 1.
func share(have, want []int64) float64 {
	least := 1.0
	for i, w := range want {
		if w > 0 {
			least = min(least, float64(have[i])/float64(w))
		}
	}
	return least
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

// noteTried records what phase 2 found in a domain, if Options.Explain is set.
func (p *pass) noteTried(need int32, d *sameDomain, candidates int, covered bool, missing []int64) {
	if !p.e.opts.Explain {
		return
	}
	p.told.tried = append(p.told.tried, records.Tried{PreemptionExplanation: PreemptionExplanation{
		Domain: p.s.Supply.ValueString(d.value), Covered: covered, Candidates: candidates,
	}, Need: need, Missing: p.kept(missing)})
}

// kept returns a copy of a vector that is valid until the next cycle.
func (p *pass) kept(v []int64) []int64 {
	x := alloc.MakeDirty[int64](p.e.arena, len(v))
	copy(x, v)
	return x
}

// ExplainAction explains action i of Plan.Actions of the last plan. The tables must not have changed
// since that cycle.
func (e *Engine) ExplainAction(i int) ActionExplanation {
	p, a := e.last, e.plan.Actions[i]
	r := a.Machine
	price := p.s.Classes[p.s.View.Class[r]].Price
	x := ActionExplanation{Price: price, EffectiveCost: price, Holder: -1}
	if h := p.claims.Of(r); h != state.Unclaimed && a.Kind == Preempt {
		x.Holder = p.named(h)
	}
	if a.Need >= 0 {
		need := p.needAt(int(a.Need))
		x.Reserved = p.reserved.OwnedBy(r, need)
		if a.Kind == Bootstrap || a.Kind == Provision {
			x.Acquired = p.explainAcquired(r, need)
		}
		switch a.Kind {
		case Provision:
			x.EffectiveCost = free.EffectiveCost(&p.s.Classes[p.s.View.Class[r]], p.kindOf(need).Penalty)
		case Preempt:
			x.Excess = p.isExcess(r)
			t := p.scoreTerms(r, p.kindOf(need).Priority, p.priorityOf(r))
			x.Gap, x.Drain, x.Interruption, x.Reclamation, x.Score = t[0], t[1], t[2], t[3], t[0]+t[1]+t[2]+t[3]
		}
	}
	if a.Kind == Delete {
		x.IdleSeconds = math.Max(0, float64(p.s.Now-p.s.View.IdleSince[r])/1e9)
	}
	return x
}

// explainAcquired explains why a Need acquired a machine. O(classes + machines of the Need), and in the worst
// case O(machines).
func (p *pass) explainAcquired(r columnar.Row, need int32) *AcquiredExplanation {
	x := &AcquiredExplanation{Rule: p.e.opts.Acquire}
	want, v := p.aggregate(need), p.vec(r)
	others := make([]int64, p.dims)
	for m := p.lines[need].Head; m != columnar.None; m = p.claims.Next(m) {
		if m != r {
			columnar.SatAdd(others, p.vec(m))
		}
	}
	names := p.s.Demand.Dims()
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
	k, want, stage := p.kindOf(need), p.aggregate(need), p.stageOf(r)
	costs := p.costs(k, stage)
	own := p.s.View.Class[r]
	classes := slices.Clone(k.Classes)
	looks := 0
	slices.SortStableFunc(classes, func(a, b uint32) int { return cmp.Compare(costs[a], costs[b]) })
	for _, c := range classes {
		if costs[c] == costs[own] && slices.Equal(p.vector(c), p.vector(own)) || !p.coversWith(c, others, want) {
			continue
		}
		for _, m := range p.stock.free[stage].Lists.At(int(c)) {
			if looks++; looks > runnerUpLooks {
				return columnar.None, 0
			}
			if p.verdict(m, need) == VerdictUnneeded {
				return m, p.costIn(c, k, stage)
			}
		}
	}
	return columnar.None, 0
}

// coversWith reports whether a machine of a class and others together cover what is wanted.
func (fl *fleet) coversWith(class uint32, others, want []int64) bool {
	for d, x := range fl.vector(class) {
		if d < len(want) && want[d] > 0 && model.SatAdd(others[d], x) < want[d] {
			return false
		}
	}
	return true
}
