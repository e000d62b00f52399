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
	if !s.worker.p.e.opts.Explain || len(s.worker.p.told.tried)-s.worker.p.told.triedFrom >= records.TriedMax {
		return
	}
	s.worker.p.told.tried = append(s.worker.p.told.tried, records.Tried{PreemptionExplanation: PreemptionExplanation{
		Domain: s.worker.p.cellName(value), Candidates: s.countMachines(), Rejected: reason, Tenants: s.worker.p.tenants.reclaiming,
	}, Need: s.need, Missing: s.worker.p.kept(missing)})
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
func (p *pass) keepsCompared(list []proposal, best int) bool {
	if p.e.opts.Explain {
		return true
	}
	if best < 0 || len(list[best].units) == 0 || p.told.compared == records.ComparedPlansMax {
		return false
	}
	p.told.compared++
	return true
}

// noteProposals records the outcome of the domains that were tried, before those that were not;
// best is the index of the chosen one, −1 = none.
func (l *worker) noteProposals(need int32, list []proposal, best int) {
	if !l.p.keepsCompared(list, best) {
		return
	}
	notes := l.notes[:0]
	for i := range list {
		x := &list[i]
		note := records.Tried{PreemptionExplanation: PreemptionExplanation{
			Domain: l.p.cellName(x.value), Candidates: x.candidates, Rejected: x.rejected, Tenants: l.p.tenants.reclaiming,
		}, Need: need, Missing: l.p.kept(x.missing)}
		if note.Covered = x.found; x.found {
			note.Cost = x.cost.Explain()
			if i != best {
				note.Rejected = l.p.costRule(need, x, &list[best])
			}
		}
		notes = append(notes, note)
	}
	l.notes = notes
	l.p.told.tried = slices.Insert(l.p.told.tried, l.p.told.triedFrom, notes...)
}

// costRule names the first rule by which the plan for a domain lost to another.
func (p *pass) costRule(need int32, x, best *proposal) string {
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
	case p.candidates.domainOf(best.value) == p.lines[need].Domain && p.candidates.domainOf(x.value) != p.lines[need].Domain:
		return "phase1_domain"
	}
	return "value"
}

// noteUnits records what a plan takes, before it is carried out.
func (l *worker) noteUnits(need int32, x *proposal) {
	if !l.p.e.opts.Explain || len(x.units) == 0 {
		return
	}
	s, why := &l.search.sel, records.Planned{Need: need}
	why.Tenants = l.p.tenants.reclaiming
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
	why.Missing = l.p.resources(x.missing)
	if x.value != 0 {
		why.Domain = l.p.cellName(x.value)
	}
	if at := slices.IndexFunc(l.p.told.planWhys, func(o records.Planned) bool { return l.p.tenants.reclaiming && o.Need == need }); at >= 0 {
		first := &l.p.told.planWhys[at] // one plan, made in two turns
		first.Units, first.Tenants = append(first.Units, why.Units...), true
		first.Reprieved = slices.DeleteFunc(append(first.Reprieved, why.Reprieved...), func(u UnitExplanation) bool {
			return slices.ContainsFunc(u.Machines, func(r columnar.Row) bool { return taken[r] })
		})
		return
	}
	l.p.told.planWhys = append(l.p.told.planWhys, why)
}

// explain describes a unit as the need at work sees it.
func (s *selection) explain(u *units.Unit, of *proposal) UnitExplanation {
	x := UnitExplanation{
		Class: classNames[u.Key.Class], Band: 0 - s.worker.p.band(-u.Key.Score), Score: 0 - u.Key.Score,
		Gang: u.Gang >= 0, Spared: u.Spared, Remainder: u.Remainder,
	}
	if u.Gang >= 0 {
		x.Group = u.Key.Group
	}
	local, global := make([]int64, s.worker.p.dims), make([]int64, s.worker.p.dims)
	s.members(u, func(r columnar.Row) {
		x.Machines = append(x.Machines, r)
		if c := s.worker.p.s.ClusterOf[s.worker.p.s.View.Cluster[r]]; c >= 0 { // an Idle machine is in none
			x.Cluster = s.worker.p.s.Clusters[c]
		}
		x.GraceSeconds = max(x.GraceSeconds, s.graceOf(u, r))
		if h := s.worker.p.claims.Of(r); h != state.Unclaimed && !slices.Contains(x.Holders, s.worker.p.named(h)) {
			x.Holders = append(x.Holders, s.worker.p.named(h))
		}
		columnar.SatAdd(global, s.worker.p.vec(r))
		if v, ok := s.worker.p.cell(s.k.Matcher, r); ok && (of.value == 0 || v == of.value) && s.k.AcceptsClass(s.worker.p.s.View.Class[r]) {
			columnar.SatAdd(local, s.worker.p.vec(r))
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
