package shard_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

func cyclesOf(kind string) string { return fmt.Sprintf("tonnage_shard_cycles_total{kind=%q}", kind) }

const differences = "tonnage_shard_cycle_differences_total{}"

// TestCyclesAreCountedByKind: the first builds on nothing, and every so often
// one is checked.
func TestCyclesAreCountedByKind(t *testing.T) {
	var out bytes.Buffer
	w, reg := metered(t, machines(2, model.Idle, ""), func(c *shard.Config, d *shard.Deps, _ *provCfg) {
		c.Engine.CheckCycles = 4
		d.Log = slog.New(slog.NewTextHandler(&out, nil))
		d.Differed = func(uint64, engine.Input) (string, error) {
			t.Error("there is no difference, and it is kept")
			return "", nil
		}
	})
	if got := series(t, reg); got[cyclesOf("full")]+got[cyclesOf("incremental")]+got[cyclesOf("checked")] != 0 || len(got) == 0 {
		t.Errorf("before the first: %v", got)
	}
	w.report("c1", need(t, 1, 8))
	w.steps(9)
	got := series(t, reg)
	full, checked, rest := got[cyclesOf("full")], got[cyclesOf("checked")], got[cyclesOf("incremental")]
	if full != 1 || checked < 1 || full+checked+rest != 9 || rest < checked {
		t.Errorf("%v full, %v incremental, %v checked", full, rest, checked)
	}
	if v, there := got[differences]; !there || v != 0 || strings.Contains(out.String(), "another answer") {
		t.Errorf("differences: %v, %v; the log says\n%s", v, there, out.String())
	}
}

// TestDifferenceIsCountedLoggedAndKept, and the answer from nothing is carried
// out all the same.
func TestDifferenceIsCountedLoggedAndKept(t *testing.T) {
	const another, next = "gave another answer than one from nothing, which is carried out", "the next cycle builds on nothing"
	for _, c := range []struct {
		name    string
		checked bool // the cycle as a whole, not a part
		keep    func(uint64, engine.Input) (string, error)
		want    []string
	}{
		{"kept", true, func(uint64, engine.Input) (string, error) { return "dir/differs-1.json", nil }, []string{"input=dir/differs-1.json", "error=<nil>", another}},
		{"failed", true, func(uint64, engine.Input) (string, error) { return "", errors.New("disk full") }, []string{`input="not kept"`, `error="disk full"`}},
		{"nobody keeps it", true, nil, []string{`input="not kept"`, another}},
		{"a part", false, nil, []string{`input="not kept"`, next}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			asked, machinesSeen := uint64(0), 0
			w, reg := metered(t, machines(2, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
				d.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))
				if c.keep != nil {
					d.Differed = func(cycle uint64, in engine.Input) (string, error) {
						asked, machinesSeen = cycle, in.Supply.Count(model.Idle)
						return c.keep(cycle, in)
					}
				}
			})
			digest := ""
			w.shard.Doctor(func(p *engine.Plan) {
				p.Stats.Checked, p.Stats.Differs = c.checked, true
				digest = fmt.Sprintf("digest=%016x", p.Digest())
			})
			w.report("c1", need(t, 1, 8))
			if c := w.step(); c.Counts[engine.Bootstrap] != 2 {
				t.Errorf("carried out: %v", c.Counts)
			}
			if c.keep != nil && (asked != 1 || machinesSeen != 2) {
				t.Errorf("asked to keep cycle %d with %d idle machines, want cycle 1 as it was decided, with 2", asked, machinesSeen)
			}
			if got := series(t, reg); got[differences] != 1 || (got[cyclesOf("checked")] == 1) != c.checked {
				t.Errorf("%v differences, %v checked cycles", got[differences], got[cyclesOf("checked")])
			}
			if strings.Count(out.String(), "\n") != 1 {
				t.Errorf("the log is not one line:\n%s", out.String())
			}
			for _, want := range append(c.want, "level=ERROR", "cycle=1", digest) {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the log lacks %s:\n%s", want, out.String())
				}
			}
		})
	}
}

// TestClosedShard: its workers end; a second time is nothing.
func TestClosedShard(t *testing.T) {
	w := newWorld(t, machines(2, model.Idle, ""), configured(func(c *shard.Config) { c.Engine.Workers = 3 }))
	w.report("c1", need(t, 1, 8))
	w.step()
	w.shard.Close()
	w.shard.Close()
	if n := w.shard.Count()[model.Configured]; n != 2 {
		t.Errorf("%d machines are Configured", n)
	}
	if _, err := w.shard.Step(t.Context(), w.now+second); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a cycle of a closed shard: %v", err)
	}
}
