package engine

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/internal/acquire"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/victims"
	"github.com/tonnage/tonnage/engine/model"
)

// report writes the results of the pass into the plan.
func (p *pass) report(plan *Plan) {
	plan.pass = p
	p.spareRemainders(&plan.Stats.PlanCounts)
	p.reportActions(plan)
	p.reportEnded(plan)
	plan.Reservations = p.ReportReserved(plan.Reservations)
	p.reportAdopted(plan)
	p.countPlans(&plan.Stats.PlanCounts, p.st.fates)
	st := &plan.Stats
	st.Machines, st.Needs, st.Folded, st.Probes, st.Credited = p.Snap.Supply.Len(), p.Counted.Rows, len(p.Order), p.Counted.Probes, p.Counted.Credited
	st.SearchPairs, st.SearchUnits, st.SearchEnded = p.Searched.Pairs, p.Searched.Units, p.SearchEnded()
	st.AcquireCounts = p.Counted.Counts
	st.CreditCounts = p.Counted.CreditCounts
	st.Audited, st.Differs = int(p.Audit.Clusters.Load()), p.Audit.Faults.Load() > 0
	st.Clusters, st.ClustersCredited = len(p.Snap.Clusters), p.Counted.ClustersCredited
	for i := range p.Snap.Classes {
		if p.Snap.Classes[i].Live {
			st.Classes++
		}
	}
	unoffered, credited := p.countUnoffered()
	st.Unoffered, st.Satisfied = unoffered, p.Counted.Satisfied-credited
	st.Unsatisfied = st.Needs - st.Satisfied
	for i := range plan.Actions {
		st.Actions[plan.Actions[i].Kind]++
	}
}

// spareRemainders removes victims that no plan uses: the rest of a gang that a plan breaks stays bound.
func (p *pass) spareRemainders(c *PlanCounts) {
	if p.Opts.Victims != VictimsGang {
		return
	}
	all := len(p.Preempted.Victims)
	p.Preempted.Victims = slices.DeleteFunc(p.Preempted.Victims, func(v victims.Victim) bool { return p.staysBound(v.Row) })
	c.LeftBound = all - len(p.Preempted.Victims)
}

// staysBound reports whether no plan of another cluster uses a machine whose gang is broken.
func (p *pass) staysBound(r columnar.Row) bool {
	by := p.Promised.TakenBy(r)
	return by == ranks.None || p.ClusterOf(by) == p.clusterOfMachine(r)
}

// breaks reports whether preemptions leave a Need with less than its minimum. Only Configured machines
// count as kept.
func (p *pass) breaks(need int32) bool {
	kept, least := make([]int64, p.Dims), make([]int64, p.Dims)
	p.EachRow(need, func(src *state.Source, i int) { p.AddMinimum(least, src.Block, i) })
	for n, m := p.Claims.Walk(&p.Lines[need]); m != columnar.None; m = p.Claims.Next(m, n) {
		leftBound := p.Opts.Victims == VictimsGang && p.Preempted.VictimOf.Has(uint32(m)) && p.staysBound(m)
		if p.Snap.View.State[m] == model.Configured && (leftBound || !p.Preempted.VictimOf.Has(uint32(m))) {
			columnar.SatAdd(kept, p.Vec(m))
		}
	}
	return !columnar.Covers(kept, least)
}

// actionsPerChunk is how many acquisitions a worker reports at a time.
const actionsPerChunk = 1 << 13

// reportActions emits the actions in the order of the contract.
func (p *pass) reportActions(plan *Plan) {
	for i, list := range p.bindsAndBuys() {
		kind, reason := Bootstrap+Kind(i), ReasonIdle+Reason(i)
		if len(p.Preempted.WithheldBy) == 0 && len(list) > actionsPerChunk {
			before := len(plan.Actions)
			plan.Actions = slices.Grow(plan.Actions, len(list))[:before+len(list)]
			actions := plan.Actions[before:]
			p.Crew.Each(len(list), actionsPerChunk, func(_, from, to int) {
				for i, a := range list[from:to] {
					actions[from+i] = Action{Kind: kind, Machine: a.Row, Need: p.NumberOfNeed(a.Need), Reason: reason}
				}
			})
			continue
		}
		for _, a := range list {
			// A plan for another domain may have revoked it.
			if len(p.Preempted.WithheldBy) == 0 || p.Claims.Of(a.Row) == a.Need {
				plan.Actions = append(plan.Actions, Action{Kind: kind, Machine: a.Row, Need: p.NumberOfNeed(a.Need), Reason: reason})
			}
		}
	}
	for _, v := range p.Preempted.Victims {
		plan.Actions = append(plan.Actions, Action{
			Kind: Preempt, Machine: v.Row, Need: p.NumberOfNeed(v.Need), GraceSeconds: v.Grace,
			PreemptorPriority: p.KindOf(v.Need).Priority, Reason: ReasonPreempt, Plan: p.PlanID(v.Need),
		})
	}
	for _, r := range p.released.reclaims {
		plan.Actions = append(plan.Actions, Action{Kind: Reclaim, Machine: r, Need: -1, GraceSeconds: victims.GraceFull, Reason: ReasonExcess})
	}
	for _, r := range p.released.deletes {
		plan.Actions = append(plan.Actions, Action{Kind: Delete, Machine: r, Need: -1, Reason: ReasonRelease})
	}
}

