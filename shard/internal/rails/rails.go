// Package rails bounds what a shard carries out of its plans: budgets over time, a breaker, the
// switches that stop it, and the rule that a plan of preemption is carried out whole or not at all.
package rails

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/pace"
)

// ReclaimCap returns how many machines of a cluster an interval may reclaim:
// max(1, ⌊fraction × configured⌋).
func ReclaimCap(fraction float64, configured int) int { return ShareOf(fraction, configured, 1) }

// ShareOf returns max(least, ⌊fraction × of⌋). The small addend undoes the rounding of
// fractions such as 0.29, of which a hundred are not quite 29.
func ShareOf(fraction float64, of, least int) int {
	return max(least, int(math.Floor(fraction*float64(of)+1e-9)))
}

// CapReclaims is the budget of Reclaims of one cycle, for decisions without a shard. It returns
// the actions without the Reclaims above the cap: of each
// cluster the first in the order of emission stay, all other kinds stay
// whatever their number. fraction 0 = no cap. The second result is how many
// were left out; when it is 0, the first is the input itself.
func CapReclaims(actions []engine.Action, machines *supply.Table, fraction float64) ([]engine.Action, int) {
	b := budgets{limits: &Limits{ReclaimCapFraction: fraction}, machines: machines}
	b.fill(0)
	kept := make([]engine.Action, 0, len(actions))
	for i := range actions {
		if b.take(actions[i : i+1]) {
			kept = append(kept, actions[i])
		}
	}
	if len(kept) == len(actions) {
		return actions, 0
	}
	return kept, len(actions) - len(kept)
}

// ByRank returns the actions in the order in which they are carried out and
// cut: those of a Need by its rank, whatever their phase, then Reclaims and
// Deletes; equal ones as they were emitted. rank gives a Need's rank by its
// number, as Plan.Rank does.
func ByRank(actions []engine.Action, rank func(need int) int32) []engine.Action {
	// Rank above place in one number: no two are equal, and plain numbers sort
	// several times faster than actions that ask for their rank.
	keys := make([]uint64, len(actions))
	for i := range actions {
		at := uint32(math.MaxUint32)
		if n := actions[i].Need; n >= 0 {
			at = uint32(rank(int(n)))
		}
		keys[i] = uint64(at)<<32 | uint64(i)
	}
	slices.Sort(keys)
	out := make([]engine.Action, len(actions))
	for i, k := range keys {
		out[i] = actions[uint32(k)]
	}
	return out
}

// Disposition is what becomes of a cycle's decisions.
type Disposition uint8

// The dispositions, the stronger later.
const (
	Execute Disposition = iota
	DryRun
	Paused
	Tripped // by the breaker
	DomainsLost
	Fenced
)

// String names the disposition.
func (d Disposition) String() string {
	return [...]string{"execute", "dry-run", "paused", "breaker", "domains-lost", "fenced"}[d]
}

// Outcome is a plan's actions after the rails.
type Outcome struct {
	Actions     []engine.Action // in the order in which they are carried out
	Held        []engine.Action // by budgets
	Rest        []engine.Action // beyond MaxActionsPerCycle
	Disposition Disposition
	FollowUp    bool // a further cycle should come at once
	// Plans are the plans of preemption that were held or cut.
	Plans map[uint64]bool
}

// Rails decide what of a plan is carried out, and whether anything is.
type Rails struct {
	limits   Limits
	pace     *pace.Pace
	switches func() Switches             // nil = there are none
	renew    func(context.Context) error // nil = a fenced shard stays fenced
	log      *slog.Logger

	paused  bool     // as the process was told
	set     Switches // as read last
	lost    bool     // which domains are this shard's is not known; see LoseDomains
	fenced  bool     // the provider or the coordinator knows a newer process of this shard
	budgets budgets
	breaker breaker
	holding [engine.NumKinds]bool // what budgets have held back in the last cycle
	held    heldActions

	fencedBy string // how it became known that the shard is fenced
}

// Deps is what rails ask and tell.
type Deps struct {
	Pace     *pace.Pace
	Machines *supply.Table
	Switches func() Switches             // nil = there are none
	Renew    func(context.Context) error // nil = a fenced shard stays fenced
	Trip     func(why string) error      // nil = a restart forgets that the breaker has tripped
	Log      *slog.Logger
}

// New returns the rails of a shard that has not begun a cycle.
func New(limits Limits, paused bool, with *Deps) *Rails {
	r := &Rails{limits: limits, pace: with.Pace, switches: with.Switches, renew: with.Renew, log: with.Log, paused: paused}
	r.budgets = budgets{limits: &r.limits, machines: with.Machines}
	r.breaker = newBreaker(&r.limits, with.Machines, with.Trip, with.Log)
	return r
}

