package whatif

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/internal/terminal"
)

// tableActionsMax is how many actions a table lists; JSON lists them all.
const tableActionsMax = 100

// WriteJSON writes the answer as one object.
func (a *Answer) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(a)
}

// WriteTable writes the answer for people: the three decisions side by side, then
// what differs.
func (a *Answer) WriteTable(out io.Writer) error {
	w := bufio.NewWriter(out)
	t := terminal.NewTable("", "NOW", "WHAT IF", "WITHOUT BUYING")
	for i, row := range rows {
		t.Row(row.says, row.of(&a.Now), row.of(&a.WhatIf), row.of(&a.WithoutBuying))
		if i == 0 && (a.Now.drains() || a.WhatIf.drains() || a.WithoutBuying.drains()) {
			t.Row("once machines have drained", onceDrained(&a.Now), onceDrained(&a.WhatIf), onceDrained(&a.WithoutBuying))
		}
	}
	_ = t.Write(w) // the first error stays with w
	list(w, "+", a.Begun)
	list(w, "-", a.Dropped)
	for _, n := range slices.Concat(a.Needs, a.Waiting) {
		fmt.Fprintf(w, "  need %s: %s, then %s\n", terminal.Escape(n.Name), n.Before, n.After)
	}
	for i := range a.Losers {
		fmt.Fprintf(w, "  need %s\n", a.Losers[i].says())
	}
	if len(a.Losers) > 0 {
		fmt.Fprintln(w, "  until then they count as satisfied: the table is of the next cycle")
	}
	if len(a.Begun)+len(a.Dropped)+len(a.Needs) == 0 {
		fmt.Fprintln(w, "\nNothing would be done otherwise.")
	}
	return w.Flush()
}

// drains reports whether other Needs are satisfied once victims have drained.
func (o *Outcome) drains() bool { return o.OnceDrained != o.Satisfied || o.Preempt > 0 }

func onceDrained(o *Outcome) string { return o.ofNeeds(o.OnceDrained) }

// says puts into words what a Need loses.
func (l *Loser) says() string {
	return fmt.Sprintf("%s of cluster %s, priority %d: loses %d of its %s to others, once drained", terminal.Escape(l.Name), terminal.Escape(l.Cluster), l.Priority, l.Machines, several(l.Of, "machine"))
}

// WriteDiff writes only what differs, a line each: "+" is begun, "-" is dropped, "~" is a Need that
// turns, "$" an amount that changes.
func (a *Answer) WriteDiff(out io.Writer) error {
	w := bufio.NewWriter(out)
	lines := func(sign string, actions []Action) {
		for i := range actions {
			fmt.Fprintln(w, sign, says(&actions[i]))
		}
	}
	lines("+", a.Begun)
	lines("-", a.Dropped)
	for _, n := range slices.Concat(a.Needs, a.Waiting) {
		fmt.Fprintf(w, "~ need %s: %s -> %s\n", terminal.Escape(n.Name), n.Before, n.After)
	}
	for i := range a.Losers {
		fmt.Fprintf(w, "~ need %s\n", a.Losers[i].says())
	}
	for _, row := range rows {
		if before, after := row.of(&a.Now), row.of(&a.WhatIf); row.money && before != after {
			fmt.Fprintf(w, "$ %s: %s -> %s\n", row.says, before, after)
		}
	}
	return w.Flush()
}

// WriteBatchTable writes the answers to a batch, a row each, the world as it is first.
func WriteBatchTable(out io.Writer, answers []Named) error {
	t := terminal.NewTable("QUESTION", "SATISFIED", "BIND", "BUY", "PREEMPT", "RECLAIM", "$ AN HOUR", "SATISFIED THEN", "SHORT THEN")
	for i := range answers {
		a := &answers[i]
		if i == 0 {
			t.Row("(as it is)", satisfiedOf(&a.Now), a.Now.Bind, a.Now.Buy, a.Now.Preempt, a.Now.Reclaim, terminal.Cents(a.Now.DollarsPerHour), "-", "-")
		}
		o := &a.WhatIf
		var gained, lost []string
		for _, n := range a.Needs {
			switch {
			case n.Satisfied:
				gained = append(gained, terminal.Escape(n.Name))
			case n.After != absent:
				lost = append(lost, terminal.Escape(n.Name))
			}
		}
		t.Row(terminal.Escape(a.Name), satisfiedOf(o), o.Bind, o.Buy, o.Preempt, o.Reclaim, terminal.Cents(o.DollarsPerHour), few(gained), few(lost))
	}
	return t.Write(out)
}

// few lists some names of many.
func few(names []string) string {
	const most = 4
	if len(names) == 0 {
		return "-"
	}
	out := strings.Join(names[:min(len(names), most)], " ")
	if more := len(names) - most; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// WriteBatchJSON writes the answers to a batch as a list.
func WriteBatchJSON(out io.Writer, answers []Named) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(answers)
}

func satisfiedOf(o *Outcome) string { return o.ofNeeds(o.Satisfied) }

// ofNeeds writes a number of Needs, and of how many.
func (o *Outcome) ofNeeds(n int) string {
	return fmt.Sprintf("%d of %d", n, o.Satisfied+len(o.Unsatisfied))
}

var rows = []struct {
	says  string
	of    func(*Outcome) string
	money bool
}{
	{"needs satisfied", satisfiedOf, false},
	{"machines to bind", count(func(o *Outcome) int { return o.Bind }), false},
	{"machines to buy", count(func(o *Outcome) int { return o.Buy }), false},
	{"machines to preempt", count(func(o *Outcome) int { return o.Preempt }), false},
	{"machines to reclaim", count(func(o *Outcome) int { return o.Reclaim }), false},
	{"machines to give back", count(func(o *Outcome) int { return o.Delete }), false},
	{"claimed machines, $ an hour", dollars(func(o *Outcome) float64 { return o.DollarsPerHour }), true},
	{"bought, $ an hour", dollars(func(o *Outcome) float64 { return o.BuyPerHour }), true},
	{"given back, $ an hour", dollars(func(o *Outcome) float64 { return o.DeletePerHour }), true},
	{"victims' interruption, $ once", dollars(func(o *Outcome) float64 { return o.Interruption }), true},
	{"victims' reclamation, $ once", dollars(func(o *Outcome) float64 { return o.Reclamation }), true},
	{"victims that are pinned", count(func(o *Outcome) int { return o.Pinned }), false},
	{"longest grace, seconds", count(func(o *Outcome) int { return int(o.GraceSeconds) }), false},
}

func count(of func(*Outcome) int) func(*Outcome) string {
	return func(o *Outcome) string { return fmt.Sprint(of(o)) }
}

func dollars(of func(*Outcome) float64) func(*Outcome) string {
	return func(o *Outcome) string { return fmt.Sprintf("%.2f", of(o)) }
}

func list(w io.Writer, sign string, actions []Action) {
	if len(actions) > 0 {
		fmt.Fprintln(w)
	}
	for i := range actions[:min(len(actions), tableActionsMax)] {
		a := &actions[i]
		fmt.Fprintf(w, "  %s %s\n", sign, says(a))
	}
	if more := len(actions) - tableActionsMax; more > 0 {
		fmt.Fprintf(w, "  %s … and %d more; -o json lists them all\n", sign, more)
	}
}

// says puts an action into words.
func says(a *Action) string {
	text := a.Kind + " " + terminal.Escape(a.Machine)
	if a.Cluster != "" {
		text += " cluster " + terminal.Escape(a.Cluster)
	}
	if a.Need != "" {
		text += " for " + terminal.Escape(a.Need)
	}
	return text
}
