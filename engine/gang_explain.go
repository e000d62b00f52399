package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// triedMax is how many domains of one need are explained at most: those that were tried, the
// best first, then others in no particular order.
const triedMax = 64

// comparedPlansMax is for how many plans of preemption in a cycle, those of the highest ranks,
// the compared domains are kept without Explain: at most TopDomains a plan, twice that between
// tenants.
const comparedPlansMax = 16

// PlanExplanation is a plan of preemption: what it was made for, and what it takes.
type PlanExplanation struct {
	Domain  string          // of a Same-Need
	Missing model.Resources // before any victim
	// Units are what the plan takes, in the order in which they were chosen.
	Units []UnitExplanation
	// Reprieved were chosen first and then dropped: they were not needed, or a gentler unit
	// replaced them.
	Reprieved []UnitExplanation
	// Tenants says that the plan, or a later part of it, is of reclaim between tenants.
	Tenants bool
}

// UnitExplanation is one unit of a plan of preemption: a machine, or all of a gang.
type UnitExplanation struct {
	Class    string // sunk, excess, elastic, plain, whole
	Machines []columnar.Row
	// Band is ⌊Score/band width⌋; a unit with a larger band is taken sooner. Score is the
	// victim score, of a whole gang the least of its members'.
	Band, Score float64
	// Gain is what the need can use of the unit, Cost what the unit has. Both are sums of
	// have/missing over the dimensions that the plan misses; in Gain each term is at most 1.
	Gain, Cost float64
	// ROI is Gain/Cost, 0 if the unit has nothing that is missing.
	ROI float64
	// Cluster is the cluster that loses the machines. Group is the gang's name, empty for units
	// without a gang and for gangs without a name.
	Cluster, Group string
	Gang           bool    // the machines are a gang's
	Holders        []int32 // numbers of the needs that the machines serve
	GraceSeconds   int32   // the longest of its machines
	// The terms of the score, weights included; of a whole gang those of the member with the
	// least score.
	Gap, Drain, Interruption, Reclamation float64
	// What the members' workloads lose by their stamps, in all, in US dollars; +Inf if one is
	// pinned.
	InterruptionDollars, ReclamationDollars float64
	// Reclaim between tenants: the tenant that gives the unit, and the largest ratio of what
	// that tenant had to its share, in whole steps of a twentieth. Empty for units that
	// priority took, and for those that are debited to no tenant.
	Tenant string
	Ratio  float64
	// Spared: excess that is not preempted, only held for the plan until phase 3 has reclaimed
	// it or its drain ends. Remainder: another plan breaks the machine's gang and does not use
	// it.
	Spared, Remainder bool
}

// PlanCost is what the plan for a domain would destroy, in the order in which plans are
// compared. Excess counts only for the grace.
type PlanCost struct {
	Band     float64 // the least of the units' bands; 0 when nothing has a cost
	Gangs    int     // broken whole
	Machines int     // lost: drained, or left with a broken gang
	// Destroyed is the sum of have/aggregate, in steps of a twentieth.
	Destroyed    float64
	GraceSeconds int32 // the longest
}

// The reasons why a domain was not chosen, in addition to those of costRule.
const (
	rejectedCapacity   = "capacity"    // everything together does not cover the need
	rejectedTopDomains = "top_domains" // TopDomains better ones were tried
	rejectedUnits      = "units"       // the units do not cover what is missing
	rejectedLedger     = "ledger"      // the units that the tenants' shares admit do not cover it either
	rejectedDryRun     = "dry_run"     // with what is freed, phase 1 would not cover the need
)

var classNames = [numUnitClasses]string{"sunk", "excess", "elastic", "plain", "whole"}

// plannedWhy is the explanation of a need's plan.
type plannedWhy struct {
	PlanExplanation
	need int32
}

// noteCandidateDomain records why a domain was not tried.
func (s *selection) noteCandidateDomain(value uint32, missing []int64, reason string) {
	if !s.e.opts.Explain || len(s.tried)-s.triedFrom >= triedMax {
		return
	}
	s.tried = append(s.tried, tried{PreemptionExplanation{
		Domain: s.cellName(value), Candidates: s.countMachines(), Rejected: reason, Tenants: s.reclaiming,
	}, s.need, s.kept(missing)})
}

// countMachines counts the machines of all units that the need could use.
func (s *selection) countMachines() int {
	seen := map[columnar.Row]bool{}
	s.rewind()
	s.eachMachine(func(r columnar.Row, _ int64) { seen[r] = true })
	s.rewind()
	return len(seen)
}

// keepsCompared reports whether to keep the domains that a plan was chosen from.
func (l *worker) keepsCompared(list []proposal, best int) bool {
	if l.e.opts.Explain {
		return true
	}
	if best < 0 || len(list[best].units) == 0 || l.compared == comparedPlansMax {
		return false
	}
	l.compared++
	return true
}