// Apply decides what of a plan is carried out. Where nothing is, no
// limit applies: there is no rate to bound, and a follow-up would spin.
func (r *Rails) Apply(plan *engine.Plan) Outcome {
	now, wanted := r.pace.Now, r.breaker.takenAway(plan.Actions)
	r.budgets.fill(now)
	if at := r.Halted(); at != Execute {
		if at == Tripped {
			r.check(wanted, 0)
		}
		if at = r.Halted(); at != Execute {
			return Outcome{Actions: plan.Actions, Disposition: at}
		}
	}
	out := r.limit(plan)
	if r.check(wanted, r.breaker.takenAway(out.Actions)); r.Halted() == Tripped {
		r.budgets.giveBack(out.Actions)
		r.ForgetHeld() // the breaker holds back all of them
		return Outcome{Actions: plan.Actions, Disposition: Tripped}
	}
	r.breaker.countAll(now, out.Actions, 1)
	return out
}

// limit is what budgets and the limit of a cycle leave of a plan.
func (r *Rails) limit(plan *engine.Plan) (out Outcome) {
	all := ByRank(plan.Actions, plan.Rank)
	out.Actions = all[:0]
	for len(all) > 0 {
		part := all[:PlanLen(all)]
		all = all[len(part):]
		if r.budgets.take(part) {
			out.Actions = append(out.Actions, part...)
		} else {
			out.Held = append(out.Held, part...)
			r.holdByBudget(plan, part)
		}
	}
	out.Plans = AddPlans(nil, out.Held)
	r.noteHeld(out.Held)
	if limit := r.limits.MaxActionsPerCycle; limit > 0 && len(out.Actions) > limit {
		limit = wholePlans(out.Actions, limit)
		out.Actions, out.Rest = out.Actions[:limit], out.Actions[limit:]
		out.Plans = AddPlans(out.Plans, out.Rest)
		out.FollowUp = true
		r.budgets.giveBack(out.Rest)
		r.HoldBack(plan, out.Rest, ByActionLimit)
	}
	return out
}

// noteHeld logs that budgets hold actions back, when they did not before.
func (r *Rails) noteHeld(held []engine.Action) {
	counts := CountKinds(held)
	for kind, n := range counts {
		if n > 0 && !r.holding[kind] {
			per := "cycle"
			if r.limits.BudgetInterval > 0 {
				per = r.limits.BudgetInterval.String()
			}
			r.log.Info(fmt.Sprintf("%ss are limited per %s: %d wait", strings.ToLower(engine.Kind(kind).String()), per, n))
		}
		r.holding[kind] = n > 0
	}
}

// check has the breaker look at what a plan takes away.
func (r *Rails) check(wanted, letThrough int) {
	switch why, released := r.breaker.check(r.pace.Now, wanted, letThrough); {
	case why != "":
		r.log.Error("the shard has paused itself: "+why+"; look for the cause, then `tonnage ctl resume`", "window", r.limits.BreakerWindow)
	case released:
		r.log.Warn("the shard goes on by itself: little has been wanted for a whole window", "window", r.limits.BreakerWindow)
	}
}

// NotBegun takes back what was counted for actions that have not begun.
func (r *Rails) NotBegun(actions []engine.Action) {
	r.budgets.giveBack(actions)
	r.breaker.countAll(r.pace.Now, actions, -1)
}

// NotMade takes back what the breaker has counted for a call that was certainly not made; the machine is as it was. Its
// budget stays spent: how often calls are tried is bounded too.
func (r *Rails) NotMade(kind engine.Kind, machine columnar.Row) {
	r.breaker.countAll(r.pace.Now, []engine.Action{{Kind: kind, Machine: machine}}, -1)
}

// AllowsDrain takes a machine out of the budgets that is drained without a plan of the
// engine; false says that there is none left in this interval.
func (r *Rails) AllowsDrain(a engine.Action) bool {
	one := []engine.Action{a}
	if !r.budgets.take(one) {
		return false
	}
	r.breaker.count(r.pace.Now, a.Kind, 1)
	return true
}

// CountKinds counts actions by kind.
func CountKinds(actions []engine.Action) (n [engine.NumKinds]int) {
	for i := range actions {
		n[actions[i].Kind]++
	}
	return n
}

// wholePlans returns the limit, or how many actions stand before the plan of
// preemption that it would cut in two. A plan that stands first is let in whole
// however large it is: it would never be, otherwise.
func wholePlans(actions []engine.Action, limit int) int {
	plan := actions[limit].Plan
	if plan == 0 || actions[limit-1].Plan != plan {
		return limit
	}
	first := limit
	for first > 0 && actions[first-1].Plan == plan {
		first--
	}
	if first > 0 {
		return first
	}
	return PlanLen(actions)
}
