package coordinator_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/engine/model"
)

// decisions of the last pass, by receiver.
func (f *fleet) decision(receiver string) coordinator.Decision {
	f.t.Helper()
	run := f.core.LastPass()
	i := slices.IndexFunc(run.Decisions, func(d coordinator.Decision) bool { return d.Receiver == receiver })
	if i < 0 {
		f.t.Fatalf("the last pass decided nothing about %s: %+v", receiver, run)
	}
	return run.Decisions[i]
}

func (f *fleet) whys(receiver string) string {
	var out []string
	for _, s := range f.decision(receiver).Steps {
		out = append(out, string(s.Why))
	}
	return strings.Join(out, "; ")
}

func TestDryRunDecidesAndMovesNothing(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceDryRun, "s-0", "s-1")
	f.machines("a", "zone-a", model.Idle, 20)
	f.assign()
	f.short("s-1", 5, nil)
	f.cycles(30)
	if n := len(f.core.Moves()); n != 0 {
		t.Errorf("%d moves", n)
	}
	if d := f.decision("s-1"); d.Verdict != coordinator.VerdictCovered || d.Moves != 5 || d.Steps[0].Why != coordinator.WhyMoved {
		t.Errorf("decided %+v", d)
	}
	if run := f.core.LastPass(); run.Machines != 5 || run.Mode != coordinator.RebalanceDryRun {
		t.Errorf("the pass says %+v", run)
	}
}

// TestLabelsOfWhichTheValuesAreNotTold: a shortfall that asks for a rack, whatever
// it is, is met from racks too many to name.
func TestLabelsOfWhichTheValuesAreNotTold(t *testing.T) {
	for _, r := range []model.Requirement{{Key: "rack", Operator: model.Exists}, {Key: "rack", Operator: model.NotIn, Values: []string{"r-1"}}} {
		f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1")
		f.machines("a", "zone-a", model.Idle, 20)
		f.inRacks()
		f.assign()
		f.short("s-1", 5, func(s *coordinator.Shortfall) { s.Requirements = append(s.Requirements, r) })
		f.cycles(40)
		if n := len(f.disks["s-1"].Received); n != 5 {
			t.Errorf("%s: %d machines received, want 5; the last pass: %+v", r.Operator, n, f.core.LastPass())
		}
	}
}

func TestOffDecidesNothing(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff, "s-0", "s-1")
	f.machines("a", "zone-a", model.Idle, 20)
	f.assign()
	f.short("s-1", 5, nil)
	f.cycles(30)
	if run := f.core.LastPass(); len(run.Decisions) != 0 || len(f.core.Moves()) != 0 {
		t.Errorf("decided %+v", run)
	}
}

