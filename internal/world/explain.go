package world

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// explainDomainsMax is how many domains of one Need are listed, best first.
const explainDomainsMax = 32

// explainer is the engine after a cycle, asked why.
type explainer interface {
	ExplainNeed(i int) engine.NeedExplanation
	ExplainAction(i int) engine.ActionExplanation
}

// Explain says why, by Need in the order of the file and by machine in the
// order of ids.
type Explain struct {
	Needs    []NeedWhy
	Machines []MachineWhy
	HeldBack *HeldBack // nil = nothing is known to be
}

// NeedWhy is what is known of one Need beyond its row.
type NeedWhy struct {
	Name string
	// FoldOf is the name of the first member of the fold that the Need is part
	// of; empty when it is walked by itself.
	FoldOf string
	// Rank is the Need's place in the order of the pass, from 0.
	Rank int32
	// Credited are the machines that counted already, in the order of the
	// credit walk; Acquired those taken from the pool, in the order of the
	// picks; Preempted those that are drained for it.
	Credited  []string
	Acquired  []string
	Preempted []string
	InFlight  model.Resources // what drains for it, at most its deficit
	Domain    string
	Reason    engine.Unmet
	Deficit   model.Resources
	Parked    bool
	// Demanded is when the Need was demanded first, Unix nanoseconds, 0 = not
	// known. Short is since when it is short: of a Need that is not satisfied, and
	// with a Same requirement only.
	Demanded, Short int64
	Why             engine.NeedExplanation
	Plan            *PlanWhy // nil = none, or victims one by one
	Funnel          *Funnel  // nil = not asked for
	// Held is what the last cycle of the shard held back that is for the Need or its fold.
	Held []HeldWhy
}

// MachineWhy is why something happens to a machine, or that it is claimed.
type MachineWhy struct {
	Machine string
	// ClaimedBy is the Need that the machine is attributed to.
	ClaimedBy string
	// PlannedFor is the Need whose plan of this cycle holds the machine; empty = none does.
	PlannedFor string
	// Decided tells whether the plan holds an action for the machine; the
	// fields below are the action's.
	Decided bool
	Kind    engine.Kind
	Reason  engine.Reason
	For     string // the acquirer or preemptor
	Holder  string // the Need that a victim served
	HeldBy  string // the rail that held the action back in this decision
	Why     engine.ActionExplanation
	// RunnerUp is the machine that would have been taken in its place; empty = none.
	RunnerUp string
	// Costs are of machines that were asked for by name.
	Costs []CostWhy
	Held  *HeldWhy // nil = the last cycle of the shard held nothing back
}

// railReclaimCap names rail 1.
const railReclaimCap = "reclaim_cap"

// Subjects are what to explain: Needs by name and machines by id; nil = all of
// both. To explain one Need is to look at every machine.
type Subjects struct {
	Needs    map[string]bool
	Machines map[string]bool
}

func (s *Subjects) need(name string) bool { return s == nil || s.Needs[name] }

// rows returns the rows of the demand that are to be explained; nil = all.
func (s *Subjects) rows(w *World) []engine.NeedRow {
	if s == nil {
		return nil
	}
	out := []engine.NeedRow{}
	for cluster, rows := range w.rows {
		for row, i := range rows {
			if s.Needs[w.Needs[i].Name] {
				out = append(out, engine.NeedRow{Cluster: cluster, Row: row})
			}
		}
	}
	return out
}

// machines returns which rows of the supply are to be explained.
func (s *Subjects) machines(t machines) func(columnar.Row) bool {
	if s == nil {
		return func(columnar.Row) bool { return true }
	}
	rows := map[columnar.Row]bool{}
	for id := range s.Machines {
		if r, ok := t.Lookup(id); ok {
			rows[r] = true
		}
	}
	return func(r columnar.Row) bool { return rows[r] }
}

func (t *translator) explain(carried []engine.Action, why explainer) *Explain {
	return &Explain{Needs: t.explainNeeds(why), Machines: t.explainMachines(carried, why)}
}

// explainNeeds explains the Needs that are asked about, in the order of the file.
func (t *translator) explainNeeds(why explainer) (out []NeedWhy) {
	preempted := make(map[int32][]string)
	for _, a := range t.actions {
		if a.Kind == engine.Preempt {
			preempted[a.Need] = append(preempted[a.Need], t.machines.ID(a.Machine))
		}
	}
	rows := make([]*NeedWhy, len(t.world.Needs))
	for i := range t.results {
		if !t.only.need(t.name(int32(i))) {
			continue
		}
		row := t.explainNeed(i)
		row.Preempted, row.Why = preempted[t.results[i].Fold], why.ExplainNeed(i)
		row.Plan = t.explainPlan(row.Why.Plan)
		rows[t.fileIndex[i]] = &row
	}
	for _, row := range rows {
		if row != nil {
			out = append(out, *row)
		}
	}
	return out
}

