package whatif

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

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
	for _, row := range rows {
		t.Row(row.says, row.of(&a.Now), row.of(&a.WhatIf), row.of(&a.WithoutBuying))
	}
	_ = t.Write(w) // the first error stays with w
	list(w, "+", a.Begun)
	list(w, "-", a.Dropped)
	for _, n := range a.Needs {
		fmt.Fprintf(w, "  need %s: %s, then %s\n", terminal.Escape(n.Name), n.Before, n.After)
	}
	if len(a.Begun)+len(a.Dropped)+len(a.Needs) == 0 {
		fmt.Fprintln(w, "\nNothing would be done otherwise.")
	}
	return w.Flush()
}

var rows = []struct {
	says string
	of   func(*Outcome) string
}{
	{"needs satisfied", func(o *Outcome) string {
		return fmt.Sprintf("%d of %d", o.Satisfied, o.Satisfied+len(o.Unsatisfied))
	}},
	{"machines to bind", count(func(o *Outcome) int { return o.Bind })},
	{"machines to buy", count(func(o *Outcome) int { return o.Buy })},
	{"machines to preempt", count(func(o *Outcome) int { return o.Preempt })},
	{"machines to reclaim", count(func(o *Outcome) int { return o.Reclaim })},
	{"machines to give back", count(func(o *Outcome) int { return o.Delete })},
	{"claimed machines, $ an hour", dollars(func(o *Outcome) float64 { return o.DollarsPerHour })},
	{"bought, $ an hour", dollars(func(o *Outcome) float64 { return o.BuyPerHour })},
	{"given back, $ an hour", dollars(func(o *Outcome) float64 { return o.DeletePerHour })},
	{"victims' interruption, $ once", dollars(func(o *Outcome) float64 { return o.Interruption })},
	{"victims' reclamation, $ once", dollars(func(o *Outcome) float64 { return o.Reclamation })},
	{"victims that are pinned", count(func(o *Outcome) int { return o.Pinned })},
	{"longest grace, seconds", count(func(o *Outcome) int { return int(o.GraceSeconds) })},
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
		fmt.Fprintf(w, "  %s %s %s", sign, a.Kind, terminal.Escape(a.Machine))
		if a.Cluster != "" {
			fmt.Fprintf(w, " cluster %s", terminal.Escape(a.Cluster))
		}
		if a.Need != "" {
			fmt.Fprintf(w, " for %s", terminal.Escape(a.Need))
		}
		fmt.Fprintln(w)
	}
	if more := len(actions) - tableActionsMax; more > 0 {
		fmt.Fprintf(w, "  %s … and %d more; -o json lists them all\n", sign, more)
	}
}
