package fleetview

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// TestHistoryIsBounded by bytes first, and otherwise keeps the last hour and the last cycles.
func TestHistoryIsBounded(t *testing.T) {
	const second = 1000
	record := func(cycle int, events int) *cycleRecord {
		c := &cycleRecord{row: CycleRow{Cycle: uint64(cycle), At: int64(cycle) * second}}
		for i := range events {
			c.machineMoved(MachineEvent{Machine: "m", From: fmt.Sprint(i)})
		}
		c.machines = slices.Clip(c.machines)
		return c
	}
	for _, x := range []struct {
		name          string
		bytes, events int
		gap           int // seconds between two cycles
		kept          int
	}{
		{"a cycle a second for two hours: an hour", HistoryBytesMax, 0, 1, 3601},
		{"a cycle in ten seconds: a thousand", HistoryBytesMax, 0, 10, HistoryCyclesMin},
		{"large cycles: what the bytes hold", 1 << 18, 100, 1, (1 << 18) / record(0, 100).bytes()},
	} {
		h := History{bytesMax: x.bytes}
		sum := 0
		for i := range 7200 {
			c := record(i*x.gap, x.events)
			h.add(c)
		}
		rows, _ := h.rows()
		for _, c := range h.records {
			sum += c.bytes()
		}
		if len(rows) != x.kept || sum != h.bytes || h.bytes > x.bytes {
			t.Errorf("%s: %d cycles of %d bytes are kept (%d counted), want %d cycles and at most %d bytes", x.name, len(rows), sum, h.bytes, x.kept, x.bytes)
		}
		if last := rows[len(rows)-1]; last.Cycle != uint64(7199*x.gap) {
			t.Errorf("%s: the newest is cycle %d", x.name, last.Cycle)
		}
	}
}

func TestSlowCyclesAreRememberedBeyondTheHistory(t *testing.T) {
	h := History{bytesMax: 1}
	for i := range 1000 {
		h.add(&cycleRecord{row: CycleRow{Cycle: uint64(i), At: int64(i), Millis: float64(i % 3 * SlowMillis)}})
	}
	rows, slow := h.rows()
	if len(rows) != 1 || len(slow) != slowCyclesMax || slow[len(slow)-1].Cycle != 998 {
		t.Errorf("%d rows, %d slow ones, the last %+v", len(rows), len(slow), slow[len(slow)-1])
	}
}

// TestAMachineInAnothersRowIsNotTakenForIt: rows are given out again.
func TestAMachineInAnothersRowIsNotTakenForIt(t *testing.T) {
	table := supply.New()
	put := func(id, cluster string, state model.State) {
		t.Helper()
		if err := table.Put(&model.Machine{ID: id, State: state, Host: "h", Cluster: cluster}); err != nil {
			t.Fatal(err)
		}
	}
	var l moveLog
	look := func() []MachineEvent {
		c := &cycleRecord{}
		l.look(table, c)
		return c.machines
	}
	put("a", "c1", model.Configured)
	put("b", "", model.Idle)
	if got := look(); len(got) != 0 {
		t.Errorf("the first look has nothing to compare with: %+v", got)
	}
	table.Remove("a")
	put("x", "c1", model.Configured) // in the row of a
	put("b", "c2", model.Configured)
	got := map[string]string{}
	for _, e := range look() {
		got[e.Machine] = fmt.Sprintf("%s %s > %s %s", e.From, e.FromCluster, e.To, e.ToCluster)
	}
	for id, want := range map[string]string{"a": "Configured c1 >  ", "x": "  > Configured c1", "b": "Idle  > Configured c2"} {
		if got[id] != want {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
	if len(got) != 3 || len(look()) != 0 {
		t.Errorf("%v, and then %v", got, look())
	}
}

// TestCyclesAreListedNewestFirst: also those that began in the same millisecond.
func TestCyclesAreListedNewestFirst(t *testing.T) {
	r := &Recorder{history: History{bytesMax: HistoryBytesMax}}
	for i := range 6 {
		r.history.add(&cycleRecord{row: CycleRow{Cycle: uint64(i), At: int64(1000 + i/3)}})
	}
	a, err := NewView(nil, Part{Recorder: r}).cycles(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range a.(CyclesAnswer).Cycles {
		if c.Cycle != uint64(5-i) {
			t.Errorf("place %d has cycle %d", i, c.Cycle)
		}
	}
}
