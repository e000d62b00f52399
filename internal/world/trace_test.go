package world

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/internal/sim"
)

// sampleRun is a run in which something happens twice and nothing in between.
func sampleRun() ([]*sim.Cycle, *sim.Summary) {
	quiet := func(k int) *sim.Cycle {
		return &sim.Cycle{Cycle: k, States: map[string]int{"Idle": 2, "Configured": 9, "Failed": 0}, Unsatisfied: []string{"n2"}, Shortfalls: 1, Digest: "00ff"}
	}
	busy := quiet(1)
	busy.Actions = []sim.Action{{Kind: engine.Bootstrap, Machine: "m-1", Need: "n1"}, {Kind: engine.Reclaim, Machine: "m-2"}}
	held := quiet(6)
	held.Held, held.Suppressed, held.InFlight = []string{"c1", "c\x1b2"}, 3, 1
	summary := &sim.Summary{
		Cycles: 7, Actions: map[string]int{"Reclaim": 1, "Bootstrap": 1}, LastAction: 1,
		States: map[string]int{"Idle": 2, "Configured": 9}, Unsatisfied: []string{"n2"}, Shortfalls: 1, Digest: "00ff", Compared: 7, Rest: sampleRest(),
		Bill: bill.Bill{Paid: 1234.5, Idle: 0.0625, Serving: 1000, Effective: 1000, Bound: 800},
	}
	return []*sim.Cycle{busy, quiet(2), quiet(3), quiet(4), quiet(5), held, quiet(7)}, summary
}

// sampleRest has every figure another.
func sampleRest() history.Totals {
	return history.Totals{
		StampsAdopted: 1, NeedsCredited: 2, NeedsKept: 3, ClustersCredited: 4, ClustersKept: 5, PlansMade: 6, PlansKept: 7, PlansCompleted: 8,
		PlansEnded: map[string]int{"rank_lost": 9, "expired": 10}, LeftBound: 11, DrainedInVain: 12,
		Undone: map[string]int{"bound_preempted": 13}, UndoneElsewhere: map[string]int{"bought_deleted": 14, "deleted_bought": 15},
	}
}

func TestTraceJSON(t *testing.T) {
	cycles, summary := sampleRun()
	var out bytes.Buffer
	trace := NewTraceJSON(&out)
	for _, c := range cycles {
		if err := trace.Cycle(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := trace.Summary(summary); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	golden(t, "trace.json", out.String())
}

func TestTraceTable(t *testing.T) {
	cycles, summary := sampleRun()
	var out bytes.Buffer
	trace := NewTraceTable(&out)
	for _, c := range cycles {
		if err := trace.Cycle(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := trace.Summary(summary); err != nil {
		t.Fatal(err)
	}
	golden(t, "trace.txt", out.String())
}

func TestTraceTableOfAQuietRun(t *testing.T) {
	var out bytes.Buffer
	trace := NewTraceTable(&out)
	for k := 1; k <= 3; k++ {
		if err := trace.Cycle(&sim.Cycle{Cycle: k}); err != nil {
			t.Fatal(err)
		}
	}
	if err := trace.Summary(&sim.Summary{Cycles: 3}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "    … the same up to cycle 3\n\n3 cycles: nothing was done; every need is satisfied\ncredit: 0 Needs") || strings.Count(got, "\n") != 9 {
		t.Errorf("got\n%s", got)
	}
}
