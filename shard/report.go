package shard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
	"github.com/tonnage/tonnage/shard/internal/rails"
	"github.com/tonnage/tonnage/shard/internal/tally"
)

// The bounds of the lists in a report.
const (
	ReportUnmetMax   = 50
	ReportActionsMax = 200
)

// CycleReport is what one cycle looks like from outside, for pages and logs.
// Everything in it is a copy; its lists are bounded.
type CycleReport struct {
	Cycle     uint64
	Now       int64 // Unix nanoseconds
	Durations Durations
	Stats     engine.Stats

	Machines int
	States   [model.NumStates]int
	Needs    int
	// Demand is what all clusters ask for; Bound is what Configured and
	// Configuring machines offer, Free what Idle ones do.
	Demand model.Resources
	Bound  model.Resources
	Free   model.Resources
	// SpendPerHour is the price of the machines that are paid for, by capacity
	// type: every state but Speculative and Failed.
	SpendPerHour [model.NumCapacityTypes]float64

	// Bill is what the fleet costs, as of a recent cycle; nil while no bound is known. Read-only.
	Bill *bill.Bill

	// Unmet are the unsatisfied Needs, highest rank first, at most
	// ReportUnmetMax of UnmetTotal.
	Unmet      []UnmetNeed
	UnmetTotal int
	// Actions are those carried out in this cycle, at most ReportActionsMax.
	Actions     []ReportAction
	Counts      [engine.NumKinds]int
	Suppressed  [engine.NumKinds]int
	Disposition rails.Disposition
	Capped      int
	Cut         int
	Dropped     int
	InFlight    int // machines in a transitional state
	Parked      int
	Held        []string
	Shortfalls  []ledgers.Shortfall
	Reconciled  Reconciled
}

// UnmetNeed is one unsatisfied Need.
type UnmetNeed struct {
	Cluster  string
	Group    string
	Priority int32
	Profile  string // in words
	Want     model.Resources
	Deficit  model.Resources
	Reason   engine.Unmet
	Domain   string
}

// ReportAction is one action that was carried out.
type ReportAction struct {
	Kind         engine.Kind
	Reason       engine.Reason
	Machine      string
	InstanceType string
	Cluster      string
	Need         string // the acquirer's or preemptor's profile in words
	For          string // its cluster
	Priority     int32  // its priority
	GraceSeconds int32
	Error        string
}

// startReport copies what the report tells of a plan, before anything is done
// about it; nil when nobody asks for a report.
func (o *observer) startReport(plan *engine.Plan, wanted *demand.Table) *CycleReport {
	if o.report == nil {
		return nil
	}
	r := &CycleReport{Stats: plan.Stats}
	r.Unmet, r.UnmetTotal = unmetOf(plan, wanted)
	return r
}

// finish adds what was done, and how things stand after it. A nil report stays one.
func (r *CycleReport) finish(s *Shard, c *Cycle) {
	if r == nil {
		return
	}
	r.Cycle, r.Now, r.Durations = c.Number, c.Now, c.Durations
	r.Machines, r.States, r.Needs = s.inventory.Table.Len(), s.inventory.Count(), s.intake.Table().Len()
	r.Demand, r.Bound, r.Free = s.intake.Totals().Total.Resources(), s.inventory.Tally.Bound.Resources(), s.inventory.Tally.Free.Resources()
	r.Counts, r.Suppressed, r.Disposition = c.Counts, c.Suppressed, c.Disposition
	r.Capped, r.Cut, r.Dropped = c.Capped, c.Cut, c.Dropped
	r.Parked, r.Held, r.Shortfalls, r.Reconciled = c.Parked, c.Held, s.ledgers.Shortfalls.Report(), c.Reconciled
	for _, st := range [...]model.State{model.Creating, model.Configuring, model.Draining, model.Deleting} {
		r.InFlight += r.States[st]
	}
	for t, micros := range s.inventory.Tally.Spend {
		r.SpendPerHour[t] = float64(micros) / tally.MicroDollars
	}
	r.Bill = s.observer.bills.known.Load()
	r.Actions = reportActions(c, s.inventory.Table)
}

// unmetOf returns the unsatisfied Needs of highest rank, and how many there are.
// Members of a fold count once.
func unmetOf(plan *engine.Plan, wanted *demand.Table) ([]UnmetNeed, int) {
	var worst []int32 // by rank, at most ReportUnmetMax
	total := 0
	byRank := func(i int32, rank int32) int { return int(plan.Rank(int(i))) - int(rank) }
	for i := range plan.Len() {
		if plan.Satisfied(i) || int(plan.Fold(i)) != i {
			continue
		}
		total++
		rank := plan.Rank(i)
		if len(worst) == ReportUnmetMax && byRank(worst[len(worst)-1], rank) < 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(worst, rank, byRank)
		worst = slices.Insert(worst, at, int32(i))
		worst = worst[:min(len(worst), ReportUnmetMax)]
	}
	out := make([]UnmetNeed, len(worst))
	for k, i := range worst {
		n := plan.Need(int(i))
		p := n.Profile
		row := wanted.Row(wanted.Block(n.Cluster), n.Row)
		out[k] = UnmetNeed{
			Cluster: n.Cluster, Group: row.Group, Priority: p.Priority(), Profile: Describe(p),
			Want: row.Aggregate, Deficit: n.Deficit, Reason: n.Unmet, Domain: n.Domain,
		}
	}
	return out, total
}

func reportActions(c *Cycle, machines *supply.Table) []ReportAction {
	out := make([]ReportAction, 0, min(len(c.Started), ReportActionsMax))
	for i := range c.Started[:cap(out)] {
		a := &c.Started[i]
		x := ReportAction{Kind: a.Kind, Reason: a.Reason, Machine: a.Machine, Cluster: a.Cluster, GraceSeconds: a.GraceSeconds}
		if r, ok := machines.Lookup(a.Machine); ok {
			x.InstanceType = machines.Get(r).InstanceType
		}
		if a.Need >= 0 {
			// Both come from the demand, which the actions have not changed.
			p := c.Plan.Profile(int(a.Need))
			x.Need, x.Priority = Describe(p), p.Priority()
			x.For, _ = c.Plan.Identity(int(a.Need))
		}
		if a.Err != nil {
			x.Error = a.Err.Error()
		}
		out = append(out, x)
	}
	return out
}

// Describe puts a profile into a few words: what it requires, without its
// priority and penalties.
func Describe(p *model.Profile) string {
	var parts []string
	for _, r := range p.Requirements() {
		key := r.Key[strings.LastIndexByte(r.Key, '/')+1:]
		switch r.Operator {
		case model.In:
			parts = append(parts, key+" in "+strings.Join(r.Values, "|"))
		case model.NotIn:
			parts = append(parts, key+" not in "+strings.Join(r.Values, "|"))
		case model.Exists:
			parts = append(parts, "has "+key)
		case model.DoesNotExist:
			parts = append(parts, "no "+key)
		case model.Same:
			parts = append(parts, "same "+key)
		default:
			parts = append(parts, fmt.Sprintf("%s %s %s", key, r.Operator, strings.Join(r.Values, "|")))
		}
	}
	for _, sp := range p.HardSpread() {
		parts = append(parts, fmt.Sprintf("spread over %s by %d", sp.Key[strings.LastIndexByte(sp.Key, '/')+1:], sp.MaxSkew))
	}
	if len(parts) == 0 {
		return "any machine"
	}
	return strings.Join(parts, ", ")
}
