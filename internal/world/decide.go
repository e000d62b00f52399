package world

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/shard"
)

// Decide runs one cycle over the world. The clock gives nanoseconds for the
// durations in the answer's statistics; nil leaves them 0. The error is a limit
// that the world passes.
func (w *World) Decide(explain bool, clock func() int64) (*Answer, error) {
	return w.decide(explain, nil, clock)
}

// Explain is Decide, with an explanation of the subjects alone. A subject that
// the world does not have is an error. It also says what the rails hold back of the
// shard that the world is of.
func (w *World) Explain(of *Subjects) (*Answer, error) {
	book := w.book()
	of = &Subjects{Needs: w.byRow(of.Needs), Machines: of.Machines}
	for _, x := range []struct {
		what   string
		wanted map[string]bool
		there  map[string]int
		names  []string
	}{{"need", of.Needs, book.needs, book.names}, {"machine", of.Machines, book.machines, book.ids}} {
		for _, name := range slices.Sorted(maps.Keys(x.wanted)) {
			if _, ok := x.there[name]; !ok {
				return nil, errors.New(unknown(x.what, name, x.names))
			}
		}
	}
	answer, err := w.decide(true, of, nil)
	if err != nil {
		return nil, err
	}
	answer.Explain.takeHeld(w.HeldBack)
	f := newFunnels(w, answer)
	for i := range answer.Explain.Needs {
		n := &answer.Explain.Needs[i]
		at := book.needs[n.Name]
		n.Funnel = f.of(at, &answer.Needs[at])
	}
	return answer, nil
}

// byRow replaces names that are a cluster and a row, as a shard names Needs that have no name, by the
// name that the Need has.
func (w *World) byRow(names map[string]bool) map[string]bool {
	out := make(map[string]bool, len(names))
	known := make(map[string]bool, len(w.Needs))
	for i := range w.Needs {
		known[w.Needs[i].Name] = true
	}
	for name := range names {
		at := strings.LastIndexByte(name, '/')
		if row, err := strconv.Atoi(name[at+1:]); err == nil && at > 0 && !known[name] && row >= 0 {
			if rows := w.rows[name[:at]]; row < len(rows) {
				name = w.Needs[rows[row]].Name
			}
		}
		out[name] = true
	}
	return out
}

// NameOf returns what a Need is called that a cluster and a row name; other names stay as they are.
func (w *World) NameOf(name string) string {
	for called := range w.byRow(map[string]bool{name: true}) {
		return called
	}
	return name
}

func (w *World) decide(explain bool, only *Subjects, clock func() int64) (*Answer, error) {
	opts := w.Options.Engine
	opts.Explain = explain
	eng, err := engine.New(opts)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	defer eng.Close()
	supply, demand, err := w.Tables()
	if err != nil {
		return nil, err
	}
	plan, err := eng.Cycle(engine.Input{Supply: supply, Demand: demand, Now: w.Now, DrainSeconds: w.Options.DrainSeconds, Clock: clock, ExplainOnly: only.rows(w)})
	if err != nil {
		return nil, err
	}
	carried, _ := shard.CapReclaims(plan.Actions, supply, w.Options.ReclaimCapFraction)
	var why explainer
	if explain {
		why = eng
	}
	return NewAnswer(w, supply, plan, carried, bill.Of(plan, supply), why, only), nil
}
