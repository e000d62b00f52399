package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// ConfigureAllowanceSeconds is how long a plan of preemption may take from the end of its
// longest drain to the binding of its machines.
const ConfigureAllowanceSeconds = 600

// planID returns the id of a need's plan of this cycle, 0 = none. It is a 64-bit hash: plans of
// other needs, and of other cycles, almost certainly have other ids.
func (p *pass) planID(need int32) uint64 {
	if p.e.opts.Victims != VictimsGang {
		return 0
	}
	h := digest(14695981039346656037)
	h.add(uint64(p.s.Now), p.kindOf(need).fingerprint, uint64(p.rankOf[need]))
	for _, text := range [...]string{p.s.Clusters[p.lines[need].cluster], p.groupName(need)} {
		h.add(uint64(len(text)))
		for i := range len(text) {
			h.add(uint64(text[i]))
		}
	}
	return max(uint64(h), 1)
}

// reportReserved lists what the plans of this cycle reserve, by rank, then by machine id.
func (p *pass) reportReserved(plan *Plan) {
	slices.SortFunc(p.planned, func(a, b planned) int {
		return cmp.Or(cmp.Compare(p.rankOf[a.need], p.rankOf[b.need]), cmp.Compare(p.s.IDRank[a.row], p.s.IDRank[b.row]))
	})
	at := 0
	for i, x := range p.planned {
		if i > 0 && p.planned[i-1].need == x.need {
			again := plan.Reservations[len(plan.Reservations)-1]
			again.Machine = x.row
			again.Reservation.Deadline = p.deadlineOf(x.row, &p.plans[at])
			plan.Reservations = append(plan.Reservations, again)
			continue
		}
		for p.plans[at].need != x.need {
			at++
		}
		res := p.reservationOf(&p.plans[at])
		res.Deadline = p.deadlineOf(x.row, &p.plans[at])
		plan.Reservations = append(plan.Reservations, Reserved{
			Machine: x.row, Need: p.named(x.need), GraceSeconds: p.plans[at].grace, Reservation: res,
		})
	}
}

// deadlineOf returns the time until which a plan holds a machine, in Unix nanoseconds. 0 = the
// deadline is set when the machine turns Idle: it is a victim, or drains already.
func (p *pass) deadlineOf(r columnar.Row, x *plan) int64 {
	if p.victimOf.Has(uint32(r)) || p.s.View.State[r] == model.Draining {
		return 0
	}
	return p.s.Now + (int64(x.grace)+ConfigureAllowanceSeconds)*1e9
}

// reservationOf returns what a plan stamps on its machines. The owner is named by its first
// row, so it stays the owner when the fold that the row is part of breaks up.
func (p *pass) reservationOf(x *plan) model.Reservation {
	row := p.first(x.need)
	src := &p.sources[p.lines[x.need].cluster]
	profile := p.s.Demand.Profile(src.block.Profile(int(row - src.base)))
	res := model.Reservation{
		Owner: model.Owner{
			Cluster: src.block.Cluster(), Fingerprint: profile.WithoutSame().Fingerprint(), Group: src.block.Group(int(row - src.base)),
		},
		Priority: profile.Priority(), Interruption: profile.Interruption(), Reclamation: profile.Reclamation(),
		Arrival: src.block.Arrival(int(row - src.base)),
		Plan:    p.planID(x.need),
	}
	if n := &p.lines[x.need]; p.kindOf(x.need).same && n.domain != 0 {
		res.Domain = p.s.Supply.ValueString(n.domain)
	}
	return res
}
