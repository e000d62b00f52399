package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

var classNames = [units.NumUnitClasses]string{"sunk", "excess", "elastic", "plain", "whole"}

// noteCandidateDomain records why a domain was not tried.
func (s *selection) noteCandidateDomain(value uint32, missing []int64, reason string) {
	if !s.worker.e.opts.Explain || len(s.worker.told.tried)-s.worker.told.triedFrom >= records.TriedMax {
		return
	}
	s.worker.told.tried = append(s.worker.told.tried, records.Tried{PreemptionExplanation: PreemptionExplanation{
		Domain: s.worker.cellName(value), Candidates: s.countMachines(), Rejected: reason, Tenants: s.worker.tenants.reclaiming,
	}, Need: s.need, Missing: s.worker.kept(missing)})
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
	if best < 0 || len(list[best].units) == 0 || l.told.compared == records.ComparedPlansMax {
		return false
	}
	l.told.compared++
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
		note := records.Tried{PreemptionExplanation: PreemptionExplanation{
			Domain: l.cellName(x.value), Candidates: x.candidates, Rejected: x.rejected, Tenants: l.tenants.reclaiming,
		}, Need: need, Missing: l.kept(x.missing)}
		if note.Covered = x.found; x.found {
			note.Cost = x.cost.Explain()
			if i != best {
				note.Rejected = l.costRule(need, x, &list[best])
			}
		}
		notes = append(notes, note)
	}
	l.notes = notes
	l.told.tried = slices.Insert(l.told.tried, l.told.triedFrom, notes...)
}

// costRule names the first rule by which the plan for a domain lost to another.
func (l *worker) costRule(need int32, x, best *proposal) string {
	a, b := &x.cost, &best.cost
	switch {
	case a.Paid != b.Paid:
		return "excess"
	case a.Band != b.Band:
		return "band"
	case a.Gangs != b.Gangs:
		return "gangs"
	case a.Machines != b.Machines:
		return "machines"
	case a.Destroyed != b.Destroyed:
		return "destroyed"
	case a.Grace != b.Grace:
		return "grace"
	case l.candidates.domainOf(best.value) == l.lines[need].Domain && l.candidates.domainOf(x.value) != l.lines[need].Domain:
		return "phase1_domain"
	}
	return "value"
}

// noteUnits records what a plan takes, before it is carried out.
func (l *worker) noteUnits(need int32, x *proposal) {
	if !l.e.opts.Explain || len(x.units) == 0 {
		return
	}
	s, why := &l.search.sel, records.Planned{Need: need}
	why.Tenants = l.tenants.reclaiming
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
	if at := slices.IndexFunc(l.told.planWhys, func(o records.Planned) bool { return l.tenants.reclaiming && o.Need == need }); at >= 0 {
		first := &l.told.planWhys[at] // one plan, made in two turns
		first.Units, first.Tenants = append(first.Units, why.Units...), true
		first.Reprieved = slices.DeleteFunc(append(first.Reprieved, why.Reprieved...), func(u UnitExplanation) bool {
			return slices.ContainsFunc(u.Machines, func(r columnar.Row) bool { return taken[r] })
		})
		return
	}
	l.told.planWhys = append(l.told.planWhys, why)
}

// explain describes a unit as the need at work sees it.
func (s *selection) explain(u *units.Unit, of *proposal) UnitExplanation {
	x := UnitExplanation{
		Class: classNames[u.Key.Class], Band: 0 - s.worker.band(-u.Key.Score), Score: 0 - u.Key.Score,
		Gang: u.Gang >= 0, Spared: u.Spared, Remainder: u.Remainder,
	}
	if u.Gang >= 0 {
		x.Group = u.Key.Group
	}
	local, global := make([]int64, s.worker.dims), make([]int64, s.worker.dims)
	s.members(u, func(r columnar.Row) {
		x.Machines = append(x.Machines, r)
		x.Cluster = s.worker.s.Clusters[s.worker.s.ClusterOf[s.worker.s.View.Cluster[r]]]
		x.GraceSeconds = max(x.GraceSeconds, s.graceOf(u, r))
		if h := s.worker.claims.Of(r); h != state.Unclaimed && !slices.Contains(x.Holders, s.worker.named(h)) {
			x.Holders = append(x.Holders, s.worker.named(h))
		}
		columnar.SatAdd(global, s.worker.vec(r))
		if v, ok := s.worker.cell(s.k.Matcher, r); ok && (of.value == 0 || v == of.value) && s.k.AcceptsClass(s.worker.s.View.Class[r]) {
			columnar.SatAdd(local, s.worker.vec(r))
		}
	})
	s.explainTerms(&x, u)
	x.Gain, x.Cost = score(local, of.missing, true), score(global, of.missing, false)
	if x.Cost > 0 {
		x.ROI = x.Gain / x.Cost
	}
	return x
}

