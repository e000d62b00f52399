// Package records has what explanations are made of: plain records, which the stages fill if somebody
// asked for explanations.
package records

import "github.com/tonnage/tonnage/engine/model"

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
	// also lists domains that were not searched, by name, up to a bound.
	Preemption []PreemptionExplanation
	// Plan is the Need's plan of preemption; nil = none, or plan.VictimsMachine.
	Plan *PlanExplanation
	// plan.Tenancy is the result of reclaim between tenants; nil = none, or the Need had no use for it.
	Tenancy *TenancyExplanation
	// SearchEnded says of a Same-Need that the search for plans had exhausted its budget
	// (plan.Options.SearchPairs, plan.Options.SearchUnits) before the Need's turn, or before its second turn
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

// Tried is a domain in which phase 2 looked for victims, kept for explanations.
type Tried struct {
	PreemptionExplanation // except Missing, which missing holds
	Need                  int32
	Missing               []int64
}
