package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// TenancyExplanation says what came of reclaim between tenants for a need.
type TenancyExplanation struct {
	// Tenant is the need's tenant. Has is what it had when the need's turn began, Share its
	// share, both in the dimensions that the share names and some machine has.
	Tenant     string
	Has, Share model.Resources
	// Verdict says why the need had no turn: no_tenant, backs_off; or what came of it:
	// reclaims, reserves (what is free, in flight or excess was enough), nothing.
	Verdict string
	Givers  []GiverExplanation // all other tenants, in the order of the policy
}

// GiverExplanation is the ledger's verdict on a tenant that might have given.
type GiverExplanation struct {
	Tenant     string
	Has, Share model.Resources
	// Ratio is the largest Has/Share of any dimension, in whole steps of a twentieth.
	Ratio float64
	// Verdict is gives, or why the tenant gives nothing: within_share; nothing_of_use (it has
	// nothing that the need could use at its priority); taker_share, giver_share (any unit
	// would bring the taker above its share, or this tenant below its own); not_needed (others
	// gave, or no plan was made).
	Verdict string
}

// The verdicts on a turn of reclaim.
const (
	turnNoTenant = "no_tenant"
	turnBacksOff = "backs_off"
	turnReclaims = "reclaims"
	turnReserves = "reserves"
	turnNothing  = "nothing"
)

// The verdicts of the ledger on a tenant.
const (
	giverGives       = "gives"
	giverWithinShare = "within_share"
	giverNothing     = "nothing_of_use"
	giverTakerShare  = "taker_share"
	giverGiverShare  = "giver_share"
	giverNotNeeded   = "not_needed"
)

// tenancyWhy is the explanation of a need's turn of reclaim.
type tenancyWhy struct {
	TenancyExplanation
	need int32
}

// noteNoTurn records why a need that is short had no turn of reclaim.
func (l *worker) noteNoTurn(need int32, verdict string) {
	if !l.e.opts.Explain {
		return
	}
	why := TenancyExplanation{Verdict: verdict}
	if tenant := l.tenancy.of[l.lines[need].cluster]; tenant != noTenant {
		why.Tenant = l.tenancy.policy[tenant].Name
	}
	l.tenancyWhys = append(l.tenancyWhys, tenancyWhy{why, need})
}

// noteTurn records what the tenants had when a turn began, and the ledger's verdict on each
// before anything is chosen.
func (l *worker) noteTurn(need int32, k *kind) {
	if !l.e.opts.Explain {
		return
	}
	t := l.tenancy
	l.vecs.empty()
	l.resume(need)
	s := l.selectFor(need, k, &l.unitsFor(k).anywhere, l.copyOf(l.missing))
	why := tenancyWhy{need: need}
	why.Tenant, why.Verdict = t.policy[t.taker].Name, turnNothing
	why.Has, why.Share = t.explainAmounts(l.pass, t.hasOf(t.taker)), t.explainAmounts(l.pass, t.shareOf(t.taker))
	for i := range t.policy {
		giver := int32(i)
		if giver == t.taker {
			continue
		}
		x := GiverExplanation{
			Tenant: t.policy[i].Name, Verdict: giverWithinShare, Ratio: float64(-s.termOf(giver)) / thetaSteps,
			Has: t.explainAmounts(l.pass, t.hasOf(giver)), Share: t.explainAmounts(l.pass, t.shareOf(giver)),
		}
		if t.gives(giver) {
			x.Verdict = s.verdictOn(giver)
		}
		why.Givers = append(why.Givers, x)
	}
	l.tenancyWhys = append(l.tenancyWhys, why)
}

// explainAmounts converts a vector in the dimensions of shares to named amounts.
func (t *tenancy) explainAmounts(p *pass, v []int64) model.Resources {
	amounts := make([]model.Amount, 0, len(v))
	for d, x := range v {
		if x > 0 {
			amounts = append(amounts, model.Amount{Name: p.s.Dims[t.dimsAt[d]], Value: x})
		}
	}
	return model.NewResources(amounts...)
}

// verdictOn says whether the ledger would admit a single unit of a tenant, with nothing else
// chosen.
func (s *selection) verdictOn(giver int32) string {
	verdict := giverNothing
	note := func(takes, debits []int64) {
		switch t := s.tenancy; {
		case s.admits(giver, takes, debits):
			verdict = giverNotNeeded
		case verdict == giverNotNeeded:
		case within(t.hasOf(t.taker), t.shareOf(t.taker), takes):
			verdict = giverGiverShare
		case verdict == giverNothing:
			verdict = giverTakerShare
		}
	}
	single := func(r columnar.Row) {
		if class := s.s.View.Class[r]; s.classMask[class]&s.lacks != 0 {
			note(s.tenancy.vec(class), s.tenancy.vec(class))
		}
	}
	for i := range s.scope.victimGroups {
		f := &s.scope.victimGroups[i]
		if f.giver() != giver || !s.k.acceptsClass(f.class) {
			continue
		}
		if at := slices.IndexFunc(f.rows, func(r columnar.Row) bool { return s.isFreeOf(f.alike, r) && s.isPlaced(r) }); at >= 0 {
			single(f.rows[at])
		}
	}
	for i := range s.extra {
		if u := &s.extra[i]; u.giver == giver {
			single(u.row)
		}
	}
	for i := range s.wholes {
		if u := &s.wholes[i]; u.giver == giver && positive(u.local)&s.lacks != 0 {
			note(u.takes, u.debits)
		}
	}
	return verdict
}

// noteGiven records what came of the turn: what its plan takes, and from which tenants.
func (l *worker) noteGiven(x *proposal) {
	if !l.e.opts.Explain || !l.reclaiming {
		return
	}
	t, why := l.tenancy, &l.tenancyWhys[len(l.tenancyWhys)-1]
	if len(x.units)+len(x.used) > 0 {
		why.Verdict = turnReserves
	}
	for i := range x.units {
		giver := x.units[i].giver
		if giver == noTenant {
			continue
		}
		why.Verdict = turnReclaims
		at := slices.IndexFunc(why.Givers, func(g GiverExplanation) bool { return g.Tenant == t.policy[giver].Name })
		why.Givers[at].Verdict = giverGives
	}
}

// explainTerms adds to a unit's explanation its entry in the ledger, the terms of the score of
// the member with the least score, and what its workload loses.
func (s *selection) explainTerms(x *UnitExplanation, u *unit) {
	if s.reclaiming && u.giver != noTenant {
		x.Tenant, x.Ratio = s.tenancy.policy[u.giver].Name, float64(-u.key.tenant)/thetaSteps
	}
	least := math.Inf(1)
	for _, r := range x.Machines {
		x.InterruptionDollars += s.s.View.Interruption[r].Dollars()
		x.ReclamationDollars += s.s.View.Reclamation[r].Dollars()
		if t := s.scoreTerms(r, s.k.priority, s.e.store.priority[r]); t[0]+t[1]+t[2]+t[3] < least {
			least = t[0] + t[1] + t[2] + t[3]
			x.Gap, x.Drain, x.Interruption, x.Reclamation = t[0], t[1], t[2], t[3]
		}
	}
}
