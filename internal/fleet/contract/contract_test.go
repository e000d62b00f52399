package contract

import (
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
)

// sample is a plan with an action of each kind, and the world it is for.
func sample(t *testing.T) (reference.Input, reference.Plan) {
	s := newScene(t, reference.Decide)
	n := s.need("c", 50, cpu(16))
	s.need("v", 1, cpu(4))
	s.machine("own", bound, cpu(4), of("c"), serving(n))
	s.machine("d", idle, vec("gpu", 1), func(m *model.Machine) { m.CapacityType, m.IdleSince = model.Spot, 1 })
	s.machine("r", bound, vec("gpu", 1), of("w"))
	s.machine("p", bound, cpu(4), of("v"))
	s.machine("v1", draining, cpu(4), of("c"))
	s.machine("s", spec, cpu(4))
	s.machine("b", idle, cpu(4))
	return s.in, s.run().plan
}

// Each corruption of a good plan is named by Faults: an invariant that no plan
// can break checks nothing.
func TestFaultsNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name    string
		corrupt func(*reference.Plan)
		says    string
	}{
		{"nothing", func(*reference.Plan) {}, ""},
		{"claimed twice", func(p *reference.Plan) { p.Needs[1].Claimed = []string{"own"} }, "claimed by rows"},
		{"other cluster's", func(p *reference.Plan) { p.Needs[0].Claimed = append([]string{"r"}, p.Needs[0].Claimed...) }, "claims r of w"},
		{"unknown machine", func(p *reference.Plan) { p.Needs[0].Claimed = append([]string{"x"}, p.Needs[0].Claimed...) }, "does not exist"},
		{"deficit", func(p *reference.Plan) { p.Needs[0].Deficit = cpu(1) }, "claims leave"},
		{"satisfied", func(p *reference.Plan) { p.Needs[0].Satisfied = true }, "satisfied true"},
		{"in flight", func(p *reference.Plan) { p.Needs[0].InFlight = cpu(99) }, "more than the deficit"},
		{"second action", func(p *reference.Plan) { p.Actions = append(p.Actions, p.Actions[4]) }, "second action"},
		{"order of kinds", func(p *reference.Plan) { p.Actions[0], p.Actions[1] = p.Actions[1], p.Actions[0] }, "comes after"},
		{"count", func(p *reference.Plan) { p.Needs[0].Preempt = 2 }, "counts"},
		{"wrong state", func(p *reference.Plan) { p.Actions[0].Machine = "own" }, "in state Configured"},
		{"equal priority", func(p *reference.Plan) { p.Actions[2].PreemptorPriority = 1 }, "the victim's priority"},
		{"reclaim beside", func(p *reference.Plan) { p.Actions[3].Machine, p.Actions[3].Cluster = "v1", "v" }, "beside a preemption"},
		{"grace", func(p *reference.Plan) { p.Actions[3].Grace = 1 }, "Reclaim"},
		{"missing result", func(p *reference.Plan) { p.Needs = p.Needs[:1] }, "1 results for 2 rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, plan := sample(t)
			c.corrupt(&plan)
			got := strings.Join(Faults(in, plan), "\n")
			if (c.says == "") != (got == "") || !strings.Contains(got, c.says) {
				t.Errorf("got %q, want something with %q", got, c.says)
			}
		})
	}
}

func TestDiffFindsEveryField(t *testing.T) {
	_, want := sample(t)
	if d := Diff(want, want); d != "" {
		t.Fatalf("a plan differs from itself: %s", d)
	}
	want.Reserved = []reference.Reserved{{Machine: "p"}}
	for name, change := range map[string]func(*reference.Plan){
		"action 0":  func(p *reference.Plan) { p.Actions[0].Machine = "x" },
		"action 4":  func(p *reference.Plan) { p.Actions = p.Actions[:4] },
		"row 0":     func(p *reference.Plan) { p.Needs[0].Claimed = []string{"b", "own", "s"} },
		"row 1":     func(p *reference.Plan) { p.Needs[1].Rank = 7 },
		"reserved":  func(p *reference.Plan) { p.Reserved[0].Need = 1 },
		"ended":     func(p *reference.Plan) { p.Ended = []string{"b"} },
		"in flight": func(p *reference.Plan) { p.Needs[0].InFlight = cpu(1) },
	} {
		_, got := sample(t)
		got.Reserved = slices.Clone(want.Reserved)
		change(&got)
		if d := Diff(got, want); d == "" {
			t.Errorf("%s: the difference was not seen", name)
		}
	}
}

func TestRelabelUndoesAShuffle(t *testing.T) {
	for seed := range int64(20) {
		w := fleet.Random(seed, fleet.Small)
		s, from := fleet.Shuffle(w, seed)
		if d := Diff(Relabel(reference.Decide(InputOf(s)), from), reference.Decide(InputOf(w))); d != "" {
			t.Fatalf("seed %d:\n%s", seed, d)
		}
	}
}

func TestRuleNamesAreDistinct(t *testing.T) {
	seen, rules := map[string]bool{}, 0
	for _, c := range chapters {
		for _, r := range c.rules {
			if seen[c.name+r.name] {
				t.Errorf("%s/%s: twice", c.name, r.name)
			}
			seen[c.name+r.name] = true
			rules++
		}
	}
	if rules < 80 {
		t.Errorf("only %d rules", rules)
	}
}
