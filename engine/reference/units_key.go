package reference

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// The classes of victim units, from the gentlest on. Excess goes before all
// others, whatever the band.
const (
	classSunk    = 0 // remainder of a gang that is lost anyway
	classExcess  = 1 // Configured and claimed by nobody, or on its way out for nobody
	classElastic = 2 // above a gang's minimum
	classPlain   = 3 // claimed by a Need that is no gang
	classWhole   = 4 // all members of a gang
)

// unit is what can be taken: one machine, or all members of a gang.
type unit struct {
	class   int
	gang    *gang            // of classElastic and classWhole, and of a broken gang's members
	members []*model.Machine // everything that goes, by id
	local   []*model.Machine // of these, what the Need can use, in its scope
	score   float64          // the least of the members
	// level is the priority at which the unit can be had; of a gang the highest
	// of its members.
	level int32
	// noPreempt: it drains already, or phase 3 reclaims it anyway and its priority
	// is not below the Need's: the plan only reserves it.
	noPreempt bool
	// remainder: another Need of this cycle has broken the gang and does not
	// use this member.
	remainder bool
}

// unitKey is the order of units, smallest first:
//
//	( paid, band, class, roi, score, cluster, group, id )
//
// with paid = false for excess, and S = ∞ for a draining machine that nobody has
// reserved, −∞ for one that is reserved; band = −⌊S/δ⌋, for δ = 0 −S, for δ = ∞ 0;
// roi = −⌊ROI/θ⌋ for whole gangs, else 0; score = −S. S is the victim score,
// a float64; S/δ is one float64 division. Cluster and group are those of the
// gang, empty for units of none, so that machines that serve no gang are
// ordered by id alone. Elastic members that agree up to here go in reverse keep
// order.
type unitKey struct {
	paid           bool
	tenant         int64 // reclaim between tenants: −⌊ratio/θ⌋; else 0
	band           float64
	class          int
	roi            int64
	score          float64
	cluster, group string
	last           *model.Machine // elastic: its machine
	id             string
}

func (k unitKey) compare(o unitKey) int {
	if k.paid != o.paid {
		if o.paid {
			return -1
		}
		return 1
	}
	if c := cmp.Or(
		cmp.Compare(k.tenant, o.tenant), cmp.Compare(k.band, o.band), cmp.Compare(k.class, o.class), cmp.Compare(k.roi, o.roi),
		cmp.Compare(k.score, o.score), cmp.Compare(k.cluster, o.cluster), cmp.Compare(k.group, o.group),
	); c != 0 {
		return c
	}
	if k.last != nil && o.last != nil {
		return keepOrder(o.last, k.last)
	}
	return cmp.Compare(k.id, o.id)
}

// keyOfUnit measures the unit against what is missing; gone are members that
// the plan has taken already.
func (p *pass) keyOfUnit(u *unit, missing model.Resources, gone map[*model.Machine]bool) unitKey {
	k := unitKey{paid: u.class != classExcess, band: p.band(u.score), class: u.class, score: -u.score, id: u.members[0].ID}
	if u.gang != nil {
		k.cluster, k.group = u.gang.cluster, u.gang.group
	}
	if u.class == classElastic {
		k.last = u.members[0]
	}
	if u.class == classWhole {
		stays := func(m *model.Machine) bool { return !gone[m] }
		k.roi = -roiSteps(sum(filter(u.local, stays)), sum(filter(u.members, stays)), missing)
	}
	return k
}

// band is −⌊S/δ⌋: smaller = a better victim.
func (p *pass) band(score float64) float64 {
	switch width := p.in.Options.Band; {
	case math.IsInf(width, 1):
		return 0
	case width == 0:
		return -score
	default:
		return -math.Floor(score / width)
	}
}

// thetaSteps is 1/θ: ROI and cost are compared in steps of 0.05.
const thetaSteps = 20

// ratioBits is the number of binary places of a ratio.
const ratioBits = 32

// ratio returns have × 2³² / want, rounded down or up, math.MaxInt64 where it
// would be larger; want is positive.
func ratio(have, want int64, up bool) int64 {
	hi, lo := bits.Mul64(uint64(have), 1<<ratioBits)
	if hi >= uint64(want) {
		return math.MaxInt64
	}
	q, rest := bits.Div64(hi, lo, uint64(want))
	if up && rest > 0 {
		q++
	}
	return int64(min(q, math.MaxInt64))
}

