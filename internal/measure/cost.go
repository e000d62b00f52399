package measure

import (
	"context"
	"runtime"
	"runtime/pprof"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	labels "github.com/tonnage/tonnage/pprof"
)

// cost is what one cycle took.
type cost struct {
	nanos      int64 // by the wall
	cpuNanos   int64 // of processors, all threads of the process
	allocs     int64 // heap objects
	allocBytes int64
}

// measuredLabels mark, in a CPU profile, what lies within measured cycles, by
// stage and worker.
func measuredLabels(ctx context.Context, workers int) *labels.Labels {
	return labels.New(pprof.WithLabels(ctx, pprof.Labels("bench", "measured")), workers)
}

// unmarked takes the labels off whoever works on a cycle that is not measured.
func unmarked(model.Stage, int) { pprof.SetGoroutineLabels(context.Background()) }

// cycle runs one cycle of the engine and says what it took. The processor time
// is taken within the wall's, and the heap's figures outside of both: stopping
// the world costs tens of microseconds.
func cycle(ctx context.Context, e *engine.Engine, in engine.Input, marks *labels.Labels) (plan *engine.Plan, c cost, err error) {
	var before, after runtime.MemStats
	marks.Clear()
	in.Mark = marks.Mark
	defer pprof.SetGoroutineLabels(ctx)
	runtime.ReadMemStats(&before)
	cpu := cpuNanos()
	start := time.Now()
	in.Clock = func() int64 { return int64(time.Since(start)) }
	plan, err = e.Cycle(in)
	c.nanos = int64(time.Since(start))
	c.cpuNanos = cpuNanos() - cpu
	runtime.ReadMemStats(&after)
	c.allocs = int64(after.Mallocs - before.Mallocs)
	c.allocBytes = int64(after.TotalAlloc - before.TotalAlloc)
	return plan, c, err
}

// cpuNanos is the processor time that the process has used, to a microsecond;
// 0 where the system does not tell.
func cpuNanos() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
