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
	Need              int32 // index into Plan.Needs, −1 = none
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

// call is one call to the provider that is waiting or being made. It holds all
// that a worker needs: workers never look at the tables.
type call struct {
	op       Op
	kind     engine.Kind
	machine  string
	cluster  string
	grace    int32
	profile  *model.Profile // Configure only, for the blob
	metadata map[string]string
	before   model.Reservation // to put back when the call is not made
}

// dispatch carries out what the rails let through, in the given order.
func (s *Shard) dispatch(c *Cycle, plan *engine.Plan, actions []engine.Action) {
	for i := range actions {
		a := &actions[i]
		if s.cfg.Concurrency > 0 && len(s.queue) >= cap(s.queue) {
			// The rest ranks lower, and is derived anew in the next cycle.
			c.Dropped += len(actions) - i
			s.hungry = true
			return
		}
		id := s.machines.ID(a.Machine)
		if _, busy := s.inFlight[id]; busy || s.machines.State(a.Machine) != requires[a.Kind] {
			c.Deduped++
			continue
		}
		started := Started{
			Kind: a.Kind, Reason: a.Reason, Machine: id, Cluster: s.machines.Cluster(a.Machine), Need: a.Need,
			GraceSeconds: a.GraceSeconds, PreemptorPriority: a.PreemptorPriority,
		}
		if a.Kind == engine.Bootstrap || a.Kind == engine.Provision {
			started.Cluster = plan.Needs[a.Need].Cluster
		}
		job, err := s.begin(a, plan)
		switch {
		case err != nil:
			s.log.Error("action does not fit the machine; it is skipped", "kind", a.Kind, "machine", id, "error", err)
			s.metrics.outcome(a.Kind, OutcomeTransition)
			started.Err = err
			c.Illegal = append(c.Illegal, started)
			continue
		case s.cfg.Concurrency > 0:
			s.inFlight[id] = a.Kind
			s.queue <- job
		default:
			started.Err = s.make(job)
		}
		c.Started = append(c.Started, started)
		c.Counts[a.Kind]++
	}
}

// make makes a call within the cycle.
func (s *Shard) make(job *call) error {
	rec, err := s.perform(s.ctx, job)
	s.settle(job, &rec, err)
	return err
}
