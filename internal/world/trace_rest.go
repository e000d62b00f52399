package world

import (
	"fmt"
	"strings"

	"github.com/tonnage/tonnage/engine/history"
)

// rest writes an object of how far a run was from rest.
func (j *jsonWriter) rest(t *history.Totals) {
	j.open('{')
	for _, x := range []struct {
		key   string
		value int
	}{
		{"stampsAdopted", t.StampsAdopted}, {"needsCredited", t.NeedsCredited}, {"needsKept", t.NeedsKept},
		{"clustersCredited", t.ClustersCredited}, {"clustersKept", t.ClustersKept},
		{"plansMade", t.PlansMade}, {"plansKept", t.PlansKept}, {"plansCompleted", t.PlansCompleted},
		{"leftBound", t.LeftBound}, {"drainedInVain", t.DrainedInVain},
	} {
		j.key(x.key)
		j.int(int64(x.value))
	}
	j.counts("plansEnded", t.PlansEnded, history.PlanEndNames())
	j.counts("undone", t.Undone, history.UndoingNames())
	j.counts("undoneElsewhere", t.UndoneElsewhere, history.UndoingNames())
	j.close('}')
}

// restTable says the same for people.
func restTable(t *history.Totals) string {
	return fmt.Sprintf("credit: %d Needs worked out, %d taken over; %s adopted\n", t.NeedsCredited, t.NeedsKept, plural(t.StampsAdopted, "stamp")) +
		fmt.Sprintf("plans of preemption: %d made, %d completed, %d ended otherwise%s\n", t.PlansMade, t.PlansCompleted, history.Sum(t.PlansEnded), named(t.PlansEnded, history.PlanEndNames())) +
		fmt.Sprintf("drained: %d in vain, %d of broken gangs left bound\n", t.DrainedInVain, t.LeftBound) +
		fmt.Sprintf("undone: %s without any change%s, %d with a change elsewhere%s\n", plural(history.Sum(t.Undone), "action"), named(t.Undone, history.UndoingNames()),
			history.Sum(t.UndoneElsewhere), named(t.UndoneElsewhere, history.UndoingNames()))
}

// named lists counts in brackets, in the order of names; zeros are left out.
func named(counts map[string]int, names []string) string {
	var parts []string
	for _, name := range names {
		if n := counts[name]; n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
