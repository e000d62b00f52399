package engine_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestSmallFleetsWakeNobody: the first worker decides them alone, unless it is
// asked to race.
func TestSmallFleetsWakeNobody(t *testing.T) {
	in := inputOf(fleet.Random(1, fleet.Small))
	s, d, _, err := twin.Tables(in)
	if err != nil {
		t.Fatal(err)
	}
	size := s.Len() + d.Len()
	for _, c := range []struct {
		name   string
		min    int
		races  bool
		others bool
	}{
		{"small", size + 1, false, false},
		{"large", size, false, true},
		{"racing", size + 1, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer engine.SetCrewMin(engine.SetCrewMin(c.min))
			opts := twin.Options(in.Options)
			opts.Workers = 2
			e, err := engine.New(opts)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if c.races {
				engine.Race(e)
			}
			var others atomic.Bool
			mark := func(_ model.Stage, worker int) {
				if worker > 0 {
					others.Store(true)
				}
			}
			if _, err := e.Cycle(engine.Input{Supply: s, Demand: d, Now: in.Now, Mark: mark}); err != nil {
				t.Fatal(err)
			}
			if others.Load() != c.others {
				t.Errorf("others were at work: %v, want %v", others.Load(), c.others)
			}
		})
	}
}

// TestAnEngineThatNobodyHasIsGarbage: closed or not, also where what a caller handed in refers to the engine.
func TestAnEngineThatNobodyHasIsGarbage(t *testing.T) {
	for _, closed := range []bool{true, false} {
		gone := useOnce(t, closed)
		for until := time.Now().Add(time.Minute); gone.Value() != nil; runtime.GC() {
			if time.Now().After(until) {
				t.Fatalf("closed %v: the engine is still referred to", closed)
			}
		}
	}
}

// owner has an engine, and a method that the engine calls.
type owner struct {
	engine *engine.Engine
	stages int
}

func (o *owner) mark(model.Stage, int) { o.stages++ }

// useOnce decides a cycle by an engine that nobody refers to afterwards.
func useOnce(t *testing.T, closed bool) weak.Pointer[engine.Engine] {
	t.Helper()
	in := inputOf(fleet.Random(1, fleet.Small))
	s, d, _, err := twin.Tables(in)
	if err != nil {
		t.Fatal(err)
	}
	opts := twin.Options(in.Options)
	opts.Workers = 2
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{engine: e}
	if _, err := e.Cycle(engine.Input{Supply: s, Demand: d, Now: in.Now, Mark: o.mark}); err != nil || o.stages == 0 {
		t.Fatalf("%v; %d stages were marked", err, o.stages)
	}
	if closed {
		e.Close()
	}
	return weak.Make(o.engine)
}
