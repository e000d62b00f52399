package fleetview

import (
	"testing"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// TestRowsThatWereReplacedAreNotDecidedYet: what a cycle has found of a cluster's rows is not said of others; that a row is parked
// makes it no other.
func TestRowsThatWereReplacedAreNotDecidedYet(t *testing.T) {
	table := demand.New()
	load := func(priorities ...int32) *demand.Block {
		t.Helper()
		var rows []model.Need
		for _, p := range priorities {
			profile, err := model.NewProfile(model.ProfileSpec{Priority: p})
			if err != nil {
				t.Fatal(err)
			}
			cores := model.NewResources(model.Amount{Name: "cpu", Value: 4000})
			rows = append(rows, model.Need{Cluster: "c", Profile: profile, Aggregate: cores, Arrival: 1})
		}
		if err := table.Load("c", rows); err != nil {
			t.Fatal(err)
		}
		return table.Block("c")
	}
	b := load(1, 2)
	x := roster{rows: []standing{standsMet, standsShort + 2}, blocks: []rosterBlock{{"c", 0, 2, sumOf(b)}}}
	if got := x.of(b); len(got) != 2 || got[1].reason() != 2 || got[0].reason() != 0 {
		t.Errorf("the same rows stood %v", got)
	}
	table.SetParked("c", 1, true)
	if x.of(table.Block("c")) == nil {
		t.Error("a row that is parked is another")
	}
	for _, other := range [][]int32{{1}, {2, 1}, {1, 3}, {1, 2, 3}} {
		if got := x.of(load(other...)); got != nil {
			t.Errorf("rows of priorities %v stood %v", other, got)
		}
	}
}
