package session

import (
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// TestMatchingIsCapped: once enough machines were looked at, further requirements are not
// counted, and say so. What was counted is used again.
func TestMatchingIsCapped(t *testing.T) {
	in := engine.Input{Supply: supply.New(), Demand: demand.New()}
	cpu := model.NewResources(model.Amount{Name: "cpu", Value: 1000})
	for _, id := range []string{"m1", "m2", "m3"} {
		if err := in.Supply.Put(&model.Machine{ID: id, State: model.Speculative, InstanceType: "t", Zone: "z", CapacityType: model.OnDemand, Resources: cpu}); err != nil {
			t.Fatal(err)
		}
	}
	var needs []model.Need
	for _, r := range []model.Requirement{{Key: model.KeyZone, Operator: model.Exists}, {Key: model.KeyInstanceType, Operator: model.Exists}, {Key: model.KeyZone, Operator: model.Exists}} {
		p, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{r}})
		if err != nil {
			t.Fatal(err)
		}
		needs = append(needs, model.Need{Profile: p, Aggregate: cpu, MinUnit: cpu})
	}
	if err := in.Demand.Load("a", needs); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	m := &matching{in: in, left: 1, byMatcher: map[uint32]*classCounts{}}
	for i, want := range []struct {
		speculative int
		capped      bool
	}{{3, false}, {0, true}, {3, false}} {
		if got, capped := m.of(plan, i, engine.UnmetPriorityStarved); got != (counts{speculative: want.speculative}) || capped != want.capped {
			t.Errorf("need %d: %+v, capped %v; want %+v", i, got, capped, want)
		}
	}
}