// explainMachines explains the machines that are asked about, by id.
func (t *translator) explainMachines(carried []engine.Action, why explainer) (out []MachineWhy) {
	wanted := t.only.machines(t.machines)
	byMachine := make(map[columnar.Row]*MachineWhy)
	entry := func(r columnar.Row) *MachineWhy {
		m := byMachine[r]
		if m == nil {
			m = &MachineWhy{Machine: t.machines.ID(r)}
			byMachine[r] = m
		}
		return m
	}
	for i, a := range t.actions {
		if wanted(a.Machine) {
			t.explainAction(entry(a.Machine), a, why.ExplainAction(i))
		}
	}
	for _, a := range carried {
		if wanted(a.Machine) {
			entry(a.Machine).HeldBy = ""
		}
	}
	for i := range t.reserved {
		if x := &t.reserved[i]; wanted(x.Machine) {
			entry(x.Machine).PlannedFor = t.name(x.Need)
		}
	}
	for i := range t.results {
		for _, r := range t.results[i].Claimed {
			if wanted(r) {
				entry(r).ClaimedBy = t.name(t.results[i].Fold)
			}
		}
	}
	if t.only != nil {
		ids := t.world.book().machines
		for id := range t.only.Machines {
			if r, ok := t.machines.Lookup(id); ok {
				// Also when nothing is to be said of it.
				entry(r).Costs = t.world.costs(&t.world.Machines[ids[id]])
			}
		}
	}
	for _, m := range byMachine {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b MachineWhy) int { return strings.Compare(a.Machine, b.Machine) })
	return out
}

// explainAction fills in the action, as one that the rails hold back.
func (t *translator) explainAction(m *MachineWhy, a engine.Action, why engine.ActionExplanation) {
	m.Decided, m.Kind, m.Reason, m.Why, m.HeldBy = true, a.Kind, a.Reason, why, railReclaimCap
	if a.Need >= 0 {
		m.For = t.name(a.Need)
	}
	if why.Holder >= 0 {
		m.Holder = t.name(why.Holder)
	}
	if why.Acquired != nil && why.Acquired.RunnerUp != columnar.None {
		m.RunnerUp = t.machines.ID(why.Acquired.RunnerUp)
	}
}

func (t *translator) explainNeed(i int) NeedWhy {
	n, file := &t.results[i], &t.world.Needs[t.fileIndex[i]]
	acquired := min(int(n.Bootstrap+n.Provision), len(n.Claimed))
	credited := len(n.Claimed) - acquired
	row := NeedWhy{
		Name: t.name(int32(i)), Rank: n.Rank, InFlight: n.InFlight, Domain: n.Domain,
		Credited: t.ids(n.Claimed[:credited], false), Acquired: t.ids(n.Claimed[credited:], false),
		Reason: n.Unmet, Deficit: n.Deficit, Parked: file.Parked, Demanded: file.Arrival,
	}
	if !n.Satisfied && file.ShortSince < t.world.Now {
		row.Short = file.ShortSince
	}
	if n.Folded {
		row.FoldOf = t.name(n.Fold)
	}
	return row
}

// WriteExplanationJSON writes the explanation alone: {"needs": …, "machines": …}.
func (a *Answer) WriteExplanationJSON(out io.Writer) error {
	j := &jsonWriter{}
	a.Explain.object(j)
	j.b = append(j.b, '\n')
	_, err := out.Write(j.b)
	return err
}

// write writes the explanation: two objects, by Need and by machine. Fields
// that say nothing are left out.
func (e *Explain) write(j *jsonWriter) {
	j.key("explain")
	e.object(j)
}

func (e *Explain) object(j *jsonWriter) {
	j.open('{')
	j.key("needs")
	j.open('{')
	for i := range e.Needs {
		j.line("   ")
		e.Needs[i].write(j)
	}
	j.close('}')
	j.line("  ")
	j.key("machines")
	j.open('{')
	for i := range e.Machines {
		j.line("   ")
		e.Machines[i].write(j)
	}
	j.close('}')
	e.HeldBack.write(j)
	j.close('}')
}

func (n *NeedWhy) write(j *jsonWriter) {
	j.key(n.Name)
	j.open('{')
	j.key("rank")
	j.int(int64(n.Rank))
	j.word("reason", n.Reason.String())
	j.word("foldOf", n.FoldOf)
	j.word("domain", n.Domain)
	j.word("demandedSince", timeText(n.Demanded))
	j.word("shortSince", timeText(n.Short))
	j.flag("parked", n.Parked)
	j.flag("pinned", n.Why.Pinned)
	j.flag("searchEnded", n.Why.SearchEnded)
	j.flag("withheld", n.Why.Withheld)
	j.vector("deficit", n.Deficit)
	j.vector("inFlight", n.InFlight)
	j.names("credited", n.Credited)
	j.names("acquired", n.Acquired)
	j.names("preempted", n.Preempted)
	if len(n.Held) > 0 {
		j.key("heldBack")
		j.open('[')
		for i := range n.Held {
			n.Held[i].write(j)
		}
		j.close(']')
	}
	j.key("machines")
	j.open('{')
	for v, count := range n.Why.Machines {
		if count > 0 {
			j.key(engine.Verdict(v).String())
			j.int(int64(count))
		}
	}
	j.close('}')
	if n.Funnel != nil {
		n.Funnel.write(j)
	}
	n.writeDomains(j)
	n.writePreemption(j)
	if n.Plan != nil {
		n.Plan.write(j)
	}
	if n.Why.Tenancy != nil {
		writeTenancy(j, n.Why.Tenancy)
	}
	j.close('}')
}

