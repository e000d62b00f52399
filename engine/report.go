package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// report writes the results of the pass into the plan.
func (p *pass) report(plan *Plan) {
	plan.pass = p
	p.spareRemainders(&plan.Stats.PlanCounts)
	p.reportActions(plan)
	p.reportEnded(plan)
	p.reportReserved(plan)
	p.reportAdopted(plan)
	p.countPlans(&plan.Stats.PlanCounts, p.e.store.reserved.fates)
	st := &plan.Stats
	st.Machines, st.Needs, st.Folded, st.Probes, st.Credited = p.s.Supply.Len(), p.rows, len(p.order), p.probes, p.credited
	st.SearchPairs, st.SearchUnits, st.SearchEnded = p.met.pairs, p.met.units, p.searchEnded()
	st.AcquireCounts = p.counts
	st.CreditCounts = p.creditCounts
	st.Clusters, st.ClustersCredited = len(p.s.Clusters), p.clustersCredited
	for i := range p.s.Classes {
		if p.s.Classes[i].Live {
			st.Classes++
		}
	}
	unoffered, credited := p.countUnoffered()
	st.Unoffered, st.Satisfied = unoffered, p.satisfied-credited
	st.Unsatisfied = st.Needs - st.Satisfied
	for i := range plan.Actions {
		st.Actions[plan.Actions[i].Kind]++
	}
}

// spareRemainders removes victims that no plan uses: the rest of a gang that a plan breaks stays bound.
func (p *pass) spareRemainders(c *PlanCounts) {
	if p.e.opts.Victims != VictimsGang {
		return
	}
	all := len(p.victims)
	p.victims = slices.DeleteFunc(p.victims, func(v victim) bool { return p.staysBound(v.row) })
	c.LeftBound = all - len(p.victims)
}

// staysBound reports whether no plan of another cluster uses a machine whose gang is broken.
func (p *pass) staysBound(r columnar.Row) bool {
	by := p.takenBy(r)
	return by == noNeed || p.lines[by].cluster == p.clusterOfMachine(r)
}

// breaks reports whether preemptions leave a Need with less than its minimum. Only Configured machines
// count as kept.
func (p *pass) breaks(need int32) bool {
	kept, least := make([]int64, p.dims), make([]int64, p.dims)
	p.eachRow(need, func(src *rowSource, i int) { p.addMinimum(least, src.block, i) })
	for m := p.lines[need].head; m != columnar.None; m = p.held[m].next {
		leftBound := p.e.opts.Victims == VictimsGang && p.victimOf.Has(uint32(m)) && p.staysBound(m)
		if p.s.View.State[m] == model.Configured && (leftBound || !p.victimOf.Has(uint32(m))) {
			columnar.SatAdd(kept, p.vec(m))
		}
	}
	return !columnar.Covers(kept, least)
}

// actionsPerChunk is how many acquisitions a worker reports at a time.
const actionsPerChunk = 1 << 13

// reportActions emits the actions in the order of the contract.
func (p *pass) reportActions(plan *Plan) {
	for stage, kind := range [...]Kind{Bootstrap, Provision} {
		reason, list := ReasonIdle+Reason(stage), p.acquisitions[stage]
		if len(p.withheldBy) == 0 && len(list) > actionsPerChunk {
			before := len(plan.Actions)
			plan.Actions = slices.Grow(plan.Actions, len(list))[:before+len(list)]
			actions := plan.Actions[before:]
			p.e.crew.each(len(list), actionsPerChunk, func(_, from, to int) {
				for i, a := range list[from:to] {
					actions[from+i] = Action{Kind: kind, Machine: a.row, Need: p.named(a.need), Reason: reason}
				}
			})
			continue
		}
		for _, a := range list {
			// A plan for another domain may have revoked it.
			if len(p.withheldBy) == 0 || p.held[a.row].need == a.need {
				plan.Actions = append(plan.Actions, Action{Kind: kind, Machine: a.row, Need: p.named(a.need), Reason: reason})
			}
		}
	}
	for _, v := range p.victims {
		plan.Actions = append(plan.Actions, Action{
			Kind: Preempt, Machine: v.row, Need: p.named(v.need), GraceSeconds: v.grace,
			PreemptorPriority: p.kindOf(v.need).priority, Reason: ReasonPreempt, Plan: p.planID(v.need),
		})
	}
	for _, r := range p.reclaims {
		plan.Actions = append(plan.Actions, Action{Kind: Reclaim, Machine: r, Need: -1, GraceSeconds: graceFull, Reason: ReasonExcess})
	}
	for _, r := range p.deletes {
		plan.Actions = append(plan.Actions, Action{Kind: Delete, Machine: r, Need: -1, Reason: ReasonRelease})
	}
}

