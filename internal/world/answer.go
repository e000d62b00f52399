package world

import (
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// Answer is a plan in the words of the file: names for rows, Needs in the order
// of the file, sets sorted.
type Answer struct {
	Actions []Action
	Needs   []NeedRow
	// Claimed are all machines that some Need claims, by id.
	Claimed    []string
	Shortfalls []Shortfall
	Stats      engine.Stats
	// Explain is nil unless it was asked for.
	Explain *Explain
}

// Action is one step of the plan.
type Action struct {
	Kind    engine.Kind
	Machine string
	// Cluster is the acquirer's for Bootstrap and Provision, the machine's own
	// for Preempt and Reclaim, empty for Delete.
	Cluster string
	// Need and Group are the acquirer's or preemptor's; of a fold the name is
	// that of its first member in rank order, and there is no group.
	Need              string
	Group             string
	GraceSeconds      int32
	PreemptorPriority int32
	Reason            engine.Reason
}

// NeedRow is what became of one Need of the file.
type NeedRow struct {
	Name      string
	Cluster   string
	Satisfied bool
	Deficit   model.Resources
	Domain    string
	Claimed   []string // by id
	Bootstrap int32
	Provision int32
	Reason    engine.Unmet
}

// Shortfall is what a Need still misses; a fold has one, under the name of its
// first member, so that shortfalls add up.
type Shortfall struct {
	Need    string
	Cluster string
	Deficit model.Resources
	Age     int // cycles; 1 after the only one
}

// machines is what an Answer reads of the supply.
type machines interface {
	ID(columnar.Row) string
	Cluster(columnar.Row) string
}

// NewAnswer puts a plan into words. carried are the plan's actions that the
// rails let through, in emission order. With explain set, the answer says why.
func NewAnswer(w *World, supply machines, plan *engine.Plan, carried []engine.Action, explain bool) *Answer {
	t := translator{world: w, machines: supply, plan: plan}
	t.index()
	a := &Answer{Stats: plan.Stats, Needs: make([]NeedRow, len(w.Needs))}
	for _, action := range carried {
		a.Actions = append(a.Actions, t.action(action))
	}
	claimed := make(map[string]struct{})
	for i := range plan.Needs {
		row := t.need(i)
		a.Needs[t.fileIndex[i]] = row
		for _, id := range row.Claimed {
			claimed[id] = struct{}{}
		}
	}
	for id := range claimed {
		a.Claimed = append(a.Claimed, id)
	}
	slices.Sort(a.Claimed)
	a.Shortfalls = t.shortfalls()
	if explain {
		a.Explain = t.explain(carried)
	}
	return a
}

// translator turns the rows of one plan into the names of its world.
type translator struct {
	world     *World
	machines  machines
	plan      *engine.Plan
	fileIndex []int // plan.Needs index → world.Needs index
}

func (t *translator) index() {
	t.fileIndex = make([]int, len(t.plan.Needs))
	for i := range t.plan.Needs {
		n := &t.plan.Needs[i]
		t.fileIndex[i] = t.world.rows[n.Cluster][n.Row]
	}
}

// name returns the name in the file of a Need of the plan.
func (t *translator) name(need int32) string { return t.world.Needs[t.fileIndex[need]].Name }

func (t *translator) action(a engine.Action) Action {
	out := Action{
		Kind: a.Kind, Machine: t.machines.ID(a.Machine), Cluster: t.machines.Cluster(a.Machine),
		GraceSeconds: a.GraceSeconds, PreemptorPriority: a.PreemptorPriority, Reason: a.Reason,
	}
	if a.Need >= 0 {
		n := &t.plan.Needs[a.Need]
		out.Need, out.Group = t.name(a.Need), n.Group
		if a.Kind != engine.Preempt {
			out.Cluster = n.Cluster
		}
	}
	return out
}

func (t *translator) need(i int) NeedRow {
	n := &t.plan.Needs[i]
	return NeedRow{
		Name: t.name(int32(i)), Cluster: n.Cluster, Satisfied: n.Satisfied, Deficit: n.Deficit, Domain: n.Domain,
		Claimed: t.ids(n.Claimed, true), Bootstrap: n.Bootstrap, Provision: n.Provision, Reason: n.Unmet,
	}
}

func (t *translator) ids(rows []columnar.Row, sorted bool) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = t.machines.ID(r)
	}
	if sorted {
		slices.Sort(out)
	}
	return out
}

