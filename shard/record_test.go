package shard

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

func cpuOf(n int64) model.Resources {
	return model.NewResources(model.Amount{Name: "cpu", Value: n})
}

// shortOf returns a shard without machines, and the plan for so many rows of
// ten clusters, of which nothing can be satisfied; every eighth row is a gang.
func shortOf(t testing.TB, rows int) (*Shard, *engine.Plan) {
	t.Helper()
	s, err := New(DefaultConfig(), Deps{Provider: noProvider{}, Observer: func(*CycleReport) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	var plain [16]*model.Profile
	for i := range plain {
		p, err := model.NewProfile(model.ProfileSpec{Priority: int32(i)})
		if err != nil {
			t.Fatal(err)
		}
		plain[i] = p
	}
	gang, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{{Key: "rack", Operator: model.Same}}})
	if err != nil {
		t.Fatal(err)
	}
	const clusters = 10
	for c := range clusters {
		list := make([]model.Need, rows/clusters)
		for i := range list {
			list[i] = model.Need{Profile: plain[i%len(plain)], Group: fmt.Sprint("g", i/16), Aggregate: cpuOf(int64(1 + i%3))}
			if i%8 == 0 {
				list[i].Profile = gang
			}
		}
		if err := s.intake.Table().Replace(fmt.Sprint("c", c), list); err != nil {
			t.Fatal(err)
		}
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := e.Cycle(engine.Input{Supply: s.inventory.Table, Demand: s.intake.Table(), Now: 1})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Stats.Unsatisfied != rows {
		t.Fatalf("%d of %d rows are short", plan.Stats.Unsatisfied, rows)
	}
	return s, plan
}

// takeStock does all that a cycle does for each row of a plan.
func (s *Shard) takeStock(plan *engine.Plan) *CycleReport {
	r := s.observer.startReport(plan, s.intake.Table())
	s.ledgers.Record(plan)
	s.ledgers.RecordWaiting(plan)
	return r
}

// TestShortRowsTakeNoMemory: what a cycle takes does not grow with the rows
// that are short, once the ledgers know them.
func TestShortRowsTakeNoMemory(t *testing.T) {
	took := func(rows int) float64 {
		s, plan := shortOf(t, rows)
		return testing.AllocsPerRun(3, func() {
			if r := s.takeStock(plan); r.UnmetTotal != rows || len(r.Unmet) != ReportUnmetMax {
				t.Fatalf("%d of %d rows are unmet, %d are listed", r.UnmetTotal, rows, len(r.Unmet))
			}
		})
	}
	few, many := took(1000), took(16_000)
	if many > few+200 { // the report's list writes out some rows that others push off it
		t.Errorf("%.0f allocations for 1,000 rows, %.0f for 16,000", few, many)
	}
}

// BenchmarkRecord: what a cycle does for 400,000 rows that are all short,
// beside the decision.
func BenchmarkRecord(b *testing.B) {
	s, plan := shortOf(b, 400_000)
	s.takeStock(plan)
	b.ReportAllocs()
	for b.Loop() {
		s.takeStock(plan)
	}
}
