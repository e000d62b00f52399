package advice

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/tonnage/tonnage/internal/terminal"
)

const losersShown = 6

// WriteTable writes, for people, what would help. source are the flags that name the world, in the
// commands it writes.
func (a *Advice) WriteTable(out io.Writer, source string) error {
	w := bufio.NewWriter(out)
	name := terminal.Escape(a.Need)
	switch {
	case a.Satisfied:
		fmt.Fprintf(w, "need %s is satisfied; it needs no help\n", name)
		return w.Flush()
	case a.Waiting:
		fmt.Fprintf(w, "need %s waits for machines that drain for it, which cover the rest\n", name)
		return w.Flush()
	}
	fmt.Fprintf(w, "what would help need %s, each by itself (%d decisions made):\n", name, a.Tries)
	for i := range a.Capacity {
		c := &a.Capacity[i]
		fmt.Fprintf(w, "  more machines: %d of %s, $%s an hour more\n", c.Count, c.says(), terminal.Cents(c.AddedPerHour))
		c.tell(w)
		fmt.Fprintf(w, "    tonnage what-if %s %s\n", terminal.Escape(source), terminal.Escape(c.Command()))
	}
	if p := a.Priority; p != nil {
		fmt.Fprintf(w, "  a higher priority: %d\n", p.Priority)
		p.tell(w)
		fmt.Fprintf(w, "    tonnage what-if %s %s\n", terminal.Escape(source), terminal.Escape(p.Command(a.Need)))
	}
	for i := range a.Relax {
		r := &a.Relax[i]
		fmt.Fprintf(w, "  a requirement less: without `%s`\n", terminal.Escape(r.Leave))
		r.tell(w)
		if command := r.Command(a.Need); command != "" {
			fmt.Fprintf(w, "    tonnage what-if %s %s\n", terminal.Escape(source), terminal.Escape(command))
		}
	}
	if len(a.Capacity) == 0 {
		fmt.Fprintln(w, "  no number of machines of a type that exists helps by itself")
	}
	if a.Priority == nil {
		fmt.Fprintln(w, "  no priority helps")
	}
	if len(a.Relax) == 0 {
		fmt.Fprintln(w, "  no requirement less helps by itself")
	}
	if len(a.Capacity) > 0 || a.Priority != nil || len(a.Relax) > 0 {
		fmt.Fprintln(w, "to do it: machines at the provider; priority and requirements in the pods, the CapacityRequest, or the file of tonnage demand apply")
	}
	if a.Exhausted {
		fmt.Fprintln(w, "  the search has ended early; there may be more that helps")
	}
	return w.Flush()
}

func (c *Capacity) says() string {
	parts := []string{terminal.Escape(c.InstanceType)}
	if c.InstanceType == "" {
		parts[0] = "the kind of " + terminal.Escape(c.Like)
	}
	if c.CapacityType != "Unspecified" {
		parts = append(parts, c.CapacityType)
	}
	where := ""
	if c.Domain != "" {
		where = " in " + terminal.Escape(c.Domain)
	} else if c.Zone != "" {
		where = " in " + terminal.Escape(c.Zone)
	}
	return strings.Join(parts, ", ") + where
}

// tell says what a change means for others.
func (e *Effect) tell(w io.Writer) {
	for i := range e.Losers {
		if i == losersShown {
			fmt.Fprintf(w, "    … and %d more needs lose something; -o json lists them all\n", len(e.Losers)-losersShown)
			break
		}
		l := &e.Losers[i]
		what := fmt.Sprintf("loses %d of its %d machines", l.Machines, l.Of)
		if l.Machines == 0 {
			what = "is no longer satisfied"
		}
		fmt.Fprintf(w, "    need %s of cluster %s, priority %d, %s\n", terminal.Escape(l.Need), terminal.Escape(l.Cluster), l.Priority, what)
	}
	if len(e.Losers) > 1 {
		fmt.Fprintln(w, "    who loses machines to it may take others in turn")
	}
	if all := e.DollarsPerHour + e.DrainingPerHour; all > 0 {
		after := ""
		if e.DrainingPerHour > 0 {
			after = ", when those of others have drained"
		}
		fmt.Fprintf(w, "    its machines then cost $%s an hour%s\n", terminal.Cents(all), after)
	}
}
