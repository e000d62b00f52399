package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
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
func (e *executor) carryOut(c *Cycle, plan *engine.Plan, railed *railed) {
	c.Disposition, c.Limited, c.Cut = railed.disposition, countKinds(railed.held), len(railed.rest)
	c.Capped = c.Limited[engine.Reclaim]
	e.hungry = false
	auditor := e.audit.of(plan)
	e.inventory.adoptStamps(plan)
	if railed.disposition != Execute {
		for _, a := range railed.actions {
			c.Suppressed[a.Kind]++
		}
		auditor.held(railed.actions, railed.disposition.String())
		return
	}
	auditor.heldByRails(railed)
	e.inventory.endReservations(plan)
	e.dispatch(c, plan, railed, &auditor)
	if railed.followUp {
		c.FollowUp = true
		e.pace.wakeUp()
	}
}

// dispatch carries out what the rails let through, in the given order; a plan of
// preemption whole or not at all.
func (e *executor) dispatch(c *Cycle, plan *engine.Plan, railed *railed, auditor *auditor) {
	x := dispatcher{e: e, c: c, needs: acting{plan: plan, at: -1}, held: holdings{plan: plan}, auditor: auditor}
	refused := railed.plans
	for actions := railed.actions; len(actions) > 0; {
		n := planOf(actions)
		part := actions[:n]
		switch {
		case !e.room(n):
			// The rest ranks lower, and is derived anew in the next cycle.
			c.Dropped += len(actions)
			e.hungry = true
			auditor.held(actions, auditFull)
			e.rails.notBegun(actions)
			refused = refusing(refused, actions)
			actions = nil
			continue
		case n > 1 && !e.startable(part):
			c.Deduped += n
			auditor.held(part, auditStale)
			e.rails.notBegun(part)
			refused = refusing(refused, part)
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
			e.inventory.reserve(plan, refused)
		}
	}
	if !x.reserved {
		e.inventory.reserve(plan, refused)
	}
}

// refusing adds the plans of actions to those that are refused.
func refusing(plans map[uint64]bool, actions []engine.Action) map[uint64]bool {
	for i := range actions {
		if id := actions[i].Plan; id != 0 {
			if plans == nil {
				plans = map[uint64]bool{}
			}
			plans[id] = true
		}
	}
	return plans
}

// dispatcher starts the actions of one cycle.
type dispatcher struct {
	e        *executor
	c        *Cycle
	needs    acting
	held     holdings
	auditor  *auditor
	reserved bool // what plans reserve has been stamped
}

// start starts one action, unless its machine is busy or has moved on.
func (x *dispatcher) start(a *engine.Action) {
	e, c, one := x.e, x.c, []engine.Action{*a}
	id := e.inventory.table.ID(a.Machine)
	if !e.startable(one) {
		c.Deduped++
		x.auditor.held(one, auditStale)
		e.rails.notBegun(one)
		return
	}
	started := Started{
		Kind: a.Kind, Reason: a.Reason, Machine: id, Cluster: e.inventory.table.Cluster(a.Machine), Need: a.Need,
		GraceSeconds: a.GraceSeconds, PreemptorPriority: a.PreemptorPriority,
	}
	n := x.needs.of(a)
	if a.Kind == engine.Bootstrap || a.Kind == engine.Provision {
		started.Cluster = n.Cluster
	}
	if a.Kind == engine.Bootstrap && !e.canJoin(n) {
		c.Waiting++
		x.auditor.held(one, auditWaiting)
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
		e.rails.notBegun(one)
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
	return !e.ledgers.refusals.waiting(demandKey{n.Cluster, n.Profile.Fingerprint()}, e.pace.now)
}

// handOver hands a call to the workers, or makes it within the cycle where there are none.
func (e *executor) handOver(job *call) error {
	if e.cfg.Concurrency > 0 {
		e.inFlight.begin(job.machine, job.kind)
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
	return waiting+calls <= e.queueMax() || waiting == 0 && calls <= PlanMachinesMax
}

// startable tells whether all actions may start now: no machine is busy or has
// moved on.
func (e *executor) startable(actions []engine.Action) bool {
	for i := range actions {
		a := &actions[i]
		id := e.inventory.table.ID(a.Machine)
		if e.reconciler.doubts.missed(id) || e.inFlight.hasCall(id) || e.inventory.table.State(a.Machine) != requires[a.Kind] {
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
		e.pace.wakeUp()
	}
}
