package main

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// newTestFleet holds one idle machine, whose next call fails.
func newTestFleet(t *testing.T) *clockedFleet {
	t.Helper()
	start := time.Unix(1_700_000_000, 0)
	fleet, err := simulated.New(simulated.Config{
		Machines: []model.Machine{{ID: "m", State: model.Idle, Resources: model.NewResources(model.Amount{Name: "cpu", Value: 1})}},
		Faults:   []simulated.Fault{{Op: shard.OpAny, Times: 1}},
		Now:      start.UnixNano(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &clockedFleet{Fleet: fleet, now: func() time.Time { return start }}
}

// newTestProcess builds the parts of a plan without starting them.
func newTestProcess(t *testing.T, plan *upPlan, out io.Writer) *process {
	t.Helper()
	x := &process{plan: plan, console: &console{out: out}, log: slog.New(slog.DiscardHandler), started: time.Now()}
	if err := x.build(); err != nil {
		t.Fatal(err)
	}
	return x
}