// TestWhatIsNotMoved goes through the conditions one by one.
func TestWhatIsNotMoved(t *testing.T) {
	plain := func(f *fleet) {
		f.machines("a", "zone-a", model.Idle, 20)
		f.assign()
	}
	racks := func(f *fleet) {
		f.machines("a", "zone-a", model.Idle, 20)
		f.inRacks()
		f.assign()
	}
	for _, c := range []struct {
		says    string
		build   func(*fleet)
		change  func(*coordinator.Shortfall)
		need    int
		verdict coordinator.Verdict
		why     coordinator.Why
	}{
		{says: "machines that must share a domain", build: plain, need: 5, verdict: coordinator.VerdictSame, change: func(s *coordinator.Shortfall) {
			s.Requirements = append(s.Requirements, model.Requirement{Key: "rack", Operator: model.Same})
		}},
		{says: "nothing that meets the requirements", build: plain, need: 5, verdict: coordinator.VerdictNoShape, change: func(s *coordinator.Shortfall) {
			s.Requirements[0].Values = []string{"a3-highgpu-8g"}
		}},
		{says: "values of a label that are not told", build: racks, need: 5, verdict: coordinator.VerdictNoShape, change: func(s *coordinator.Shortfall) {
			s.Requirements = append(s.Requirements, model.Requirement{Key: "rack", Operator: model.In, Values: []string{"r-1"}})
		}},
		{says: "a label that is there, though it must not be", build: racks, need: 5, verdict: coordinator.VerdictNoShape, change: func(s *coordinator.Shortfall) {
			s.Requirements = append(s.Requirements, model.Requirement{Key: "rack", Operator: model.DoesNotExist})
		}},
		{says: "machines that lack what is missing", build: plain, need: 5, verdict: coordinator.VerdictNothing, why: coordinator.WhyUseless, change: func(s *coordinator.Shortfall) {
			s.Deficit = resources("nvidia.com/gpu", 1)
		}},
		{says: "a donor that is short itself", need: 5, verdict: coordinator.VerdictNothing, why: coordinator.WhyOwnNeed, build: func(f *fleet) {
			plain(f)
			f.short("s-0", 100, nil)
		}},
		{says: "the donor's margin", need: 5, verdict: coordinator.VerdictNothing, why: coordinator.WhyMargin, build: func(f *fleet) {
			f.machines("a", "zone-a", model.Idle, 1)
			f.assign()
		}},
		{says: "too little to be worth it", need: 100, verdict: coordinator.VerdictNothing, why: coordinator.WhyBenefit, build: func(f *fleet) {
			f.machines("a", "zone-a", model.Idle, 3)
			f.assign()
		}},
		{says: "a receiver without domains", need: 5, verdict: coordinator.VerdictNoDomain, build: func(f *fleet) {
			f.machines("a", "zone-a", model.Idle, 20)
			f.cycles(1)
			f.must(give("zone-a", "s-0"))
			f.cycles(2)
		}},
		{says: "machines in use, of as much priority", need: 5, verdict: coordinator.VerdictNothing, why: coordinator.WhyWorth, build: func(f *fleet) {
			f.machines("a", "zone-a", model.Configured, 20)
			for _, m := range f.provider.Machines {
				m.Priority = 1000
			}
			f.assign()
		}},
		{says: "machines in use, of as high a penalty", need: 5, verdict: coordinator.VerdictNothing, why: coordinator.WhyWorth, build: func(f *fleet) {
			f.machines("a", "zone-a", model.Configured, 20)
			for _, m := range f.provider.Machines {
				m.Priority, m.Offer.Bucket = 10, model.BucketPinned
			}
			f.assign()
		}},
	} {
		t.Run(c.says, func(t *testing.T) {
			f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1")
			c.build(f)
			f.short("s-1", c.need, c.change)
			f.cycles(40)
			d := f.decision("s-1")
			if n := len(f.core.Moves()); n != 0 || d.Verdict != c.verdict || !strings.Contains(f.whys("s-1"), string(c.why)) {
				t.Errorf("%d moves, verdict %q, because %q; want none, %q, %q", n, d.Verdict, f.whys("s-1"), c.verdict, c.why)
			}
		})
	}
}

func TestOtherProvidersAreNotTouched(t *testing.T) {
	f := handOver(t)
	other := *f.provider
	other.Name = "provider:2"
	f.shards["s-1"].Provider = &other
	f.cycles(40)
	if got := f.whys("s-1"); len(f.core.Moves()) != 0 || !strings.Contains(got, string(coordinator.WhyProvider)) {
		t.Errorf("moves %+v because %q", f.core.Moves(), got)
	}
}

// TestYoungShortfallsWait: nothing before age 6, nobody in use before age 13.
func TestYoungShortfallsWait(t *testing.T) {
	for _, c := range []struct {
		state model.State
		least int32
		tier  coordinator.Tier
	}{
		{model.Idle, coordinator.EscalateAgeCycles + 1, coordinator.TierIdle},
		{model.Speculative, coordinator.EscalateAgeCycles + 1, coordinator.TierSpeculative},
		{model.Configured, coordinator.PreemptAgeCycles + 1, coordinator.TierPreempt},
	} {
		f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1")
		f.machines("a", "zone-a", c.state, 20)
		f.assign()
		age := int32(0)
		f.short("s-1", 5, func(s *coordinator.Shortfall) { age = s.AgeCycles })
		for len(f.core.Moves()) == 0 && f.rounds < 100 {
			f.cycles(1)
		}
		if age < c.least || age > c.least+5 {
			t.Errorf("%s machines were asked for at age %d, want %d to %d", c.state, age, c.least, c.least+5)
		}
		f.cycles(60)
		f.checkExactlyOne()
		m := f.core.Moves()
		if len(m) != 1 || m[0].Tier != c.tier || f.received("s-1") != 5 {
			t.Errorf("%s: moves %+v, want one of 5 in tier %s", c.state, m, c.tier)
		}
	}
}

