package main

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/provider/check"
)

// checkCommandOutputMax is how much is shown of what a command printed that failed.
const checkCommandOutputMax = 1000

// checkMachineVariable is the environment variable with the id of the machine that a command changes.
const checkMachineVariable = "TONNAGE_MACHINE"

// checkReport is what provider check prints.
type checkReport struct {
	Address  string         `json:"address"`
	Machines []check.Claim  `json:"machines"`
	Results  []check.Result `json:"results"`
	Passed   int            `json:"passed"`
	Failed   int            `json:"failed"`
	Skipped  int            `json:"skipped"`
	// Left are machines that are not as they were found.
	Left []check.Left `json:"left"`
}

func (c *providerCheck) run(ctx context.Context) error {
	p, err := c.parse()
	if err != nil {
		return err
	}
	if c.list {
		return c.printList(p)
	}
	conn, err := grpc.NewClient(c.addr, p.tls.DialOptionsTo(p.server)...)
	if err != nil {
		return badInput(fmt.Errorf("--addr: %w", err))
	}
	defer conn.Close()
	p.options.Conn = conn
	target, err := check.New(ctx, p.options)
	if err != nil {
		return checkFault(err)
	}
	if c.dryRun {
		return c.printDry(p, target)
	}
	if n := len(target.Claims()); n > 0 && !c.yes {
		return badInput(fmt.Errorf("this buys, binds, drains and deletes up to %d machines of the provider: %s; give --yes to let them be used, --machines or --filter to choose others, or --max-machines 0 to use none",
			n, claimed(target)))
	}
	if err := target.Begin(ctx); err != nil {
		return checkFault(err)
	}
	if len(target.Claims()) > 0 {
		fmt.Fprintf(c.err, "tonnage provider check: uses %s\n", claimed(target))
	}
	return c.carryOut(ctx, p, target)
}

// grpcError is how a call was answered.
type grpcError interface {
	error
	GRPCStatus() *status.Status
}

// checkFault is an error of a target as the command says it.
func checkFault(err error) error {
	if errors.Is(err, check.ErrOptions) {
		return badInput(err)
	}
	if answer, ok := errors.AsType[grpcError](err); ok {
		s := answer.GRPCStatus()
		return errors.New(strings.ToLower(s.Code().String()) + ": " + terminal.Escape(s.Message()))
	}
	return err
}

func claimed(t *check.Target) string {
	var out []string
	for _, m := range t.Claims() {
		out = append(out, fmt.Sprintf("%s (%s)", terminal.Escape(m.ID), m.State))
	}
	return strings.Join(out, ", ")
}

// carryOut runs the checks, brings machines back, and prints the report. Machines are brought
// back when the run is interrupted, too.
func (c *providerCheck) carryOut(ctx context.Context, p *checkPlan, target *check.Target) error {
	progress := liveLine(c.err)
	show := func(line string, args ...any) { progress.show(fmt.Sprintf(line, args...)) }
	out := &checkReport{Address: c.addr, Machines: append([]check.Claim{}, target.Claims()...)}
	waiting := c.sayWaiting(target, progress)
	defer waiting()
	rows := newCheckRows(p)
	var faults error // of printing
	row := func(cells ...string) {
		if p.format == formatTable {
			progress.clear()
			faults = cmp.Or(faults, rows.print(c.out, cells...))
		}
	}
	row("CHECK", "RESULT", "TIME", "")
	out.Results = check.RunAll(ctx, target, p.checks, c.timeout, func(p check.Progress) {
		if p.Ended != nil {
			row(resultRow(p.Ended)...)
			return
		}
		show("check %d of %d%s%s%s%d failed", p.Done+1, p.All, statusSeparator, p.ID, statusSeparator, p.FailedThus)
	})
	show("bringing machines back")
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout*time.Duration(max(1, len(out.Machines))))
	defer cancel()
	out.Left = append([]check.Left{}, target.Restore(within)...)
	waiting()
	progress.clear()
	for _, r := range out.Results {
		switch r.Status {
		case check.Passed:
			out.Passed++
		case check.Failed:
			out.Failed++
		case check.Skipped:
			out.Skipped++
		}
	}
	if err := errors.Join(faults, c.printReport(p.format, out)); err != nil {
		return err
	}
	return out.verdict(ctx)
}

// sayWaiting says which machine is waited for until the returned function is called.
func (c *providerCheck) sayWaiting(target *check.Target, progress *console) (stop func()) {
	ended := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(c.said)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			w := target.Waiting()
			if w.Machine == "" {
				continue
			}
			line := fmt.Sprintf("waits for machine %s, %s since %s (%s)", terminal.Escape(w.Machine), w.State, w.Since.Format(time.TimeOnly), time.Since(w.Since).Round(time.Second))
			if progress != nil {
				progress.show(line)
			} else {
				fmt.Fprintln(c.err, "tonnage provider check: "+line)
			}
		}
	})
	return sync.OnceFunc(func() { close(ended); done.Wait() })
}

// checkRows prints a table row by row: its columns are as wide as any of their cells can be.
type checkRows struct{ widths [3]int }

func newCheckRows(p *checkPlan) *checkRows {
	r := &checkRows{[3]int{len("CHECK"), len(check.Skipped), len("1000.0 s")}}
	for _, k := range p.checks {
		r.widths[0] = max(r.widths[0], len(k.ID))
	}
	return r
}

