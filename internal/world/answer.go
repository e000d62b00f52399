package world

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
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
	Bill       bill.Bill
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
	Lookup(id string) (columnar.Row, bool)
}

// NewAnswer puts a plan into words. carried are the plan's actions that the
// rails let through, in emission order. When why is not nil, the answer says
// why, about the subjects alone if there are any, and why must still know the
// plan.
func NewAnswer(w *World, supply machines, plan *engine.Plan, carried []engine.Action, billOf bill.Bill, why explainer, only *Subjects) *Answer {
	results := make([]engine.NeedResult, plan.Len())
	for i := range results {
		results[i] = plan.Need(i)
	}
	t := translator{world: w, machines: supply, actions: plan.Actions, reserved: plan.Reservations, results: results, only: only}
	a := t.answer(carried, why)
	a.Stats, a.Bill = plan.Stats, billOf
	return a
}

func (t *translator) answer(carried []engine.Action, why explainer) *Answer {
	t.index()
	a := &Answer{Needs: make([]NeedRow, len(t.world.Needs))}
	for _, action := range carried {
		a.Actions = append(a.Actions, t.action(action))
	}
	claimed := make(map[string]struct{})
	for i := range t.results {
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
	if why != nil {
		a.Explain = t.explain(carried, why)
	}
	return a
}

// translator turns the rows of one plan into the names of its world.
type translator struct {
	world     *World
	machines  machines
	actions   []engine.Action
	reserved  []engine.Reserved   // what plans of this cycle hold
	results   []engine.NeedResult // by number of the row in the plan
	fileIndex []int               // number of the row in the plan → world.Needs index
	only      *Subjects           // of the explanation
}

func (t *translator) index() {
	t.fileIndex = make([]int, len(t.results))
	for i := range t.results {
		n := &t.results[i]
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
		n := &t.results[a.Need]
		out.Need, out.Group = t.name(a.Need), n.Group
		if a.Kind != engine.Preempt {
			out.Cluster = n.Cluster
		}
	}
	return out
}

func (t *translator) need(i int) NeedRow {
	n := &t.results[i]
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
	for i := range t.results {
		if n := &t.results[i]; !n.Satisfied && int(n.Fold) == i {
			short = append(short, i)
		}
	}
	slices.SortFunc(short, func(a, b int) int { return int(t.results[a].Rank) - int(t.results[b].Rank) })
	out := make([]Shortfall, len(short))
	for k, i := range short {
		n := &t.results[i]
		out[k] = Shortfall{Need: t.name(int32(i)), Cluster: n.Cluster, Deficit: n.Deficit, Age: 1}
	}
	return out
}
