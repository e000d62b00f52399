package search

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// noteNoTurn records why a need that is short had no turn of reclaim.
func (p *Pass) noteNoTurn(need int32, verdict string) {
	if !p.Told.Explains(need) {
		return
	}
	why := records.TenancyExplanation{Verdict: verdict}
	if tenant := p.Tenants.Shares.Of[p.ClusterOf(need)]; tenant != tenancy.None {
		why.Tenant = p.Tenants.Shares.Policy[tenant].Name
	}
	p.Told.TenancyWhys = append(p.Told.TenancyWhys, records.Turn{TenancyExplanation: why, Need: need})
}

// noteTurn records what the tenants had when a turn began, and the ledger's verdict on each
// before anything is chosen.
func (l *Worker) noteTurn(need int32, k *state.Kind) {
	if !l.p.Told.Explains(need) {
		return
	}
	t := l.p.Tenants.Shares
	l.Finding.Vecs.Empty()
	l.Resume(need)
	s := l.selectFor(need, k, &l.UnitsFor(k).Anywhere, l.CopyForPlan(l.Missing))
	why := records.Turn{Need: need}
	why.Tenant, why.Verdict = t.Policy[t.Taker].Name, records.TurnNothing
	why.Has, why.Share = t.Explain(t.HasOf(t.Taker)), t.Explain(t.ShareOf(t.Taker))
	for i := range t.Policy {
		giver := int32(i)
		if giver == t.Taker {
			continue
		}
		x := records.GiverExplanation{
			Tenant: t.Policy[i].Name, Verdict: records.GiverWithinShare, Ratio: float64(-s.given.ledger.Term(giver)) / exact.ThetaSteps,
			Has: t.Explain(t.HasOf(giver)), Share: t.Explain(t.ShareOf(giver)),
		}
		if t.Gives(giver) {
			x.Verdict = s.verdictOn(giver)
		}
		why.Givers = append(why.Givers, x)
	}
	l.p.Told.TenancyWhys = append(l.p.Told.TenancyWhys, why)
}

// verdictOn says whether the ledger would admit a single unit of a tenant, with nothing else
// chosen.
func (s *selection) verdictOn(giver int32) string {
	verdict := records.GiverNothing
	note := func(takes, debits []int64) {
		switch t := s.worker.p.Tenants.Shares; {
		case s.given.ledger.Admits(giver, takes, debits):
			verdict = records.GiverNotNeeded
		case verdict == records.GiverNotNeeded:
		case t.Within(t.Taker, takes):
			verdict = records.GiverGiverShare
		case verdict == records.GiverNothing:
			verdict = records.GiverTakerShare
		}
	}
	single := func(r columnar.Row) {
		if class := s.worker.p.Snap.View.Class[r]; s.worker.p.ClassMask[class]&s.lacks != 0 {
			note(s.worker.p.Tenants.Shares.Vec(class), s.worker.p.Tenants.Shares.Vec(class))
		}
	}
	for i := range s.scope.VictimGroups {
		f := &s.scope.VictimGroups[i]
		if f.Giver() != giver || !s.k.AcceptsClass(f.Class) {
			continue
		}
		if at := slices.IndexFunc(f.Rows, func(r columnar.Row) bool { return s.isFreeOf(f.Alike, r) && s.isPlaced(r) }); at >= 0 {
			single(f.Rows[at])
		}
	}
	for i := range s.listing.extra {
		if u := &s.listing.extra[i]; u.Giver == giver {
			single(u.Row)
		}
	}
	for i := range s.listing.wholes {
		if u := &s.listing.wholes[i]; u.Giver == giver && cycle.PositiveDims(u.Local)&s.lacks != 0 {
			note(u.Takes, u.Debits)
		}
	}
	return verdict
}

// noteGiven records what came of the turn: what its plan takes, and from which tenants.
func (p *Pass) noteGiven(need int32, x *proposal) {
	if !p.Told.Explains(need) || !p.Tenants.Reclaiming {
		return
	}
	t, why := p.Tenants.Shares, &p.Told.TenancyWhys[len(p.Told.TenancyWhys)-1]
	if len(x.units)+len(x.used) > 0 {
		why.Verdict = records.TurnReserves
	}
	for i := range x.units {
		giver := x.units[i].Giver
		if giver == tenancy.None {
			continue
		}
		why.Verdict = records.TurnReclaims
		at := slices.IndexFunc(why.Givers, func(g records.GiverExplanation) bool { return g.Tenant == t.Policy[giver].Name })
		why.Givers[at].Verdict = records.GiverGives
	}
}

// explainTerms adds to a unit's explanation its entry in the ledger, the terms of the score of
// the member with the least score, and what its workload loses.
func (s *selection) explainTerms(x *records.UnitExplanation, u *units.Unit) {
	if s.worker.p.Tenants.Reclaiming && u.Giver != tenancy.None {
		x.Tenant, x.Ratio = s.worker.p.Tenants.Shares.Policy[u.Giver].Name, float64(-u.Key.Tenant)/exact.ThetaSteps
	}
	least := math.Inf(1)
	for _, r := range x.Machines {
		x.InterruptionDollars += s.worker.p.Snap.View.Interruption[r].Dollars()
		x.ReclamationDollars += s.worker.p.Snap.View.Reclamation[r].Dollars()
		if t := s.worker.p.ScoreTerms(r, s.k.Priority, s.worker.p.st.Priority[r]); t[0]+t[1]+t[2]+t[3] < least {
			least = t[0] + t[1] + t[2] + t[3]
			x.Gap, x.Drain, x.Interruption, x.Reclamation = t[0], t[1], t[2], t[3]
		}
	}
}