// bindsAndBuys returns what was acquired in the order of the plan: what is bound, then what is created.
// They are the stages, unless a late-bound machine was acquired among the Speculative: that is bound.
func (p *pass) bindsAndBuys() [2][]acquire.Acquisition {
	lists := p.Stock.Acquisitions
	isLate := func(a acquire.Acquisition) bool { return p.Snap.Supply.IsLateBound(a.Row) }
	if !p.Snap.Supply.AnyLateBound() || !slices.ContainsFunc(lists[1], isLate) {
		return lists
	}
	binds, buys := slices.Clone(lists[0]), []acquire.Acquisition(nil)
	for _, a := range lists[1] {
		if isLate(a) {
			binds = append(binds, a)
		} else {
			buys = append(buys, a)
		}
	}
	slices.SortStableFunc(binds, func(a, b acquire.Acquisition) int { return cmp.Compare(p.RankOf[a.Need], p.RankOf[b.Need]) })
	return [2][]acquire.Acquisition{binds, buys}
}

// at returns the line as which a row of the demand is decided.
func (p *pass) at(row int) *state.Line { return &p.Lines[p.needAt(row)] }

// needAt returns the Need as which a row of the demand is decided.
func (p *pass) needAt(row int) int32 { return p.NeedOf(p.RowAt(row)) }

func (p *pass) couldCover(n *state.Line) bool {
	return !n.Is(state.IsUncoverable) || n.Is(state.IsPinned)
}

// result returns the outcome for a row.
func (p *pass) result(row int32) NeedResult {
	need := p.NeedOf(row)
	n, k, c := &p.Lines[need], p.KindOf(need), p.ClusterOf(row)
	out := NeedResult{
		Cluster: p.Snap.Clusters[c], Row: int(row - p.Sources[c].Base), Fold: p.NumberOfNeed(need), Rank: p.RankOf[need],
		Folded: n.Is(state.IsFold), Profile: k.Profile, Group: p.GroupName(need),
		Satisfied: p.isMet(need), CouldCover: p.couldCover(n), Awaiting: n.Is(state.IsAwaiting), LostAcquired: n.Is(state.LackedNothing), Unmet: p.unmet(need),
	}
	acquired := false
	for r := p.Claims.First(n); r != columnar.None; r = p.Claims.Next(r, n) {
		out.Claimed = append(out.Claimed, r)
		acquired = acquired || r == n.Acquired
		switch {
		case !acquired:
		case p.Snap.View.State[r] == model.Idle:
			out.Bootstrap++
		default:
			out.Provision++
		}
	}
	out.Preempt = p.victimsOf(need)
	if k.Same && n.Domain != 0 {
		out.Domain = p.Snap.Supply.ValueString(n.Domain)
	}
	deficit := make([]int64, p.Dims)
	p.ReadDeficit(deficit, need)
	out.Deficit = p.Resources(deficit)
	if beyond := p.unoffered(need).Aggregate; len(beyond) > 0 {
		out.Deficit = out.Deficit.Add(beyond)
	}
	if in := p.Preempted.InFlight[need]; in != nil {
		for d, x := range in {
			deficit[d] = min(deficit[d], x)
		}
		out.InFlight = p.Resources(deficit)
	}
	return out
}

// unoffered returns what a Need asks for under names that no machine offers. Rows with such names do
// not fold.
func (p *pass) unoffered(need int32) demand.Unoffered {
	src := p.SourceOf(need)
	if src.Block.UnofferedRows() == 0 || p.Lines[need].Is(state.IsFold) {
		return demand.Unoffered{}
	}
	return src.Block.Unoffered(int(need - src.Base))
}

