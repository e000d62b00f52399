package fleetview

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAQuestionPausesForCycles: parts of a question are computed between cycles, never beside one, as long as cycles come at regular times
// and parts take about as long as the last ones of their kind. All times are virtual.
func TestAQuestionPausesForCycles(t *testing.T) {
	for name, x := range map[string]struct {
		interval, cycle time.Duration // from one cycle to the next, and how long it takes
		parts           []time.Duration
		least           int // parts that are computed in 200 cycles
	}{
		"every second":                    {time.Second, 5 * time.Millisecond, []time.Duration{8 * time.Millisecond, time.Millisecond, 20 * time.Millisecond}, 10_000},
		"ten a second":                    {100 * time.Millisecond, 4 * time.Millisecond, []time.Duration{8 * time.Millisecond, time.Millisecond, 20 * time.Millisecond}, 1000},
		"long cycles":                     {time.Second, 700 * time.Millisecond, []time.Duration{30 * time.Millisecond}, 1000},
		"parts that need a whole gap":     {100 * time.Millisecond, 20 * time.Millisecond, []time.Duration{70 * time.Millisecond}, 150},
		"one part of several is too long": {100 * time.Millisecond, 20 * time.Millisecond, []time.Duration{70 * time.Millisecond, time.Millisecond}, 250},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 2))
				var g gate
				ctx, cancel := context.WithCancel(t.Context())
				p := pacer{gates: []*gate{&g}, took: map[any]time.Duration{}}
				computed := 0
				var asker sync.WaitGroup
				asker.Go(func() {
					for ctx.Err() == nil {
						kind := computed % len(x.parts)
						p.next(ctx, kind)
						took := x.parts[kind]
						pass(took - time.Duration(random.Int64N(int64(took)/10)))
						computed++
					}
					p.end()
				})
				tick := time.NewTicker(x.interval)
				for range 200 {
					<-tick.C
					g.Running(true)
					pass(x.cycle)
					g.Running(false)
				}
				cancel()
				asker.Wait()
				// Of the first part of each kind nothing is known yet, and of the first two cycles when the next one is due.
				if got, most := int(g.overlaps.Load()), 1+len(x.parts); got > most {
					t.Errorf("%d cycles began beside a part of a question, want at most %d", got, most)
				}
				if computed < x.least {
					t.Errorf("%d parts were computed in 200 cycles, want at least %d", computed, x.least)
				}
			})
		})
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// TestAQuestionDoesNotWaitForEver: not for a cycle that never ends, not for one that is late, and not for its own context.
func TestAQuestionDoesNotWaitForEver(t *testing.T) {
	waits := func(t *testing.T, g *gate, ctx context.Context, takes time.Duration) time.Duration {
		t.Helper()
		began := time.Now()
		p := pacer{gates: []*gate{g}, took: map[any]time.Duration{"part": takes}}
		p.next(ctx, "part")
		waited := time.Since(began)
		p.end()
		return waited
	}
	regular := func(g *gate) {
		for range 3 {
			g.Running(true)
			pass(10 * time.Millisecond)
			g.Running(false)
			pass(90 * time.Millisecond)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var g gate
		if waited := waits(t, &g, t.Context(), time.Hour); waited != 0 {
			t.Errorf("without any cycle it waits for %v", waited)
		}
		regular(&g) // the next one is due now, and does not come
		if waited := waits(t, &g, t.Context(), time.Millisecond); waited < 50*time.Millisecond || waited > 51*time.Millisecond {
			t.Errorf("for a cycle that is late it waits for %v, want half an interval", waited)
		}
		if waited := waits(t, &g, t.Context(), time.Millisecond); waited != 0 {
			t.Errorf("after cycles have stopped it waits for %v", waited)
		}
		regular(&g)
		g.Running(true) // and never ends
		if waited := waits(t, &g, t.Context(), 0); waited != gateWaitMax {
			t.Errorf("beside a cycle that does not end it waits for %v, want %v", waited, gateWaitMax)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if waited := waits(t, &g, ctx, 0); waited != 10*time.Millisecond {
			t.Errorf("after its context has ended it waits for %v", waited)
		}
	})
}

// TestAQuestionWaitsForTheCyclesOfAllShards of its process.
func TestAQuestionWaitsForTheCyclesOfAllShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var one, other gate
		p := pacer{gates: []*gate{&one, &other}, took: map[any]time.Duration{}}
		one.Running(true)
		var asker sync.WaitGroup
		began := time.Now()
		asker.Go(func() { p.next(t.Context(), "part") })
		pass(20 * time.Millisecond)
		other.Running(true)
		pass(10 * time.Millisecond)
		one.Running(false)
		pass(10 * time.Millisecond)
		other.Running(false)
		asker.Wait()
		if waited := time.Since(began); waited != 40*time.Millisecond {
			t.Errorf("it waited for %v, want 40ms: until both had ended", waited)
		}
	})
}
