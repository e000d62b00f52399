package pprof

import (
	"context"
	"runtime/pprof"
	"runtime/trace"
	"strconv"

	"github.com/tonnage/tonnage/engine/model"
)

// The labels' keys.
const (
	KeyStage  = "stage"
	KeyWorker = "worker"
)

// WorkersMax is how many workers have a label of their own. Further ones share
// that of the last, which then reads "255+".
const WorkersMax = 256

// Labels are the marks of those who work on one engine's cycles. It is safe for
// concurrent use. A nil *Labels marks nothing.
type Labels struct {
	root  context.Context
	marks [][model.NumStages]context.Context // by worker
}

// New prepares labels for workers 0 … workers − 1; further ones share the
// last's. They come beside those that ctx carries. It allocates about 2 KB a
// worker.
func New(ctx context.Context, workers int) *Labels {
	workers = min(max(workers, 1), WorkersMax)
	l := &Labels{root: ctx, marks: make([][model.NumStages]context.Context, workers)}
	for w := range l.marks {
		name := strconv.Itoa(w)
		if w == WorkersMax-1 {
			name += "+"
		}
		for s := range l.marks[w] {
			l.marks[w][s] = pprof.WithLabels(ctx, pprof.Labels(KeyStage, model.Stage(s).String(), KeyWorker, name)) //nolint:fatcontext // each is made of ctx, not of the one before
		}
	}
	return l
}

// Mark says that the calling goroutine begins with a stage, as a worker. The
// mark stays until the next one, or Clear; goroutines that are started inherit
// it.
func (l *Labels) Mark(stage model.Stage, worker int) {
	if l == nil {
		return
	}
	ctx := l.marks[min(worker, len(l.marks)-1)][stage]
	pprof.SetGoroutineLabels(ctx)
	if trace.IsEnabled() {
		trace.Log(ctx, KeyStage, stage.String())
	}
}

// Clear gives the calling goroutine the labels that New was given.
func (l *Labels) Clear() {
	if l == nil {
		return
	}
	pprof.SetGoroutineLabels(l.root)
}