// ConfigureAllowanceSeconds is how long a plan of preemption may take from the end of its
// longest drain to the binding of its machines.
const ConfigureAllowanceSeconds = 600

// planID returns the id of a need's plan of this cycle, 0 = none. It is a 64-bit hash: plans of
// other needs, and of other cycles, almost certainly have other ids.
func (p *pass) planID(need int32) uint64 {
	if p.e.opts.Victims != VictimsGang {
		return 0
	}
	h := plan.Hash(plan.HashStart)
	h.Add(uint64(p.s.Now), p.kindOf(need).Fingerprint, uint64(p.rankOf[need]))
	for _, text := range [...]string{p.s.Clusters[p.lines[need].Cluster], p.groupName(need)} {
		h.Add(uint64(len(text)))
		for i := range len(text) {
			h.Add(uint64(text[i]))
		}
	}
	return max(uint64(h), 1)
}

// reportReserved lists what the plans of this cycle reserve, by rank, then by machine id.
func (p *pass) reportReserved(plan *Plan) {
	slices.SortFunc(p.preempted.planned, func(a, b planned) int {
		return cmp.Or(cmp.Compare(p.rankOf[a.need], p.rankOf[b.need]), cmp.Compare(p.s.IDRank[a.row], p.s.IDRank[b.row]))
	})
	at := 0
	for i, x := range p.preempted.planned {
		if i > 0 && p.preempted.planned[i-1].need == x.need {
			again := plan.Reservations[len(plan.Reservations)-1]
			again.Machine = x.row
			again.Reservation.Deadline = p.deadlineOf(x.row, &p.preempted.plans[at])
			plan.Reservations = append(plan.Reservations, again)
			continue
		}
		for p.preempted.plans[at].need != x.need {
			at++
		}
		res := p.reservationOf(&p.preempted.plans[at])
		res.Deadline = p.deadlineOf(x.row, &p.preempted.plans[at])
		plan.Reservations = append(plan.Reservations, Reserved{
			Machine: x.row, Need: p.named(x.need), GraceSeconds: p.preempted.plans[at].grace, Reservation: res,
		})
	}
}

// deadlineOf returns the time until which a plan holds a machine, in Unix nanoseconds. 0 = the
// deadline is set when the machine turns Idle: it is a victim, or drains already.
func (p *pass) deadlineOf(r columnar.Row, x *gangPlan) int64 {
	if p.preempted.victimOf.Has(uint32(r)) || p.s.View.State[r] == model.Draining {
		return 0
	}
	return p.s.Now + (int64(x.grace)+ConfigureAllowanceSeconds)*1e9
}

// reservationOf returns what a plan stamps on its machines. The owner is named by its first
// row, so it stays the owner when the fold that the row is part of breaks up.
func (p *pass) reservationOf(x *gangPlan) model.Reservation {
	row := p.first(x.need)
	src := &p.sources[p.lines[x.need].Cluster]
	profile := p.s.Demand.Profile(src.Block.Profile(int(row - src.Base)))
	res := model.Reservation{
		Owner: model.Owner{
			Cluster: src.Block.Cluster(), Fingerprint: profile.WithoutSame().Fingerprint(), Group: src.Block.Group(int(row - src.Base)),
		},
		Priority: profile.Priority(), Interruption: profile.Interruption(), Reclamation: profile.Reclamation(),
		Arrival: src.Block.Arrival(int(row - src.Base)),
		Plan:    p.planID(x.need),
	}
	if n := &p.lines[x.need]; p.kindOf(x.need).Same && n.Domain != 0 {
		res.Domain = p.s.Supply.ValueString(n.Domain)
	}
	return res
}