// at returns the line as which a row of the demand is decided.
func (p *pass) at(row int) *line { return &p.lines[p.needAt(row)] }

// needAt returns the Need as which a row of the demand is decided.
func (p *pass) needAt(row int) int32 { return p.needOf(p.rowAt(row)) }

func (p *pass) couldCover(n *line) bool { return !n.is(isUncoverable) || n.is(isPinned) }

// result returns the outcome for a row.
func (p *pass) result(row int32) NeedResult {
	need := p.needOf(row)
	n, k := &p.lines[need], p.kindOf(need)
	out := NeedResult{
		Cluster: p.s.Clusters[n.cluster], Row: int(row - p.sources[n.cluster].base), Fold: p.named(need), Rank: p.rankOf[need],
		Folded: n.is(isFold), Profile: k.profile, Group: p.groupName(need),
		Satisfied: p.isMet(need), CouldCover: p.couldCover(n), Awaiting: n.is(isAwaiting), Unmet: p.unmet(need),
	}
	acquired := false
	for r := n.head; r != columnar.None; r = p.held[r].next {
		out.Claimed = append(out.Claimed, r)
		acquired = acquired || r == n.acquired
		switch {
		case !acquired:
		case p.s.View.State[r] == model.Idle:
			out.Bootstrap++
		default:
			out.Provision++
		}
	}
	out.Preempt = p.victimsOf(need)
	if k.same && n.domain != 0 {
		out.Domain = p.s.Supply.ValueString(n.domain)
	}
	deficit := make([]int64, p.dims)
	p.readDeficit(deficit, need)
	out.Deficit = p.resources(deficit)
	if beyond := p.unoffered(need).Aggregate; len(beyond) > 0 {
		out.Deficit = out.Deficit.Add(beyond)
	}
	if in := p.inFlight[need]; in != nil {
		for d, x := range in {
			deficit[d] = min(deficit[d], x)
		}
		out.InFlight = p.resources(deficit)
	}
	return out
}

// unoffered returns what a Need asks for under names that no machine offers. Rows with such names do
// not fold.
func (p *pass) unoffered(need int32) demand.Unoffered {
	src := &p.sources[p.lines[need].cluster]
	if src.block.UnofferedRows() == 0 || p.lines[need].is(isFold) {
		return demand.Unoffered{}
	}
	return src.block.Unoffered(int(need - src.base))
}

// isMet reports whether a Need has everything that it asks for. Decisions ignore resources that no
// machine offers: for them a Need is satisfied without; see demand.Unoffered.
func (p *pass) isMet(need int32) bool {
	return p.lines[need].is(isSatisfied) && len(p.unoffered(need).Aggregate) == 0
}

// countUnoffered returns how many rows ask for resources that no machine offers, and how many of these
// have everything else. O(clusters) if there are none.
func (p *pass) countUnoffered() (rows, credited int) {
	for i := range p.sources {
		src := &p.sources[i]
		if src.block == nil || src.block.UnofferedRows() == 0 {
			continue
		}
		rows += src.block.UnofferedRows()
		for row := range src.block.UnofferedAll() {
			if len(src.block.Unoffered(row).Aggregate) > 0 && p.lines[src.base+int32(row)].is(isSatisfied) {
				credited++
			}
		}
	}
	return rows, credited
}

func (p *pass) addDeficit(sum []int64, need int32) {
	if p.lines[need].is(isSatisfied) {
		return
	}
	if p.lines[need].head == columnar.None {
		columnar.SatAdd(sum, p.aggregate(need))
		return
	}
	p.readDeficit(p.walker.missing, need)
	columnar.SatAdd(sum, p.walker.missing)
}

// victimsOf returns how many machines are preempted for a Need. Victims are sorted by rank: binary
// search.
func (p *pass) victimsOf(need int32) int32 {
	count := int32(0)
	rank := p.rankOf[need]
	at, _ := slices.BinarySearchFunc(p.victims, rank, func(v victim, rank int32) int { return cmp.Compare(p.rankOf[v.need], rank) })
	for ; at < len(p.victims) && p.victims[at].need == need; at++ {
		count++
	}
	return count
}

// resources converts a vector to named amounts.
func (p *pass) resources(v []int64) model.Resources {
	if columnar.IsZero(v) {
		return nil
	}
	amounts := make([]model.Amount, 0, len(v))
	for d, x := range v {
		if x > 0 {
			amounts = append(amounts, model.Amount{Name: p.s.Dims[d], Value: x})
		}
	}
	return model.NewResources(amounts...)
}