// isMet reports whether a Need has everything that it asks for. Decisions ignore resources that no
// machine offers: for them a Need is satisfied without; see demand.Unoffered.
func (p *pass) isMet(need int32) bool {
	return p.Lines[need].Is(state.IsSatisfied) && len(p.unoffered(need).Aggregate) == 0
}

// countUnoffered returns how many rows ask for resources that no machine offers, and how many of these
// have everything else. O(clusters) if there are none.
func (p *pass) countUnoffered() (rows, credited int) {
	for i := range p.Sources {
		src := &p.Sources[i]
		if src.Block == nil || src.Block.UnofferedRows() == 0 {
			continue
		}
		rows += src.Block.UnofferedRows()
		for row := range src.Block.UnofferedAll() {
			if len(src.Block.Unoffered(row).Aggregate) > 0 && p.Lines[src.Base+int32(row)].Is(state.IsSatisfied) {
				credited++
			}
		}
	}
	return rows, credited
}

func (p *pass) addDeficit(sum []int64, need int32) {
	if p.Lines[need].Is(state.IsSatisfied) {
		return
	}
	if p.Lines[need].Tail == columnar.None {
		columnar.SatAdd(sum, p.Aggregate(need))
		return
	}
	p.ReadDeficit(p.Walker.Missing, need)
	columnar.SatAdd(sum, p.Walker.Missing)
}

// victimsOf returns how many machines are preempted for a Need. Victims are sorted by rank: binary
// search.
func (p *pass) victimsOf(need int32) int32 {
	count := int32(0)
	rank := p.RankOf[need]
	at, _ := slices.BinarySearchFunc(p.Preempted.Victims, rank, func(v victims.Victim, rank int32) int { return cmp.Compare(p.RankOf[v.Need], rank) })
	for ; at < len(p.Preempted.Victims) && p.Preempted.Victims[at].Need == need; at++ {
		count++
	}
	return count
}

// reportEnded lists the machines whose reservation ends, by id.
func (p *pass) reportEnded(plan *Plan) {
	st := p.st
	clear(st.fates)
	for r, res := range p.Snap.Supply.Reservations() {
		end := p.endOf(r, &res)
		if end != PlanStands {
			plan.Ended = append(plan.Ended, r)
		}
		if p.st.Holds.OfPlan(&res) {
			p.noteFate(st.fates, res.Owner, end, p.Claims.Of(r) != state.Unclaimed && p.Snap.View.State[r] == model.Idle)
		}
	}
	slices.SortFunc(plan.Ended, func(a, b columnar.Row) int { return cmp.Compare(p.Snap.IDRank(a), p.Snap.IDRank(b)) })
}

// endOf returns why a reservation ends in this pass, PlanStands if it does not.
func (p *pass) endOf(r columnar.Row, res *model.Reservation) PlanEnd {
	if p.Reserved.IsVoided(r) {
		return p.Reserved.EndOf(res)
	}
	if !p.Reserved.Live(r) {
		return p.endOfLate(r, res)
	}
	members := p.Reserved.Members(r)
	holder := p.Claims.Of(r)
	ofOwner := holder != state.Unclaimed && slices.Contains(members, holder)
	switch {
	case holder != state.Unclaimed && p.Snap.View.State[r] != model.Configured:
		if ofOwner {
			return PlanStands
		}
		return PlanRankLost // another Need has acquired it
	case !ofOwner && p.IsUnneeded(r, res, members):
		return PlanUnneeded
	case len(members) == 0 || ofOwner || slices.ContainsFunc(members, func(n int32) bool { return !p.Lines[n].Is(state.IsSatisfied) }):
		return PlanStands
	}
	return PlanOwnerSatisfied
}

// endOfLate is endOf for a reservation that was not live when the pass began.
func (p *pass) endOfLate(r columnar.Row, res *model.Reservation) PlanEnd {
	switch {
	case !p.MayHold(r, res):
		if st := p.Snap.View.State[r]; st == model.Idle || st == model.Configured || st == model.Creating {
			return PlanExpired
		}
		return PlanMachinesGone
	case p.Snap.Demand.Reported(res.Owner.Cluster):
		return PlanOwnerGone
	}
	return PlanStands
}

