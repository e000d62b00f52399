package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Verdict says how a Need rated a machine: the first reason that applies.
type Verdict uint8

// The verdicts.
const (
	VerdictClaimed     Verdict = iota // attributed to the Need
	VerdictState                      // its state does not allow it to serve the Need
	VerdictRequirement                // fails a requirement
	VerdictSize                       // does not cover the minimum unit, or offers nothing that is asked for
	VerdictCluster                    // bound to another cluster
	VerdictRank                       // claimed by a Need of higher rank
	VerdictReserved                   // held for a Need of higher rank
	VerdictDomain                     // outside the domain of the Need
	VerdictSpread                     // lacks a key of a hard spread constraint, or the skew forbids it
	VerdictUnneeded                   // not needed, superfluous, or offers nothing that was still missing

	// NumVerdicts is the number of verdicts.
	NumVerdicts = int(VerdictUnneeded) + 1
)

var verdictNames = [NumVerdicts]string{"claimed", "state", "requirement", "size", "other_cluster", "claimed_by_rank", "reserved", "domain", "spread", "unneeded"}

// String returns the verdict's name as files spell it.
func (v Verdict) String() string { return verdictNames[v] }

// NeedExplanation says why a Need got what it got.
type NeedExplanation struct {
	// Machines counts all machines by verdict.
	Machines [NumVerdicts]int
	// Domains are the domains that a Same-Need could choose from at its turn, best first.
	Domains []DomainExplanation
	// Pinned says that a reservation had determined the domain.
	Pinned bool
	// Preemption lists the domains in which phase 2 searched for a Same-Need, in order. With gangs it
	// also lists some domains that were not searched, up to a bound.
	Preemption []PreemptionExplanation
	// Plan is the Need's plan of preemption; nil = none, or VictimsMachine.
	Plan *PlanExplanation
	// Tenancy is the result of reclaim between tenants; nil = none, or the Need had no use for it.
	Tenancy *TenancyExplanation
	// SearchEnded says of a Same-Need that the search for plans had exhausted its budget
	// (Options.SearchPairs, Options.SearchUnits) before the Need's turn, or before its second turn
	// between tenants: it was not searched for.
	SearchEnded bool
	// Withheld says that the acquisitions of this cycle were revoked, since the plan goes to another
	// domain.
	Withheld bool
}

// DomainExplanation is one domain as the Need saw it. A score is the sum, over the dimensions asked
// for, of have/want. Each ratio is capped at 1, except in Surplus.
type DomainExplanation struct {
	Domain     string
	Chosen     bool
	Covers     bool
	Machines   int
	Total      float64
	Creditable float64
	Own        float64
	Surplus    float64 // the uncapped total
	// Share is the part of the Need that the domain could hold, 0 to 1: the smallest ratio of any
	// dimension.
	Share float64
	// Rejected names the first rule by which the chosen domain is better: covers, minimum, own, total,
	// creditable, surplus, machines, value.
	Rejected string
}

// PreemptionExplanation is one domain in which phase 2 looked for victims.
type PreemptionExplanation struct {
	Domain     string
	Covered    bool
	Candidates int
	Missing    model.Resources // before any victim
	// Rejected says, with gangs, why the domain was not chosen; empty = it was chosen. It is capacity,
	// units, ledger, dry_run or top_domains, or else the first rule by which the chosen plan is better:
	// excess, band, gangs, machines, destroyed, grace, phase1_domain, value. Cost is that of the best
	// plan, in a covered domain.
	Rejected string
	Cost     PlanCost
	// Tenants says that the domain was searched for reclaim between tenants.
	Tenants bool
}

// ActionExplanation says why an action chose its machine.
type ActionExplanation struct {
	// Price is the machine's price. EffectiveCost is what a Speculative machine costs the Need: +Inf if
	// the Need is pinned and the machine may be interrupted. For other machines it is the price.
	Price         float64
	EffectiveCost float64
	// Reserved says that the machine was held for the Need.
	Reserved bool
	// The terms of a victim's score, weighted, and their sum.
	Gap, Drain, Interruption, Reclamation, Score float64
	// Excess says that no Need claimed the victim.
	Excess bool
	// Holder is the number of the Need that the victim served, −1 = none.
	Holder int32
	// Acquired says why a Bootstrap or a Provision takes this machine; nil for other actions.
	Acquired *AcquiredExplanation
	// IdleSeconds is how long a deleted machine has been idle.
	IdleSeconds float64
}

