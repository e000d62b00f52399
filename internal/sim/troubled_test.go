package sim

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/internal/fleet"
)

var (
	simCycles  = flag.Int("sim-cycles", 2500, "cycles to run of random worlds in trouble")
	simFrom    = flag.Int64("sim-from", 1, "seed of the first world in trouble")
	simSeed    = flag.Int64("sim-seed", 0, "run only the world in trouble of this seed")
	simCompare = flag.Int("sim-compare", 1, "compare the plan of every so many cycles with the reference's, 0 = none")
	simState   = flag.String("sim-state", "", "file that keeps how far the worlds are; a run that ends early is gone on with")
)

// The course of a world in trouble, in cycles of a minute: until the trouble ends, something happens
// every few cycles, and one call of twenty fails.
const (
	troubledCycles = 250
	troubleEnds    = 170
	troubleStep    = 6 // cycles between two events, about
)

// Most worlds of a thousand that may break each invariant, and that may act until the end;
// docs/explanation/coming-to-rest.md says what is known of them. All others must hold.
var troubledMost = map[Invariant]int{}

const troubledRestless = 0

// troubled is a random world in which machines are lost, change their price, and Needs come and go,
// while calls fail and the shard is paused and restarted.
func troubled(seed int64) (Scenario, error) {
	size := []fleet.Size{fleet.Tiny, fleet.Tiny, fleet.Small}[seed%3]
	sc, err := scenarioOf(fleet.Random(seed, size), seed)
	if err != nil {
		return sc, err
	}
	x := trouble{Rand: rand.New(rand.NewPCG(uint64(seed), 3)), sc: &sc, left: map[string]bool{}}
	for i := range sc.Demand {
		for _, n := range sc.Demand[i].Needs {
			x.left[n.Name] = true
		}
	}
	paused := false
	for at := 2; at < troubleEnds; at += 1 + x.IntN(2*troubleStep) {
		e := Event{At: at}
		switch kind := x.IntN(16); {
		case kind < 5 && len(sc.Machines) > 0:
			for range 1 + x.IntN(3) {
				e.Lose = append(e.Lose, x.machine())
			}
		case kind < 12 && len(sc.Demand) > 0:
			e.Replace = x.rollup()
		case kind < 14 && len(sc.Machines) > 0:
			price := float64(x.IntN(4)) / 2
			e.Change = &Change{Machine: x.machine(), PricePerHour: &price}
		case kind == 14:
			e.Restart, e.Resend = true, true
		default:
			paused = !paused
			now := paused
			e.Pause = &now
		}
		sc.Timeline = append(sc.Timeline, e)
	}
	sc.Cycles = troubledCycles
	off := false
	sc.Timeline = append(sc.Timeline, Event{At: troubleEnds, Pause: &off})
	return sc, nil
}

// trouble is what is drawn for a world.
type trouble struct {
	*rand.Rand
	sc   *Scenario
	left map[string]bool // Needs that are not withdrawn
}

func (x *trouble) machine() string { return x.sc.Machines[x.IntN(len(x.sc.Machines))].ID }

// rollup withdraws a Need of a cluster, or lets one come back.
func (x *trouble) rollup() *Rollup {
	d := &x.sc.Demand[x.IntN(len(x.sc.Demand))]
	changed := d.Needs[x.IntN(len(d.Needs))].Name
	x.left[changed] = !x.left[changed]
	return &Rollup{Cluster: d.Cluster, Needs: slices.DeleteFunc(slices.Clone(d.Needs), func(n Need) bool { return !x.left[n.Name] })}
}

// survived is a world in trouble that was run.
type survived struct {
	Outcome
	compared int
	err      error
}

// survive runs the world in trouble of a seed to its end.
func survive(ctx context.Context, seed int64) survived {
	sc, err := troubled(seed)
	if err != nil {
		return survived{err: err}
	}
	r := newRun(&sc)
	r.compareEvery = *simCompare
	out := survived{}
	out.Actions = map[Stage]map[string]int{"": {}}
	if out.err = r.start(); out.err != nil {
		return out
	}
	defer r.shard.Close()
	quiet := 0
	for k := 1; k <= sc.Cycles && out.err == nil; k++ {
		var c *Cycle
		if k == troubleEnds {
			out.err = r.heal()
		}
		if c, out.err = r.step(ctx, k); out.err != nil {
			break
		}
		r.summary.take(c)
		if quiet++; len(c.Actions) > 0 {
			quiet = 0
		}
		if k == sc.Cycles && quiet < loopQuiet {
			out.err = fmt.Errorf("cycle %d: %w: %v", k, ErrRestless, c.Actions)
		}
	}
	out.Cycles, out.Rest, out.compared = r.cycle, r.summary.Rest, r.summary.Compared
	out.Rest.Undone = nil // what calls that fail and restarts make undone is no fault
	out.Actions[""] = r.summary.Actions
	return out
}

// worldsThatFailed are worlds in trouble that once broke an invariant.
var worldsThatFailed = []int64{
	1179, 1628, // a drain failed, and a part of what was planned for its owner stood
	1121, // a plan went to another domain, and counted on a machine of its own cluster there: the check did not
	1814, // a drain failed within the cycle, and the machine was lost in the next: the check did not see that the plan had ended
	3808, // a drain failed in the cycle in which another failed machine was lost: the check counted them
}

// TestWorldsThatFailedHold: and their plans are those of the reference.
func TestWorldsThatFailedHold(t *testing.T) {
	for _, seed := range worldsThatFailed {
		if p := survive(t.Context(), seed); p.err != nil {
			t.Errorf("seed %d: %v", seed, p.err)
		}
	}
}

// TestWorldsInTrouble: whatever happens, what must hold does, and plans are those of the reference.
func TestWorldsInTrouble(t *testing.T) {
	n, first := *simCycles, *simFrom
	if *simSeed != 0 {
		n, first = 1, *simSeed
	}
	s := newSoak(t, *simState, first, fmt.Sprintf("worlds in trouble from %d, every %d. cycle compared", first, *simCompare))
	if s.Cycles < n {
		inOrder(s.Next, func(seed int64) survived { return survive(t.Context(), seed) }, func(seed int64, p survived) bool {
			s.Compared += p.compared
			s.take(t, seed, &p.Outcome, p.err)
			s.speak(t, fmt.Sprint(n))
			return s.Cycles < n
		})
	}
	s.done(t)
	t.Log(s.table())
	for i, broken := range s.Broken {
		allowed := troubledMost[i] * s.Worlds / 1000
		if troubledMost[i] > 0 {
			allowed++ // a short series may have one by chance
		}
		if broken > allowed {
			t.Errorf("%s: broken in %d of %d worlds, at most %d may (seeds %v; repeat one with -sim-seed)", i, broken, s.Worlds, allowed, s.Seeds[string(i)])
		}
	}
	if allowed := troubledRestless * s.Worlds / 1000; s.Restless > allowed {
		t.Errorf("%d of %d worlds do not rest, at most %d may (seeds %v; repeat one with -sim-seed)", s.Restless, s.Worlds, allowed, s.Seeds[ErrRestless.Error()])
	}
	if *simSeed == 0 && min(s.Actions["Bootstrap"], s.Actions["Provision"], s.Actions["Preempt"], s.Actions["Reclaim"], s.Actions["Delete"]) == 0 {
		t.Error("some action was never carried out: nothing was tried")
	}
}
