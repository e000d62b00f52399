package search

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
	"github.com/tonnage/tonnage/engine/model"
)

var classNames = [units.NumUnitClasses]string{"sunk", "excess", "elastic", "plain", "whole"}

// hasPart reports whether a need that misses this much has a part of what it wants.
func (p *Pass) hasPart(need int32, missing []int64) bool {
	want := p.Aggregate(need)
	return !slices.Equal(missing[:len(want)], want)
}

// keepFirst adds a domain to a list, which keeps as many as are explained: those with the smallest numbers, so that it does not
// depend on the order in which they come.
func keepFirst(list []candidateDomain, x candidateDomain) []candidateDomain {
	at, _ := slices.BinarySearchFunc(list, x.value, func(a candidateDomain, value uint32) int { return cmp.Compare(a.value, value) })
	if at == records.TriedMax {
		return list
	}
	return slices.Insert(list[:min(len(list), records.TriedMax-1)], at, x)
}

// noteCandidateDomain records, for Explain, why a domain was not tried.
func (s *selection) noteCandidateDomain(value uint32, missing []int64, reason string) {
	if len(s.worker.p.Told.Tried)-s.worker.p.Told.TriedFrom >= records.TriedMax {
		return
	}
	s.worker.p.Told.Tried = append(s.worker.p.Told.Tried, records.Tried{PreemptionExplanation: records.PreemptionExplanation{
		Domain: s.worker.p.CellName(value), Candidates: s.countMachines(), Rejected: reason, Tenants: s.worker.p.Tenants.Reclaiming,
	}, Need: s.need, Missing: s.worker.p.CopyForCycle(missing)})
}

// countMachines counts the machines of all units that the need could use.
func (s *selection) countMachines() int {
	seen := map[columnar.Row]bool{}
	s.rewind()
	s.eachMachine(nil, func(r columnar.Row, _ int64) { seen[r] = true })
	s.rewind()
	return len(seen)
}

// keepsCompared reports whether to keep the domains that a plan was chosen from.
func (p *Pass) keepsCompared(need int32, list []proposal, best int) bool {
	if p.Told.Explains(need) {
		return true
	}
	if best < 0 || len(list[best].units) == 0 || p.Told.Compared == records.ComparedPlansMax {
		return false
	}
	p.Told.Compared++
	return true
}

// noteProposals records the outcome of the domains that were tried, before those that were not;
// best is the index of the chosen one, −1 = none.
func (l *Worker) noteProposals(need int32, list []proposal, best int) {
	if !l.p.keepsCompared(need, list, best) {
		return
	}
	notes := l.notes[:0]
	for i := range list {
		x := &list[i]
		note := records.Tried{PreemptionExplanation: records.PreemptionExplanation{
			Domain: l.p.CellName(x.value), Candidates: x.candidates, Rejected: x.rejected, Tenants: l.p.Tenants.Reclaiming,
		}, Need: need, Missing: l.p.CopyForCycle(x.missing)}
		if note.Covered = x.found; x.found {
			note.Cost = x.cost.Explain()
			if i != best {
				note.Rejected = l.p.costRule(need, x, &list[best])
			}
		}
		notes = append(notes, note)
	}
	l.notes = notes
	l.p.Told.Tried = slices.Insert(l.p.Told.Tried, l.p.Told.TriedFrom, notes...)
}

// costRule names the first rule by which the plan for a domain lost to another.
func (p *Pass) costRule(need int32, x, best *proposal) string {
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
	case p.Candidates.DomainOf(best.value) == p.Lines[need].Domain && p.Candidates.DomainOf(x.value) != p.Lines[need].Domain:
		return "phase1_domain"
	}
	return "value"
}

// noteUnits records what a plan takes, before it is carried out.
func (l *Worker) noteUnits(need int32, x *proposal) {
	if !l.p.Told.Explains(need) || len(x.units) == 0 {
		return
	}
	s, why := &l.sel, records.Planned{Need: need}
	why.Tenants = l.p.Tenants.Reclaiming
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
	why.Missing = l.p.Resources(x.missing)
	if x.value != 0 {
		why.Domain = l.p.CellName(x.value)
	}
	if at := slices.IndexFunc(l.p.Told.PlanWhys, func(o records.Planned) bool { return l.p.Tenants.Reclaiming && o.Need == need }); at >= 0 {
		first := &l.p.Told.PlanWhys[at] // one plan, made in two turns
		first.Units, first.Tenants = append(first.Units, why.Units...), true
		first.Reprieved = slices.DeleteFunc(append(first.Reprieved, why.Reprieved...), func(u records.UnitExplanation) bool {
			return slices.ContainsFunc(u.Machines, func(r columnar.Row) bool { return taken[r] })
		})
		return
	}
	l.p.Told.PlanWhys = append(l.p.Told.PlanWhys, why)
}

