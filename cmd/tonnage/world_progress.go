package main

import (
	"fmt"
	"io"
	"time"

	"github.com/tonnage/tonnage/internal/world"
)

// worldProgress says on a terminal how far the world of a shard is read; nil says nothing.
type worldProgress struct {
	console *console
	shown   time.Time
}

// progressOn returns the progress of reading a world from a running shard; nil for a file, or where nobody watches.
func (f *worldFlags) progressOn(s streams) *worldProgress {
	console := liveLine(s.err)
	if f.shard == "" || console == nil {
		return nil
	}
	return &worldProgress{console: console}
}

// deciding says that a shard's world is decided about, until done is called.
func (f *worldFlags) deciding(s streams, w *world.World) (done func()) {
	p := f.progressOn(s)
	p.show(fmt.Sprintf("deciding about %d machines and %d needs", len(w.Machines), len(w.Needs)))
	return p.clear
}

func (p *worldProgress) show(line string) {
	if now := time.Now(); p != nil && now.Sub(p.shown) >= benchProgressGap {
		p.shown = now
		p.console.show(line)
	}
}

func (p *worldProgress) clear() {
	if p != nil {
		p.console.clear()
	}
}

// countedReader says how much of a world was read.
type countedReader struct {
	in       io.Reader
	read     int64
	progress *worldProgress
}

func (r *countedReader) Read(into []byte) (int, error) {
	n, err := r.in.Read(into)
	r.read += int64(n)
	r.progress.show(fmt.Sprintf("reading the world of the shard: %d MiB", r.read>>20))
	return n, err
}
