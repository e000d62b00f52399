package world

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/terminal"
)

const (
	// tableIDsMax is how many machines a line names; JSON names them all.
	tableIDsMax = 12
	// tableDomainsMax is how many domains of a Need are listed.
	tableDomainsMax = 10
)

// WriteExplanation writes, for people, why each explained Need and machine is as
// it is. The answer must be one of Explain or of Decide with an explanation. verbose adds what the engine
// counted.
func (a *Answer) WriteExplanation(out io.Writer, of *World, verbose bool) error {
	w := bufio.NewWriter(out)
	rows := make(map[string]*NeedRow, len(a.Needs))
	for i := range a.Needs {
		rows[a.Needs[i].Name] = &a.Needs[i]
	}
	if a.Explain.HeldBack != nil {
		a.Explain.HeldBack.tell(w)
	}
	for i := range a.Explain.Needs {
		n := &a.Explain.Needs[i]
		n.tell(w, rows[n.Name], verbose)
	}
	machines := of.book().machines
	for i := range a.Explain.Machines {
		m := &a.Explain.Machines[i]
		m.tell(w, &of.Machines[machines[m.Machine]])
	}
	return w.Flush()
}

// tell says what became of a Need and why.
func (n *NeedWhy) tell(w io.Writer, row *NeedRow, verbose bool) {
	verdict := "satisfied"
	if !row.Satisfied {
		verdict = "not satisfied: " + n.Reason.String() + ", short of " + terminal.Escape(vector(n.Deficit))
	}
	fmt.Fprintf(w, "need %s of cluster %s, rank %d: %s\n", cell(n.Name), cell(row.Cluster), n.Rank, verdict)
	if n.Funnel != nil {
		n.Funnel.tellVerdict(w)
	}
	if n.Demanded != 0 {
		fmt.Fprintf(w, "  demanded since %s\n", secondText(n.Demanded))
	}
	if n.Short != 0 {
		fmt.Fprintf(w, "  short since %s\n", secondText(n.Short))
	}
	if n.FoldOf != "" && n.FoldOf != n.Name {
		fmt.Fprintf(w, "  walked as part of the fold of %s\n", cell(n.FoldOf))
	}
	for _, list := range []struct {
		says string
		ids  []string
	}{{"has", n.Credited}, {"takes", n.Acquired}, {"preempts", n.Preempted}} {
		if len(list.ids) > 0 {
			whose := ""
			if list.says == "preempts" {
				whose = n.whose()
			}
			fmt.Fprintf(w, "  %s %s: %s%s\n", list.says, plural(len(list.ids), "machine"), shortened(list.ids), whose)
		}
	}
	for i := range n.Held {
		n.Held[i].tell(w)
	}
	if len(n.InFlight) > 0 {
		fmt.Fprintf(w, "  draining for it: %s\n", terminal.Escape(vector(n.InFlight)))
	}
	if n.Funnel != nil {
		n.Funnel.tell(w)
	}
	if verbose {
		n.tellCounts(w)
		n.tellDomains(w)
		n.tellPreemption(w)
	} else {
		n.tellPlace(w, row.Satisfied)
	}
	if x := n.Why.Tenancy; x != nil && (verbose || x.Verdict != "nothing" && x.Verdict != "no_tenant") {
		tellTenancy(w, x)
	}
}

// whose names the Needs that lose what the plan preempts.
func (n *NeedWhy) whose() string {
	if n.Plan == nil {
		return ""
	}
	var of []string
	for i := range n.Plan.Units {
		if n.Plan.Units[i].Spared {
			continue
		}
		for _, name := range n.Plan.Units[i].Holders {
			if !slices.Contains(of, name) {
				of = append(of, name)
			}
		}
	}
	if len(of) == 0 {
		return ""
	}
	return ", of " + shortened(of)
}

// tellPreemption says where preemption was looked for, and what the plan takes.
func (n *NeedWhy) tellPreemption(w io.Writer) {
	for i := range n.Why.Preemption {
		p := &n.Why.Preemption[i]
		covered := "not enough"
		if p.Covered {
			covered = "enough"
		}
		if p.Rejected != "" {
			covered += ", rejected by " + p.Rejected
		}
		what := "preemption"
		if p.Tenants {
			what = "reclaim between tenants"
		}
		fmt.Fprintf(w, "  %s in %s: %s, %s; missing %s\n", what, cell(p.Domain), plural(p.Candidates, "candidate"), covered, cell(vector(p.Missing)))
	}
	if n.Plan != nil {
		n.Plan.tell(w)
	}
}