func (r *checkRows) print(w io.Writer, cells ...string) error {
	line := ""
	for i, text := range cells {
		if text = terminal.Escape(text); i < len(r.widths) {
			text = fmt.Sprintf("%-*s  ", r.widths[i], text)
		}
		line += text
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(line, " "))
	return err
}

func resultRow(x *check.Result) []string {
	why := x.Reason
	if x.Status == check.Failed {
		why = "expected " + x.Expected + "; saw " + x.Seen
	}
	return []string{x.ID, string(x.Status), millis(float64(x.Took.Nanoseconds()) / 1e6), why}
}

// verdict is what the command's exit code says, and why.
func (r *checkReport) verdict(ctx context.Context) error {
	var faults []error
	if ctx.Err() != nil {
		faults = append(faults, fmt.Errorf("interrupted: %w", context.Cause(ctx)))
	}
	if r.Failed > 0 {
		faults = append(faults, fmt.Errorf("%d of %d checks failed", r.Failed, len(r.Results)))
	}
	for _, l := range r.Left {
		if !l.Asked {
			faults = append(faults, fmt.Errorf("machine %s was %s and is %s: %s", terminal.Escape(l.ID), l.Found, l.Now, terminal.Escape(l.Why)))
		}
	}
	return errors.Join(faults...)
}

func (c *providerCheck) encode(value any) error {
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// listedCheck is a check as --list prints it.
type listedCheck struct {
	ID        string `json:"id"`
	Promise   string `json:"promise"`
	Reference string `json:"reference"`
}

func (c *providerCheck) printList(p *checkPlan) error {
	rows := []listedCheck{}
	for _, k := range p.checks {
		rows = append(rows, listedCheck{k.ID, k.Promise, k.Reference})
	}
	if p.format == formatJSON {
		return c.encode(rows)
	}
	t := terminal.NewTable("CHECK", "WHAT THE PROTOCOL SAYS")
	for _, r := range rows {
		t.Row(r.ID, r.Promise)
	}
	return t.Write(c.out)
}

func (c *providerCheck) printDry(p *checkPlan, target *check.Target) error {
	var ids []string
	for _, k := range p.checks {
		ids = append(ids, k.ID)
	}
	if p.format != formatTable {
		return c.encode(struct {
			Machines []check.Claim `json:"machines"`
			Checks   []string      `json:"checks"`
		}{append([]check.Claim{}, target.Claims()...), ids})
	}
	t := terminal.NewTable("MACHINE", "STATE")
	for _, m := range target.Claims() {
		t.Row(m.ID, m.State)
	}
	if err := t.Write(c.out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "%d checks would run\n", len(ids))
	return err
}

// printReport prints all results; of a table the rows are there already.
func (c *providerCheck) printReport(format string, r *checkReport) error {
	switch format {
	case formatJSON:
		return c.encode(r)
	case formatJUnit:
		return writeJUnit(c.out, r)
	}
	_, err := fmt.Fprintf(c.out, "%d passed, %d failed, %d skipped\n", r.Passed, r.Failed, r.Skipped)
	return err
}

// The elements of a report in the format of JUnit.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Seconds  string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Seconds string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Skipped *junitMessage `xml:"skipped,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func writeJUnit(w io.Writer, r *checkReport) error {
	suite := junitSuite{Name: "tonnage provider check " + r.Address, Tests: len(r.Results), Failures: r.Failed, Skipped: r.Skipped}
	var all time.Duration
	for _, x := range r.Results {
		all += x.Took
		k := junitCase{Class: "provider", Name: x.ID, Seconds: inSeconds(x.Took)}
		switch x.Status {
		case check.Failed:
			k.Failure = &junitMessage{"expected " + x.Expected + "; saw " + x.Seen, x.Promise}
		case check.Skipped:
			k.Skipped = &junitMessage{Message: x.Reason}
		}
		suite.Cases = append(suite.Cases, k)
	}
	suite.Seconds = inSeconds(all)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func restartBy(command string) func(context.Context) error {
	return func(ctx context.Context) error { return runCommand(ctx, command) }
}

// checkCannotCode is with what a command ends that cannot do it.
const checkCannotCode = 77

func machineBy(command string) func(context.Context, string) error {
	return func(ctx context.Context, machine string) error {
		err := runCommand(ctx, command, checkMachineVariable+"="+machine)
		if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == checkCannotCode {
			return fmt.Errorf("%w: %w", check.ErrCannot, err)
		}
		return err
	}
}

// runCommand runs a command of the caller's and waits until it ends. What it starts in the
// background may go on, and keeps the file that it writes to.
func runCommand(ctx context.Context, command string, variables ...string) error {
	said, err := os.CreateTemp("", "tonnage-check-")
	if err != nil {
		return err
	}
	defer said.Close()
	defer os.Remove(said.Name())
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdout, cmd.Stderr = said, said
	err = cmd.Run()
	if err == nil {
		return nil
	}
	text := make([]byte, checkCommandOutputMax)
	n, _ := said.ReadAt(text, 0)
	return fmt.Errorf("%q: %w: %s", command, err, strings.TrimSpace(string(text[:n])))
}
