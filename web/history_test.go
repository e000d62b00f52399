package web

import (
	"math"
	"testing"
)

// fill publishes a cycle a second, each with one Bootstrap.
func fill(f *Feed, from, cycles int) {
	for i := range cycles {
		at := int64(from+i) * 1000
		f.Publish(Frame{
			Cycle: uint64(from + i), At: at, Actions: [5]int{1}, Machines: [8]int{4: from + i}, CycleMillis: float64(i % 10), PhaseMillis: [7]float64{2: float64(i % 10)},
			Resources: []Resource{{Name: "cpu", Demand: int64(from + i)}},
		})
	}
}

func TestHistoryIsFineForTenMinutesThenThinnerAndBounded(t *testing.T) {
	f := newFeed()
	const day = 24 * 3600
	fill(f, 1, 2*day)
	points := collect(f.tiers)
	var limit int
	for _, tier := range f.tiers {
		limit += tier.capacity
	}
	if len(points) > limit {
		t.Fatalf("%d points, the tiers hold %d", len(points), limit)
	}
	last := points[len(points)-1]
	if last.machines[4] != 2*day {
		t.Errorf("the newest point has %d machines, want %d", last.machines[4], 2*day)
	}
	for i := 1; i < len(points); i++ {
		if points[i].start <= points[i-1].start {
			t.Fatalf("point %d does not come after the one before", i)
		}
		if gap, age := points[i].start-points[i-1].start, last.start-points[i].start; age < 590_000 && gap != 1000 {
			t.Fatalf("%d s ago two points are %d ms apart, want a second", age/1000, gap)
		}
	}
	if reach := last.start - points[0].start; reach < 23*3600*1000 {
		t.Errorf("the history reaches back %d s, want about a day", reach/1000)
	}
}

func TestRatesAreTheSameInEveryTier(t *testing.T) {
	f := newFeed()
	fill(f, 1, 2000)
	for i, tier := range f.tiers {
		for k := range tier.points {
			if got := tier.at(k).row(1).Actions[0]; math.Abs(got-1) > 0.01 {
				t.Fatalf("tier %d, point %d: %v Bootstraps a second, want 1", i, k, got)
			}
		}
	}
}

func TestSeveralCyclesInASecondShareAPoint(t *testing.T) {
	f := newFeed()
	for i := range int64(10) {
		f.Publish(Frame{Cycle: uint64(i + 1), At: 10_000 + i*80, Actions: [5]int{2}, CycleMillis: float64(10 - i), PhaseMillis: [7]float64{float64(10 - i)}})
	}
	if n := len(f.tiers[0].points); n != 1 {
		t.Fatalf("%d points, want 1", n)
	}
	p := f.tiers[0].last()
	if p.actions[0] != 20 {
		t.Errorf("%d actions, want all 20", p.actions[0])
	}
	if p.phases[0] != 10 {
		t.Errorf("the phases are those of a cycle of %v ms, want the slowest, 10 ms", p.phases[0])
	}
}

func TestAResourceKeepsItsColumn(t *testing.T) {
	f := newFeed()
	f.Publish(Frame{Cycle: 1, At: 1000, Resources: []Resource{{Name: "cpu", Demand: 1}, {Name: "memory", Demand: 2}}})
	f.Publish(Frame{Cycle: 2, At: 2000, Resources: []Resource{{Name: "memory", Demand: 3}}})
	got := f.tiers[0].last().row(2).Demand
	if got[0] != 0 || got[1] != 3 {
		t.Errorf("demand by column is %v, want [0 3]", got)
	}
	many := make([]Resource, 3*MaxResources)
	for i := range many {
		many[i].Name = string(rune('a' + i))
	}
	f.Publish(Frame{Cycle: 3, At: 3000, Resources: many})
	f.Publish(Frame{Cycle: 4, At: 4000, Resources: many[MaxResources:]})
	if len(f.names) != MaxResources {
		t.Errorf("%d columns, want at most %d", len(f.names), MaxResources)
	}
}

func TestQuantilesAreMeasuredValues(t *testing.T) {
	var w window
	if q := w.quantiles(); q.Cycles != 0 || q.P99 != 0 {
		t.Errorf("an empty window has %+v", q)
	}
	for i := range 2 * windowCycles {
		w.add(&Frame{CycleMillis: float64(i), PhaseMillis: [7]float64{1: float64(2 * i)}})
	}
	q := w.quantiles() // of 600 … 1199
	if q.Cycles != windowCycles || q.P50 != 899 || q.P99 != 1193 || q.Max != 1199 || q.PhasesP50[1] != 1798 {
		t.Errorf("got %+v", q)
	}
}

func TestDigits(t *testing.T) {
	for in, want := range map[float64]float64{0: 0, 1234567.8: 1234570, 0.000123456789: 0.000123457, -55.5555555: -55.5556, 3: 3} {
		if got := digits(in); math.Abs(got-want) > math.Abs(want)*1e-12 {
			t.Errorf("digits(%v) = %v, want %v", in, got, want)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), 5e-324} {
		if got := digits(bad); got != 0 {
			t.Errorf("digits(%v) = %v, want 0", bad, got)
		}
	}
}
