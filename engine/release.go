package engine

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// reclaim is the first half of phase 3. It reclaims every Configured machine that no Need claims and
// that was not preempted, cluster by cluster, in keep order. A cluster that has not reported since the
// start keeps its machines: its demand is unknown, not zero. A cluster that lost a claimed machine to
// phase 2 keeps its excess in this cycle, since its Needs may use it.
func (p *pass) reclaim() {
	losers := p.losers()
	p.reclaimExcess(losers)
	p.reclaimDeparting(losers)
}

// reclaimExcess reclaims machines in the clusters' lists.
func (p *pass) reclaimExcess(losers bitmap.Dense) {
	for c, id := range p.Snap.Clusters {
		if losers.Has(uint32(c)) || !p.Snap.Demand.Reported(id) {
			continue
		}
		classes := p.Walker.ExcessClasses(c)
		if classes == nil {
			continue
		}
		bound := p.Snap.BoundOf(c)[:p.Snap.Configured(c)]
		for i := range bound {
			r, class := bound[i].Row, bound[i].Class
			if classes[class>>6]>>(class&63)&1 == 0 || p.Claimed(r) || p.Preempted.VictimOf.Has(uint32(r)) {
				continue
			}
			// A plan may count on an unclaimed machine of the Need's own cluster.
			if by := p.Promised.TakenBy(r); by == ranks.None || p.ClusterOf(by) != int32(c) {
				p.released.reclaims = append(p.released.reclaims, r)
			}
		}
	}
}

// reclaimDeparting reclaims the machines that depart; they stand in no cluster's list.
func (p *pass) reclaimDeparting(losers bitmap.Dense) {
	had := len(p.released.reclaims)
	for r := range p.Snap.Supply.Reservations() {
		if !p.Snap.Supply.Departs(r) {
			continue
		}
		if c := p.clusterOfMachine(r); !losers.Has(uint32(c)) && p.Snap.Demand.Reported(p.Snap.Clusters[c]) && !p.staysForOwn(r) {
			p.released.reclaims = append(p.released.reclaims, r)
		}
	}
	if len(p.released.reclaims) > had {
		slices.SortFunc(p.released.reclaims, func(a, b columnar.Row) int {
			return cmp.Or(cmp.Compare(p.clusterOfMachine(a), p.clusterOfMachine(b)), cmp.Compare(p.Snap.KeepKey(a), p.Snap.KeepKey(b)))
		})
	}
}

// staysForOwn reports whether the plan that counts on a departing machine ends in this pass, and no other counts on it:
// its own cluster is credited it again in the next cycle.
func (p *pass) staysForOwn(r columnar.Row) bool {
	res := p.Snap.Supply.Reservation(r)
	return p.Promised.TakenBy(r) == ranks.None && p.endOf(r, &res) != PlanStands
}

// clusterOfMachine returns the index of the cluster that a machine names; it must name one.
func (p *pass) clusterOfMachine(r columnar.Row) int32 {
	return p.Snap.ClusterOf[p.Snap.View.Cluster[r]]
}

// losers returns the set of clusters that lost a claimed machine to phase 2.
func (p *pass) losers() bitmap.Dense {
	losers := bitmap.DenseIn(p.Arena, len(p.Snap.Clusters))
	for _, v := range p.Preempted.Victims {
		if p.Claimed(v.Row) {
			losers.Set(uint32(p.clusterOfMachine(v.Row)))
		}
	}
	return losers
}

// deleteIdle is the second half of phase 3. It deletes idle machines of a releasable capacity type that
// are unclaimed, not held, and idle for the type's duration; late-bound ones of any type, at once. Four kinds
// stay, since a Need that could not have them may take them in the next cycle: what a reservation has held
// until this one; what a Need has acquired in this one and given up, because its plan went elsewhere;
// what a gang could use that waits elsewhere; and what a row could use whose fold comes apart.
func (p *pass) deleteIdle() {
	var holds [model.NumCapacityTypes]time.Duration
	holds[model.OnDemand], holds[model.Spot] = p.Opts.Release.OnDemand, p.Opts.Release.Spot
	anyLate := p.Snap.Supply.AnyLateBound()
	if holds == [model.NumCapacityTypes]time.Duration{} && !anyLate {
		return
	}
	listed := false
	rows := p.Snap.Supply.RowMax()
	idle := alloc.MakeDirty[uint64](p.Arena, (rows+63)/64)
	bitmap.FilterEqual(idle, p.Snap.View.State[:rows], model.Idle)
	bitmap.AndNot(idle, idle, p.Walker.SetOf(p.Taken[:rows])) // taken ones are acquired or held
	for w, word := range idle {
		for ; word != 0; word &= word - 1 {
			r := columnar.Row(w<<6 + bits.TrailingZeros64(word))
			hold := holds[p.Snap.View.Capacity[r]]
			isDue := hold > 0 && p.Snap.Now-p.Snap.View.IdleSince[r] >= int64(hold) || anyLate && p.Snap.Supply.IsLateBound(r)
			if !isDue || p.Claimed(r) || p.Promised.TakenBy(r) != ranks.None || p.Snap.Supply.Reservation(r).Active() {
				continue
			}
			if _, withheld := p.Preempted.WithheldBy[r]; withheld {
				continue
			}
			if !listed {
				p.listAwaiting()
				p.listUnfolding()
				listed = true
			}
			if !p.isAwaited(r) && !p.isWantedInParts(r) {
				p.released.deletes = append(p.released.deletes, r)
			}
		}
	}
	slices.SortFunc(p.released.deletes, func(a, b columnar.Row) int { return cmp.Compare(p.Snap.IDRank(a), p.Snap.IDRank(b)) })
}