// tellCounts says what each machine is to the Need, as the engine counts it.
func (n *NeedWhy) tellCounts(w io.Writer) {
	var parts []string
	for v, count := range n.Why.Machines {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, engine.Verdict(v)))
		}
	}
	fmt.Fprintf(w, "  what the machines are to it: %s\n", strings.Join(parts, ", "))
}

// tellPlace names the domain that was chosen: for a Need that is short, the best place so far.
func (n *NeedWhy) tellPlace(w io.Writer, satisfied bool) {
	what := "its place"
	if !satisfied {
		what = "the best place so far"
	}
	for i := range n.Why.Domains {
		if d := &n.Why.Domains[i]; d.Chosen {
			fmt.Fprintf(w, "  %s: %s\n", what, cell(d.Domain))
		}
	}
}

func (n *NeedWhy) tellDomains(w io.Writer) {
	if len(n.Why.Domains) == 0 {
		return
	}
	t := terminal.NewTable("DOMAIN", "CHOSEN", "COVERS", "MACHINES", "TOTAL", "CREDITABLE", "OWN", "REJECTED BY").Indent(2)
	thousandths := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	for i := range n.Why.Domains {
		d := &n.Why.Domains[i]
		if i >= tableDomainsMax && !d.Chosen {
			continue
		}
		t.Row(cell(d.Domain), yes(d.Chosen), yes(d.Covers), d.Machines, thousandths(d.Total), thousandths(d.Creditable), thousandths(d.Own), cell(d.Rejected))
	}
	_ = t.Write(w) // the first error stays with w
	if more := len(n.Why.Domains) - tableDomainsMax; more > 0 {
		fmt.Fprintf(w, "  … and %d more; -o json lists more of them\n", more)
	}
}

// tell says what happens to a machine and why.
func (m *MachineWhy) tell(w io.Writer, of *model.Machine) {
	fmt.Fprintf(w, "machine %s, %s", cell(m.Machine), of.State)
	if of.Cluster != "" {
		fmt.Fprintf(w, " in cluster %s", cell(of.Cluster))
	}
	if of.IsLateBound() {
		fmt.Fprintf(w, " and late-bound, $%s an hour from when it is bound\n", terminal.Price(of.PricePerHour))
		fmt.Fprintln(w, "  it is not made yet: it is chosen among the Speculative machines, and deleted at once when no need wants it")
	} else {
		fmt.Fprintf(w, ", $%s an hour\n", terminal.Price(of.PricePerHour))
	}
	for i := range m.Costs {
		m.Costs[i].tell(w, of)
	}
	switch {
	case m.ClaimedBy != "":
		fmt.Fprintf(w, "  claimed by need %s\n", cell(m.ClaimedBy))
	case of.State.Bound():
		fmt.Fprintln(w, "  claimed by no need")
	}
	if of.Reservation.Active() {
		fmt.Fprintf(w, "  held for a need of cluster %s\n", cell(of.Reservation.Owner.Cluster))
	}
	if m.PlannedFor != "" {
		fmt.Fprintf(w, "  the plan of need %s holds it from this cycle on\n", cell(m.PlannedFor))
	}
	m.tellAction(w)
	if m.Held != nil {
		m.Held.tell(w)
	}
}

// tellAction says what the plan does with a machine.
func (m *MachineWhy) tellAction(w io.Writer) {
	if !m.Decided {
		fmt.Fprintln(w, "  no change planned")
		return
	}
	fmt.Fprintf(w, "  %s, because %s", m.Kind, m.Reason)
	if m.For != "" {
		fmt.Fprintf(w, ", for need %s", cell(m.For))
	}
	if m.HeldBy != "" {
		fmt.Fprintf(w, "; held back by %s", m.HeldBy)
	}
	fmt.Fprintln(w)
	if x := &m.Why; m.Kind == engine.Preempt {
		fmt.Fprintf(w, "  score %.4f = gap %.4f + drain %.4f + interruption %.4f + reclamation %.4f; served %s\n",
			x.Score, x.Gap, x.Drain, x.Interruption, x.Reclamation, cell(m.Holder))
	}
	m.tellAcquired(w)
}

// secondText writes a time for people, in whole seconds.
func secondText(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339) }

func yes(v bool) string {
	if v {
		return "yes"
	}
	return "-"
}

func shortened(ids []string) string {
	shown := make([]string, 0, tableIDsMax)
	for _, id := range ids[:min(len(ids), tableIDsMax)] {
		shown = append(shown, cell(id))
	}
	line := strings.Join(shown, " ")
	if more := len(ids) - tableIDsMax; more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	return line
}
