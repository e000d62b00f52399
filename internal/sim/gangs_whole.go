package sim

import (
	"maps"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// checkCover finds gangs that a plan preempts for without covering them.
func (r *run) checkCover(s *scene) {
	short := map[int32]bool{}
	for i := range s.plan.Actions {
		if a := &s.plan.Actions[i]; a.Kind == engine.Preempt && a.Plan != 0 {
			short[a.Need] = true
		}
	}
	for n := range short {
		x := &s.results[n]
		need := r.gangs.need(x)
		if x.Folded || !need.AllOrNothing() {
			continue
		}
		if sum := r.atHand(s, n); !sum.Covers(need.Aggregate) && !r.mayCreate(s) {
			r.violated(PlanCovers, "%s wants %v; with its plan it has %v", r.nameOf(x), need.Aggregate, sum)
		}
	}
}

// mayCreate reports whether there are machines that could be created.
func (r *run) mayCreate(s *scene) bool {
	for m := range s.in.Supply.All() {
		if st := s.in.Supply.State(m); st == model.Speculative || st == model.Creating {
			return true
		}
	}
	return false
}

// atHand adds up what a gang claims and what is reserved for it after the decision. A plan may choose another
// domain than phase 1; it then counts on unclaimed machines of the gang's own cluster in that domain, too.
func (r *run) atHand(s *scene, need int32) model.Resources {
	rows := map[columnar.Row]bool{}
	for _, m := range s.results[need].Claimed {
		rows[m] = true
	}
	owner := r.gangs.ownerOf(&s.results[need])
	for m, res := range s.in.Supply.Reservations() {
		if res.Owner == owner {
			rows[m] = true
		}
	}
	domain := ""
	for i := range s.plan.Reservations {
		if x := &s.plan.Reservations[i]; x.Reservation.Owner == owner {
			rows[x.Machine], domain = true, x.Reservation.Domain
		} else {
			delete(rows, x.Machine)
		}
	}
	wants := r.gangs.need(&s.results[need])
	same := wants.Profile.Same()
	for m := range s.in.Supply.All() {
		if _, claimed := s.claimant[m]; claimed || same == nil || s.in.Supply.State(m) != model.Configured || s.in.Supply.Cluster(m) != owner.Cluster {
			continue
		}
		machine := s.in.Supply.Get(m)
		usable := wants.Profile.Matches(&machine) && machine.EffectiveAllocatable().Covers(wants.MinUnit) && !machine.Reservation.Active()
		if v, has := machine.Attribute(same.Key); usable && has && v == domain {
			rows[m] = true
		}
	}
	var sum model.Resources
	for m := range rows {
		machine := s.in.Supply.Get(m)
		sum = sum.Add(machine.EffectiveAllocatable())
	}
	return sum
}

// noteBroken notes the gangs of which a decision preempts so much that they are below
// what they can live with.
func (r *run) noteBroken(s *scene) {
	victims := map[int32]bool{}
	for i := range s.plan.Actions {
		if a := &s.plan.Actions[i]; a.Kind == engine.Preempt {
			if n, claimed := s.claimant[a.Machine]; claimed {
				victims[n] = true
			}
		}
	}
	for n := range victims {
		x := &s.results[n]
		need := r.gangs.need(x)
		if x.Folded || !need.AllOrNothing() {
			continue
		}
		before, after, _ := r.leftOf(s, x)
		if !before.Covers(need.Minimum()) {
			continue // it was short already: what is left of it is anybody's
		}
		if after.Covers(need.Minimum()) {
			continue
		}
		r.gangs.ledger.broken(r.gangs.ownerOf(x), r.cycle)
	}
}

// leftOf returns what a gang has bound, what it keeps after the decision's
// Preempts, and on how many machines.
func (r *run) leftOf(s *scene, x *engine.NeedResult) (before, after model.Resources, left int) {
	for _, m := range x.Claimed {
		if s.in.Supply.State(m) != model.Configured {
			continue
		}
		machine := s.in.Supply.Get(m)
		before = before.Add(machine.EffectiveAllocatable())
		if _, victim := r.gangs.draining[machine.ID]; !victim {
			after = after.Add(machine.EffectiveAllocatable())
			left++
		}
	}
	return before, after, left
}

// checkWhole finds plans of which only a part was carried out, and notes for
// whom machines were preempted.
func (r *run) checkWhole(c *shard.Cycle) {
	g := &r.gangs
	started, decided := map[uint64]int{}, map[uint64]int{}
	for _, id := range g.draining {
		decided[id]++
	}
	for i := range c.Started {
		a := &c.Started[i]
		if a.Kind != engine.Preempt || a.Need < 0 {
			continue
		}
		started[g.draining[a.Machine]]++
		r.notePreempted(a, c.Plan.Need(int(a.Need)))
	}
	for id, n := range started {
		if id != 0 && n != decided[id] {
			r.violated(PlanWhole, "%d of %d Preempts of a plan were carried out", n, decided[id])
		}
	}
}

// notePreempted notes for whom a machine was preempted.
func (r *run) notePreempted(a *shard.Started, n engine.NeedResult) {
	g := &r.gangs
	owner := g.ownerOf(&n)
	before, again := g.preempted[owner][a.Machine]
	if again {
		switch {
		case before.passed:
			g.ledger.Passed++
		case g.changed > before.cycle: // it may be wanted again
		case r.scenario.Options.Victims == engine.VictimsGang:
			r.violated(PreemptedOnce, "%q for %s, and in cycle %d already", a.Machine, r.nameOf(&n), before.cycle)
		default:
			g.ledger.Twice++
		}
	}
	if g.preempted[owner] == nil {
		g.preempted[owner] = map[string]taking{}
	}
	g.preempted[owner][a.Machine] = taking{cycle: r.cycle, need: r.nameOf(&n)}
	g.ledger.Drained++
}

// checkHeld compares what plans hold after a cycle with what they held after
// the one before: a machine leaves to serve its owner, because the plan ends with
// all of its machines, or because its owner is covered without it.
func (r *run) checkHeld(machines map[string]model.Machine, present map[string]struct{}) {
	g := &r.gangs
	now := map[model.Owner]map[string]struct{}{}
	for id, m := range machines {
		if m.Reservation.Plan == 0 {
			continue
		}
		o := m.Reservation.Owner
		if now[o] == nil {
			now[o] = map[string]struct{}{}
		}
		now[o][id] = struct{}{}
	}
	for o, ids := range g.held {
		for id := range ids {
			if _, there := present[id]; !there {
				delete(g.preempted, o) // the plan ends with it
			}
		}
		x := g.states[o]
		if x == nil || x.satisfied || x.awaiting || len(now[o]) == 0 {
			continue
		}
		for id := range ids {
			m := machines[id]
			_, there := present[id]
			if _, kept := now[o][id]; kept || !there || m.State == model.Failed || m.Cluster == o.Cluster {
				continue
			}
			if n := g.keptOn(ids, now[o]); n > 0 {
				r.violated(PlanWhole, "%q (%s) is held for %v no more, and %d others are", id, m.State, o, n)
			}
		}
	}
	g.held = now
}

// checkLeaving finds Needs that count on what drains for them, and after the
// cycle it is held for them no more: they would preempt for it again. Where a drain
// has failed in the cycle, the plan has ended.
func (r *run) checkLeaving() {
	g := &r.gangs
	for id := range g.failing {
		if _, before := g.failed[id]; !before {
			return
		}
	}
	for o, x := range g.states {
		if x.awaiting && !x.satisfied && !g.leaving[o].Covers(x.inFlight) {
			r.violated(DrainsHeld, "%v counts on %v, and %v is held for it", o, x.inFlight, g.leaving[o])
		}
	}
}

// noteMachine keeps a machine that plans hold, or held after the cycle before, and
// adds up what is on its way to each owner: what is to drain, drains, or has drained
// within the cycle. With a drain that failed its plan has, and its owner begins anew,
// from the start.
func (g *gangs) noteMachine(held map[string]model.Machine, m *model.Machine) {
	if m.State == model.Failed {
		g.failing[m.ID] = struct{}{}
		maps.DeleteFunc(g.preempted, func(_ model.Owner, ids map[string]taking) bool { _, failed := ids[m.ID]; return failed })
	}
	o := m.Reservation.Owner
	leaves := m.State == model.Draining || m.State == model.Idle || m.State == model.Configured && m.Cluster != o.Cluster
	if leaves && o != (model.Owner{}) {
		g.leaving[o] = g.leaving[o].Add(m.EffectiveAllocatable())
	}
	if m.Reservation.Plan != 0 || g.wasHeld(m.ID) {
		held[m.ID] = *m
	}
}

func (g *gangs) wasHeld(id string) bool {
	for _, ids := range g.held {
		if _, yes := ids[id]; yes {
			return true
		}
	}
	return false
}

// forget is what a restart does: which plans live is not known then.
func (g *gangs) forget() {
	clear(g.accepted)
	clear(g.held)
	clear(g.preempted)
}

// keptOn counts the machines that a plan held and holds, and that were not
// given up in between: an owner that plans anew may hold the same ones.
func (g *gangs) keptOn(before, now map[string]struct{}) (n int) {
	for id := range before {
		if _, kept := now[id]; kept && !g.given[id] {
			n++
		}
	}
	return n
}