// reportAdopted lists the machines that are credited to a Need whose stamp they do not carry, and
// counts each once.
func (p *pass) reportAdopted(plan *Plan) {
	p.SettleForeignStamps()
	most := 0
	for _, l := range p.st.Workers {
		most += len(l.Crediting.ForeignStamps)
	}
	if most == 0 {
		return
	}
	plan.Adopted = slices.Grow(plan.Adopted, most)
	listed := bitmap.DenseIn(p.Arena, p.Snap.Supply.RowMax())
	for _, l := range p.st.Workers {
		for _, x := range l.Crediting.ForeignStamps {
			plan.Adopted = append(plan.Adopted, Adopted{Machine: x.Row, Need: x.Named})
			if !listed.Has(uint32(x.Row)) {
				listed.Set(uint32(x.Row))
				plan.Stats.Adopted++
			}
		}
	}
}

// Digest returns a hash of the plan: two plans for one input that differ have, in all likelihood,
// different digests. O(rows + machines).
func (p *Plan) Digest() uint64 {
	h := plan.Hash(plan.HashStart)
	for _, a := range p.Actions {
		h.Add(uint64(a.Machine), uint64(a.Kind)<<32|uint64(a.Reason), uint64(a.Need), uint64(a.GraceSeconds)<<32|uint64(uint32(a.PreemptorPriority)))
	}
	for _, r := range p.Ended {
		h.Add(uint64(r))
	}
	for i := range p.Reservations {
		x := &p.Reservations[i]
		h.Add(uint64(x.Machine), uint64(x.Need)<<32|uint64(x.GraceSeconds), x.Reservation.Plan)
	}
	if p.pass == nil {
		return uint64(h)
	}
	for r := range columnar.Row(p.pass.Snap.Supply.RowMax()) {
		if need := p.pass.Claims.Of(r); need != state.Unclaimed {
			h.Add(uint64(r), uint64(p.pass.NumberOf(need)))
		}
	}
	for i := range p.Len() {
		n := p.pass.at(i)
		h.Add(uint64(n.Status&(state.IsSatisfied|state.IsUncoverable|state.IsPinned|state.IsSkewBlocked|state.IsWithheld|state.HasCandidates|state.IsAwaiting)), uint64(p.Rank(i))<<32|uint64(p.Unmet(i)))
		if p.pass.KindOf(p.pass.needAt(i)).Same {
			h.Add(uint64(n.Domain))
		}
	}
	return uint64(h)
}

// unmet returns the first reason that applies to a Need; UnmetNone if it is satisfied.
func (p *pass) unmet(need int32) Unmet {
	n, k := &p.Lines[need], p.KindOf(need)
	unoffered := p.unoffered(need)
	switch {
	case n.Is(state.IsSatisfied) && len(unoffered.Aggregate) == 0:
		return UnmetNone
	case p.rests(need):
		return UnmetParked
	case unoffered.Some():
		return UnmetNoMatchingSupply
	}
	x := p.limitOf(need)
	switch {
	case x.nothing:
		return UnmetNoMatchingSupply
	case n.Is(state.IsAwaiting) && (n.Is(state.HasCandidates) || !n.Is(state.CountsOnDrain)):
		return UnmetAwaitingDrain
	case n.Is(state.HasCandidates):
		return UnmetPreemptionExhausted
	case k.Same && !x.covers(p.Aggregate(need)):
		return UnmetTopology
	case n.Is(state.IsSkewBlocked):
		return UnmetSpread
	case !x.covers(p.Aggregate(need)):
		return UnmetInsufficientSupply
	}
	return UnmetPriorityStarved
}

// rests reports whether a Need is parked by its cluster. The flag IsParked is also set for a row that
// waits for a resource which no machine offers.
func (p *pass) rests(need int32) bool {
	n := &p.Lines[need]
	if !n.Is(state.IsParked) || n.Is(state.IsFold) || !p.unoffered(need).Waits(p.KindOf(need).Same) {
		return n.Is(state.IsParked)
	}
	src := p.SourceOf(need)
	return src.Block.Parked(int(need - src.Base))
}

// limits memoizes, by kind, what all machines in usable states could give, without regard to claims.
// Only reasons need it, so it is computed when a cycle's first reason asks for it.
type limits struct {
	mu    sync.Mutex
	stale bool // holds values of another cycle
	kinds []limit
	keys  []int   // Same keys that have been asked for
	bins  [][]bin // by index in keys
	sum   []int64 // scratch
}

// limit is what a kind could be given.
type limit struct {
	known   bool
	nothing bool // some wanted dimension is offered nowhere
	// tops are the maximal totals of domains: none covers another. Without Same there is one, the total
	// of all machines.
	tops [][]int64
}

