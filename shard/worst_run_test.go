package shard_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider"
)

// TestSlowCyclesLeaveATrace runs a shard whose clock goes so fast that every
// cycle is slow. What is written is read by Go's own tool, and no more files
// are kept than may be.
func TestSlowCyclesLeaveATrace(t *testing.T) {
	dir := t.TempDir()
	var ticks atomic.Int64
	w := newWorld(t, machines(3, model.Idle, ""), func(c *shard.Config, d *shard.Deps, _ *provider.Config) {
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
		out, err := exec.Command("go", "tool", "trace", "-d=parsed", name).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%.500s", name, err, out)
		}
		for _, want := range []string{`Category="stage"`, `Message="reconcile"`, `Message="execute"`} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
	}
}
