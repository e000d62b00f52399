package world

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/sim"
)

// TraceJSON writes a run as JSON, one object a line.
type TraceJSON struct {
	out io.Writer
	j   jsonWriter
}

// NewTraceJSON returns a trace that writes to out, one line at a time.
func NewTraceJSON(out io.Writer) *TraceJSON { return &TraceJSON{out: out} }

// Cycle writes the line of one cycle.
func (t *TraceJSON) Cycle(c *sim.Cycle) error {
	j := t.begin()
	j.open('{')
	j.key("cycle")
	j.int(int64(c.Cycle))
	j.key("actions")
	j.open('[')
	for _, a := range c.Actions {
		j.texts([]string{a.Kind.String(), a.Machine, a.Need})
	}
	j.close(']')
	j.counts("states", c.States, stateNames)
	j.key("inFlight")
	j.int(int64(c.InFlight))
	j.key("unsatisfied")
	j.texts(c.Unsatisfied)
	j.key("shortfalls")
	j.int(int64(c.Shortfalls))
	j.key("held")
	j.texts(c.Held)
	j.key("suppressed")
	j.int(int64(c.Suppressed))
	j.key("digest")
	j.text(c.Digest)
	j.close('}')
	return t.end()
}

// Summary writes the last line.
func (t *TraceJSON) Summary(s *sim.Summary) error {
	j := t.begin()
	j.open('{')
	j.key("summary")
	j.open('{')
	j.key("cycles")
	j.int(int64(s.Cycles))
	j.counts("actions", s.Actions, kindNames)
	j.key("lastAction")
	j.int(int64(s.LastAction))
	j.counts("states", s.States, stateNames)
	j.key("unsatisfied")
	j.texts(s.Unsatisfied)
	j.key("shortfalls")
	j.int(int64(s.Shortfalls))
	j.key("digest")
	j.text(s.Digest)
	j.key("compared")
	j.int(int64(s.Compared))
	j.key("rest")
	j.rest(&s.Rest)
	j.bill(&s.Bill)
	j.close('}')
	j.close('}')
	return t.end()
}

func (t *TraceJSON) begin() *jsonWriter {
	t.j.b = t.j.b[:0]
	return &t.j
}

func (t *TraceJSON) end() error {
	t.j.b = append(t.j.b, '\n')
	_, err := t.out.Write(t.j.b)
	return err
}

var kindNames = func() (names []string) {
	for k := range engine.NumKinds {
		names = append(names, engine.Kind(k).String())
	}
	return names
}()

// counts writes a key and an object of counts, in the order of names; zeros
// are left out.
func (j *jsonWriter) counts(key string, counts map[string]int, names []string) {
	j.key(key)
	j.open('{')
	for _, name := range names {
		if n := counts[name]; n != 0 {
			j.key(name)
			j.int(int64(n))
		}
	}
	j.close('}')
}

// TraceTable writes a run for people, a line a cycle. Cycles in which nothing
// changed are drawn together.
type TraceTable struct {
	out   io.Writer
	lines int
	last  string // what the last line says besides its number
	quiet int    // cycles like it that were not written
	cycle int
}

// NewTraceTable returns a trace that writes to out as the run goes.
func NewTraceTable(out io.Writer) *TraceTable { return &TraceTable{out: out} }

// headerEvery is after how many lines the header is repeated.
const headerEvery = 40

const (
	traceHeader = "CYCLE   BIND    BUY PREEMPT RECLAIM DELETE |   IDLE  BOUND IN-FLIGHT QUOTA FAILED | UNMET NOTES"
	traceFormat = "%6d %6d %7d %7d %6d | %6d %6d %9d %5d %6d | %5d %s"
)

// Cycle writes the line of one cycle.
func (t *TraceTable) Cycle(c *sim.Cycle) error {
	var done [engine.NumKinds]int
	for _, a := range c.Actions {
		done[a.Kind]++
	}
	line := strings.TrimRight(fmt.Sprintf(traceFormat, done[engine.Bootstrap], done[engine.Provision], done[engine.Preempt], done[engine.Reclaim], done[engine.Delete],
		c.States[model.Idle.String()], c.States[model.Configured.String()], c.InFlight, c.States[model.Speculative.String()], c.States[model.Failed.String()],
		len(c.Unsatisfied), notes(c)), " ")
	if line == t.last {
		t.quiet++
		t.cycle = c.Cycle
		return nil
	}
	if err := t.drawTogether(); err != nil {
		return err
	}
	if t.lines%headerEvery == 0 {
		if _, err := fmt.Fprintln(t.out, traceHeader); err != nil {
			return err
		}
	}
	t.lines++
	t.last, t.cycle = line, c.Cycle
	_, err := fmt.Fprintf(t.out, "%5d %s\n", c.Cycle, line)
	return err
}

// drawTogether writes what stands for the cycles that were not written.
func (t *TraceTable) drawTogether() error {
	if t.quiet == 0 {
		return nil
	}
	_, err := fmt.Fprintf(t.out, "    … the same up to cycle %d\n", t.cycle)
	t.quiet = 0
	return err
}

// notes says what has no column.
func notes(c *sim.Cycle) string {
	var parts []string
	if len(c.Held) > 0 {
		held := slices.Clone(c.Held)
		for i := range held {
			held[i] = cell(held[i])
		}
		parts = append(parts, "held: "+strings.Join(held, " "))
	}
	if c.Suppressed > 0 {
		parts = append(parts, fmt.Sprintf("%d not carried out", c.Suppressed))
	}
	return strings.Join(parts, "; ")
}

// Summary writes what the run comes to.
func (t *TraceTable) Summary(s *sim.Summary) error {
	if err := t.drawTogether(); err != nil {
		return err
	}
	total := 0
	var kinds []string
	for _, name := range kindNames {
		if n := s.Actions[name]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, name))
			total += n
		}
	}
	did := "nothing was done"
	if total > 0 {
		did = fmt.Sprintf("%s, the last in cycle %d", strings.Join(kinds, ", "), s.LastAction)
	}
	unmet := "every need is satisfied"
	if len(s.Unsatisfied) > 0 {
		names := make([]string, 0, len(s.Unsatisfied))
		for _, n := range s.Unsatisfied[:min(len(s.Unsatisfied), summaryNamesMax)] {
			names = append(names, cell(n))
		}
		unmet = plural(len(s.Unsatisfied), "need") + " unmet: " + strings.Join(names, ", ")
		if more := len(s.Unsatisfied) - summaryNamesMax; more > 0 {
			unmet += fmt.Sprintf(" and %d more", more)
		}
	}
	costs := billText(&s.Bill)
	if costs != "" {
		costs += "\n"
	}
	_, err := fmt.Fprintf(t.out, "\n%s: %s; %s\n%s%s", plural(s.Cycles, "cycle"), did, unmet, restTable(&s.Rest), costs)
	return err
}

// summaryNamesMax is how many names a summary lists.
const summaryNamesMax = 20
