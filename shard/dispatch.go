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

// dispatch carries out what the rails let through, in the given order; a plan of
// preemption whole or not at all.
func (s *Shard) dispatch(c *Cycle, plan *engine.Plan, railed *railed, auditor *auditor) {
	x := dispatcher{s: s, c: c, needs: acting{plan: plan, at: -1}, held: holdings{plan: plan}, auditor: auditor}
	refused := railed.plans
	for actions := railed.actions; len(actions) > 0; {
		n := planOf(actions)
		part := actions[:n]
		switch {
		case !s.room(n):
			// The rest ranks lower, and is derived anew in the next cycle.
			c.Dropped += len(actions)
			s.hungry = true
			auditor.held(actions, auditFull)
			refused = refusing(refused, actions)
			actions = nil
			continue
		case n > 1 && !s.startable(part):
			c.Deduped += n
			auditor.held(part, auditStale)
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
			s.reserve(plan, refused)
		}
	}
	if !x.reserved {
		s.reserve(plan, refused)
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
	s        *Shard
	c        *Cycle
	needs    acting
	held     holdings
	auditor  *auditor
	reserved bool // what plans reserve has been stamped
}

// start starts one action, unless its machine is busy or has moved on.
func (x *dispatcher) start(a *engine.Action) {
	s, c, one := x.s, x.c, []engine.Action{*a}
	id := s.machines.ID(a.Machine)
	if !s.startable(one) {
		c.Deduped++
		x.auditor.held(one, auditStale)
		return
	}
	started := Started{
		Kind: a.Kind, Reason: a.Reason, Machine: id, Cluster: s.machines.Cluster(a.Machine), Need: a.Need,
		GraceSeconds: a.GraceSeconds, PreemptorPriority: a.PreemptorPriority,
	}
	n := x.needs.of(a)
	if a.Kind == engine.Bootstrap || a.Kind == engine.Provision {
		started.Cluster = n.Cluster
	}
	if a.Kind == engine.Bootstrap && !s.canJoin(n) {
		c.Waiting++
		x.auditor.held(one, auditWaiting)
		return
	}
	audited := x.auditor.record(a, auditExecuted) // as the machine was before
	job, err := s.begin(a, n, &x.held)
	job.audit = audited
	switch {
	case err != nil:
		s.log.Error("action does not fit the machine; it is skipped", "kind", a.Kind, "machine", id, "error", err)
		s.metrics.outcome(a.Kind, OutcomeTransition)
		s.auditEnd(job, OutcomeTransition, err)
		started.Err = err
		c.Illegal = append(c.Illegal, started)
		return
	case s.cfg.Concurrency > 0:
		s.inFlight[id] = a.Kind
		s.queue <- job
	default:
		started.Err = s.make(job)
	}
	c.Started = append(c.Started, started)
	c.Counts[a.Kind]++
}

// canJoin tells whether the cluster can say now how a machine joins it: its
// operator is connected, and did not refuse lately. Changing the machine first
// would only have it changed back.
func (s *Shard) canJoin(n *engine.NeedResult) bool {
	switch {
	case s.operators == nil:
		return true
	case !s.operators.Connected(n.Cluster):
		s.metrics.outcome(engine.Bootstrap, OutcomeNoSession)
		return false
	}
	return len(s.waits.failures) == 0 || !s.waits.waiting(waitsFor(n.Cluster, n.Profile.Fingerprint()), s.now)
}

// make makes a call within the cycle.
func (s *Shard) make(job *call) error {
	rec, err := s.perform(s.ctx, job)
	s.settle(job, &rec, err)
	return err
}