// shortfalls lists what is missing in the order of rank.
func (t *translator) shortfalls() []Shortfall {
	var short []int
	for i := range t.plan.Needs {
		if n := &t.plan.Needs[i]; !n.Satisfied && int(n.Fold) == i {
			short = append(short, i)
		}
	}
	slices.SortFunc(short, func(a, b int) int { return int(t.plan.Needs[a].Rank) - int(t.plan.Needs[b].Rank) })
	out := make([]Shortfall, len(short))
	for k, i := range short {
		n := &t.plan.Needs[i]
		out[k] = Shortfall{Need: t.name(int32(i)), Cluster: n.Cluster, Deficit: n.Deficit, Age: 1}
	}
	return out
}

// Explain says why, by Need and by machine. Entries are in the order of the
// plan's own lists: Needs as in the file, machines by id.
type Explain struct {
	Needs    []NeedWhy
	Machines []MachineWhy
}

// NeedWhy is what the plan knows of one Need beyond its row.
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
}

// MachineWhy is why something happens to a machine, or does not.
type MachineWhy struct {
	Machine string
	// Kind and Reason of the action that the plan holds for it; Decided is
	// false when there is none, and the machine is merely claimed.
	Decided bool
	Kind    engine.Kind
	Reason  engine.Reason
	// ClaimedBy is the Need that the machine is attributed to.
	ClaimedBy string
	For       string // the acquirer or preemptor
	HeldBy    string // the rail that held the action back
}

// railReclaimCap names rail 1 in explanations.
const railReclaimCap = "reclaim cap"

func (t *translator) explain(carried []engine.Action) *Explain {
	e := &Explain{Needs: make([]NeedWhy, len(t.world.Needs))}
	preempted := make(map[int32][]string)
	byMachine := make(map[columnar.Row]*MachineWhy)
	entry := func(r columnar.Row) *MachineWhy {
		m := byMachine[r]
		if m == nil {
			m = &MachineWhy{Machine: t.machines.ID(r)}
			byMachine[r] = m
		}
		return m
	}
	for _, a := range t.plan.Actions {
		m := entry(a.Machine)
		m.Decided, m.Kind, m.Reason = true, a.Kind, a.Reason
		if a.Need >= 0 {
			m.For = t.name(a.Need)
		}
		if a.Kind == engine.Preempt {
			preempted[a.Need] = append(preempted[a.Need], m.Machine)
		}
		m.HeldBy = railReclaimCap
	}
	for _, a := range carried {
		entry(a.Machine).HeldBy = ""
	}
	for i := range t.plan.Needs {
		n := &t.plan.Needs[i]
		for _, r := range n.Claimed {
			entry(r).ClaimedBy = t.name(n.Fold)
		}
		e.Needs[t.fileIndex[i]] = t.why(i, preempted[n.Fold])
	}
	for _, m := range byMachine {
		e.Machines = append(e.Machines, *m)
	}
	slices.SortFunc(e.Machines, func(a, b MachineWhy) int { return strings.Compare(a.Machine, b.Machine) })
	return e
}

func (t *translator) why(i int, preempted []string) NeedWhy {
	n := &t.plan.Needs[i]
	acquired := min(int(n.Bootstrap+n.Provision), len(n.Claimed))
	credited := len(n.Claimed) - acquired
	why := NeedWhy{
		Name: t.name(int32(i)), Rank: n.Rank, Preempted: preempted, InFlight: n.InFlight, Domain: n.Domain,
		Credited: t.ids(n.Claimed[:credited], false), Acquired: t.ids(n.Claimed[credited:], false),
		Reason: n.Unmet, Deficit: n.Deficit, Parked: t.world.Needs[t.fileIndex[i]].Parked,
	}
	if n.Folded {
		why.FoldOf = t.name(n.Fold)
	}
	return why
}
