package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/reuse"
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
	for c, id := range p.s.Clusters {
		if losers.Has(uint32(c)) || !p.s.Demand.Reported(id) {
			continue
		}
		classes := p.walker.excessClasses(c)
		if classes == nil {
			continue
		}
		bound := p.s.BoundOf(c)[:p.s.Configured(c)]
		for i := range bound {
			r, class := bound[i].Row, bound[i].Class
			if classes[class>>6]>>(class&63)&1 == 0 || p.claimed(r) || p.preempted.victimOf.Has(uint32(r)) {
				continue
			}
			// A plan may count on an unclaimed machine of the Need's own cluster.
			if by := p.preempted.takenBy(r); by == order.None || p.lines[by].Cluster != int32(c) {
				p.released.reclaims = append(p.released.reclaims, r)
			}
		}
	}
}

// reclaimDeparting reclaims the machines that depart; they stand in no cluster's list.
func (p *pass) reclaimDeparting(losers bitmap.Dense) {
	had := len(p.released.reclaims)
	for r := range p.s.Supply.Reservations() {
		if !p.s.Supply.Departs(r) {
			continue
		}
		if c := p.clusterOfMachine(r); !losers.Has(uint32(c)) && p.s.Demand.Reported(p.s.Clusters[c]) && !p.staysForOwn(r) {
			p.released.reclaims = append(p.released.reclaims, r)
		}
	}
	if len(p.released.reclaims) > had {
		slices.SortFunc(p.released.reclaims, func(a, b columnar.Row) int {
			return cmp.Or(cmp.Compare(p.clusterOfMachine(a), p.clusterOfMachine(b)), cmp.Compare(p.s.KeepKey(a), p.s.KeepKey(b)))
		})
	}
}

// staysForOwn reports whether the plan that counts on a departing machine ends in this pass, and no other counts on it:
// its own cluster is credited it again in the next cycle.
func (p *pass) staysForOwn(r columnar.Row) bool {
	res := p.s.Supply.Reservation(r)
	return p.preempted.takenBy(r) == order.None && p.endOf(r, &res) != PlanStands
}

// clusterOfMachine returns the index of the cluster that a machine names; it must name one.
func (fl *fleet) clusterOfMachine(r columnar.Row) int32 { return fl.s.ClusterOf[fl.s.View.Cluster[r]] }

// losers returns the set of clusters that lost a claimed machine to phase 2.
func (p *pass) losers() bitmap.Dense {
	losers := bitmap.DenseIn(p.e.arena, len(p.s.Clusters))
	for _, v := range p.preempted.victims {
		if p.claimed(v.row) {
			losers.Set(uint32(p.clusterOfMachine(v.row)))
		}
	}
	return losers
}

// excessClasses returns the set of classes of which a cluster may have unclaimed Configured machines;
// nil if there are none. With gangs the lowest priorities by class say so; with single victims any
// class may have some.
func (l *worker) excessClasses(c int) []uint64 {
	gangs, some := l.p.e.opts.Victims == VictimsGang, false
	l.crediting.words = reuse.Resize(l.crediting.words, (len(l.p.s.Classes)+63)/64)
	for _, x := range l.p.e.store.clusters[c].cheapest {
		if !gangs || x.priority == math.MinInt32 {
			l.crediting.words[x.class>>6] |= 1 << (x.class & 63)
			some = true
		}
	}
	if !some {
		return nil
	}
	return l.crediting.words
}

