package main

import (
	"runtime"
	"testing"

	"github.com/tonnage/tonnage/shard"
)

// TestTidy: after a long listing, and no other, there is a collection that
// nobody waits for.
func TestTidy(t *testing.T) {
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	var x tidy
	before := collections()
	for _, r := range []shard.Reconciled{{}, {Full: true, Listed: tidyRecordsMin - 1}, {Listed: tidyRecordsMin}} {
		x.after(&shard.CycleReport{Reconciled: r})
	}
	if x.busy.Load() || collections() != before {
		t.Error("a collection without need")
	}
	x.after(&shard.CycleReport{Reconciled: shard.Reconciled{Full: true, Listed: tidyRecordsMin}})
	x.work.Wait()
	if x.busy.Load() || collections() == before {
		t.Error("no collection after a long listing")
	}
}