// explain describes a unit as the need at work sees it.
func (s *selection) explain(u *units.Unit, of *proposal) records.UnitExplanation {
	x := records.UnitExplanation{
		Class: classNames[u.Key.Class], Band: 0 - s.worker.p.Band(-u.Key.Score), Score: 0 - u.Key.Score,
		Gang: u.Gang >= 0, Spared: u.Spared, Remainder: u.Remainder,
	}
	if u.Gang >= 0 {
		x.Group = u.Key.Group
	}
	local, global := make([]int64, s.worker.p.Dims), make([]int64, s.worker.p.Dims)
	s.members(u, func(r columnar.Row) {
		x.Machines = append(x.Machines, r)
		if c := s.worker.p.Snap.ClusterOf[s.worker.p.Snap.View.Cluster[r]]; c >= 0 { // an Idle machine is in none
			x.Cluster = s.worker.p.Snap.Clusters[c]
		}
		x.GraceSeconds = max(x.GraceSeconds, s.graceOf(u, r))
		if h := s.worker.p.Claims.Of(r); h != state.Unclaimed && !slices.Contains(x.Holders, s.worker.p.NumberOfNeed(h)) {
			x.Holders = append(x.Holders, s.worker.p.NumberOfNeed(h))
		}
		columnar.SatAdd(global, s.worker.p.Vec(r))
		if v, ok := s.worker.p.Cell(s.k.Matcher, r); ok && (of.value == 0 || v == of.value) && s.k.AcceptsClass(s.worker.p.Snap.View.Class[r]) {
			columnar.SatAdd(local, s.worker.p.Vec(r))
		}
	})
	s.explainTerms(&x, u)
	x.Gain, x.Cost = DisplayScore(local, of.missing, true), DisplayScore(global, of.missing, false)
	if x.Cost > 0 {
		x.ROI = x.Gain / x.Cost
	}
	return x
}

// PlanID returns the id of a need's plan of this cycle, 0 = none. It is a 64-bit hash: plans of
// other needs, and of other cycles, almost certainly have other ids.
func (p *Pass) PlanID(need int32) uint64 {
	if p.Opts.Victims != plan.VictimsGang {
		return 0
	}
	h := plan.Hash(plan.HashStart)
	h.Add(uint64(p.Snap.Now), p.KindOf(need).Fingerprint, uint64(p.RankOf[need]))
	for _, text := range [...]string{p.Snap.Clusters[p.ClusterOf(need)], p.GroupName(need)} {
		h.Add(uint64(len(text)))
		for i := range len(text) {
			h.Add(uint64(text[i]))
		}
	}
	return max(uint64(h), 1)
}

// ReportReserved appends what the plans of this cycle reserve, by rank, then by machine id.
func (p *Pass) ReportReserved(list []plan.Reserved) []plan.Reserved {
	slices.SortFunc(p.Preempted.Planned, func(a, b victims.Planned) int {
		return cmp.Or(cmp.Compare(p.RankOf[a.Need], p.RankOf[b.Need]), cmp.Compare(p.Snap.IDRank(a.Row), p.Snap.IDRank(b.Row)))
	})
	at := 0
	for i, x := range p.Preempted.Planned {
		if i > 0 && p.Preempted.Planned[i-1].Need == x.Need {
			again := list[len(list)-1]
			again.Machine = x.Row
			again.Reservation.Deadline = p.deadlineOf(x.Row, &p.Preempted.Plans[at])
			list = append(list, again)
			continue
		}
		for p.Preempted.Plans[at].Need != x.Need {
			at++
		}
		res := p.reservationOf(&p.Preempted.Plans[at])
		res.Deadline = p.deadlineOf(x.Row, &p.Preempted.Plans[at])
		list = append(list, plan.Reserved{
			Machine: x.Row, Need: p.NumberOfNeed(x.Need), GraceSeconds: p.Preempted.Plans[at].Grace, Reservation: res,
		})
	}
	return list
}

// deadlineOf returns the time until which a plan holds a machine, in Unix nanoseconds. 0 = the
// deadline is set when the machine turns Idle: it is a victim, or drains already.
func (p *Pass) deadlineOf(r columnar.Row, x *victims.GangPlan) int64 {
	if p.Preempted.VictimOf.Has(uint32(r)) || p.Snap.View.State[r] == model.Draining {
		return 0
	}
	return p.Snap.Now + (int64(x.Grace)+plan.ConfigureAllowanceSeconds)*1e9
}

// reservationOf returns what a plan stamps on its machines. The owner is named by its first
// row, so it stays the owner when the fold that the row is part of breaks up.
func (p *Pass) reservationOf(x *victims.GangPlan) model.Reservation {
	row := p.FirstRow(x.Need)
	src := p.SourceOf(x.Need)
	profile := p.Snap.Demand.Profile(src.Block.Profile(int(row - src.Base)))
	res := model.Reservation{
		Owner: model.Owner{
			Cluster: src.Block.Cluster(), Fingerprint: profile.WithoutSame().Fingerprint(), Group: src.Block.Group(int(row - src.Base)),
		},
		Priority: profile.Priority(), Interruption: profile.Interruption(), Reclamation: profile.Reclamation(),
		Arrival: src.Block.Arrival(int(row - src.Base)),
		Plan:    p.PlanID(x.Need),
	}
	if n := &p.Lines[x.Need]; p.KindOf(x.Need).Same && n.Domain != 0 {
		res.Domain = p.Snap.Supply.ValueString(n.Domain)
	}
	return res
}

// DisplayScore is a domain's score in floating point, for display; decisions use exact.CompareScores.
func DisplayScore(have, want []int64, capped bool) float64 {
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

// LeastRatio is the smallest ratio of have to want, at most 1.
func LeastRatio(have, want []int64) float64 {
	least := 1.0
	for i, w := range want {
		if w > 0 {
			least = min(least, float64(have[i])/float64(w))
		}
	}
	return least
}
