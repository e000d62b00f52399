package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
)

// planCompleted and planDrainFailed are the causes of the end of a plan that the engine does
// not name: its owner has bound all of it; one of its drains has failed.
const (
	planCompleted   = "completed"
	planDrainFailed = "drain_failed"
)

// The scopes of an action that is undone: nothing has changed anywhere since it was carried
// out; something has, in clusters that it does not concern.
const (
	undoneUnchanged = "nothing"
	undoneElsewhere = "elsewhere"
)

// Whether credit was worked out in a cycle or taken over from the one before.
const (
	creditAgain = "again"
	creditKept  = "kept"
)

func (m *metrics) defineWasted(c counterMaker) {
	x := &m.wasted
	x.adopted = c("tonnage_shard_stamps_adopted_total", "Bound machines whose stamp changed since they serve another Need of their cluster.").WithLabelValues()
	x.needs = c("tonnage_shard_needs_credited_total", "Needs by whether their credit was worked out, or taken over from the cycle before.", "credit")
	x.clusters = c("tonnage_shard_clusters_credited_total", "Clusters by whether the credit of any of their Needs was worked out, or that of all taken over from the cycle before.", "credit")
	x.made = c("tonnage_shard_plans_made_total", "Plans of preemption made, or added to.").WithLabelValues()
	x.kept = c("tonnage_shard_plans_kept_total", "Plans of preemption of earlier cycles that a cycle has kept, counted in each cycle.").WithLabelValues()
	ended := c("tonnage_shard_plans_ended_total", "Plans of preemption that have ended.", "cause")
	for end := range x.ended {
		x.ended[end] = ended.WithLabelValues(causeOf(engine.PlanEnd(end)))
	}
	m.plansFailed = ended.WithLabelValues(planDrainFailed)
	x.searches = c("tonnage_shard_search_pairs_total", "Pairs of a Same-Need and a domain that could hold it, met in the search for plans of preemption.").WithLabelValues()
	x.searchUnits = c("tonnage_shard_search_units_total", "Machines that could be freed in these pairs of a Same-Need and a domain.").WithLabelValues()
	x.searchesEnded = c("tonnage_shard_searches_ended_total", "Cycles whose search for plans of preemption met as many pairs or machines as it may, and ended there.").WithLabelValues()
	x.leftBound = c("tonnage_shard_machines_left_bound_total", "Machines of gangs that plans break and have no use for: they stay bound.").WithLabelValues()
	x.vain = c("tonnage_shard_machines_drained_in_vain_total", "Machines that were preempted and held for a Need which never bound them.").WithLabelValues()
	undone := c("tonnage_shard_actions_undone_total", "Actions that a later one undid though demand and supply of the clusters concerned had not changed.", "actions", "changed")
	for u := range x.undone {
		for i, changed := range [...]string{undoneUnchanged, undoneElsewhere} {
			x.undone[u][i] = undone.WithLabelValues(history.Undoing(u).String(), changed)
		}
	}
}

// causeOf returns the label of the end of a plan.
func causeOf(end engine.PlanEnd) string {
	if end == engine.PlanStands {
		return planCompleted
	}
	return end.String()
}

// cycle takes over the facts of a cycle.
func (x *wastedMetrics) cycle(c *Cycle) {
	st := &c.Plan.Stats
	x.adopted.Add(float64(st.Adopted))
	x.needs.WithLabelValues(creditAgain).Add(float64(st.Credited))
	x.needs.WithLabelValues(creditKept).Add(float64(max(st.Folded-st.Credited, 0)))
	x.clusters.WithLabelValues(creditAgain).Add(float64(st.ClustersCredited))
	x.clusters.WithLabelValues(creditKept).Add(float64(st.Clusters - st.ClustersCredited))
	x.made.Add(float64(st.PlansMade))
	x.kept.Add(float64(st.PlansKept))
	x.ended[engine.PlanStands].Add(float64(st.PlansCompleted))
	for end := engine.PlanStands + 1; int(end) < engine.NumPlanEnds; end++ {
		x.ended[end].Add(float64(st.PlansEnded[end]))
	}
	x.searches.Add(float64(st.SearchPairs))
	x.searchUnits.Add(float64(st.SearchUnits))
	if st.SearchEnded {
		x.searchesEnded.Inc()
	}
	x.leftBound.Add(float64(st.LeftBound))
	x.vain.Add(float64(c.Wasted.DrainedInVain))
	for u := range x.undone {
		x.undone[u][0].Add(float64(c.Wasted.Undone[u]))
		x.undone[u][1].Add(float64(c.Wasted.UndoneElsewhere[u]))
	}
}
