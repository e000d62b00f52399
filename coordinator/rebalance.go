package coordinator

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// Rebalance is one pass over all shortfalls.
type Rebalance struct{}

func (Rebalance) event() {}

// pass is the working state of one pass.
type pass struct {
	*Core
	now    int64
	e      *Effects
	run    Pass
	open   int
	dry    bool
	ids    []string          // of all shards, sorted
	donors map[string]*donor // the shards that take part, by id
	// sorted are the offers by kind and tier, dearest donor last; see sortedOffer.
	sorted [][]sortedOffer
	// busy are the machines of open and of recent moves; rests the pairs that wait.
	busy  map[string]bool
	rests map[pair]bool
	// coming is what is on its way to a shortfall, or has come within the cooldown.
	coming map[shortOf]model.Resources
	opened map[shortOf]bool // moves that are not over
}

// donor is a shard that takes part.
type donor struct {
	id       string
	order    int32 // by id
	provider int32 // equal for shards of one provider
	offers   []Offer
	wants    []uint64 // the kinds that it is itself short of, a bit each
}

// sortedOffer is one offer during a pass, with copies of the fields that offers are sorted
// by: the offers themselves lie all over memory.
type sortedOffer struct {
	donor    *donor
	offer    *Offer
	price    float64
	count    int32
	priority int32
	order    int32
	looked   bool     // left and spare are known
	spare    int32    // what can be given yet, by number
	left     []string // and by name
}

// slot is where the offers of a kind in a tier are.
func slot(shape int32, t Tier) int { return tiers*int(shape) + int(t-TierIdle) }

// pair is two shards, in either order, and a kind of machine.
type pair struct{ a, b, shape string }

func pairOf(a, b, shape string) pair { return pair{min(a, b), max(a, b), shape} }

type shortOf struct {
	shard string
	key   uint64
}

// need is one shortfall that is a matter of the fleet.
type need struct {
	shard string
	*Shortfall
}

// rebalance decides which machines should change owner, worst shortfall first.
// In dry-run nothing is written: each pass decides the same again.
func (c *Core) rebalance(now int64) Effects {
	var e Effects
	if c.mode == RebalanceOff {
		c.lastRun = Pass{At: now, Mode: c.mode}
		return e
	}
	c.passes++
	p := &pass{Core: c, now: now, e: &e, ids: slices.Sorted(maps.Keys(c.shards)), dry: c.mode == RebalanceDryRun, run: Pass{At: now, Number: c.passes, Mode: c.mode}}
	if !c.Heard() {
		p.run.Waits = "not every shard has reported to this leader yet"
		c.lastRun = p.run
		return e
	}
	if c.news {
		c.waited, c.news = c.waited+1, false
	}
	p.giveUp()
	p.survey()
	needs := p.needs()
	p.run.Decisions = make([]Decision, 0, len(needs))
	steps := make([]Step, DecisionStepsMax*len(needs))
	for i, n := range needs {
		own := steps[DecisionStepsMax*i : DecisionStepsMax*(i+1)]
		p.run.Decisions = append(p.run.Decisions, p.decide(n, own[:0:DecisionStepsMax]))
	}
	c.lastRun = p.run
	return e
}

// giveUp cancels what donors were asked for too long ago. A donor that released
// something after all says so, and then the move goes on: both it and what was asked
// for in its place come. So passes do not count while this leader waits for the first
// reports, nor while no shard at all is heard, when it is the leader that is cut off.
func (p *pass) giveUp() {
	for _, m := range p.sortedMoves() {
		limit := int64(AskedPassesMax)
		if m.Tier == TierPreempt {
			limit = DrainPassesMax
		}
		if m.Phase == Asked && p.waited-p.asked[m.ID] > limit {
			p.enter(p.e, p.now, m, Cancelled, "the donor did not release anything in time")
		}
	}
}

