package whatif

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
)

// Answer is what a change would do.
type Answer struct {
	Now    Outcome `json:"now"`
	WhatIf Outcome `json:"whatIf"`
	// WithoutBuying is the change when there are no quota slots to buy from.
	WithoutBuying Outcome `json:"withoutBuying"`
	// Begun are actions that the change brings about, Dropped those that it makes
	// unnecessary, in emission order.
	Begun   []Action `json:"begun"`
	Dropped []Action `json:"dropped"`
	// Needs are those that come to be satisfied, or cease to be, by name.
	Needs []Turn `json:"needs"`
	// Waiting are those that stay unsatisfied and come to wait for machines that drain for them, which cover the rest.
	Waiting []Turn `json:"waiting,omitempty"`
	// Losers are the Needs whose machines are preempted by the change, by name: they have them until these are drained, and are
	// satisfied until then.
	Losers []Loser `json:"losers,omitempty"`
}

// Loser is a Need that loses machines by a change.
type Loser struct {
	Name     string `json:"name"`
	Cluster  string `json:"cluster"`
	Priority int32  `json:"priority"`
	Machines int    `json:"machines"` // of Of that it has
	Of       int    `json:"of"`
}

// Outcome sums up one decision.
type Outcome struct {
	Satisfied   int      `json:"satisfied"`
	Unsatisfied []string `json:"unsatisfied"` // names, in the order of the world
	// OnceDrained is how many Needs are satisfied when all victims have drained: those that wait for them are, those
	// that have them are not. It leaves out what later cycles find for the latter.
	OnceDrained int `json:"satisfiedOnceDrained"`
	Bind        int `json:"bind"`
	Buy         int `json:"buy"`
	Preempt     int `json:"preempt"`
	Reclaim     int `json:"reclaim"`
	Delete      int `json:"delete"`
	// DollarsPerHour is what all claimed machines cost, BuyPerHour what those
	// that are bought add, DeletePerHour what is no longer paid.
	DollarsPerHour float64 `json:"dollarsPerHour"`
	BuyPerHour     float64 `json:"buyDollarsPerHour"`
	DeletePerHour  float64 `json:"deleteDollarsPerHour"`
	// Interruption and Reclamation are the victims' own penalties, once each, in
	// dollars. Pinned counts victims that no amount makes good.
	Interruption float64 `json:"interruptionDollars"`
	Reclamation  float64 `json:"reclamationDollars"`
	Pinned       int     `json:"pinnedVictims"`
	// GraceSeconds is the longest time that a victim has to leave.
	GraceSeconds int32 `json:"graceSecondsMax"`

	world  *world.World
	answer *world.Answer
}

// Action is an action in the words of the world.
type Action struct {
	Kind    string `json:"kind"`
	Machine string `json:"machine"`
	Cluster string `json:"cluster"`
	Need    string `json:"need"`
}

// Turn is a Need whose satisfaction the change turns.
type Turn struct {
	Name      string `json:"name"`
	Before    string `json:"before"` // "satisfied", "absent", or why it is not
	After     string `json:"after"`
	Satisfied bool   `json:"satisfied"`
}

// Ask decides about the world with and without the edits. The error is a limit
// that the world passes.
func Ask(w *world.World, e *world.Edits) (*Answer, error) {
	now, err := decided(w)
	if err != nil {
		return nil, err
	}
	return ask(w, now, e)
}

// Named is the answer to one question of a batch.
type Named struct {
	Name string `json:"name"`
	*Answer
}

// AskAll answers several questions about one world, each by itself.
func AskAll(w *world.World, questions []world.Question) ([]Named, error) {
	now, err := decided(w)
	if err != nil {
		return nil, err
	}
	out := make([]Named, len(questions))
	for i := range questions {
		a, err := ask(w, now, &questions[i].Edits)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", questions[i].Name, err)
		}
		// The worlds are for pictures, which a batch has none of.
		for _, o := range []*Outcome{&a.Now, &a.WhatIf, &a.WithoutBuying} {
			o.world, o.answer = nil, nil
		}
		out[i] = Named{questions[i].Name, a}
	}
	return out, nil
}

func decided(w *world.World) (Outcome, error) {
	answer, err := w.Decide(false, nil)
	if err != nil {
		return Outcome{}, err
	}
	return outcomeOf(w, answer), nil
}

func ask(w *world.World, now Outcome, e *world.Edits) (*Answer, error) {
	after := w.With(e)
	a := Answer{Now: now}
	for _, x := range []struct {
		into *Outcome
		of   *world.World
	}{
		{&a.WhatIf, after},
		{&a.WithoutBuying, after.Without(model.Speculative)},
	} {
		var err error
		if *x.into, err = decided(x.of); err != nil {
			return nil, err
		}
	}
	a.Begun = difference(a.WhatIf.answer.Actions, a.Now.answer.Actions)
	a.Dropped = difference(a.Now.answer.Actions, a.WhatIf.answer.Actions)
	a.Needs, a.Waiting = turns(a.Now.answer.Needs, a.WhatIf.answer.Needs)
	a.Losers = losers(&a.WhatIf, a.Begun)
	return &a, nil
}