// deleteIdle is the second half of phase 3. It deletes idle machines of a releasable capacity type that
// are unclaimed, not held, and idle for the type's duration; late-bound ones of any type, at once. Four kinds
// stay, since a Need that could not have them may take them in the next cycle: what a reservation has held
// until this one; what a Need has acquired in this one and given up, because its plan went elsewhere;
// what a gang could use that waits elsewhere; and what a row could use whose fold comes apart.
func (p *pass) deleteIdle() {
	var holds [model.NumCapacityTypes]time.Duration
	holds[model.OnDemand], holds[model.Spot] = p.e.opts.Release.OnDemand, p.e.opts.Release.Spot
	anyLate := p.s.Supply.AnyLateBound()
	if holds == [model.NumCapacityTypes]time.Duration{} && !anyLate {
		return
	}
	listed := false
	rows := p.s.Supply.RowMax()
	idle := alloc.MakeDirty[uint64](p.e.arena, (rows+63)/64)
	bitmap.FilterEqual(idle, p.s.View.State[:rows], model.Idle)
	bitmap.AndNot(idle, idle, p.walker.setOf(p.taken[:rows])) // taken ones are acquired or held
	for w, word := range idle {
		for ; word != 0; word &= word - 1 {
			r := columnar.Row(w<<6 + bits.TrailingZeros64(word))
			hold := holds[p.s.View.Capacity[r]]
			isDue := hold > 0 && p.s.Now-p.s.View.IdleSince[r] >= int64(hold) || anyLate && p.s.Supply.IsLateBound(r)
			if !isDue || p.claimed(r) || p.preempted.takenBy(r) != order.None || p.s.Supply.Reservation(r).Active() {
				continue
			}
			if _, withheld := p.preempted.withheldBy[r]; withheld {
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
	slices.SortFunc(p.released.deletes, func(a, b columnar.Row) int { return cmp.Compare(p.s.IDRank[a], p.s.IDRank[b]) })
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
	if p.e.store.memory.awaiting == nil {
		p.e.store.memory.awaiting = map[awaitingGangs]uint32{}
	}
	list := p.e.store.memory.awaiting
	clear(list)
	deficit := alloc.Make[int64](p.e.arena, p.dims)
	add := func(need int32, anywhere bool) {
		n := &p.lines[need]
		if !p.kindOf(need).Same || n.Is(state.IsSatisfied|state.IsParked) || n.Domain == 0 {
			return
		}
		p.readDeficit(deficit, need)
		x := awaitingGangs{n.Kind, positive(deficit)}
		if domain, known := list[x]; anywhere || known && domain != n.Domain {
			list[x] = severalDomains
		} else {
			list[x] = n.Domain
		}
	}
	for need := range p.reserved.Needs() {
		if p.reserved.Has(need) {
			add(need, false)
		}
	}
	if p.e.opts.Victims != VictimsGang { // its plans hold nothing that is free
		for i := range p.preempted.victims {
			add(p.preempted.victims[i].need, true)
		}
	}
	for i := range p.preempted.planned {
		if need := p.preempted.planned[i].need; i == 0 || p.preempted.planned[i-1].need != need {
			add(need, false)
		}
	}
}

// isAwaited reports whether an Idle machine would be of use to a gang that waits in another domain, or that preempts
// machine by machine.
func (p *pass) isAwaited(r columnar.Row) bool {
	class := p.s.View.Class[r]
	for x, domain := range p.e.store.memory.awaiting {
		k := &p.kinds[x.kind]
		if p.classMask[class]&x.lacks == 0 || !k.AcceptsClass(class) {
			continue
		}
		if v, ok := p.s.Supply.Domain(k.Matcher, r); ok && v != domain {
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
	if p.e.store.memory.unfolding == nil {
		p.e.store.memory.unfolding = map[part]struct{}{}
	}
	clear(p.e.store.memory.unfolding)
	if !p.folding.anyFolds {
		return
	}
	for rank, lacks := range p.lacking[:len(p.order)] {
		need := p.order[rank]
		if n := &p.lines[need]; !lacks || !n.Is(state.IsFold) || n.Is(state.IsSatisfied|state.IsParked) {
			continue
		}
		p.eachRow(need, func(src *state.Source, i int) {
			block := src.Block
			want := p.s.Demand.Vector(block.AggregateIDs()[i])
			x := part{p.s.Supply.Matcher(p.s.Demand.Profile(block.Profile(i))), block.UnitIDs()[i], positive(want)}
			if _, known := p.e.store.memory.unfolding[x]; !known && !p.foldsAgain(int(p.lines[need].Cluster), x.matcher, want) {
				p.e.store.memory.unfolding[x] = struct{}{}
			}
		})
	}
}

// foldsAgain reports whether a machine that is bound to a cluster, or free and claimed by nobody, holds all that is wanted.
func (p *pass) foldsAgain(c int, matcher uint32, want []int64) bool {
	isLeft := func(r columnar.Row) bool { return !p.claimed(r) && p.inAnyDomain(matcher, r) }
	for _, class := range p.classesOf[matcher] {
		if columnar.Covers(p.vector(class), want) && (slices.ContainsFunc(p.s.Idle.At(int(class)), isLeft) || slices.ContainsFunc(p.s.Speculative.At(int(class)), isLeft)) {
			return true
		}
	}
	bound := p.s.BoundOf(c)
	for _, g := range p.s.GroupsOf(c) {
		if !p.s.Classes[g.Class].Matches(matcher) || !columnar.Covers(p.vector(g.Class), want) {
			continue
		}
		for at := g.First + 1; at != 0; at = bound[at-1].Next {
			if p.inAnyDomain(matcher, bound[at-1].Row) {
				return true
			}
		}
	}
	return false
}

// isWantedInParts reports whether an Idle machine would be of use to a row of a fold that comes apart.
func (p *pass) isWantedInParts(r columnar.Row) bool {
	class := p.s.View.Class[r]
	for x := range p.e.store.memory.unfolding {
		if p.classMask[class]&x.mask != 0 && p.s.Classes[class].Matches(x.matcher) && columnar.Covers(p.vector(class), p.s.Demand.Vector(x.unit)) && p.inAnyDomain(x.matcher, r) {
			return true
		}
	}
	return false
}