// ExplainNeed explains row i of the last plan. The tables must not have changed since that cycle.
// Domains that phase 2 searched, and plans, are known only with Options.Explain. O(machines).
func (e *Engine) ExplainNeed(i int) NeedExplanation {
	p := e.last
	need := p.needAt(i)
	n := &p.lines[need]
	x := NeedExplanation{Pinned: n.is(isPinned), Withheld: n.is(isWithheld), SearchEnded: p.isCut(need)}
	for _, r := range p.s.Order {
		x.Machines[p.verdict(r, need)]++
	}
	if p.kindOf(need).same {
		x.Domains = p.explainDomains(need)
	}
	x.Preemption = p.triedFor(need)
	for i := range p.planWhys {
		if p.planWhys[i].need == need {
			x.Plan = &p.planWhys[i].PlanExplanation
		}
	}
	for i := range p.tenancyWhys {
		if p.tenancyWhys[i].need == need {
			x.Tenancy = &p.tenancyWhys[i].TenancyExplanation
		}
	}
	return x
}

// Compared returns the domains from which a row's plan of preemption was chosen, with what each plan
// would have destroyed. It is nil for a row without such a plan or without Same, with VictimsMachine,
// and beyond the first comparedPlansMax plans of a cycle. Candidates are counted only with
// Options.Explain.
func (p *Plan) Compared(i int) []PreemptionExplanation { return p.pass.triedFor(p.pass.needAt(i)) }

// triedFor returns what is known of the domains in which phase 2 looked for a Need.
func (p *pass) triedFor(need int32) (list []PreemptionExplanation) {
	for i := range p.tried {
		if p.tried[i].need == need {
			x := p.tried[i].PreemptionExplanation
			x.Missing = p.resources(p.tried[i].missing)
			list = append(list, x)
		}
	}
	return list
}

// Domains explains the domains that a row with Same could choose from, best first; nil for a row
// without. The tables must not have changed since that cycle. O(machines).
func (p *Plan) Domains(i int) []DomainExplanation {
	need := p.pass.needAt(i)
	if !p.pass.kindOf(need).same {
		return nil
	}
	return p.pass.explainDomains(need)
}

