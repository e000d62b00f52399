package measure

import (
	"fmt"
	"runtime"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/workload"
)

// Load fills tables with a fleet as the regime has it. The input's time is the
// workload's epoch; it has no clock.
func Load(f *workload.Fleet, regime workload.Regime) (engine.Input, error) {
	in, _, err := load(f, regime, regime)
	return in, err
}

// growth is by how much the heap grew when the tables were filled, in bytes
// per record.
type growth struct{ perMachine, perNeed float64 }

// load fills tables with the machines of one regime and the demand of another.
func load(f *workload.Fleet, machines, needs workload.Regime) (engine.Input, growth, error) {
	in := engine.Input{Supply: supply.New(), Demand: demand.New(), Now: workload.Epoch.UnixNano()}
	var g growth
	before := heapInUse()
	in.Supply.GrowTo(f.Rung().Machines())
	for m := range f.Machines(machines, in.Now) {
		if err := in.Supply.Put(m); err != nil {
			return in, g, fmt.Errorf("rung %s: %w", f.Rung().Name, err)
		}
	}
	filled := heapInUse()
	for i, c := range f.Clusters() {
		if err := in.Demand.Replace(c, f.Needs(needs, i)); err != nil {
			return in, g, fmt.Errorf("rung %s: %w", f.Rung().Name, err)
		}
	}
	g.perMachine, g.perNeed = per(filled-before, in.Supply.Len()), per(heapInUse()-filled, in.Demand.Len())
	return in, g, nil
}

// heapInUse returns what is reachable on the heap, in bytes.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
