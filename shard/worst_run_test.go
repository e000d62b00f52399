package shard_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// traceHeader is how a file begins that go tool trace reads. The test does not run that
// tool: the go command would compile it, and the standard library for it.
var traceHeader = regexp.MustCompile(`^go 1\.[0-9]+ trace\x00`)

// TestSlowCyclesLeaveATrace runs a shard whose clock goes so fast that every
// cycle is slow. What is written is a trace with the stages, and no more files
// are kept than may be.
func TestSlowCyclesLeaveATrace(t *testing.T) {
	dir := t.TempDir()
	var ticks atomic.Int64
	w := newWorld(t, machines(3, model.Idle, ""), func(c *shard.Config, d *shard.Deps, _ *simulated.Config) {
		c.WorstDir, c.Concurrency = dir, 1
		// Each look at the clock is later than the last by more than before: the
		// cycles become slower and slower.
		d.Clock = func() time.Time { n := ticks.Add(1); return time.Unix(0, n*n*int64(time.Millisecond)) }
	})
	w.report("a", need(t, 0, 8))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.shard.Run(ctx) }()
	kept := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "*.trace"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	first := ""
	waitFor(t, func() bool {
		w.shard.Wake()
		names := kept()
		if first == "" && len(names) > 0 {
			first = names[0]
		}
		// The first has given way to a slower one.
		return len(names) >= shard.WorstKept && names[0] != first
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	names := kept()
	if len(names) != shard.WorstKept {
		t.Errorf("%d files are kept", len(names))
	}
	for _, name := range []string{names[0], names[len(names)-1]} {
		raw, err := os.ReadFile(name)
		if err != nil || !traceHeader.Match(raw) {
			t.Fatalf("%s is no trace: %v, it begins with %.20q", name, err, raw)
		}
		for _, want := range []string{"stage", "reconcile", "execute"} {
			// A trace has its texts with their length before them.
			if !bytes.Contains(raw, append([]byte{byte(len(want))}, want...)) {
				t.Errorf("%s has no text %s", name, want)
			}
		}
	}
}