// roiSteps is ⌊ROI/θ⌋, from 0 to 20, in integers:
//
//	gain = Σᵢ ⌈min(localᵢ, missingᵢ) × 2³² / missingᵢ⌉
//	cost = Σᵢ ⌊globalᵢ × 2³² / missingᵢ⌋
//	⌊20 × gain / cost⌋, at most 20; 20 when the cost is 0
//
// over the dimensions still missing, each ratio and both sums saturating at
// 2⁶³−1, the last division in 128 bits. Rounding gain up and cost down keeps a
// ratio that is a whole number of steps on its step.
func roiSteps(local, global, missing model.Resources) int64 {
	var gain, cost int64
	for _, a := range missing {
		gain = model.SatAdd(gain, ratio(min(local.Get(a.Name), a.Value), a.Value, true))
		cost = model.SatAdd(cost, ratio(global.Get(a.Name), a.Value, false))
	}
	hi, lo := bits.Mul64(uint64(gain), thetaSteps)
	if hi >= uint64(cost) { // cost is 0, or the quotient has more than 64 bits
		return thetaSteps
	}
	q, _ := bits.Div64(hi, lo, uint64(cost))
	return int64(min(q, thetaSteps))
}

// costSteps is ⌊Σᵢ globalᵢ/wantᵢ ÷ θ⌋ in the same arithmetic.
func costSteps(global, want model.Resources) int64 {
	var cost int64
	for _, a := range want {
		cost = model.SatAdd(cost, ratio(global.Get(a.Name), a.Value, false))
	}
	hi, lo := bits.Mul64(uint64(cost), thetaSteps)
	return int64(hi<<(64-ratioBits) | lo>>ratioBits)
}

// unitsFor lists what the Need may take, in any order. A unit is there when
// the priority of what it holds is below the Need's, or where tenants share
// not above it, and the Need can use one of its members in the scope. Excess
// is there at any priority.
func (p *pass) unitsFor(n *need, scope func(*model.Machine) bool, eligible func(cluster string, priority int32) bool) []*unit {
	var units []*unit
	states := map[*gang]gangState{}
	for _, m := range p.machines {
		if p.takenBy[m] != nil || !scope(m) || !usable(n, m) {
			continue
		}
		_, held := p.holds[m]
		if p.drainsForLess(n, m) {
			u := &unit{class: classExcess, members: []*model.Machine{m}, score: math.Inf(1), noPreempt: true}
			if u.local = u.members; held && !p.givenUp(m) {
				u.score = math.Inf(-1)
			}
			units = append(units, u)
			continue
		}
		if p.acquiredForLess(n, m) {
			u := &unit{class: classExcess, members: []*model.Machine{m}, score: math.Inf(-1), noPreempt: true}
			u.local = u.members
			units = append(units, u)
			continue
		}
		if m.State != model.Configured || m.Cluster == n.Cluster || held || m.Departs() {
			continue
		}
		if g := p.gangOf(m); g != nil && p.victimOf[m] == nil {
			if _, known := states[g]; !known {
				if states[g] = p.stateOf(g); states[g] == gangSound {
					units = append(units, p.unitsOfGang(n, g, scope, eligible)...)
				}
			}
			if states[g] != gangBroken {
				continue
			}
		}
		if u := p.unitOf(n, m, eligible); u != nil {
			units = append(units, u)
		}
	}
	return units
}

// drainsForLess: the machine is on its way out of another cluster, and was reserved
// when the pass began for nobody, or is for a Need that does not need it, or of strictly
// lower priority; or its reservation has ended in this pass, and its owners have had their
// turns and do not count on it. What was reserved for the Need itself is in flight for it. Not for a Need that waits because a drain has failed.
func (p *pass) drainsForLess(n *need, m *model.Machine) bool {
	if m.State != model.Draining || m.Cluster == n.Cluster || p.backsOff(n) {
		return false
	}
	h, held := p.holds[m]
	if v, void := p.voided[m]; !held {
		waits := func(o *need) bool { return !o.hadTurn }
		return !void || p.countedFor[m] == nil && !slices.ContainsFunc(v.owners, waits) && !slices.Contains(v.owners, n) // in flight
	}
	return p.givenUp(m) || p.priorityOfHold(h) < n.Profile.Priority()
}