// TestIdleComesBeforeSpeculative: the cheaper tier first, and machines in use
// not at all while it helps.
func TestIdleComesBeforeSpeculative(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1")
	f.machines("i", "zone-a", model.Idle, 4)
	f.machines("s", "zone-a", model.Speculative, 20)
	f.machines("c", "zone-a", model.Configured, 20)
	f.assign()
	f.short("s-1", 10, nil)
	f.cycles(100)
	f.checkExactlyOne()
	got := map[coordinator.Tier]int{}
	for _, m := range f.core.Moves() {
		got[m.Tier] += len(m.Machines)
	}
	if got[coordinator.TierIdle] != 3 || got[coordinator.TierSpeculative] != 7 || got[coordinator.TierPreempt] != 0 {
		t.Errorf("moved %v, want 3 idle (4 less the margin) and 7 speculative", got)
	}
}

// TestTheWorstIsServedFirst: by priority, then by age.
func TestTheWorstIsServedFirst(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1", "s-2")
	f.machines("a", "zone-a", model.Idle, 6)
	f.assign()
	f.short("s-1", 5, func(s *coordinator.Shortfall) { s.Priority = 10 })
	f.short("s-2", 5, func(s *coordinator.Shortfall) { s.Priority = 20 })
	f.cycles(60)
	if f.received("s-2") != 5 || f.received("s-1") != 0 {
		t.Errorf("s-1 has %d, s-2 %d; want 0 and 5", f.received("s-1"), f.received("s-2"))
	}
}

// TestAPairRests: after a move, the same kind does not move between the same
// shards for eight reports, in either direction.
func TestAPairRests(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1")
	f.machines("a", "zone-a", model.Idle, 60)
	f.assign()
	want := 5
	age := int32(0)
	f.needs["s-1"] = func() []coordinator.Shortfall {
		missing := want - f.received("s-1")
		if missing <= 0 {
			return nil
		}
		age++
		return []coordinator.Shortfall{{Requirements: []model.Requirement{{Key: model.KeyInstanceType, Operator: model.Exists}}, Deficit: resources("cpu", int64(missing)*2000), Priority: 1, AgeCycles: age}}
	}
	for f.received("s-1") < 5 && f.rounds < 60 {
		f.cycles(1)
	}
	at := f.rounds
	want, age = 10, 50
	for len(f.core.Moves()) < 2 && f.rounds < 120 {
		f.cycles(1)
	}
	if rested := f.rounds - at; rested < coordinator.CooldownReports || len(f.core.Moves()) != 2 {
		t.Errorf("the next move came after %d reports, want %d at least; moves %d", rested, coordinator.CooldownReports, len(f.core.Moves()))
	}
	f.cycles(40)
	if f.received("s-1") != 10 {
		t.Errorf("received %d in the end, want 10", f.received("s-1"))
	}
}

// TestASuccessorWaitsUntilItHasHeardAll: with less knowledge it is not bolder.
func TestASuccessorWaitsUntilItHasHeardAll(t *testing.T) {
	f := handOver(t)
	f.cycles(8)
	f.restartCore()
	f.must(coordinator.Rebalance{})
	if run := f.core.LastPass(); run.Waits == "" || run.Machines != 0 {
		t.Errorf("decided before anybody reported: %+v", run)
	}
	if n := len(f.core.Statuses("")); n != 2 {
		t.Errorf("%d shards after a change of leaders", n)
	}
	f.cycles(1)
	if !f.core.Heard() {
		t.Error("one report interval after a change of leaders not all is known again")
	}
}

func TestMovesUnderWayAreBounded(t *testing.T) {
	ids := make([]string, 0, 70)
	for i := range 70 {
		ids = append(ids, "s-"+string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	f := newFleet(t, coordinator.RebalanceOn, ids...)
	f.unchecked = true
	f.machines("m", "zone-a", model.Idle, 190)
	f.assign()
	for _, id := range ids[1:] {
		f.short(id, 2, func(s *coordinator.Shortfall) { s.AgeCycles = 50 })
	}
	most := 0
	for range 30 {
		f.cycles(1)
		most = max(most, len(f.openMoves()))
	}
	if most > coordinator.MovesOpenMax || most < coordinator.MovesOpenMax/2 {
		t.Errorf("%d moves were under way at a time, at most %d are allowed", most, coordinator.MovesOpenMax)
	}
	if n := len(f.core.Moves()); n > coordinator.MovesFinishedMax+coordinator.MovesOpenMax {
		t.Errorf("%d moves are kept", n)
	}
}
