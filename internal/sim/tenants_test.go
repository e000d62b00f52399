package sim

import (
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// TestReclaimBetweenTenantsComesToRest: a giver whose need ranks above the
// taker's does not take back what it gave, and what is short then stays so.
func TestReclaimBetweenTenantsComesToRest(t *testing.T) {
	sc := Scenario{Cycles: 60, Options: engine.DefaultOptions(), Reported: []string{"t", "v"}}
	sc.Options.Tenancy.Tenants = []engine.Tenant{
		{Name: "taker", Clusters: []string{"t"}, Share: cpu(8)},
		{Name: "giver", Clusters: []string{"v"}, Share: cpu(8)},
	}
	for _, id := range []string{"a1", "a2", "a3", "a4"} {
		sc.Machines = append(sc.Machines, machine(id, model.Configured, "v"))
	}
	for _, cluster := range []string{"t", "v"} {
		r := rollup(t, cluster, 1, 4, "")
		if cluster == "t" {
			r.Needs[0].Arrival = 1
		}
		sc.Demand = append(sc.Demand, *r)
	}
	actions, _, _ := play(t, sc)
	wants(t, actions, "1: Preempt a1 t-need", "1: Preempt a2 t-need", "2: Bootstrap a1 t-need", "2: Bootstrap a2 t-need")
}
