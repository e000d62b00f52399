package measure

import (
	"reflect"
	"testing"

	"github.com/tonnage/tonnage/internal/workload"
)

// TestRestIsCounted: a steady fleet credits Needs again and adopts stamps; a contended one makes
// plans. Two runs count the same.
func TestRestIsCounted(t *testing.T) {
	cfg := Config{Rung: tiny(t), Regime: workload.Steady, Cycles: 12, Seed: 1, Workers: 1}
	one, two := mustRun(t, cfg), mustRun(t, cfg)
	if one.Rest.StampsAdopted == 0 || one.Rest.NeedsCredited == 0 || one.Rest.ClustersCredited == 0 {
		t.Errorf("steady: %+v", one.Rest)
	}
	if !reflect.DeepEqual(one.Rest, two.Rest) {
		t.Errorf("the same run counts %+v, and then %+v", one.Rest, two.Rest)
	}
	cfg.Regime, cfg.Cycles = workload.Contended, 2
	if r := mustRun(t, cfg).Rest; r.PlansMade == 0 || r.PlansKept != 0 || r.DrainedInVain != 0 {
		t.Errorf("contended, with nothing carried out: %+v", r)
	}
}