// bin counts the machines of one class with one value of a key.
type bin struct{ value, class, count uint32 }

// covers reports whether so much could be had together, in one domain with Same.
func (x *limit) covers(want []int64) bool {
	return slices.ContainsFunc(x.tops, func(has []int64) bool { return columnar.Covers(has, want) })
}

// limitOf returns what a Need's kind could be given, memoized per cycle.
func (p *pass) limitOf(need int32) *limit {
	x := &p.st.limits
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stale {
		x.stale = false
		x.kinds, x.sum = reuse.Resize(x.kinds, len(p.Kinds)), reuse.Resize(x.sum, p.Dims)
		x.keys, x.bins = x.keys[:0], x.bins[:0]
	}
	at := p.Lines[need].Kind
	limit, k := &x.kinds[at], &p.Kinds[at]
	switch {
	case limit.known:
	case k.Same:
		x.findIn(p, k, limit)
	default:
		x.find(p, k, limit)
	}
	limit.known = true
	return limit
}

// find sums the usable machines that the kind accepts.
func (x *limits) find(p *pass, k *state.Kind, limit *limit) {
	sum := make([]int64, p.Dims)
	for _, c := range k.Classes {
		columnar.SatAddScaled(sum, p.Vector(c), int64(p.Snap.Usable[c]))
	}
	limit.nothing = cycle.PositiveDims(sum)&k.Mask != k.Mask
	limit.tops = [][]int64{sum}
}

// findIn sums the usable machines that the kind accepts, domain by domain.
func (x *limits) findIn(p *pass, k *state.Kind, limit *limit) {
	some := uint64(0)
	for bins := x.binsOf(p, p.Snap.Supply.SameKey(k.Matcher)); len(bins) > 0; {
		n := 1
		for n < len(bins) && bins[n].value == bins[0].value {
			n++
		}
		if _, permitted := p.Snap.Supply.DomainOf(k.Matcher, bins[0].value); permitted {
			clear(x.sum)
			for _, c := range bins[:n] {
				if k.AcceptsClass(c.class) {
					columnar.SatAddScaled(x.sum, p.Vector(c.class), int64(c.count))
				}
			}
			some |= cycle.PositiveDims(x.sum)
			limit.raise(x.sum)
		}
		bins = bins[n:]
	}
	limit.nothing = some&k.Mask != k.Mask
}

// raise adds a domain's total to tops unless another one covers it.
func (x *limit) raise(total []int64) {
	if x.covers(total) {
		return
	}
	x.tops = slices.DeleteFunc(x.tops, func(top []int64) bool { return columnar.Covers(total, top) })
	x.tops = append(x.tops, slices.Clone(total))
}

// binsOf counts the usable machines by value of a key and by class, sorted by value. O(machines), once
// per cycle and key.
func (x *limits) binsOf(p *pass, key int) []bin {
	at := slices.Index(x.keys, key)
	if at < 0 {
		at = len(x.keys)
		x.keys, x.bins = append(x.keys, key), append(x.bins, p.countBins(key))
	}
	return x.bins[at]
}

// countBins is binsOf without its memory: a counting sort by value, then a sort by class.
func (p *pass) countBins(key int) []bin {
	values, classes := p.Snap.Supply.Values(key), p.Snap.View.Class
	from := make([]uint32, p.Snap.Supply.ValueIDMax()+1) // by value
	counts := func(r int) bool { return values[r] != 0 && mayServe[p.Snap.View.State[r]] }
	n := uint32(0)
	for r := range values {
		if counts(r) {
			from[values[r]]++
			n++
		}
	}
	sum := uint32(0)
	for v, count := range from {
		from[v], sum = sum, sum+count
	}
	byValue := make([]uint32, n) // the classes of machines
	for r := range values {
		if counts(r) {
			v := values[r]
			byValue[from[v]] = classes[r]
			from[v]++ // ends where the next value begins
		}
	}
	var bins []bin
	begin := uint32(0)
	for v, end := range from {
		of := byValue[begin:end]
		slices.Sort(of)
		for i, class := range of {
			if i == 0 || class != of[i-1] {
				bins = append(bins, bin{uint32(v), class, 0})
			}
			bins[len(bins)-1].count++
		}
		begin = end
	}
	return bins
}

// mayServe are the states from which a machine may come to serve a Need.
var mayServe = [model.NumStates]bool{
	model.Speculative: true, model.Creating: true, model.Idle: true,
	model.Configuring: true, model.Configured: true, model.Draining: true,
}
