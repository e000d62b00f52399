package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
	"github.com/tonnage/tonnage/shard/internal/rails"
)

// Started is an action that was carried out, or handed to a worker to be.
type Started struct {
	Kind    engine.Kind
	Reason  engine.Reason
	Machine string
	// Cluster is the acquirer's for Bootstrap and Provision, else the one that
	// the machine leaves; empty for Delete.
	Cluster           string
	Need              int32 // number of the row in the plan, −1 = none
	GraceSeconds      int32
	PreemptorPriority int32
	// Err is how a call that was made within the cycle failed.
	Err error
}

// requires is the state that a machine must be in for an action to start.
var requires = [engine.NumKinds]model.State{
	engine.Bootstrap: model.Idle,
	engine.Provision: model.Speculative,
	engine.Preempt:   model.Configured,
	engine.Reclaim:   model.Configured,
	engine.Delete:    model.Idle,
}

// acting is the Need that an action is for. Actions of one Need stand together,
// so that each is read from the plan once. Only what comes from the demand may
// be used of it: its figures change as machines move.
type acting struct {
	plan *engine.Plan
	at   int32
	need engine.NeedResult
}

// of returns the Need of an action, nil when it has none.
func (x *acting) of(a *engine.Action) *engine.NeedResult {
	if a.Need < 0 {
		return nil
	}
	if a.Need != x.at {
		x.at, x.need = a.Need, x.plan.Need(int(a.Need))
	}
	return &x.need
}

// carryOut does what the rails let through, and asks for a further cycle at
// once when there is more.
func (e *executor) carryOut(c *Cycle, plan *engine.Plan, railed *rails.Outcome) {
	c.Disposition, c.Limited, c.Cut = railed.Disposition, rails.CountKinds(railed.Held), len(railed.Rest)
	c.Capped = c.Limited[engine.Reclaim]
	e.hungry = false
	auditor := e.audit.of(plan)
	e.inventory.AdoptStamps(plan)
	if railed.Disposition != rails.Execute {
		for _, a := range railed.Actions {
			c.Suppressed[a.Kind]++
		}
		auditor.held(railed.Actions, railed.Disposition.String())
		return
	}
	auditor.heldByRails(railed)
	e.inventory.EndReservations(plan)
	e.dispatch(c, plan, railed, &auditor)
	if railed.FollowUp {
		c.FollowUp = true
		e.pace.WakeUp()
	}
}

// dispatch carries out what the rails let through, in the given order; a plan of
// preemption whole or not at all.
func (e *executor) dispatch(c *Cycle, plan *engine.Plan, railed *rails.Outcome, auditor *auditor) {
	x := dispatcher{e: e, c: c, needs: acting{plan: plan, at: -1}, held: rails.Holdings{Plan: plan}, auditor: auditor}
	refused := railed.Plans
	for actions := railed.Actions; len(actions) > 0; {
		n := rails.PlanLen(actions)
		part := actions[:n]
		switch {
		case !e.room(n):
			// The rest ranks lower, and is derived anew in the next cycle.
			c.Dropped += len(actions)
			e.hungry = true
			x.hold(actions, rails.ByQueue)
			e.rails.NotBegun(actions)
			refused = rails.AddPlans(refused, actions)
			actions = nil
			continue
		case n > 1 && !e.startable(part):
			c.Deduped += n
			x.hold(part, rails.ByMachine)
			e.rails.NotBegun(part)
			refused = rails.AddPlans(refused, part)
		default:
			// What a plan reserves of machines that are reclaimed is stamped
			// before they are: the plan ranks higher.
			for i := range part {
				x.start(&part[i])
			}
		}
		actions = actions[n:]
		if len(actions) > 0 && actions[0].Kind == engine.Reclaim && !x.reserved {
			x.reserved = true
			e.inventory.Reserve(plan, refused)
		}
	}
	if !x.reserved {
		e.inventory.Reserve(plan, refused)
	}
}

// dispatcher starts the actions of one cycle.
type dispatcher struct {
	e        *executor
	c        *Cycle
	needs    acting
	held     rails.Holdings
	auditor  *auditor
	reserved bool // what plans reserve has been stamped
}

