package supply

import (
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

// TestAttributesAreThoseOfTheRecords, whether demand looks at a key or not, and
// whether it is a field or a label.
func TestAttributesAreThoseOfTheRecords(t *testing.T) {
	table := New()
	records := []model.Machine{
		{ID: "a", State: model.Idle, Zone: "z1", InstanceType: "large", CapacityType: model.Spot, Labels: map[string]string{"rack": "r1"}},
		{ID: "b", State: model.Idle, Labels: map[string]string{"rack": "r2", model.KeyZone: "z2", model.KeyInstanceType: "label"}},
		{ID: "c", State: model.Idle, Zone: "z1", Labels: map[string]string{"rack": "", model.KeyZone: "z9"}},
		{ID: "gone", State: model.Idle, Labels: map[string]string{"rack": "r3"}},
		{ID: "d", State: model.Idle},
	}
	for i := range records {
		if err := table.Put(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	table.Remove("gone")
	p, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{{Key: "rack", Operator: model.Same}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, key := range []string{"rack", "none", model.KeyZone, model.KeyInstanceType, model.KeyCapacityType} {
			values, texts := table.Attributes(key)
			for i := range records {
				r, ok := table.Lookup(records[i].ID)
				if !ok {
					continue
				}
				want, _ := records[i].Attribute(key)
				if got := append([]string{""}, texts...)[values[r]]; got != want {
					t.Errorf("%s of %s is %q, want %q", key, records[i].ID, got, want)
				}
			}
		}
		if err := table.Use([]*model.Profile{p}); err != nil {
			t.Fatal(err)
		}
	}
}
