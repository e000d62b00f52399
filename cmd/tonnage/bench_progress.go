package main

import (
	"fmt"
	"io"
	"time"

	"github.com/tonnage/tonnage/internal/measure"
)

// benchProgressGap is how often the line changes at most.
const benchProgressGap = 100 * time.Millisecond

// benchProgress keeps one line on a terminal, and says nothing elsewhere.
type benchProgress struct {
	console *console // nil = not a terminal
	began   time.Time
	shown   time.Time
	stage   string
}

// newBenchProgress writes to w if that is a terminal.
func newBenchProgress(w io.Writer) *benchProgress {
	return &benchProgress{console: liveLine(w)}
}

// show is told how far the run is.
func (b *benchProgress) show(p measure.Progress) {
	if b.console == nil {
		return
	}
	now := time.Now()
	if p.Stage != b.stage {
		b.stage, b.began = p.Stage, now
	} else if now.Sub(b.shown) < benchProgressGap {
		return
	}
	b.shown = now
	b.console.show(benchLine(p, now.Sub(b.began)))
}

func (b *benchProgress) clear() {
	b.console.clear()
}

// benchLine is the progress in words; took is the time since the stage began.
func benchLine(p measure.Progress, took time.Duration) string {
	if p.Done == 0 {
		return p.Stage
	}
	left := took / time.Duration(p.Done) * time.Duration(p.Cycles-p.Done)
	return fmt.Sprintf("cycle %d of %d%slast %s%sabout %s left", p.Done, p.Cycles, statusSeparator,
		millis(float64(p.LastNanos)/1e6), statusSeparator, left.Round(time.Second))
}
