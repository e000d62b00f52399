package world

import (
	"fmt"
	"io"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/shard"
)

// remedies say, by disposition, what has a shard carry out again what it decides.
var remedies = [...]string{
	shard.Execute:     "",
	shard.DryRun:      "remove the file dry-run from its data folder, or start it without --dry-run",
	shard.Paused:      "`tonnage ctl resume --data-dir DIR`, or start it without --actuation-paused",
	shard.Tripped:     "look for the cause, then `tonnage ctl resume --data-dir DIR`",
	shard.DomainsLost: "it goes on when a coordinator has confirmed its domains; see \"When domains are lost\" in docs/reliability.md",
	shard.Fenced:      "stop the other process of this shard, or start this one again if it is the one that should act; see \"When a shard is fenced\" in docs/reliability.md",
}

// HeldWhy is that the last cycle of a running shard held actions back.
type HeldWhy struct {
	Kind    engine.Kind
	By      shard.HeldBy
	Reason  string
	Need    string // that the action is for; of machines only
	Actions int    // of Needs only
}

// takeHeld adds what the rails of a running shard hold back.
func (e *Explain) takeHeld(h *HeldBack) {
	if e.HeldBack = h; h == nil {
		return
	}
	needs, machines := map[string]*NeedWhy{}, map[string]*MachineWhy{}
	for i := range e.Machines {
		machines[e.Machines[i].Machine] = &e.Machines[i]
	}
	// Actions are for the first Need of a fold, and those of its others too.
	folds := map[string][]*NeedWhy{}
	for i := range e.Needs {
		n := &e.Needs[i]
		needs[n.Name] = n
		if n.FoldOf != "" && n.FoldOf != n.Name {
			folds[n.FoldOf] = append(folds[n.FoldOf], n)
		}
	}
	for i := range h.Actions {
		a := &h.Actions[i]
		if m := machines[a.Machine]; m != nil {
			m.Held = &HeldWhy{Kind: a.Kind, By: a.By, Reason: h.because(a), Need: a.Need}
		}
		if a.Need == "" {
			continue
		}
		if n := needs[a.Need]; n != nil {
			n.countHeld(h, a)
		}
		for _, n := range folds[a.Need] {
			n.countHeld(h, a)
		}
	}
}

// countHeld counts an action that is held back, with others of its kind and rail.
func (n *NeedWhy) countHeld(h *HeldBack, a *HeldAction) {
	for i := range n.Held {
		if x := &n.Held[i]; x.Kind == a.Kind && x.By == a.By {
			x.Actions++
			return
		}
	}
	n.Held = append(n.Held, HeldWhy{Kind: a.Kind, By: a.By, Reason: h.because(a), Actions: 1})
}

// because says why an action is held back.
func (h *HeldBack) because(a *HeldAction) string {
	switch a.By {
	case shard.ByActionLimit:
		return "the cycle has started as many actions as --max-actions-per-cycle allows"
	case shard.ByQueue:
		return "the queue of calls to the provider is full"
	case shard.ByOperator:
		return "the operator of the cluster is not connected, or has refused lately"
	case shard.ByMachine:
		return "the machine is busy or has moved on"
	}
	interval := "this cycle"
	if h.Interval > 0 {
		interval = fmt.Sprintf("this interval (%v)", h.Interval)
	}
	switch {
	case h.Starting:
		return fmt.Sprintf("the budget of %ss is empty in the first interval (%v) after a start", a.Kind, h.Interval)
	case a.By == shard.ByReclaimBudget:
		return fmt.Sprintf("the cluster's budget of Reclaims for %s is used up", interval)
	case a.By == shard.ByPreemptBudget:
		return fmt.Sprintf("the budget of Preempts for %s is used up, or too small for the whole plan", interval)
	}
	return fmt.Sprintf("the budget of %ss for %s is used up", a.Kind, interval)
}

// tell says that nothing is carried out, and what is held back without being listed.
func (h *HeldBack) tell(w io.Writer) {
	if h.Disposition != shard.Execute {
		fmt.Fprintf(w, "the shard carries nothing out (%s): %s\n  remedy: %s\n", h.Disposition, cell(h.Reason), remedies[h.Disposition])
	}
	if h.More > 0 {
		fmt.Fprintf(w, "the last cycle held back %s, and %d more that are not listed\n", plural(len(h.Actions), "action"), h.More)
	}
}

// tell says that actions are held back.
func (x *HeldWhy) tell(w io.Writer) {
	what := x.Kind.String()
	if x.Actions > 0 {
		what = plural(x.Actions, what)
	}
	fmt.Fprintf(w, "  %s held back in the last cycle: %s\n", what, x.Reason)
}

// write writes what holds for all needs and machines, if anything does.
func (h *HeldBack) write(j *jsonWriter) {
	if h == nil || h.Disposition == shard.Execute && h.More == 0 {
		return
	}
	j.line("  ")
	j.key("heldBack")
	j.open('{')
	if h.Disposition != shard.Execute {
		j.word("disposition", h.Disposition.String())
		j.word("reason", h.Reason)
		j.word("remedy", remedies[h.Disposition])
	}
	if h.More > 0 {
		j.key("notListed")
		j.int(int64(h.More))
	}
	j.close('}')
}

func (x *HeldWhy) write(j *jsonWriter) {
	j.open('{')
	j.word("action", x.Kind.String())
	j.word("by", x.By.String())
	j.word("reason", x.Reason)
	j.word("for", x.Need)
	if x.Actions > 0 {
		j.key("actions")
		j.int(int64(x.Actions))
	}
	j.close('}')
}
