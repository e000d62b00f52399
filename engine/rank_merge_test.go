package engine_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// TestRowsComeAndGo: a report with a row more or less is built upon like any
// other, and only its own cluster is credited again.
func TestRowsComeAndGo(t *testing.T) {
	const clusters, rows = 40, 20
	s, d := supply.New(), demand.New()
	report := func(c, n int) {
		t.Helper()
		var needs []model.Need
		for i := range n {
			p, err := model.NewProfile(model.ProfileSpec{Priority: int32(i % 5)})
			if err != nil {
				t.Fatal(err)
			}
			needs = append(needs, model.Need{
				Cluster: fmt.Sprintf("c%02d", c), Profile: p, Arrival: int64(1000*i + c + 1),
				Aggregate: model.NewResources(model.Amount{Name: "cpu", Value: 2000}),
			})
		}
		if err := d.Replace(fmt.Sprintf("c%02d", c), needs); err != nil {
			t.Fatal(err)
		}
	}
	for c := range clusters {
		report(c, rows)
		for i := range rows {
			m := model.Machine{
				ID: fmt.Sprintf("m%02d-%02d", c, i), State: model.Configured, Host: "h", Cluster: fmt.Sprintf("c%02d", c), InstanceType: "t",
				Resources: model.NewResources(model.Amount{Name: "cpu", Value: 2000}),
			}
			if err := s.Put(&m); err != nil {
				t.Fatal(err)
			}
		}
	}
	opts := engine.DefaultOptions()
	opts.CheckCycles = 1000
	kept, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	for step, n := range []int{rows, rows + 1, rows + 3, rows - 1, rows - 9, 1, rows, rows} {
		c := 7 + step%3
		report(c, n)
		in := engine.Input{Supply: s, Demand: d, Now: int64(1e12) + int64(step)}
		got, err := kept.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		anew, err := engine.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		want, err := anew.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		if got.Digest() != want.Digest() || got.Len() != d.Len() {
			t.Errorf("step %d, %d rows: another plan than from nothing", step, n)
		}
		if step > 0 && (got.Stats.Full || got.Stats.Credited > 2*(rows+3)) {
			t.Errorf("step %d, %d rows: full %v, %d Needs credited", step, n, got.Stats.Full, got.Stats.Credited)
		}
		for i := range got.Len() {
			if a, b := got.Need(i), want.Need(i); a.Cluster != b.Cluster || a.Row != b.Row || a.Rank != b.Rank || a.Fold != b.Fold {
				t.Fatalf("step %d, row %d: %+v, want %+v", step, i, a, b)
			}
		}
		anew.Close()
	}
}

// TestTheLastClusterFillsItsRoom: rows come one by one, past the room that their cluster was given, and each waits for a machine,
// so that the last row has a turn.
func TestTheLastClusterFillsItsRoom(t *testing.T) {
	s, d := supply.New(), demand.New()
	m := model.Machine{ID: "m", State: model.Idle, Host: "h", InstanceType: "t", Resources: model.NewResources(model.Amount{Name: "cpu", Value: 2000})}
	if err := s.Put(&m); err != nil {
		t.Fatal(err)
	}
	for _, acquire := range []engine.AcquireRule{engine.AcquireCheapest, engine.AcquireFit} {
		opts := engine.DefaultOptions()
		opts.Acquire = acquire
		kept, err := engine.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		var needs []model.Need
		full := 0
		for step := range 60 {
			p, err := model.NewProfile(model.ProfileSpec{Priority: int32(step)})
			if err != nil {
				t.Fatal(err)
			}
			needs = append(needs, model.Need{Cluster: "c", Profile: p, Arrival: 1, Aggregate: model.NewResources(model.Amount{Name: "cpu", Value: 2000})})
			if err := d.Replace("c", needs); err != nil {
				t.Fatal(err)
			}
			got, err := kept.Cycle(engine.Input{Supply: s, Demand: d, Now: int64(1e12) + int64(step)})
			if err != nil {
				t.Fatal(err)
			}
			if last := got.Need(step); len(last.Claimed) != 1 {
				t.Fatalf("step %d: the row of the highest priority has %d machines", step, len(last.Claimed))
			}
			if got.Stats.Full {
				full++
			}
		}
		if full < 2 || full > 10 {
			t.Errorf("%d of 60 cycles started over; the room was to be filled a few times", full)
		}
		kept.Close()
	}
}
