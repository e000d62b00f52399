package main

import (
	"fmt"
	"io"
	"time"

	"github.com/tonnage/tonnage/internal/world"
)

// progressOn returns where to say how far a question about a running shard is; nil for a file, and elsewhere than on a
// terminal.
func (f *worldFlags) progressOn(s streams) *console {
	if f.shard == "" {
		return nil
	}
	return liveLine(s.err)
}

// deciding says that a shard's world is decided about, until done is called.
func (f *worldFlags) deciding(s streams, w *world.World) (done func()) {
	progress := f.progressOn(s)
	progress.show(fmt.Sprintf("deciding about %d machines and %d needs", len(w.Machines), len(w.Needs)))
	return progress.clear
}

// countedReader says how much of a world was read.
type countedReader struct {
	in       io.Reader
	read     int64
	progress *console
	shown    time.Time
}

func (r *countedReader) Read(into []byte) (int, error) {
	n, err := r.in.Read(into)
	r.read += int64(n)
	if now := time.Now(); now.Sub(r.shown) >= benchProgressGap {
		r.shown = now
		r.progress.show(fmt.Sprintf("reading the world of the shard: %d MiB", r.read>>20))
	}
	return n, err
}