// awaitingGangs are Same-Needs of one kind that are short of the same dimensions (lacks, as a set), and wait in
// their domains for machines that are on their way to them.
type awaitingGangs struct {
	kind  uint32
	lacks uint64
}

// severalDomains stands for a domain where gangs wait in more than one.
const severalDomains = 0

// listAwaiting lists the Same-Needs that are short and for which something is held, planned or preempted, with their
// domains.
func (p *pass) listAwaiting() {
	if p.st.awaiting == nil {
		p.st.awaiting = map[awaitingGangs]uint32{}
	}
	list := p.st.awaiting
	clear(list)
	deficit := alloc.Make[int64](p.Arena, p.Dims)
	add := func(need int32, anywhere bool) {
		n := &p.Lines[need]
		if !p.KindOf(need).Same || n.Is(state.IsSatisfied|state.IsParked) || n.Domain == 0 {
			return
		}
		p.ReadDeficit(deficit, need)
		x := awaitingGangs{n.Kind, cycle.PositiveDims(deficit)}
		if domain, known := list[x]; anywhere || known && domain != n.Domain {
			list[x] = severalDomains
		} else {
			list[x] = n.Domain
		}
	}
	for need := range p.Reserved.Needs() {
		if p.Reserved.Has(need) {
			add(need, false)
		}
	}
	if p.Opts.Victims != VictimsGang { // its plans hold nothing that is free
		for i := range p.Preempted.Victims {
			add(p.Preempted.Victims[i].Need, true)
		}
	}
	for i := range p.Preempted.Planned {
		if need := p.Preempted.Planned[i].Need; i == 0 || p.Preempted.Planned[i-1].Need != need {
			add(need, false)
		}
	}
}

// isAwaited reports whether an Idle machine would be of use to a gang that waits in another domain, or that preempts
// machine by machine.
func (p *pass) isAwaited(r columnar.Row) bool {
	class := p.Snap.View.Class[r]
	for x, domain := range p.st.awaiting {
		k := &p.Kinds[x.kind]
		if p.ClassMask[class]&x.lacks == 0 || !k.AcceptsClass(class) {
			continue
		}
		if v, ok := p.Snap.Supply.Domain(k.Matcher, r); ok && v != domain {
			return true
		}
	}
	return false
}

// part is what a row of a fold could use when it were not folded: machines that a matcher accepts, that cover a
// minimum unit (unit is its number), and that have one of some dimensions.
type part struct {
	matcher, unit uint32
	mask          uint64
}

// listUnfolding lists what rows of folds could use that are short, and that do not fold in the next cycle: no machine
// is bound to their cluster, or is left free after this pass, that holds one of them whole.
func (p *pass) listUnfolding() {
	if p.st.unfolding == nil {
		p.st.unfolding = map[part]struct{}{}
	}
	clear(p.st.unfolding)
	if !p.AnyFolds {
		return
	}
	for rank, lacks := range p.Lacking[:len(p.Order)] {
		need := p.Order[rank]
		if n := &p.Lines[need]; !lacks || !n.Is(state.IsFold) || n.Is(state.IsSatisfied|state.IsParked) {
			continue
		}
		p.EachRow(need, func(src *state.Source, i int) {
			block := src.Block
			want := p.Snap.Demand.Vector(block.AggregateIDs()[i])
			x := part{p.Snap.Supply.Matcher(p.Snap.Demand.Profile(block.Profile(i))), block.UnitIDs()[i], cycle.PositiveDims(want)}
			if _, known := p.st.unfolding[x]; !known && !p.foldsAgain(int(p.ClusterOf(need)), x.matcher, want) {
				p.st.unfolding[x] = struct{}{}
			}
		})
	}
}

// foldsAgain reports whether a machine that is bound to a cluster, or free and claimed by nobody, holds all that is wanted.
func (p *pass) foldsAgain(c int, matcher uint32, want []int64) bool {
	isLeft := func(r columnar.Row) bool { return !p.Claimed(r) && p.InAnyDomain(matcher, r) }
	for _, class := range p.ClassesOf[matcher] {
		if columnar.Covers(p.Vector(class), want) && (slices.ContainsFunc(p.Snap.Idle.At(int(class)), isLeft) || slices.ContainsFunc(p.Snap.Speculative.At(int(class)), isLeft)) {
			return true
		}
	}
	bound := p.Snap.BoundOf(c)
	for _, g := range p.Snap.GroupsOf(c) {
		if !p.Snap.Classes[g.Class].Matches(matcher) || !columnar.Covers(p.Vector(g.Class), want) {
			continue
		}
		for at := g.First + 1; at != 0; at = bound[at-1].Next {
			if p.InAnyDomain(matcher, bound[at-1].Row) {
				return true
			}
		}
	}
	return false
}

// isWantedInParts reports whether an Idle machine would be of use to a row of a fold that comes apart.
func (p *pass) isWantedInParts(r columnar.Row) bool {
	class := p.Snap.View.Class[r]
	for x := range p.st.unfolding {
		if p.ClassMask[class]&x.mask != 0 && p.Snap.Classes[class].Matches(x.matcher) && columnar.Covers(p.Vector(class), p.Snap.Demand.Vector(x.unit)) && p.InAnyDomain(x.matcher, r) {
			return true
		}
	}
	return false
}