// timeText writes a time, "" for 0.
func timeText(nanos int64) string {
	if nanos == 0 {
		return ""
	}
	return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano)
}

// writeDomains writes the best domains, and the chosen one wherever it stands.
func (n *NeedWhy) writeDomains(j *jsonWriter) {
	if len(n.Why.Domains) == 0 {
		return
	}
	j.key("domains")
	j.open('[')
	left := 0
	for i := range n.Why.Domains {
		d := &n.Why.Domains[i]
		if i >= explainDomainsMax && !d.Chosen {
			left++
			continue
		}
		j.line("     ")
		j.open('{')
		j.key("domain")
		j.text(d.Domain)
		j.flag("chosen", d.Chosen)
		j.key("covers")
		j.bool(d.Covers)
		j.key("machines")
		j.int(int64(d.Machines))
		j.number("total", d.Total)
		j.number("creditable", d.Creditable)
		j.number("own", d.Own)
		j.number("uncapped", d.Surplus)
		j.word("rejectedBy", d.Rejected)
		j.close('}')
	}
	j.close(']')
	if left > 0 {
		j.key("domainsLeftOut")
		j.int(int64(left))
	}
}

func (n *NeedWhy) writePreemption(j *jsonWriter) {
	if len(n.Why.Preemption) == 0 {
		return
	}
	j.key("preemption")
	j.open('[')
	for i := range n.Why.Preemption {
		p := &n.Why.Preemption[i]
		j.line("     ")
		j.open('{')
		j.key("domain")
		j.text(p.Domain)
		j.key("covered")
		j.bool(p.Covered)
		j.key("candidates")
		j.int(int64(p.Candidates))
		j.vector("missing", p.Missing)
		j.word("rejectedBy", p.Rejected)
		j.flag("tenants", p.Tenants)
		if p.Cost != (engine.PlanCost{}) {
			writeCost(j, &p.Cost)
		}
		j.close('}')
	}
	j.close(']')
}

func (m *MachineWhy) write(j *jsonWriter) {
	j.key(m.Machine)
	j.open('{')
	j.word("claimedBy", m.ClaimedBy)
	j.word("plannedFor", m.PlannedFor)
	if m.Decided {
		j.word("action", m.Kind.String())
		j.word("reason", m.Reason.String())
		j.word("for", m.For)
		j.word("heldBy", m.HeldBy)
		m.writeWhy(j)
	}
	if m.Held != nil {
		j.key("heldBack")
		m.Held.write(j)
	}
	writeCosts(j, m.Costs)
	j.close('}')
}

// writeWhy writes what the kind of action was decided by.
func (m *MachineWhy) writeWhy(j *jsonWriter) {
	x := &m.Why
	j.number("pricePerHour", x.Price)
	switch m.Kind {
	case engine.Provision:
		j.number("effectiveCost", x.EffectiveCost)
	case engine.Preempt:
		j.word("servedNeed", m.Holder)
		j.flag("excess", x.Excess)
		j.key("score")
		j.open('{')
		j.number("total", x.Score)
		j.number("gap", x.Gap)
		j.number("drainSpeed", x.Drain)
		j.number("interruption", x.Interruption)
		j.number("reclamation", x.Reclamation)
		j.close('}')
	case engine.Delete:
		j.number("idleSeconds", x.IdleSeconds)
	}
	m.writeAcquired(j)
	j.flag("reserved", x.Reserved)
}

// word writes a key and a text unless the text is empty.
func (j *jsonWriter) word(key, text string) {
	if text != "" {
		j.key(key)
		j.text(text)
	}
}

// flag writes a key and true unless the flag is false.
func (j *jsonWriter) flag(key string, v bool) {
	if v {
		j.key(key)
		j.bool(true)
	}
}

// vector writes a key and a resource vector unless it is empty.
func (j *jsonWriter) vector(key string, r model.Resources) {
	if len(r) > 0 {
		j.key(key)
		j.resources(r)
	}
}

// names writes a key and a list of texts unless it is empty.
func (j *jsonWriter) names(key string, list []string) {
	if len(list) > 0 {
		j.key(key)
		j.texts(list)
	}
}

// number writes a key and a number; what JSON has no number for is "inf".
func (j *jsonWriter) number(key string, v float64) {
	j.key(key)
	if math.IsInf(v, 0) || math.IsNaN(v) {
		j.text("inf")
		return
	}
	j.comma()
	j.b = strconv.AppendFloat(j.b, v, 'g', -1, 64)
}
