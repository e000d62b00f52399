package sim

import (
	"maps"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// What must hold of gangs, plans of preemption and reservations.
const (
	ReservedOnce     Invariant = "a machine is reserved and preempted at most once in a plan"
	ReservedKept     Invariant = "a reserved machine is lost only to a higher rank"
	PlanCovers       Invariant = "what a gang's plan holds covers its deficit"
	PlanWhole        Invariant = "the machines of a plan are drained and given up together"
	DrainsHeld       Invariant = "what drains for a Need that waits for it stays held for it"
	PriorityFalls    Invariant = "a machine is preempted only for a higher priority, between tenants for an equal one"
	PreemptedOnce    Invariant = "while demand and supply stay as they are a machine is preempted at most once for a Need, but for one that a higher rank has had since, or whose plan a higher rank has ended"
	VictimsHeld      Invariant = "what is preempted is held for whom it is preempted for"
	SteadyPreemption Invariant = "with steady demand and no plan under way nothing is preempted"
)

// gangs is what is remembered of gangs from one cycle to the next.
type gangs struct {
	// accepted is each cluster's demand as the shard has it.
	accepted map[string]*Rollup
	// held are the machines that plans hold for an owner after a cycle.
	held map[model.Owner]map[string]struct{}
	// preempted says, by Need that is short, which machines were preempted for it.
	preempted map[model.Owner]map[string]taking
	given     map[string]bool // machines whose reservation ended in this cycle
	// leaving is what is on its way to each owner at the end of a cycle.
	leaving map[model.Owner]model.Resources
	// states are of this cycle's decision; draining are its Preempts, by machine.
	states   map[model.Owner]*ownerState
	draining map[string]uint64
	// calm says that nothing was under way or done at the end of the cycle
	// before; changed is the last cycle in which demand or supply did, disturbed also one in which something that was held
	// turned free, or in which an owner may wait because of machines that failed.
	calm      bool
	failed    map[string]struct{} // machines that had failed after the cycle before
	failing   map[string]struct{} // after this cycle
	changed   int
	disturbed int
	calmFrom  int
	ledger    ledger
}

// taking is that a machine was preempted for a Need.
type taking struct {
	cycle int
	need  string // name of the row: others of the owner may be short when it is not
	// passed says that a higher rank has had the machine since, or has ended the plan
	// that held it for the Need (R3 of docs/explanation/gangs.md), which has let it go.
	passed bool
}

// ownerState is what a decision says of the rows of one owner.
type ownerState struct {
	rank      int32 // of the first
	satisfied bool  // all of them, as far as machines can
	awaiting  bool  // each is satisfied or waits for drains that cover the rest
	coverable bool  // some domain could cover each
	inFlight  model.Resources
}

// scene is a decision with what the checks look up in it.
type scene struct {
	in       engine.Input
	plan     *engine.Plan
	results  []engine.NeedResult
	claimant map[columnar.Row]int32
}

func newGangs() gangs {
	return gangs{
		accepted: map[string]*Rollup{}, held: map[model.Owner]map[string]struct{}{},
		preempted: map[model.Owner]map[string]taking{}, given: map[string]bool{},
		failed:  map[string]struct{}{},
		failing: map[string]struct{}{},
		leaving: map[model.Owner]model.Resources{}, states: map[model.Owner]*ownerState{}, draining: map[string]uint64{}, ledger: newLedger(),
	}
}

// need returns the row that a result is about.
func (g *gangs) need(n *engine.NeedResult) *model.Need {
	return &g.accepted[n.Cluster].Needs[n.Row].Need
}

// ownerOf returns the name under which machines are held for a row.
func (g *gangs) ownerOf(n *engine.NeedResult) model.Owner {
	if n.Folded {
		return model.Owner{Cluster: n.Cluster, Fingerprint: n.Profile.WithoutSame().Fingerprint(), Group: n.Group}
	}
	return g.need(n).Owner()
}

// decideGangs looks at a decision.
func (r *run) decideGangs(s *scene) {
	r.noteOwners(s)
	outranked := r.outranked(s)
	r.notePassed(s, outranked)
	r.noteEnds(s)
	if len(s.plan.Ended) > 0 {
		r.gangs.disturbed = max(r.gangs.disturbed, r.cycle) // what was held is free from now on
	}
	r.checkReserved(s)
	r.checkTaken(s, outranked)
	r.checkPreempts(s)
	if r.scenario.Options.Victims == engine.VictimsGang {
		r.checkCover(s)
	}
	r.noteBroken(s)
	r.ledgerDecided(s)
}

// noteOwners keeps what the decision says of each owner, and forgets which
// machines were preempted for a row once it lacks nothing.
func (r *run) noteOwners(s *scene) {
	g := &r.gangs
	clear(g.states)
	for i := range s.results {
		n := &s.results[i]
		served := s.served(n)
		if served {
			g.forgetTaken(g.ownerOf(n), r.nameOf(n))
		}
		r.noteOwner(g.ownerOf(n), n, served)
		if own := g.need(n).Owner(); n.Folded {
			r.noteOwner(own, n, served)
		}
	}
	for o := range g.preempted {
		if x := g.states[o]; x == nil || x.satisfied {
			delete(g.preempted, o)
		}
	}
}

// forgetTaken forgets which machines were preempted for a row.
func (g *gangs) forgetTaken(o model.Owner, need string) {
	maps.DeleteFunc(g.preempted[o], func(_ string, x taking) bool { return x.need == need })
}

// served reports whether nothing is missing of what machines can offer: of what none offers
// no plan can bring more.
func (s *scene) served(n *engine.NeedResult) bool {
	return !slices.ContainsFunc(n.Deficit, func(a model.Amount) bool { return slices.Contains(s.in.Supply.Dims(), a.Name) })
}

func (r *run) noteOwner(o model.Owner, n *engine.NeedResult, served bool) {
	x := r.gangs.states[o]
	if x == nil {
		x = &ownerState{rank: n.Rank, satisfied: true, awaiting: true, coverable: true}
		r.gangs.states[o] = x
	}
	x.rank = min(x.rank, n.Rank)
	x.satisfied = x.satisfied && served
	x.awaiting = x.awaiting && (served || n.Awaiting)
	x.coverable = x.coverable && n.CouldCover
	if !n.Folded {
		x.inFlight = x.inFlight.Add(n.InFlight)
	}
}

// notePassed notes what higher ranks have got of the machines that were preempted
// for a Need, and what a plan that they have ended lets go.
func (r *run) notePassed(s *scene, outranked map[model.Owner]bool) {
	if len(r.gangs.preempted) == 0 {
		return
	}
	gone := s.letGo(outranked)
	for o, ids := range r.gangs.preempted {
		for id, x := range ids {
			m, there := s.in.Supply.Lookup(id)
			n, claimed := s.claimant[m]
			// What the Need has given up, since others covered it, it may want again when a higher rank takes one of these.
			givenUp := outranked[o] && there && s.in.Supply.Reservation(m).Owner != o
			if there && !x.passed && (gone[m] || givenUp || claimed && s.results[n].Rank < r.gangs.states[o].rank) {
				x.passed = true
				ids[id] = x
			}
		}
	}
}

// letGo returns the machines that were held by plans which a higher rank has ended, and
// which are held for the same owner no more: for nobody, or for another whose plan counts on them.
func (s *scene) letGo(outranked map[model.Owner]bool) map[columnar.Row]bool {
	gone := map[columnar.Row]bool{}
	for _, m := range s.plan.Ended {
		if outranked[s.in.Supply.Reservation(m).Owner] {
			gone[m] = true
		}
	}
	for i := range s.plan.Reservations {
		if x := &s.plan.Reservations[i]; x.Reservation.Owner == s.in.Supply.Reservation(x.Machine).Owner {
			delete(gone, x.Machine)
		}
	}
	return gone
}

// noteEnds notes whose reservations have come to their end.
func (r *run) noteEnds(s *scene) {
	clear(r.gangs.given)
	for _, m := range s.plan.Ended {
		r.gangs.given[s.in.Supply.ID(m)] = true
	}
}

// checkReserved finds machines that a decision reserves twice, and with gangs what it
// preempts and holds for nobody.
func (r *run) checkReserved(s *scene) {
	held := make(map[columnar.Row]int32, len(s.plan.Reservations))
	for i := range s.plan.Reservations {
		x := &s.plan.Reservations[i]
		if _, twice := held[x.Machine]; twice {
			r.violated(ReservedOnce, "machine %q is reserved twice", s.in.Supply.ID(x.Machine))
		}
		held[x.Machine] = x.Need
	}
	if r.scenario.Options.Victims != engine.VictimsGang {
		return
	}
	for i := range s.plan.Actions {
		a := &s.plan.Actions[i]
		if need, ok := held[a.Machine]; a.Kind == engine.Preempt && (!ok || need != a.Need) {
			r.violated(VictimsHeld, "%q is preempted for %s and not held for it", s.in.Supply.ID(a.Machine), r.nameOf(&s.results[a.Need]))
		}
	}
}

// outranked returns the owners of whose machines a higher rank takes one: a machine that is held for them or, if they lacked nothing with
// it, one that they had acquired in this cycle.
func (r *run) outranked(s *scene) map[model.Owner]bool {
	var out map[model.Owner]bool
	add := func(o model.Owner) {
		if out == nil {
			out = map[model.Owner]bool{}
		}
		out[o] = true
	}
	note := func(m columnar.Row, need int32) {
		res := s.in.Supply.Reservation(m)
		if x := r.gangs.states[res.Owner]; x != nil && need >= 0 && s.results[need].Rank < x.rank {
			add(res.Owner)
		}
	}
	for i := range s.results {
		if n := &s.results[i]; n.LostAcquired {
			add(r.gangs.ownerOf(n))
			add(r.gangs.need(n).Owner())
		}
	}
	for i := range s.plan.Actions {
		if a := &s.plan.Actions[i]; a.Kind == engine.Bootstrap {
			note(a.Machine, a.Need)
		}
	}
	for i := range s.plan.Reservations {
		note(s.plan.Reservations[i].Machine, s.plan.Reservations[i].Need)
	}
	return out
}

// checkTaken finds reserved machines that somebody else gets who must not.
func (r *run) checkTaken(s *scene, outranked map[model.Owner]bool) {
	if s.in.Supply.ReservationCount() == 0 {
		return
	}
	ended := map[columnar.Row]bool{}
	for _, m := range s.plan.Ended {
		ended[m] = true
	}
	for i := range s.plan.Actions {
		a := &s.plan.Actions[i]
		if a.Kind != engine.Bootstrap && a.Kind != engine.Delete {
			continue
		}
		res := s.in.Supply.Reservation(a.Machine)
		x := r.gangs.states[res.Owner]
		if !res.Active() || x == nil || res.Deadline != 0 && s.in.Now > res.Deadline {
			continue // nobody's, or nobody's any more
		}
		if a.Kind == engine.Delete {
			if !ended[a.Machine] {
				r.violated(ReservedKept, "%q is deleted, and held for %v", s.in.Supply.ID(a.Machine), res.Owner)
			}
			continue
		}
		taker := &s.results[a.Need]
		switch {
		case r.gangs.ownerOf(taker) == res.Owner, r.gangs.need(taker).Owner() == res.Owner, taker.Rank <= x.rank:
		case ended[a.Machine] && (outranked[res.Owner] || x.satisfied || x.awaiting || !x.coverable):
		default:
			r.violated(ReservedKept, "%q is held for %v and goes to %s of rank %d, not above %d", s.in.Supply.ID(a.Machine), res.Owner, r.nameOf(taker), taker.Rank, x.rank)
		}
	}
}

// checkPreempts looks at each Preempt: what it is for ranks above what it is of,
// and the Need has not had the machine before.
func (r *run) checkPreempts(s *scene) {
	g := &r.gangs
	clear(g.draining)
	count := 0
	for i := range s.plan.Actions {
		a := &s.plan.Actions[i]
		if a.Kind != engine.Preempt {
			continue
		}
		count++
		id := s.in.Supply.ID(a.Machine)
		if _, twice := g.draining[id]; twice {
			r.violated(ReservedOnce, "machine %q is preempted twice", id)
		}
		g.draining[id] = a.Plan
		victim := s.in.Supply.Assigned(a.Machine).Priority
		if n, claimed := s.claimant[a.Machine]; claimed {
			victim = s.results[n].Profile.Priority()
		}
		acts := s.results[a.Need].Profile.Priority()
		if acts < victim || acts == victim && !r.shares(s.results[a.Need].Cluster, s.in.Supply.Cluster(a.Machine)) {
			r.violated(PriorityFalls, "%q has priority %d and is preempted for %s of %d", id, victim, r.nameOf(&s.results[a.Need]), acts)
		}
	}
	if since := max(g.calmFrom, g.disturbed); count > 0 && g.calm && r.cycle-since > settleCycles {
		r.violated(SteadyPreemption, "%d Preempts, and nothing was under way", count)
	}
}

// change notes that demand or supply changes.
func (g *gangs) change(cycle int) {
	g.changed, g.disturbed = max(g.changed, cycle), max(g.disturbed, cycle)
}

// shares reports whether two clusters are of two tenants, of whom one may take
// from the other at equal priority.
func (r *run) shares(taker, giver string) bool {
	of := func(cluster string) int {
		return slices.IndexFunc(r.scenario.Options.Tenancy.Tenants, func(t engine.Tenant) bool { return slices.Contains(t.Clusters, cluster) })
	}
	a, b := of(taker), of(giver)
	return a >= 0 && b >= 0 && a != b
}

// settleCycles is for how long nothing may have been under way before a Preempt
// is out of place: a gang that has been short for a minute, six cycles, may be
// taken apart, and one that can be had nowhere is parked after eight.
const settleCycles = 8

// backOffCycles is for how long an owner waits at most before it preempts again
// after a drain has failed.
const backOffCycles = 64

// calmAfter notes whether anything was under way or done at the end of a cycle, or would have
// been done but for a pause.
func (g *gangs) calmAfter(cycle int, c *shard.Cycle, inFlight, suppressed int) {
	was := g.calm
	if !maps.Equal(g.failing, g.failed) {
		g.disturbed = cycle + backOffCycles
		g.failed, g.failing = g.failing, g.failed
	}
	g.calm = len(c.Started) == 0 && inFlight == 0 && len(g.held) == 0 && suppressed == 0
	if g.calm && !was {
		g.calmFrom = cycle
	}
}