// losers lists whom the machines serve that are preempted by actions that a change brings about.
func losers(after *Outcome, begun []Action) []Loser {
	taken := map[string]bool{}
	for i := range begun {
		if begun[i].Kind == engine.Preempt.String() {
			taken[begun[i].Machine] = true
		}
	}
	if len(taken) == 0 {
		return nil
	}
	priorities := make(map[string]int32, len(after.world.Needs))
	for i := range after.world.Needs {
		n := &after.world.Needs[i]
		priorities[n.Name] = n.Profile.Priority()
	}
	var out []Loser
	for i := range after.answer.Needs {
		n := &after.answer.Needs[i]
		x := Loser{Name: n.Name, Cluster: n.Cluster, Priority: priorities[n.Name], Of: len(n.Claimed)}
		for _, id := range n.Claimed {
			if taken[id] {
				x.Machines++
			}
		}
		if x.Machines > 0 {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b Loser) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func outcomeOf(w *world.World, answer *world.Answer) Outcome {
	o := Outcome{world: w, answer: answer, Unsatisfied: []string{}}
	victims := map[string]bool{}
	for i := range answer.Actions {
		if answer.Actions[i].Kind == engine.Preempt {
			victims[answer.Actions[i].Machine] = true
		}
	}
	for i := range answer.Needs {
		n := &answer.Needs[i]
		if n.Satisfied {
			o.Satisfied++
		} else {
			o.Unsatisfied = append(o.Unsatisfied, n.Name)
		}
		loses := slices.ContainsFunc(n.Claimed, func(id string) bool { return victims[id] })
		if n.Satisfied && !loses || !n.Satisfied && n.Reason == engine.UnmetAwaitingDrain {
			o.OnceDrained++
		}
	}
	machines := make(map[string]*model.Machine, len(w.Machines))
	for i := range w.Machines {
		machines[w.Machines[i].ID] = &w.Machines[i]
	}
	for _, id := range answer.Claimed {
		o.DollarsPerHour += machines[id].PricePerHour
	}
	for i := range answer.Actions {
		o.add(&answer.Actions[i], machines[answer.Actions[i].Machine])
	}
	for _, sum := range []*float64{&o.DollarsPerHour, &o.BuyPerHour, &o.DeletePerHour} {
		*sum = math.Round(*sum*1e6) / 1e6 // sums of prices, without what floating point adds
	}
	return o
}

func (o *Outcome) add(a *world.Action, m *model.Machine) {
	switch a.Kind {
	case engine.Bootstrap:
		o.Bind++
	case engine.Provision:
		o.Buy++
		o.BuyPerHour += m.PricePerHour
	case engine.Reclaim:
		o.Reclaim++
	case engine.Delete:
		o.Delete++
		o.DeletePerHour += m.PricePerHour
	case engine.Preempt:
		o.Preempt++
		o.GraceSeconds = max(o.GraceSeconds, a.GraceSeconds)
		interruption, reclamation := m.Assigned.Interruption.Dollars(), m.Assigned.Reclamation.Dollars()
		if math.IsInf(interruption, 1) || math.IsInf(reclamation, 1) {
			o.Pinned++
			return
		}
		o.Interruption += interruption
		o.Reclamation += reclamation
	}
}

// difference lists the actions of the one that are not among the other.
func difference(of, without []world.Action) []Action {
	type key struct {
		kind          engine.Kind
		machine, need string
	}
	there := make(map[key]bool, len(without))
	for i := range without {
		there[key{without[i].Kind, without[i].Machine, without[i].Need}] = true
	}
	out := []Action{}
	for i := range of {
		x := &of[i]
		if !there[key{x.Kind, x.Machine, x.Need}] {
			out = append(out, Action{Kind: x.Kind.String(), Machine: x.Machine, Cluster: x.Cluster, Need: x.Need})
		}
	}
	return out
}

const (
	satisfied = "satisfied"
	absent    = "absent"
)

// turns lists the Needs that the change satisfies or ceases to satisfy, adds or
// takes away, and those that come to wait for machines that drain, by name.
func turns(before, after []world.NeedRow) (out, waiting []Turn) {
	word := func(n *world.NeedRow) string {
		if n.Satisfied {
			return satisfied
		}
		return n.Reason.String()
	}
	now := make(map[string]string, len(before))
	for i := range before {
		now[before[i].Name] = word(&before[i])
	}
	out = []Turn{}
	for i := range after {
		n := &after[i]
		was, known := now[n.Name]
		if !known {
			was = absent
		}
		delete(now, n.Name)
		if !known || (was == satisfied) != n.Satisfied {
			out = append(out, Turn{Name: n.Name, Before: was, After: word(n), Satisfied: n.Satisfied})
		} else if wait := engine.UnmetAwaitingDrain.String(); !n.Satisfied && word(n) == wait && was != wait {
			waiting = append(waiting, Turn{Name: n.Name, Before: was, After: wait})
		}
	}
	for name, was := range now {
		out = append(out, Turn{Name: name, Before: was, After: absent})
	}
	byName := func(a, b Turn) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(out, byName)
	slices.SortFunc(waiting, byName)
	return out, waiting
}
