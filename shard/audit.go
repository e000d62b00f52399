package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/pace"
	"github.com/tonnage/tonnage/shard/internal/rails"
	"github.com/tonnage/tonnage/shard/stamps"
)

// AuditRecord is what became of one action: carried out, with how it ended, or
// held back, and by what. The names of the fields are a promise.
type AuditRecord struct {
	// Time is when it was decided or, of what was carried out, when it ended.
	Time  int64  `json:"timeUnixNanos"`
	Cycle uint64 `json:"cycle"` // that decided it
	// Disposition is "executed", or what held it back: "paused", "dry-run",
	// "breaker", "domains-lost", "fenced", "reclaim-cap", "delete-cap", "provision-cap", "preempt-cap", "action-limit", "queue-full", "waiting", "stale".
	Disposition string `json:"disposition"`
	Kind        string `json:"kind"`
	Machine     string `json:"machine"`
	// Cluster is the acquirer's for Bootstrap and Provision, else the one that
	// the machine leaves.
	Cluster string `json:"cluster,omitempty"`
	// Need is what it is for; Reclaim and Delete are for none.
	Need         *AuditNeed `json:"need,omitempty"`
	Reason       string     `json:"reason"` // the rule that emitted it
	GraceSeconds int32      `json:"graceSeconds,omitempty"`
	// Outcome is how it ended, as metrics spell it; only of executed ones.
	Outcome string `json:"outcome,omitempty"`
	Error   string `json:"error,omitempty"`
}

// AuditNeed identifies a Need in the audit log.
type AuditNeed struct {
	Cluster     string `json:"cluster"`
	Group       string `json:"group,omitempty"`
	Fingerprint string `json:"fingerprint"`
	Profile     string `json:"profile"` // in words
	Priority    int32  `json:"priority"`
	Rank        int32  `json:"rank"` // place in the order of the cycle, from 0
}

// auditExecuted is what became of actions beside the names of Disposition and HeldBy.
const auditExecuted = "executed"

// audits is the audit log of a shard.
type audits struct {
	write    func(*AuditRecord) // nil = nobody asks
	pace     *pace.Pace
	machines *supply.Table
	demand   *demand.Table
}

// of returns an auditor for a plan.
func (x *audits) of(plan *engine.Plan) auditor {
	return auditor{log: x, plan: plan, cycle: x.pace.Cycle, at: -1}
}

// end writes down how an action ended.
func (x *audits) end(job *call, outcome Outcome, err error) {
	if job.audit == nil {
		return
	}
	job.audit.Time, job.audit.Outcome = x.pace.Now, outcome.String()
	if err != nil {
		job.audit.Error = err.Error()
	}
	x.write(job.audit)
}

// auditor makes the records of one cycle. Actions of one Need stand together, so
// that each is described once.
type auditor struct {
	log   *audits
	plan  *engine.Plan
	cycle uint64
	at    int32
	need  *AuditNeed
}

// record describes an action; nil when nobody asks.
func (x *auditor) record(a *engine.Action, disposition string) *AuditRecord {
	if x.log.write == nil {
		return nil
	}
	rec := &AuditRecord{
		Time: x.log.pace.Now, Cycle: x.cycle, Disposition: disposition, Kind: a.Kind.String(), Machine: x.log.machines.ID(a.Machine),
		Cluster: x.log.machines.Cluster(a.Machine), Reason: a.Reason.String(), GraceSeconds: a.GraceSeconds,
	}
	if a.Need >= 0 {
		if a.Need != x.at {
			x.at, x.need = a.Need, x.describe(a.Need)
		}
		rec.Need = x.need
		if a.Kind == engine.Bootstrap || a.Kind == engine.Provision {
			rec.Cluster = x.need.Cluster
		}
	}
	return rec
}

// describe reads of a Need what comes from the demand alone.
func (x *auditor) describe(i int32) *AuditNeed {
	cluster, row := x.plan.Identity(int(i))
	p := x.plan.Profile(int(i))
	n := &AuditNeed{Cluster: cluster, Fingerprint: stamps.FormatFingerprint(p.Fingerprint()), Profile: Describe(p), Priority: p.Priority(), Rank: x.plan.Rank(int(i))}
	if b := x.log.demand.Block(cluster); b != nil && row < b.Len() {
		n.Group = b.Group(row)
	}
	return n
}

// held writes down what is not carried out.
func (x *auditor) held(actions []engine.Action, disposition string) {
	if x.log.write == nil {
		return
	}
	for i := range actions {
		x.log.write(x.record(&actions[i], disposition))
	}
}

// heldByRails writes down what the rails left out of a plan.
func (x *auditor) heldByRails(out *rails.Outcome) {
	if x.log.write == nil {
		return
	}
	x.held(out.Rest, rails.ByActionLimit.String())
	for i := range out.Held {
		if by, ok := rails.BudgetOf(out.Held[i].Kind); ok {
			x.held(out.Held[i:i+1], by.String())
		}
	}
}