// acquiredForLess: the machine is Idle, and a Need of strictly lower priority has acquired it in this pass. It is there for
// Needs with Same, which look at other domains than in phase 1. With gangs, not for one that waits because a drain has failed.
func (p *pass) acquiredForLess(n *need, m *model.Machine) bool {
	level, is := p.acquired[m]
	return is && n.Profile.Same() != nil && p.claimedBy[m] != nil && level < n.Profile.Priority() &&
		(p.in.Options.Victims == VictimsMachine || !p.backsOff(n))
}

// takeAcquired takes an Idle machine from the Need that has acquired it.
func (p *pass) takeAcquired(n *need, m *model.Machine) {
	by := p.claimedBy[m]
	if m.State != model.Idle || by == nil || by == n {
		return
	}
	satisfied := by.deficit.IsZero()
	by.idle = without(by.idle, m)
	by.deficit, by.lost = by.Aggregate.Sub(sum(by.claims())), true
	delete(p.claimedBy, m)
	if satisfied {
		by.skewBlocked = false // it left the Need short of nothing
		p.voidAll(by)          // others may have taken of that what it did not need
	}
}

// givenUp: the machine drains for Needs that are satisfied without it, or whose deficits
// other machines cover that drain for them. Its reservation is over, but for the rest of the
// pass.
func (p *pass) givenUp(m *model.Machine) bool {
	h := p.holds[m]
	if m.State != model.Draining || len(h.owners) == 0 {
		return false
	}
	return p.unneeded(h, m) || !slices.ContainsFunc(h.owners, func(n *need) bool { return !n.deficit.IsZero() })
}

// gangOf is the gang of the Need that claims the machine.
func (p *pass) gangOf(m *model.Machine) *gang {
	if claimer := p.claimedBy[m]; claimer != nil {
		return claimer.gang
	}
	return nil
}

// unitOf makes a unit of one machine that belongs to no sound gang, nil when
// the Need may not take it.
func (p *pass) unitOf(n *need, m *model.Machine, eligible func(cluster string, priority int32) bool) *unit {
	u := p.single(n, m, classPlain)
	switch victim := p.victimOf[m] != nil; {
	case victim && !p.remainder[m]:
		return nil // another Need uses it
	case victim:
		u.class, u.remainder = classSunk, true
	case u.gang != nil:
		u.class = classSunk
	case p.excess(m):
		u.class, u.noPreempt = classExcess, u.level >= n.Profile.Priority() || !eligible(m.Cluster, u.level)
	case p.claimedBy[m] == nil && m.Assigned.Group != "":
		return nil // whoever has not reported may run a gang there
	}
	if u.noPreempt || eligible(m.Cluster, u.level) {
		return u
	}
	return nil
}

func (p *pass) single(n *need, m *model.Machine, class int) *unit {
	one := []*model.Machine{m}
	return &unit{class: class, gang: p.gangOf(m), members: one, local: one, score: p.victimScore(n, m), level: p.priorityOf(m)}
}

// unitsOfGang are the members above the minimum, and the whole.
func (p *pass) unitsOfGang(n *need, g *gang, scope func(*model.Machine) bool, eligible func(cluster string, priority int32) bool) []*unit {
	here := func(m *model.Machine) bool { return scope(m) && usable(n, m) }
	var units []*unit
	for _, role := range g.needs {
		if !eligible(g.cluster, role.Profile.Priority()) {
			continue
		}
		stays := p.bodyOf(role)
		spare := filter(stays, here)
		slices.SortFunc(spare, func(a, b *model.Machine) int { return keepOrder(b, a) })
		for _, m := range spare {
			if stays = without(stays, m); !sum(stays).Covers(p.minimum(role)) {
				break
			}
			units = append(units, p.single(n, m, classElastic))
		}
	}
	all := p.members(g)
	if highest := p.gangPriority(all); eligible(g.cluster, highest) {
		whole := &unit{class: classWhole, gang: g, members: all, local: filter(all, here), level: highest, score: math.Inf(1)}
		for _, m := range all {
			whole.score = min(whole.score, p.victimScore(n, m))
		}
		units = append(units, whole)
	}
	return units
}