// noteProposals records the outcome of the domains that were tried, before those that were not;
// best is the index of the chosen one, −1 = none.
func (l *worker) noteProposals(need int32, list []proposal, best int) {
	if !l.keepsCompared(list, best) {
		return
	}
	notes := l.notes[:0]
	for i := range list {
		x := &list[i]
		note := tried{PreemptionExplanation{
			Domain: l.cellName(x.value), Candidates: x.candidates, Rejected: x.rejected, Tenants: l.reclaiming,
		}, need, l.kept(x.missing)}
		if note.Covered = x.found; x.found {
			note.Cost = x.cost.explain()
			if i != best {
				note.Rejected = l.costRule(need, x, &list[best])
			}
		}
		notes = append(notes, note)
	}
	l.notes = notes
	l.tried = slices.Insert(l.tried, l.triedFrom, notes...)
}

func (a *planCost) explain() PlanCost {
	x := PlanCost{Gangs: a.gangs, Machines: a.machines, Destroyed: float64(a.destroyed) / thetaSteps, GraceSeconds: a.grace}
	if a.paid {
		x.Band = 0 - a.band
	}
	return x
}

// costRule names the first rule by which the plan for a domain lost to another.
func (l *worker) costRule(need int32, x, best *proposal) string {
	a, b := &x.cost, &best.cost
	switch {
	case a.paid != b.paid:
		return "excess"
	case a.band != b.band:
		return "band"
	case a.gangs != b.gangs:
		return "gangs"
	case a.machines != b.machines:
		return "machines"
	case a.destroyed != b.destroyed:
		return "destroyed"
	case a.grace != b.grace:
		return "grace"
	case l.domainOf(best.value) == l.lines[need].domain && l.domainOf(x.value) != l.lines[need].domain:
		return "phase1_domain"
	}
	return "value"
}

// noteUnits records what a plan takes, before it is carried out.
func (l *worker) noteUnits(need int32, x *proposal) {
	if !l.e.opts.Explain || len(x.units) == 0 {
		return
	}
	s, why := &l.sel, plannedWhy{need: need}
	why.Tenants = l.reclaiming
	taken := map[columnar.Row]bool{}
	for i := range x.units {
		s.members(&x.units[i], func(r columnar.Row) { taken[r] = true })
		why.Units = append(why.Units, s.explain(&x.units[i], x))
	}
	for i := range x.reprieved {
		again := false
		s.members(&x.reprieved[i], func(r columnar.Row) { again = again || taken[r] })
		if !again {
			why.Reprieved = append(why.Reprieved, s.explain(&x.reprieved[i], x))
		}
	}
	why.Missing = l.resources(x.missing)
	if x.value != 0 {
		why.Domain = l.cellName(x.value)
	}
	if at := slices.IndexFunc(l.planWhys, func(o plannedWhy) bool { return l.reclaiming && o.need == need }); at >= 0 {
		first := &l.planWhys[at] // one plan, made in two turns
		first.Units, first.Tenants = append(first.Units, why.Units...), true
		first.Reprieved = slices.DeleteFunc(append(first.Reprieved, why.Reprieved...), func(u UnitExplanation) bool {
			return slices.ContainsFunc(u.Machines, func(r columnar.Row) bool { return taken[r] })
		})
		return
	}
	l.planWhys = append(l.planWhys, why)
}

// explain describes a unit as the need at work sees it.
func (s *selection) explain(u *unit, of *proposal) UnitExplanation {
	x := UnitExplanation{
		Class: classNames[u.key.class], Band: 0 - s.band(-u.key.score), Score: 0 - u.key.score,
		Gang: u.gang >= 0, Spared: u.spared, Remainder: u.remainder,
	}
	if u.gang >= 0 {
		x.Group = u.key.group
	}
	local, global := make([]int64, s.dims), make([]int64, s.dims)
	s.members(u, func(r columnar.Row) {
		x.Machines = append(x.Machines, r)
		x.Cluster = s.s.Clusters[s.s.ClusterOf[s.s.View.Cluster[r]]]
		x.GraceSeconds = max(x.GraceSeconds, s.graceOf(u, r))
		if h := s.held[r].need; h != unheld && !slices.Contains(x.Holders, s.named(h)) {
			x.Holders = append(x.Holders, s.named(h))
		}
		columnar.SatAdd(global, s.vec(r))
		if v, ok := s.cell(s.k.matcher, r); ok && (of.value == 0 || v == of.value) && s.k.acceptsClass(s.s.View.Class[r]) {
			columnar.SatAdd(local, s.vec(r))
		}
	})
	s.explainTerms(&x, u)
	x.Gain, x.Cost = score(local, of.missing, true), score(global, of.missing, false)
	if x.Cost > 0 {
		x.ROI = x.Gain / x.Cost
	}
	return x
}
