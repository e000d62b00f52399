package provider_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// What pods can really have of a machine is what its record says, and its offer's free slots from then on: also after a restart.
func TestRealAllocatable(t *testing.T) {
	inBubble(t, strings.Replace(late, "resources: {cpu: 2}", "resources: {cpu: 3}, allocatable: {cpu: 2}", 1), func(t *testing.T, r *rig) {
		has := model.NewResources(model.Amount{Name: "cpu", Value: 2250})
		r.driver.set(func() {
			r.driver.alter = func(o *driver.Observation) bool { o.Allocatable = has; return true }
		})
		if got := r.list()[r.in(speculative)[0]].GetAllocatable().GetResources()["cpu"]; got != "2" {
			t.Errorf("declared are %q", got)
		}
		id := r.in(speculative)[0]
		r.bind(id, "c")
		look := func(when string) {
			t.Helper()
			all := r.list()
			for _, is := range append(r.in(speculative), id) {
				if got := all[is].GetAllocatable().GetResources()["cpu"]; got != "2250m" {
					t.Errorf("%s, %s %s has %q", when, all[is].GetState(), is, got)
				}
			}
			if n := len(r.in(speculative)); n == 0 {
				t.Errorf("%s, there is no slot", when)
			}
		}
		look("after the first machine")
		r.end()
		r.start()
		look("after a restart")
	})
}

// A node that says more than its machine has is counted as what its pool says, in its record and in its offer's slots.
func TestANodeThatSaysTooMuch(t *testing.T) {
	inBubble(t, strings.Replace(late, "resources: {cpu: 2}", "resources: {cpu: 3, memory: 2Gi}, allocatable: {cpu: 2, pods: 20}", 1), func(t *testing.T, r *rig) {
		has := model.NewResources(model.Amount{Name: "cpu", Value: 1_000_000}, model.Amount{Name: "memory", Value: 1 << 30}, model.Amount{Name: "pods", Value: 1_000_000}, model.Amount{Name: "disk", Value: 7})
		r.driver.set(func() {
			r.driver.alter = func(o *driver.Observation) bool { o.Allocatable = has; return true }
		})
		id := r.in(speculative)[0]
		r.bind(id, "c")
		all := r.list()
		want := map[string]string{"cpu": "3", "memory": "1Gi", "pods": "20", "disk": "7"}
		for _, is := range append(r.in(speculative), id) {
			if got := all[is].GetAllocatable().GetResources(); !maps.Equal(got, want) {
				t.Errorf("%s %s has %v, want %v", all[is].GetState(), is, got, want)
			}
		}
	})
}