// reportEnded lists the machines whose reservation ends, by id.
func (p *pass) reportEnded(plan *Plan) {
	fates := p.e.store.reserved.fates
	clear(fates)
	for r, res := range p.s.Supply.Reservations() {
		end := p.endOf(r, &res)
		if end != PlanStands {
			plan.Ended = append(plan.Ended, r)
		}
		if p.ofPlan(&res) {
			p.noteFate(fates, res.Owner, end, p.held[r].need != unheld && p.s.View.State[r] == model.Idle)
		}
	}
	slices.SortFunc(plan.Ended, func(a, b columnar.Row) int { return cmp.Compare(p.s.IDRank[a], p.s.IDRank[b]) })
}

// endOf returns why a reservation ends in this pass, PlanStands if it does not.
func (p *pass) endOf(r columnar.Row, res *model.Reservation) PlanEnd {
	if _, void := p.reserved.voided[r]; void {
		return p.e.store.reserved.holdingOf(&res.Owner, nil).end
	}
	if !p.reserved.live(r) {
		return p.endOfLate(r, res)
	}
	members := p.reserved.members[r]
	holder := p.held[r].need
	ofOwner := holder != unheld && slices.Contains(members, holder)
	switch {
	case holder != unheld && p.s.View.State[r] != model.Configured:
		if ofOwner {
			return PlanStands
		}
		return PlanRankLost // another Need has acquired it
	case !ofOwner && p.isUnneeded(r, res, members):
		return PlanUnneeded
	case len(members) == 0 || ofOwner || slices.ContainsFunc(members, func(n int32) bool { return !p.lines[n].is(isSatisfied) }):
		return PlanStands
	}
	return PlanOwnerSatisfied
}

// endOfLate is endOf for a reservation that was not live when the pass began.
func (p *pass) endOfLate(r columnar.Row, res *model.Reservation) PlanEnd {
	switch {
	case !p.mayHold(r, res):
		if st := p.s.View.State[r]; st == model.Idle || st == model.Configured || st == model.Creating {
			return PlanExpired
		}
		return PlanMachinesGone
	case p.s.Demand.Reported(res.Owner.Cluster):
		return PlanOwnerGone
	}
	return PlanStands
}

// reportAdopted lists the machines that are credited to a Need whose stamp they do not carry, and
// counts each once.
func (p *pass) reportAdopted(plan *Plan) {
	p.e.crew.run(p.e.tasks.adopted)
	most := 0
	for _, l := range p.e.workers {
		most += len(l.foreignStamps)
	}
	if most == 0 {
		return
	}
	plan.Adopted = slices.Grow(plan.Adopted, most)
	listed := bitmap.DenseIn(p.e.arena, p.s.Supply.RowMax())
	for _, l := range p.e.workers {
		for _, x := range l.foreignStamps {
			plan.Adopted = append(plan.Adopted, Adopted{Machine: x.row, Need: x.named})
			if !listed.Has(uint32(x.row)) {
				listed.Set(uint32(x.row))
				plan.Stats.Adopted++
			}
		}
	}
}

// keepAdopted drops the machines with a foreign stamp that another Need has claimed since.
func (l *worker) keepAdopted() {
	l.foreignStamps = slices.DeleteFunc(l.foreignStamps, func(x foreignStamp) bool { return l.held[x.row].need != x.need })
}

// Digest returns a hash of the plan: two plans for one input that differ have, in all likelihood,
// different digests. O(rows + machines).
func (p *Plan) Digest() uint64 {
	h := digest(fnvOffset)
	for _, a := range p.Actions {
		h.add(uint64(a.Machine), uint64(a.Kind)<<32|uint64(a.Reason), uint64(a.Need), uint64(a.GraceSeconds)<<32|uint64(uint32(a.PreemptorPriority)))
	}
	for _, r := range p.Ended {
		h.add(uint64(r))
	}
	for i := range p.Reservations {
		x := &p.Reservations[i]
		h.add(uint64(x.Machine), uint64(x.Need)<<32|uint64(x.GraceSeconds), x.Reservation.Plan)
	}
	if p.pass == nil {
		return uint64(h)
	}
	for r, x := range p.pass.held[:p.pass.s.Supply.RowMax()] {
		if x.need != unheld {
			h.add(uint64(r), uint64(p.pass.outward(x.need)))
		}
	}
	for i := range p.Len() {
		n := p.pass.at(i)
		h.add(uint64(n.status&(isSatisfied|isUncoverable|isPinned|isSkewBlocked|isWithheld|hasCandidates|isAwaiting)), uint64(p.Rank(i))<<32|uint64(p.Unmet(i)))
		if p.pass.kindOf(p.pass.needAt(i)).same {
			h.add(uint64(n.domain))
		}
	}
	return uint64(h)
}

// fnvOffset is the offset basis of FNV-1a.
const fnvOffset = 14695981039346656037

// digest is a variant of FNV-1a over words of 64 bits.
type digest uint64

func (h *digest) add(words ...uint64) {
	for _, w := range words {
		*h = (*h ^ digest(w)) * 1099511628211
		*h ^= *h >> 29
	}
}
