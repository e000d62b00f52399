package engine

import (
	"math"
	"unsafe"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// Plan is the answer of one cycle. It is valid until the engine's next cycle; what it says of Needs is
// valid until the tables change.
type Plan struct {
	// Actions in emission order: Bootstraps, Provisions, Preempts, Reclaims, Deletes. Bootstraps,
	// Provisions and Preempts are sorted by rank, then in the order in which they were picked.
	Actions []Action
	// Ended are the machines whose reservation ends: its owner is gone, was satisfied by other
	// machines, no longer needs it, or lost the machine to a higher rank; or the deadline has passed,
	// in a plan that of all machines. The caller removes the reservation before the next cycle.
	Ended []columnar.Row
	// Reservations are what the plans of this cycle reserve, with VictimsGang: by the Need's rank, then
	// by id. A machine that is reserved again may stand in Ended too; the new reservation counts. A
	// machine that a plan preempts but does not use is not reserved.
	Reservations []Reserved
	// Adopted are machines that serve another Need of their cluster than the one whose stamp they
	// carry. The caller stamps them before the next cycle, which makes them that Need's own. It lists
	// only machines of Needs that were credited in this cycle (Stats.Credited), in no order; a machine
	// may occur more than once.
	Adopted []Adopted
	Stats   Stats

	pass *pass
}

// Memory returns the memory of the plan's lists, which the next plan reuses. What a plan says of Needs
// lies in the engine's working memory; see Engine.Memory.
func (p *Plan) Memory() (u alloc.Usage) {
	count := func(size uintptr, used, held int) {
		u.Used += int64(size) * int64(used)
		u.Reserved += int64(size) * int64(held)
	}
	count(unsafe.Sizeof(Action{}), len(p.Actions), cap(p.Actions))
	count(unsafe.Sizeof(columnar.Row(0)), len(p.Ended), cap(p.Ended))
	count(unsafe.Sizeof(Reserved{}), len(p.Reservations), cap(p.Reservations))
	count(unsafe.Sizeof(Adopted{}), len(p.Adopted), cap(p.Adopted))
	return u
}

// Claimed reports whether a machine is attributed to a Need in this plan.
func (p *Plan) Claimed(r columnar.Row) bool {
	return p.pass != nil && int(r) < len(p.pass.Claims) && p.pass.Claimed(r)
}

// Breaks reports whether the plan's Preempts leave the Need that claims the machine with less than its
// minimum. O(machines of the Need).
func (p *Plan) Breaks(r columnar.Row) bool {
	return p.Claimed(r) && p.pass.breaks(p.pass.Claims.Of(r))
}

// Len returns the number of rows of the demand. Rows are numbered by cluster id, then in the cluster's
// order.
func (p *Plan) Len() int {
	if p.pass == nil {
		return 0
	}
	return p.pass.Counted.Rows
}

// Need returns the outcome for a row, 0 ≤ i < Len. O(machines claimed).
func (p *Plan) Need(i int) NeedResult { return p.pass.result(p.pass.RowAt(i)) }

// Identity returns the cluster and the row that a number stands for.
func (p *Plan) Identity(i int) (cluster string, row int) {
	c := p.pass.ClusterOf(p.pass.RowAt(i))
	return p.pass.Snap.Clusters[c], i - int(p.pass.Sources[c].Outer)
}

// Satisfied reports whether a row has everything that it asks for.
func (p *Plan) Satisfied(i int) bool { return p.pass.isMet(p.pass.needAt(i)) }

// Rank returns a row's place in the rank order of Needs.
func (p *Plan) Rank(i int) int32 { return p.pass.RankOf[p.pass.needAt(i)] }

// Fold returns the number of the row after which the row's fold is named; its own number if it is not
// folded.
func (p *Plan) Fold(i int) int32 { return p.pass.NumberOfNeed(p.pass.needAt(i)) }

// Unmet says why a row is not satisfied. What all machines could give is computed on first use and
// memoized for the cycle: once for each kind and, for rows with Same, once for each key in O(machines).
func (p *Plan) Unmet(i int) Unmet { return p.pass.unmet(p.pass.needAt(i)) }

// AwaitsDrain reports whether Unmet is UnmetAwaitingDrain; it is cheaper where the answer is no.
func (p *Plan) AwaitsDrain(i int) bool {
	need := p.pass.needAt(i)
	return p.pass.Lines[need].Is(state.IsAwaiting) && p.pass.unmet(need) == UnmetAwaitingDrain
}

// Profile returns the profile as which a row is decided: its own or its fold's.
func (p *Plan) Profile(i int) *model.Profile { return p.pass.KindOf(p.pass.needAt(i)).Profile }

// Suits reports whether machines of a class cover a row's minimum unit and offer something that it
// wants. It does not test the row's requirements.
func (p *Plan) Suits(i int, class uint32) bool {
	return p.pass.Suits(class, p.pass.KindOf(p.pass.needAt(i)))
}

// Stamp returns the stamp for machines that serve a row; for a row in a fold, the fold's.
func (p *Plan) Stamp(i int) model.Assignment {
	need := p.pass.needAt(i)
	x := p.pass.KindOf(need).Profile
	return model.Assignment{
		Priority: x.Priority(), Interruption: x.Interruption(), Reclamation: x.Reclamation(),
		Fingerprint: x.Fingerprint(), Group: p.pass.GroupName(need),
	}
}

// CouldCover returns NeedResult.CouldCover of a row.
func (p *Plan) CouldCover(i int) bool { return p.pass.couldCover(p.pass.at(i)) }

// Dims returns the names of the dimensions of AddDeficit's vector.
func (p *Plan) Dims() []string { return p.pass.Snap.Dims[:p.pass.Dims] }

// Unoffered returns what a row asks for under names that no machine offers, for which AddDeficit has no
// dimension; mostly nil.
func (p *Plan) Unoffered(i int) model.Resources { return p.pass.unoffered(p.pass.needAt(i)).Aggregate }

// AddDeficit adds what a row lacks to a vector over Dims. Sums saturate.
func (p *Plan) AddDeficit(sum []int64, i int) { p.pass.addDeficit(sum, p.pass.needAt(i)) }

// noteFate notes the fate of a machine that a plan of an earlier cycle holds.
func (p *pass) noteFate(fates map[model.Owner]plan.Fate, owner model.Owner, end PlanEnd, binds bool) {
	f := fates[owner]
	switch {
	case end != PlanStands && (f.End == PlanStands || end < f.End):
		f.End = end
	case end == PlanStands && binds:
		f.Binds = true
	case end == PlanStands:
		f.Stands = true
	}
	fates[owner] = f
}

// countPlans counts the plans of earlier cycles by fate, and those of this cycle. p.victims and
// p.planned must be in rank order.
func (p *pass) countPlans(c *PlanCounts, fates map[model.Owner]plan.Fate) {
	for _, f := range fates {
		switch {
		case f.Stands:
			c.PlansKept++
		case f.Binds:
			c.PlansCompleted++
		default:
			c.PlansEnded[f.End]++
		}
	}
	if p.Opts.Victims != VictimsGang {
		return
	}
	victims, planned := p.Preempted.Victims, p.Preempted.Planned
	for len(victims)+len(planned) > 0 {
		c.PlansMade++
		var need int32
		if len(planned) == 0 || len(victims) > 0 && p.RankOf[victims[0].Need] <= p.RankOf[planned[0].Need] {
			need = victims[0].Need
		} else {
			need = planned[0].Need
		}
		for len(victims) > 0 && victims[0].Need == need {
			victims = victims[1:]
		}
		for len(planned) > 0 && planned[0].Need == need {
			planned = planned[1:]
		}
	}
}

// Covered is what the Needs of one kind have in a plan: of one profile, one minimum unit, and one set of
// resources that they ask for.
type Covered struct {
	Profile *model.Profile
	// Unit is the minimum unit, over Plan.Dims. Read-only.
	Unit []int64
	// Held sums, over Plan.Dims, what the Needs ask for and do not lack.
	Held []int64
	// Spend is what their machines cost an hour, in dollars, at list price; those that the plan
	// acquires included.
	Spend float64
	// Effective is Spend with what their interruptions cost the Needs on average; a Need that must not be
	// interrupted, and has a machine that may be, counts its list price.
	Effective float64
	// Classes are the classes of machines that can serve the kind (supply.Table.ClassInfo), ascending. Read-only.
	Classes []uint32
}

// Covered returns what Needs have, by kind, kinds without machines left out, in an order that the
// input decides. O(Needs + machines claimed). Like all that a plan says of Needs, it is to be
// called before the tables change.
func (p *Plan) Covered() []Covered {
	if p.pass == nil {
		return nil
	}
	return p.pass.covered()
}

func (p *pass) covered() []Covered {
	at := make([]int32, len(p.Kinds)) // 1 + the place in out, 0 = none
	var out []Covered
	missing := make([]int64, p.Dims)
	for _, need := range p.Order {
		n := &p.Lines[need]
		if n.Tail == columnar.None {
			continue
		}
		k := &p.Kinds[n.Kind]
		if at[n.Kind] == 0 {
			out = append(out, Covered{Profile: k.Profile, Unit: k.Unit, Held: make([]int64, p.Dims), Classes: k.Classes})
			at[n.Kind] = int32(len(out))
		}
		c := &out[at[n.Kind]-1]
		p.ReadDeficit(missing, need)
		for d, v := range p.Aggregate(need) {
			c.Held[d] += min(v-missing[d], math.MaxInt64-c.Held[d])
		}
		for r := p.Claims.First(n); r != columnar.None; r = p.Claims.Next(r, n) {
			class := p.Snap.View.Class[r]
			price, cost := p.Snap.Classes[class].Price, free.EffectiveCost(&p.Snap.Classes[class], k.Penalty)
			c.Spend += price
			if math.IsInf(cost, 1) {
				cost = price
			}
			c.Effective += cost
		}
	}
	return out
}