// verdict returns how the Need rated a machine at its turn.
func (p *pass) verdict(r columnar.Row, need int32) Verdict {
	n, k := &p.lines[need], p.kindOf(need)
	state := p.s.View.State[r]
	switch {
	case p.held[r].need == need:
		return VerdictClaimed
	case state == model.Deleting, state == model.Failed, state == model.Draining, state == model.Creating && !p.comesTo(r, need), p.s.Supply.Departs(r):
		return VerdictState
	case !p.matches(p.s.View.Class[r], k.matcher) || !p.inAnyDomain(k.matcher, r):
		return VerdictRequirement
	case !p.suits(p.s.View.Class[r], k):
		return VerdictSize
	case state.Bound() && p.s.ClusterOf[p.s.View.Cluster[r]] != n.cluster:
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
	return p.countsFor(r) == p.lines[need].cluster && (p.isOwn(r, need) || p.isCreatedFor(r, need))
}

// claimedBefore reports whether a Need of higher rank had claimed the machine before this Need's turn.
// Revoked acquisitions count.
func (p *pass) claimedBefore(r columnar.Row, need int32) bool {
	h := p.held[r].need
	if by, ok := p.withheldBy[r]; ok {
		h = by
	}
	return h != unheld && p.rankOf[h] < p.rankOf[need]
}

// open reports whether reservations left a machine open to the Need at its turn.
func (p *pass) open(r columnar.Row, need int32) bool {
	if !p.reserved.live(r) || p.s.View.State[r] != model.Idle || p.reserved.ownedBy(r, need) {
		return true
	}
	at := slices.IndexFunc(p.reserved.blocks, func(b block) bool { return b.row == r })
	return p.reserved.blocks[at].from > p.rankOf[need]
}

// forbiddenBySpread reports whether hard spread explains that a free machine was not claimed.
func (p *pass) forbiddenBySpread(r columnar.Row, need int32) bool {
	if p.s.View.State[r].Bound() {
		return false
	}
	for _, s := range p.kindOf(need).spread {
		if p.s.Supply.Values(p.s.Supply.Key(s.Key))[r] == 0 {
			return true
		}
	}
	return p.lines[need].is(isSkewBlocked)
}

// explainDomains reconstructs the totals of a Same-Need's domains at its turn, and names the rule by
// which each lost.
func (p *pass) explainDomains(need int32) []DomainExplanation {
	n := &p.lines[need]
	want := p.aggregate(need)
	totals := p.totalsAtTurn(need)
	slices.SortFunc(totals, func(a, b *domainTotals) int {
		switch {
		case a.value == b.value:
			return 0
		case p.betterDomain(a, b, want):
			return -1
		}
		return 1
	})
	at := slices.IndexFunc(totals, func(t *domainTotals) bool { return t.value == n.domain })
	out := make([]DomainExplanation, len(totals))
	for i, t := range totals {
		out[i] = DomainExplanation{
			Domain: p.s.Supply.ValueString(t.value), Chosen: i == at, Covers: t.covers, Machines: t.count,
			Total: score(t.total, want, true), Creditable: score(t.creditable, want, true),
			Own: score(t.own, want, true), Surplus: score(t.total, want, false), Share: share(t.total, want),
		}
		if i != at && at >= 0 {
			out[i].Rejected = rejectedBy(t, totals[at], want)
		}
	}
	return out
}

// totalsAtTurn sums, by domain, the machines that the verdicts show were claimable at the Need's turn.
func (p *pass) totalsAtTurn(need int32) []*domainTotals {
	n, k := &p.lines[need], p.kindOf(need)
	byValue := map[uint32]*domainTotals{}
	var list []*domainTotals
	for _, r := range p.s.Order {
		v := p.verdict(r, need)
		countable := v == VerdictClaimed || v == VerdictDomain || v == VerdictUnneeded
		free := p.s.View.State[r] == model.Idle || p.s.View.State[r] == model.Speculative
		if !countable || free && n.is(isParked) {
			continue
		}
		value, ok := p.s.Supply.Domain(k.matcher, r)
		if !ok {
			continue
		}
		t := byValue[value]
		if t == nil {
			z := make([]int64, 3*p.dims)
			t = &domainTotals{value: value, total: z[:p.dims], creditable: z[p.dims : 2*p.dims], own: z[2*p.dims:]}
			byValue[value] = t
			list = append(list, t)
		}
		t.count++
		columnar.SatAdd(t.total, p.vec(r))
		if !free {
			columnar.SatAdd(t.creditable, p.vec(r))
			if p.isOwn(r, need) {
				columnar.SatAdd(t.own, p.vec(r))
			}
		}
	}
	src := &p.sources[n.cluster]
	least := make([]int64, p.dims)
	p.addMinimum(least, src.block, int(need-src.base))
	for _, t := range list {
		t.covers, t.viable = columnar.Covers(t.total, p.aggregate(need)), columnar.Covers(t.total, least)
	}
	return list
}

// score is a domain's score in floating point, for display; decisions use compareScores.
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
func rejectedBy(a, b *domainTotals, want []int64) string {
	differ := func(x, y []int64, capped bool) bool { return compareScores(x, y, want, capped) != 0 }
	switch {
	case a.covers != b.covers:
		return "covers"
	case a.viable != b.viable:
		return "minimum"
	case differ(a.own, b.own, true):
		return "own"
	case !b.covers && differ(a.total, b.total, true):
		return "total"
	case differ(a.creditable, b.creditable, true):
		return "creditable"
	case b.covers && differ(a.total, b.total, false):
		return "surplus"
	case a.count != b.count:
		return "machines"
	}
	return "value"
}

// tried is a domain in which phase 2 looked for victims, kept for explanations.
type tried struct {
	PreemptionExplanation // except Missing, which missing holds
	need                  int32
	missing               []int64
}

// noteTried records what phase 2 found in a domain, if Options.Explain is set.
func (p *pass) noteTried(need int32, d *sameDomain, candidates int, covered bool, missing []int64) {
	if !p.e.opts.Explain {
		return
	}
	p.tried = append(p.tried, tried{PreemptionExplanation{
		Domain: p.s.Supply.ValueString(d.value), Covered: covered, Candidates: candidates,
	}, need, p.kept(missing)})
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
	if h := p.held[r].need; h != unheld && a.Kind == Preempt {
		x.Holder = p.named(h)
	}
	if a.Need >= 0 {
		need := p.needAt(int(a.Need))
		x.Reserved = p.reserved.ownedBy(r, need)
		if a.Kind == Bootstrap || a.Kind == Provision {
			x.Acquired = p.explainAcquired(r, need)
		}
		switch a.Kind {
		case Provision:
			o := p.offerOf(p.s.View.Class[r], p.kindOf(need).penalty)
			x.EffectiveCost = o.cost
		case Preempt:
			x.Excess = p.isExcess(r)
			t := p.scoreTerms(r, p.kindOf(need).priority, p.priorityOf(r))
			x.Gap, x.Drain, x.Interruption, x.Reclamation, x.Score = t[0], t[1], t[2], t[3], t[0]+t[1]+t[2]+t[3]
		}
	}
	if a.Kind == Delete {
		x.IdleSeconds = math.Max(0, float64(p.s.Now-p.s.View.IdleSince[r])/1e9)
	}
	return x
}