// survey lists the offers of all donors, and the moves in progress.
func (p *pass) survey() {
	p.busy = map[string]bool{}
	p.rests, p.coming, p.opened = map[pair]bool{}, map[shortOf]model.Resources{}, map[shortOf]bool{}
	for _, m := range p.moves {
		p.surveyMove(m)
	}
	p.surveyDonors()
	ends := make([]int, tiers*len(p.shapes.names)) // of the offers in each slot
	total := 0
	for _, d := range p.donors {
		for i := range d.offers {
			ends[slot(d.offers[i].shape, tierOf(d.offers[i].State))]++
		}
		total += len(d.offers)
	}
	all := make([]sortedOffer, total)
	p.sorted = make([][]sortedOffer, len(ends))
	for at, from := 0, 0; at < len(ends); at++ {
		to := from + ends[at]
		p.sorted[at] = all[from:from:to]
		from = to
	}
	for _, id := range p.ids {
		d := p.donors[id]
		if d == nil {
			continue
		}
		for i := range d.offers {
			o := &d.offers[i]
			at := slot(o.shape, tierOf(o.State))
			p.sorted[at] = append(p.sorted[at], sortedOffer{donor: d, offer: o, price: o.PricePerHour, count: int32(o.Count), priority: o.Priority, order: d.order})
		}
	}
	for _, l := range p.sorted {
		slices.SortFunc(l, func(a, b sortedOffer) int {
			return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.price, b.price), cmp.Compare(b.count, a.count), cmp.Compare(a.order, b.order))
		})
	}
}

// surveyDonors lists the shards that take part.
func (p *pass) surveyDonors() {
	p.donors = make(map[string]*donor, len(p.ids))
	providers := map[string]int32{}
	for order, id := range p.ids {
		s := p.soft[id]
		if !s.offered || s.summary == nil || s.summary.ProviderAddress == "" || p.domainsOf[id] == 0 {
			continue
		}
		provider, known := providers[s.summary.ProviderAddress]
		if !known {
			provider = int32(len(providers))
			providers[s.summary.ProviderAddress] = provider
		}
		d := &donor{id: id, order: int32(order), provider: provider, offers: s.offers, wants: p.wanted(s)}
		if p.losing[id] > 0 {
			d.offers = nil // it could not give the domain up, were machines of it away
		}
		p.donors[id] = d
	}
}

func (p *pass) surveyMove(m *Move) {
	of := shortOf{m.Receiver, m.Shortfall}
	rests := p.resting(m)
	if rests {
		p.rests[pairOf(m.Donor, m.Receiver, m.Shape)] = true
	}
	open := !m.Phase.over() && p.written(p.e, m.ID).Phase != Cancelled
	if open {
		p.open++
		p.opened[of] = true
		p.rests[pairOf(m.Donor, m.Receiver, m.Shape)] = true
	}
	if open && m.Phase != Returning || rests && m.Phase.moved() {
		p.coming[of] = p.coming[of].Add(m.holds())
		for _, id := range m.Machines {
			p.busy[id] = true
		}
	}
}

// wanted are the kinds of machines that a shard is itself short of.
func (p *pass) wanted(s *soft) []uint64 {
	out := make([]uint64, len(p.shapes.names)/64+1)
	for i := range s.shortfalls {
		x := &s.shortfalls[i]
		if x.same {
			continue
		}
		for _, n := range p.shapes.matching(x) {
			out[n/64] |= 1 << (n % 64)
		}
	}
	return out
}

// cursor is how far the shortfalls of one shard have been given out, and how bad
// the next one is.
type cursor struct {
	priority, age int32
	shard, at     int32 // the shard's place among all, and the shortfall's in its list
}

// merge gives out the shortfalls of all shards, worst first. Those of each are
// in order already.
type merge []cursor

func (m merge) Len() int      { return len(m) }
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m merge) Less(i, j int) bool {
	a, b := &m[i], &m[j]
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.age, a.age), cmp.Compare(a.shard, b.shard)) < 0
}

// Push is never called: every shard is in the heap from the beginning.
func (m *merge) Push(any) {}

// Pop removes the last, as heap.Pop asks for.
func (m *merge) Pop() any {
	*m = (*m)[:len(*m)-1]
	return nil
}

