package ledgers

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/tally"
)

func cpuOf(n int64) model.Resources {
	return model.NewResources(model.Amount{Name: "cpu", Value: n})
}

func profileOf(t testing.TB, priority int32) *model.Profile {
	t.Helper()
	p, err := model.NewProfile(model.ProfileSpec{Priority: priority})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAgesOfGangs: a gang rests after eight cycles in vain, is tried at every
// multiple of 32, and anything that helps it starts anew.
func TestAgesOfGangs(t *testing.T) {
	stuck := gangResult{}
	k := gangKey{cluster: "c1"}
	l := newParking()
	cycle := func(n gangResult, actions ...engine.Kind) *waiting {
		l.cycle++
		var plan []engine.Action
		for _, kind := range actions {
			plan = append(plan, engine.Action{Kind: kind})
		}
		l.note(k, progressOf(n, 0, deedsOf(plan, 1, nil)[0], true), 0)
		return l.waiting[k]
	}
	for age := 1; age <= 70; age++ {
		w := cycle(stuck)
		if want := age >= 8 && age != 32 && age != 64; w.age != age || w.parked() != want {
			t.Fatalf("cycle %d: age %d, parked %v, want %v", age, w.age, w.parked(), want)
		}
	}
	for what, w := range map[string]func() *waiting{
		"acquires":         func() *waiting { return cycle(stuck, engine.Bootstrap) },
		"buys":             func() *waiting { return cycle(stuck, engine.Provision) },
		"could be covered": func() *waiting { return cycle(gangResult{coverable: true}) },
	} {
		cycle(stuck)
		if w := w(); w.age != 0 {
			t.Errorf("a gang that %s is %d cycles old", what, w.age)
		}
	}
	cycle(stuck)
	for what, w := range map[string]func() *waiting{
		"has a plan":       func() *waiting { return cycle(stuck, engine.Preempt) },
		"waits for drains": func() *waiting { return cycle(gangResult{inFlight: cpuOf(1)}) },
	} {
		if w := w(); w.age != 1 {
			t.Errorf("a cycle in which it %s counts: age %d", what, w.age)
		}
	}
}

// gangResult is what a plan says of one gang.
type gangResult struct {
	coverable bool
	inFlight  model.Resources
}

func (g gangResult) CouldCover(int) bool { return g.coverable }

func (g gangResult) Need(int) engine.NeedResult { return engine.NeedResult{InFlight: g.inFlight} }

// TestRowsOfOneGangAgeOnce: rows that agree in everything share an entry.
func TestRowsOfOneGangAgeOnce(t *testing.T) {
	l := newParking()
	for range 3 {
		l.cycle++
		l.note(gangKey{}, none, 0)
		l.note(gangKey{}, none, 0)
	}
	if age := l.waiting[gangKey{}].age; age != 3 {
		t.Errorf("age %d after 3 cycles", age)
	}
}

// results is what a plan says of its rows, in the dimensions of resultDims.
type results []engine.NeedResult

var resultDims = []string{"memory", "cpu"}

func (r results) Len() int                     { return len(r) }
func (r results) Satisfied(i int) bool         { return r[i].Satisfied }
func (r results) Fold(i int) int32             { return r[i].Fold }
func (r results) AwaitsDrain(i int) bool       { return r[i].Unmet == engine.UnmetAwaitingDrain }
func (r results) Profile(i int) *model.Profile { return r[i].Profile }
func (r results) Dims() []string               { return resultDims }

func (r results) AddDeficit(sum []int64, i int) {
	for d, name := range resultDims {
		sum[d] = model.SatAdd(sum[d], r[i].Deficit.Get(name))
	}
}

func (r results) Unoffered(i int) model.Resources {
	var out model.Resources
	for _, a := range r[i].Deficit {
		if !slices.Contains(resultDims, a.Name) {
			out = append(out, a)
		}
	}
	return out
}

func TestShortfallsAreSummedByProfileAndAged(t *testing.T) {
	l := newShortfalls()
	a, b := profileOf(t, 10), profileOf(t, 20)
	short := func(p *model.Profile, i int32, n int64) engine.NeedResult {
		return engine.NeedResult{Profile: p, Fold: i, Deficit: cpuOf(n), Unmet: engine.UnmetPriorityStarved}
	}
	plan := results{
		short(a, 0, 3), short(a, 1, math.MaxInt64), short(b, 2, 5), short(b, 2, 5), // the last is a member of a fold
		{Profile: a, Fold: 4, Satisfied: true},
		{Profile: profileOf(t, 30), Fold: 5, Deficit: cpuOf(1), Unmet: engine.UnmetAwaitingDrain},
	}
	for range 4 {
		l.record(plan)
	}
	got := l.Report()
	if len(got) != 2 || got[0].Profile != b || got[1].Profile != a {
		t.Fatalf("got %+v", got)
	}
	if x := got[0]; x.AgeCycles != 4 || x.Needs != 1 || x.Deficit.Get("cpu") != 5 {
		t.Errorf("got %+v", x)
	}
	if x := got[1]; x.Needs != 2 || x.Deficit.Get("cpu") != math.MaxInt64 {
		t.Errorf("sums saturate: %+v", x)
	}
	l.record(results{short(a, 0, 3)})
	if got := l.Report(); len(got) != 1 || got[0].AgeCycles != 5 || got[0].Needs != 1 {
		t.Errorf("what is resolved leaves: %+v", got)
	}
	l.record(results{})
	l.record(results{short(a, 0, 3)})
	if got := l.Report(); got[0].AgeCycles != 1 {
		t.Errorf("after a cycle without it, it is new: %+v", got)
	}
}

func TestShortfallsReportIsBoundedAndWorstFirst(t *testing.T) {
	l := newShortfalls()
	var plan results
	for i := range int32(150) {
		plan = append(plan, engine.NeedResult{Profile: profileOf(t, i), Fold: i, Deficit: cpuOf(1)})
		if i == 99 {
			l.record(plan)
		}
	}
	l.record(plan)
	got := l.Report()
	if len(got) != ShortfallsReportedMax || got[0].Profile.Priority() != 149 || got[99].Profile.Priority() != 50 {
		t.Fatalf("%d entries", len(got))
	}
	for i := 1; i < len(got); i++ {
		if got[i].Profile.Priority() > got[i-1].Profile.Priority() {
			t.Fatalf("entry %d ranks above the one before", i)
		}
	}
}

func TestDrainTimesMoveSlowly(t *testing.T) {
	var d drainTimes
	d.observe("a", 100e9)
	d.observe("a", 50e9)
	if got := d.seconds["a"]; math.Abs(got-90) > 1e-9 {
		t.Errorf("got %v s, want 90", got)
	}
	d.observe("a", -5)
	if got := d.seconds["a"]; math.Abs(got-72) > 1e-9 {
		t.Errorf("a clock that went back: got %v s, want 72", got)
	}
	for i := range DrainTypesMax + 10 {
		d.observe(fmt.Sprint(i), 1e9)
	}
	if len(d.seconds) > DrainTypesMax {
		t.Errorf("%d types, the bound is %d", len(d.seconds), DrainTypesMax)
	}
}

func TestSumsTakeOffExactlyWhatTheyAdded(t *testing.T) {
	var s tally.Sums
	huge := cpuOf(math.MaxInt64)
	for range 5 {
		s.Change(huge, true)
	}
	s.Change(cpuOf(7), true)
	if got := s.Resources().Get("cpu"); got != math.MaxInt64 {
		t.Errorf("beyond the range: %d", got)
	}
	for range 5 {
		s.Change(huge, false)
	}
	if got := s.Resources().Get("cpu"); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
}
