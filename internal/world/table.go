package world

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/terminal"
)

// tableActionsMax is how many actions a table lists; JSON lists them all.
const tableActionsMax = 200

// WriteTable writes the answer for people: the Needs, the actions, and a line
// that sums up.
func (a *Answer) WriteTable(out io.Writer) error {
	w := bufio.NewWriter(out)
	a.tableNeeds(w)
	a.tableActions(w)
	a.tableWhy(w)
	a.tableSummary(w)
	return w.Flush()
}

func (a *Answer) tableNeeds(w io.Writer) {
	if len(a.Needs) == 0 {
		fmt.Fprintln(w, "No needs.")
		return
	}
	t := terminal.NewTable("NEED", "CLUSTER", "SATISFIED", "MACHINES", "BIND", "BUY", "DOMAIN", "DEFICIT", "REASON")
	for i := range a.Needs {
		n := &a.Needs[i]
		satisfied := "yes"
		if !n.Satisfied {
			satisfied = "no"
		}
		t.Row(cell(n.Name), cell(n.Cluster), satisfied,
			len(n.Claimed), n.Bootstrap, n.Provision, cell(n.Domain), cell(vector(n.Deficit)), cell(n.Reason.String()))
	}
	_ = t.Write(w) // the first error stays with w
}

func (a *Answer) tableActions(w io.Writer) {
	if len(a.Actions) == 0 {
		fmt.Fprintln(w, "\nNothing to do.")
		return
	}
	fmt.Fprintln(w)
	t := terminal.NewTable("ACTION", "MACHINE", "CLUSTER", "FOR", "GRACE", "REASON")
	for i := range a.Actions[:min(len(a.Actions), tableActionsMax)] {
		x := &a.Actions[i]
		grace := ""
		if x.GraceSeconds > 0 {
			grace = fmt.Sprintf("%ds", x.GraceSeconds)
		}
		t.Row(x.Kind, cell(x.Machine), cell(x.Cluster), cell(x.Need), cell(grace), x.Reason)
	}
	_ = t.Write(w) // the first error stays with w
	if more := len(a.Actions) - tableActionsMax; more > 0 {
		fmt.Fprintf(w, "… and %d more; -o json lists them all\n", more)
	}
}

// tableWhy says of every unmet Need what it made of the machines. The rest of
// the explanation is in the JSON.
func (a *Answer) tableWhy(w io.Writer) {
	if a.Explain == nil || len(a.Shortfalls) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := terminal.NewTable("UNMET", "REASON", "WHAT THE MACHINES ARE TO IT")
	for i := range a.Explain.Needs {
		n := &a.Explain.Needs[i]
		if n.Reason == engine.UnmetNone {
			continue
		}
		var parts []string
		for v, count := range n.Why.Machines {
			if count > 0 {
				parts = append(parts, fmt.Sprintf("%s %d", engine.Verdict(v), count))
			}
		}
		t.Row(cell(n.Name), n.Reason, strings.Join(parts, ", "))
	}
	_ = t.Write(w) // the first error stays with w
}

func (a *Answer) tableSummary(w io.Writer) {
	var counts [engine.NumKinds]int
	for i := range a.Actions {
		counts[a.Actions[i].Kind]++
	}
	var kinds []string
	for k, n := range counts {
		if n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, engine.Kind(k)))
		}
	}
	unmet := 0
	for i := range a.Needs {
		if !a.Needs[i].Satisfied {
			unmet++
		}
	}
	line := fmt.Sprintf("%s, %s: %d satisfied, %d not", plural(a.Stats.Machines, "machine"), plural(len(a.Needs), "need"), len(a.Needs)-unmet, unmet)
	if len(kinds) > 0 {
		line += "; " + strings.Join(kinds, ", ")
	}
	fmt.Fprintf(w, "\n%s\n", line)
	if text := billText(&a.Bill); text != "" {
		fmt.Fprintln(w, text)
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// vector writes a resource vector on one line.
func vector(r model.Resources) string {
	parts := make([]string, len(r))
	for i, a := range r {
		parts[i] = a.Name + "=" + model.FormatQuantity(a.Name, a.Value)
	}
	return strings.Join(parts, " ")
}

// cell makes a text fit for a table or a line: never empty, and without characters
// that would break the line or command the terminal.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return terminal.Escape(s)
}