// needs are the shortfalls that are a matter of the fleet, worst first.
func (p *pass) needs() []need {
	all := make(merge, 0, len(p.ids))
	lists := make([][]Shortfall, len(p.ids))
	total := 0
	for i, id := range p.ids {
		list := p.soft[id].shortfalls
		for k := range list {
			if list[k].AgeCycles <= EscalateAgeCycles {
				p.run.Young++
			} else {
				total++
			}
		}
		lists[i] = list
		if c := (cursor{shard: int32(i), at: -1}); c.next(list) {
			all = append(all, c)
		}
	}
	heap.Init(&all)
	out := make([]need, 0, min(total, DecisionsMax))
	for len(all) > 0 && len(out) < DecisionsMax {
		top := &all[0]
		list := lists[top.shard]
		out = append(out, need{p.ids[top.shard], &list[top.at]})
		if top.next(list) {
			heap.Fix(&all, 0)
		} else {
			heap.Pop(&all)
		}
	}
	p.run.Cut = total - len(out)
	return out
}

// next goes on to the next shortfall of a list that is old enough; false says
// that there is none.
func (c *cursor) next(list []Shortfall) bool {
	for c.at++; int(c.at) < len(list); c.at++ {
		if x := &list[c.at]; x.AgeCycles > EscalateAgeCycles {
			c.priority, c.age = x.Priority, x.AgeCycles
			return true
		}
	}
	return false
}

// decide goes through the tiers for one shortfall; steps is room for its steps.
func (p *pass) decide(n need, steps []Step) Decision {
	d := Decision{Steps: steps, Receiver: n.shard, Shortfall: n.Shortfall, Priority: n.Priority, AgeCycles: n.AgeCycles, Deficit: n.Deficit}
	if d.Verdict = p.eligible(n); d.Verdict != "" {
		return d
	}
	coming := p.coming[shortOf{n.shard, n.key}]
	left := n.Deficit.Sub(coming)
	if left.IsZero() {
		d.Verdict = VerdictComing
		return d
	}
	shapes, receiver := p.shapes.matching(n.Shortfall), p.donors[n.shard]
	moved := 0
	for _, tier := range []Tier{TierIdle, TierSpeculative, TierPreempt} {
		if left.IsZero() {
			break
		}
		if tier == TierPreempt {
			if why := p.mayPreempt(n, moved); why != "" {
				d.step(Step{Tier: tier, Why: why})
				break
			}
		}
		for _, shape := range shapes {
			sorted := p.sorted[slot(shape, tier)]
			for i := range sorted {
				l := &sorted[i]
				if l.donor == receiver || len(left) == 0 {
					continue
				}
				if l.looked && l.spare <= 0 && len(d.Steps) == DecisionStepsMax {
					d.MoreSteps++ // nothing is left, for whatever reason
					continue
				}
				s, ids := p.consider(n, receiver, tier, l, left)
				if len(ids) > 0 {
					left = left.Sub(times(l.offer.Unit, len(ids)))
					moved += len(ids)
					p.move(n, tier, l, ids)
				}
				d.step(s)
			}
		}
	}
	d.Moves = moved
	d.Verdict = p.verdict(moved, left, len(shapes))
	return d
}

// eligible says why nothing is done about a shortfall at all, "" = something is.
func (p *pass) eligible(n need) Verdict {
	s := p.soft[n.shard]
	switch {
	case n.same:
		return VerdictSame
	case !s.offered:
		return VerdictNoHandOver
	case s.summary == nil || s.summary.ProviderAddress == "":
		return VerdictNoProvider
	case p.domainsOf[n.shard] == 0:
		return VerdictNoDomain
	case p.open >= MovesOpenMax:
		return VerdictBusy
	case len(p.loans) >= LoansMax:
		return VerdictLent
	}
	return ""
}

func (p *pass) mayPreempt(n need, moved int) Why {
	switch {
	case n.AgeCycles <= PreemptAgeCycles:
		return WhyYoung
	case moved > 0 || p.opened[shortOf{n.shard, n.key}]:
		return WhyCheaper
	}
	return ""
}

func (p *pass) verdict(moved int, left model.Resources, shapes int) Verdict {
	switch {
	case moved > 0 && left.IsZero():
		return VerdictCovered
	case moved > 0:
		return VerdictPartly
	case shapes == 0:
		return VerdictNoShape
	}
	return VerdictNothing
}