// hold notes why actions that the rails let through are not carried out.
func (x *dispatcher) hold(actions []engine.Action, by rails.HeldBy) {
	x.e.rails.HoldBack(x.needs.plan, actions, by)
	x.auditor.held(actions, by.String())
}

// start starts one action, unless its machine is busy or has moved on.
func (x *dispatcher) start(a *engine.Action) {
	e, c, one := x.e, x.c, []engine.Action{*a}
	id := e.inventory.Table.ID(a.Machine)
	if !e.startable(one) {
		c.Deduped++
		x.hold(one, rails.ByMachine)
		e.rails.NotBegun(one)
		return
	}
	started := Started{
		Kind: a.Kind, Reason: a.Reason, Machine: id, Cluster: e.inventory.Table.Cluster(a.Machine), Need: a.Need,
		GraceSeconds: a.GraceSeconds, PreemptorPriority: a.PreemptorPriority,
	}
	n := x.needs.of(a)
	if a.Kind == engine.Bootstrap || a.Kind == engine.Provision {
		started.Cluster = n.Cluster
	}
	if a.Kind == engine.Bootstrap && !e.canJoin(n) {
		c.Waiting++
		x.hold(one, rails.ByOperator)
		return
	}
	audited := x.auditor.record(a, auditExecuted) // as the machine was before
	job, err := e.begin(a, n, &x.held)
	job.audit = audited
	switch {
	case err != nil:
		e.log.Error("action does not fit the machine; it is skipped", "kind", a.Kind, "machine", id, "error", err)
		e.metrics.outcome(a.Kind, OutcomeTransition)
		e.audit.end(job, OutcomeTransition, err)
		e.rails.NotBegun(one)
		started.Err = err
		c.Illegal = append(c.Illegal, started)
		return
	default:
		started.Err = e.handOver(job)
	}
	c.Started = append(c.Started, started)
	c.Counts[a.Kind]++
}

// canJoin tells whether the cluster can say now how a machine joins it: its
// operator is connected, and did not refuse lately. Changing the machine first
// would only have it changed back.
func (e *executor) canJoin(n *engine.NeedResult) bool {
	switch {
	case e.operators == nil:
		return true
	case !e.operators.Connected(n.Cluster):
		e.metrics.outcome(engine.Bootstrap, OutcomeNoSession)
		return false
	}
	return !e.ledgers.Refusals.Waiting(ledgers.DemandKey{Cluster: n.Cluster, Fingerprint: n.Profile.Fingerprint()}, e.pace.Now)
}

// handOver hands a call to the workers, or makes it within the cycle where there are none.
func (e *executor) handOver(job *call) error {
	if e.cfg.Concurrency > 0 {
		e.inFlight.Begin(job.machine, job.kind)
		e.queue <- job
		return nil
	}
	rec, err := e.perform(e.ctx, job)
	e.settle(job, &rec, err)
	return err
}

// room tells whether so many calls that belong together may wait now. A plan
// that is larger than the queue is let in alone.
func (e *executor) room(calls int) bool {
	if e.cfg.Concurrency == 0 {
		return true
	}
	waiting := len(e.queue)
	return waiting+calls <= e.queueMax() || waiting == 0 && calls <= rails.PlanMachinesMax
}

// startable tells whether all actions may start now: no machine is busy or has
// moved on.
func (e *executor) startable(actions []engine.Action) bool {
	for i := range actions {
		a := &actions[i]
		id := e.inventory.Table.ID(a.Machine)
		if e.reconciler.doubts.missed(id) || e.inFlight.HasCall(id) || e.inventory.Table.State(a.Machine) != requires[a.Kind] {
			return false
		}
	}
	return true
}

// feed asks for a cycle when the last one had more to do than the queue took,
// and the queue is about to run dry.
func (e *executor) feed() {
	if e.hungry && len(e.queue) <= e.queueMax()/4 {
		e.hungry = false
		e.pace.WakeUp()
	}
}
