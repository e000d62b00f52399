package rails

import (
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine"
)

// HeldBy is what holds an action back that the plan of a cycle has.
type HeldBy uint8

// What holds actions back: the budget of their kind, or what the comment says.
const (
	ByReclaimBudget HeldBy = iota
	ByDeleteBudget
	ByProvisionBudget
	ByPreemptBudget
	ByActionLimit // Limits.MaxActionsPerCycle
	ByQueue       // the queue of calls is full
	ByOperator    // the cluster's operator is not connected, or has refused lately
	ByMachine     // the machine is busy or has moved on
	NumHeldBy     = iota
)

// String names it as the audit log does.
func (b HeldBy) String() string {
	return [NumHeldBy]string{"reclaim-cap", "delete-cap", "provision-cap", "preempt-cap", "action-limit", "queue-full", "waiting", "stale"}[b]
}

// BudgetOf returns the budget of a kind; false = it has none.
func BudgetOf(kind engine.Kind) (HeldBy, bool) {
	switch kind {
	case engine.Reclaim:
		return ByReclaimBudget, true
	case engine.Delete:
		return ByDeleteBudget, true
	case engine.Provision:
		return ByProvisionBudget, true
	case engine.Preempt:
		return ByPreemptBudget, true
	}
	return 0, false
}

// The bounds of what is told of actions that are held back.
const (
	HeldActionsMax = 4096 // listed, in the order in which they were held; the others are counted
	ReasonBytesMax = 1024 // of the reason for which nothing is carried out
)

// HeldAction is an action that the last cycle held back.
type HeldAction struct {
	Machine string
	Kind    engine.Kind
	By      HeldBy
	// Cluster and Row are those of the Need that the action is for, as the demand has numbered
	// its rows since that cycle; no Cluster = it is for none.
	Cluster string
	Row     int
}

// HeldBack is what the rails hold back, and why.
type HeldBack struct {
	Disposition Disposition // of decisions now
	Reason      string      // why it is not Execute; it may hold any text
	// Interval is the time in which budgets are filled once, 0 = each cycle. Starting says that
	// they are empty since the first interval after the start is not over.
	Interval time.Duration
	Starting bool
	// Actions are those that the last cycle held back; they are valid until the next cycle.
	// More is how many it held back beside them.
	Actions []HeldAction
	More    int
}

// heldActions are the actions that the last cycle held back. The memory of the list is kept:
// a cycle allocates only when it holds back more than any before it.
type heldActions struct {
	list []HeldAction
	more int
}

// ForgetHeld begins a new list of actions that are held back. Call it when the rows of the
// demand get other numbers, at the latest.
func (r *Rails) ForgetHeld() { r.held.list, r.held.more = r.held.list[:0], 0 }

// HoldBack notes that actions of a plan are held back in this cycle.
func (r *Rails) HoldBack(plan *engine.Plan, actions []engine.Action, by HeldBy) {
	listed := min(len(actions), HeldActionsMax-len(r.held.list))
	r.held.more += len(actions) - listed
	for i := range actions[:listed] {
		a := &actions[i]
		h := HeldAction{Machine: r.budgets.machines.ID(a.Machine), Kind: a.Kind, By: by}
		if a.Need >= 0 {
			h.Cluster, h.Row = plan.Identity(int(a.Need))
		}
		r.held.list = append(r.held.list, h)
	}
}

// holdByBudget notes that no budget is left for actions of one kind.
func (r *Rails) holdByBudget(plan *engine.Plan, actions []engine.Action) {
	if by, ok := BudgetOf(actions[0].Kind); ok {
		r.HoldBack(plan, actions, by)
	}
}

// HeldBack returns what is held back, and why.
func (r *Rails) HeldBack() HeldBack {
	at := r.Halted()
	return HeldBack{
		Disposition: at, Reason: shortened(r.reason(at)), Interval: r.limits.BudgetInterval, Starting: r.budgets.starting(),
		Actions: r.held.list, More: r.held.more,
	}
}

// reason says why nothing is carried out.
func (r *Rails) reason(at Disposition) string {
	switch at {
	case Fenced:
		return r.fencedBy
	case DomainsLost:
		return "which domains are this shard's is not known, and no coordinator has confirmed them yet"
	case Tripped:
		return r.breaker.why
	case Paused:
		return whoSays(r.set.Paused, "pause", r.paused, "--actuation-paused")
	case DryRun:
		return whoSays(r.set.DryRun, "dry-run", r.limits.DryRun, "--dry-run")
	}
	return ""
}

// whoSays names what has set a switch: a file in the data folder, a flag, or both.
func whoSays(byFile bool, file string, byFlag bool, flag string) string {
	var says []string
	if byFile {
		says = append(says, "there is a file "+file+" in its data folder")
	}
	if byFlag {
		says = append(says, "it was started with "+flag)
	}
	return strings.Join(says, ", and ")
}

// shortened cuts a text that is longer than ReasonBytesMax.
func shortened(s string) string {
	if s = strings.ToValidUTF8(s, "\ufffd"); len(s) <= ReasonBytesMax {
		return s
	}
	return strings.ToValidUTF8(s[:ReasonBytesMax-len("…")], "") + "…"
}
