package engine_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

// racedFleets are how many random fleets each way to race is tried on.
const racedFleets = 150

// race decides a world by racing, and says where the answer is not the
// reference's.
func race(w fleet.World, workers int) (engine.AcquireCounts, string) {
	in := inputOf(w)
	s, d, at, err := twin.Tables(in)
	if err != nil {
		return engine.AcquireCounts{}, err.Error()
	}
	opts := twin.Options(in.Options)
	opts.Workers = workers
	e, err := engine.New(opts)
	if err != nil {
		return engine.AcquireCounts{}, err.Error()
	}
	defer e.Close()
	engine.Race(e)
	plan, err := e.Cycle(engine.Input{Supply: s, Demand: d, Now: in.Now, DrainSeconds: in.DrainSeconds, BackingOff: in.BackingOff})
	if err != nil {
		return engine.AcquireCounts{}, err.Error()
	}
	return plan.Stats.AcquireCounts, twin.Diff(twin.Translate(plan, twin.Results(plan), s, at, len(in.Needs)), reference.Decide(in))
}

// TestRacingGivesTheSameAnswer: taking machines over by rank comes to the answer
// of the pass in rank order, whoever walks first and whoever gives up.
func TestRacingGivesTheSameAnswer(t *testing.T) {
	for _, c := range []struct {
		workers, tries       int
		backwards            bool
		displaced, exhausted bool // some must have been
	}{
		{workers: 1, tries: 64},
		{workers: 1, tries: 64, backwards: true, displaced: true},
		{workers: 1, tries: 2, backwards: true, displaced: true, exhausted: true},
		{workers: 3, tries: 64},
		{workers: 3, tries: 1, backwards: true, displaced: true, exhausted: true},
	} {
		t.Run(fmt.Sprintf("workers=%d/tries=%d/backwards=%v", c.workers, c.tries, c.backwards), func(t *testing.T) {
			defer engine.SetRace(c.tries, c.backwards)()
			var all engine.AcquireCounts
			for seed := int64(1); seed <= racedFleets; seed++ {
				w := fleet.Random(seed, []fleet.Size{fleet.Tiny, fleet.Small}[seed%2])
				counts, diff := race(w, c.workers)
				if diff != "" {
					t.Fatalf("fleet of seed %d: %s", seed, diff)
				}
				all.Proposals += counts.Proposals
				all.Retries += counts.Retries
				all.Displacements += counts.Displacements
				all.RetriesExhausted += counts.RetriesExhausted
			}
			if all.Proposals == 0 || c.displaced && all.Displacements == 0 || c.exhausted && all.RetriesExhausted == 0 {
				t.Errorf("%+v: what is tried did not happen", all)
			}
			// Who may walk once does not walk again.
			if again := all.Retries > 0; again != (c.displaced && c.tries > 1) && c.workers == 1 || all.Retries >= all.Proposals || c.tries == 1 && again {
				t.Errorf("%+v: of the proposals %d are retries", all, all.Retries)
			}
			t.Logf("%+v", all)
		})
	}
}
