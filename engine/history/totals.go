package history

import "github.com/tonnage/tonnage/engine"

// Totals are the facts of several cycles that say how far the engine is from rest: what it
// decides anew, and what of its actions comes to nothing. Counts that are 0 are left out of
// the maps.
type Totals struct {
	// StampsAdopted counts the bound machines whose stamp changed since they serve
	// another Need of their cluster.
	StampsAdopted int `json:"stampsAdopted"`
	// Needs, after folding, and clusters by whether their credit was worked out or taken
	// over from the cycle before, added up over the cycles.
	NeedsCredited    int `json:"needsCredited"`
	NeedsKept        int `json:"needsKept"`
	ClustersCredited int `json:"clustersCredited"`
	ClustersKept     int `json:"clustersKept"`
	// What became of plans of preemption; see engine.PlanCounts. PlansKept is counted in
	// each cycle, PlansEnded by cause.
	PlansMade      int            `json:"plansMade"`
	PlansKept      int            `json:"plansKept"`
	PlansCompleted int            `json:"plansCompleted"`
	PlansEnded     map[string]int `json:"plansEnded"`
	// LeftBound counts the machines of gangs that plans break and have no use for, which
	// stay bound; DrainedInVain those that are drained for a Need which never binds them.
	LeftBound     int `json:"leftBound"`
	DrainedInVain int `json:"drainedInVain"`
	// Undone and UndoneElsewhere are those of Counts.
	Undone          map[string]int `json:"undone"`
	UndoneElsewhere map[string]int `json:"undoneElsewhere"`
}

// NewTotals returns totals of no cycle.
func NewTotals() Totals {
	return Totals{PlansEnded: map[string]int{}, Undone: map[string]int{}, UndoneElsewhere: map[string]int{}}
}

// Take adds a cycle.
func (t *Totals) Take(st *engine.Stats, c *Counts) {
	t.StampsAdopted += st.Adopted
	t.NeedsCredited += st.Credited
	t.NeedsKept += max(st.Folded-st.Credited, 0)
	t.ClustersCredited += st.ClustersCredited
	t.ClustersKept += st.Clusters - st.ClustersCredited
	t.PlansMade += st.PlansMade
	t.PlansKept += st.PlansKept
	t.PlansCompleted += st.PlansCompleted
	t.LeftBound += st.LeftBound
	t.DrainedInVain += c.DrainedInVain
	for end, n := range st.PlansEnded {
		add(t.PlansEnded, engine.PlanEnd(end).String(), n)
	}
	for u := range NumUndoings {
		add(t.Undone, Undoing(u).String(), c.Undone[u])
		add(t.UndoneElsewhere, Undoing(u).String(), c.UndoneElsewhere[u])
	}
}

func add(counts map[string]int, name string, n int) {
	if n != 0 {
		counts[name] += n
	}
}

// PlanEndNames returns the causes for which plans end, in their order.
func PlanEndNames() (names []string) {
	for end := engine.PlanStands + 1; int(end) < engine.NumPlanEnds; end++ {
		names = append(names, end.String())
	}
	return names
}

// UndoingNames returns the names of pairs of actions, in their order.
func UndoingNames() []string { return undoingNames[:] }

// Sum adds up counts by name.
func Sum(counts map[string]int) (n int) {
	for _, x := range counts {
		n += x
	}
	return n
}

// Add adds other totals.
func (t *Totals) Add(o *Totals) {
	t.StampsAdopted += o.StampsAdopted
	t.NeedsCredited += o.NeedsCredited
	t.NeedsKept += o.NeedsKept
	t.ClustersCredited += o.ClustersCredited
	t.ClustersKept += o.ClustersKept
	t.PlansMade += o.PlansMade
	t.PlansKept += o.PlansKept
	t.PlansCompleted += o.PlansCompleted
	t.LeftBound += o.LeftBound
	t.DrainedInVain += o.DrainedInVain
	for _, x := range [...][2]map[string]int{{t.PlansEnded, o.PlansEnded}, {t.Undone, o.Undone}, {t.UndoneElsewhere, o.UndoneElsewhere}} {
		for name, n := range x[1] {
			add(x[0], name, n)
		}
	}
}