// consider says which machines of one offer go to a shortfall.
func (p *pass) consider(n need, receiver *donor, tier Tier, l *sortedOffer, left model.Resources) (Step, []string) {
	o := l.offer
	s := Step{Tier: tier, Donor: l.donor.id, Shape: p.shapes.names[o.shape], Offered: o.Count}
	switch {
	case l.donor.provider != receiver.provider:
		s.Why = WhyProvider
	case tier != TierPreempt && l.donor.wants[o.shape/64]&(1<<(o.shape%64)) != 0:
		s.Why = WhyOwnNeed
	case tier == TierPreempt && (o.Priority >= n.Priority || o.Bucket >= n.Bucket):
		s.Why = WhyWorth
	case p.open >= MovesOpenMax:
		s.Why = WhyBusy
	case len(p.rests) > 0 && p.rests[pairOf(l.donor.id, n.shard, s.Shape)]:
		s.Why = WhyResting
	}
	if s.Why != "" {
		return s, nil
	}
	want := unitsFor(o.Unit, left)
	if want == 0 {
		s.Why = WhyUseless
		return s, nil
	}
	p.look(l, tier)
	count := min(want, int(l.spare), len(l.left), MoveMachinesMax)
	switch {
	case count <= 0:
		s.Why = WhyMargin
		return s, nil
	case count < want && count < BenefitMachines && int64(count)*1000 < int64(want)*BenefitPerMille:
		s.Why = WhyBenefit
		return s, nil
	}
	s.Moves, s.Why = count, WhyMoved
	return s, l.left[:count]
}

// look finds out what of an offer can be given: not what others take, and not
// the donor's margin.
func (p *pass) look(l *sortedOffer, tier Tier) {
	if l.looked {
		return
	}
	l.looked = true
	l.left = l.offer.Machines
	if len(p.busy) > 0 {
		l.left = p.free(l.left)
	}
	l.spare = l.count - int32(len(l.offer.Machines)-len(l.left))
	if tier != TierPreempt {
		l.spare -= int32(margin(l.offer.Count))
	}
}

// margin is what a donor keeps.
func margin(count int) int { return max(1, (count*SurplusMarginPerMille+999)/1000) }

// free leaves out the machines that open moves and recent ones hold.
func (p *pass) free(ids []string) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		if !p.busy[id] {
			out = append(out, id)
		}
	}
	return out
}

// unitsFor is how many machines cover what is left, 0 when they lack one of the
// things that are missing.
func unitsFor(unit, left model.Resources) int {
	n := int64(0)
	for _, a := range left {
		u := unit.Get(a.Name)
		if u == 0 {
			return 0
		}
		n = max(n, (a.Value-1)/u+1)
	}
	return int(min(n, 1<<30))
}

func times(unit model.Resources, n int) model.Resources {
	out := make([]model.Amount, len(unit))
	for i, a := range unit {
		out[i] = model.Amount{Name: a.Name, Value: model.SatMul(a.Value, int64(n))}
	}
	return model.NewResources(out...)
}

// move asks a donor for machines, or in dry-run would.
func (p *pass) move(n need, tier Tier, l *sortedOffer, ids []string) {
	p.open++
	l.left, l.spare = l.left[len(ids):], l.spare-int32(len(ids))
	p.run.Machines += len(ids)
	p.rests[pairOf(l.donor.id, n.shard, p.shapes.names[l.offer.shape])] = true
	for _, id := range ids {
		p.busy[id] = true
	}
	if p.dry {
		return
	}
	unit := map[string]int64{}
	for _, a := range l.offer.Unit {
		unit[a.Name] = a.Value
	}
	m := &Move{
		Sequence: p.take1(p.e), Tier: tier, Phase: Asked, Donor: l.donor.id, Receiver: n.shard, Machines: ids,
		Kind:  Kind{InstanceType: l.offer.InstanceType, Zone: l.offer.Zone, Labels: l.offer.Labels},
		Shape: p.shapes.names[l.offer.shape], Unit: unit, Shortfall: n.key, Began: p.now,
	}
	if tier == TierPreempt {
		m.PreemptorPriority = n.Priority
	}
	m.ID = moveID(m.Sequence)
	p.e.Writes = append(p.e.Writes, put(moveKey(m.ID), m))
	p.e.note("move %s: asks %q for %d machines of %s for %q, short for %d cycles at priority %d",
		m.ID, m.Donor, len(ids), m.Shape, n.shard, n.AgeCycles, n.Priority)
}
