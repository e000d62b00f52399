package reference

import (
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleet"
)

// TestPlainFleetsGoByScore: without gangs, excess and what drains already units are taken in
// the order of the victim score, then of ids, as one by one.
func TestPlainFleetsGoByScore(t *testing.T) {
	units := 0
	for seed := range int64(200) {
		w := fleet.Random(seed, fleet.Small)
		for i := range w.Needs {
			w.Needs[i].Profile, w.Needs[i].Group = w.Needs[i].Profile.WithoutSame(), ""
		}
		for i := range w.Machines {
			w.Machines[i].Assigned.Group = ""
		}
		in := Input{Machines: w.Machines, Needs: w.Needs, Reported: w.Reported, Now: w.Now, DrainSeconds: w.DrainSeconds, Options: DefaultOptions()}
		in.Options.Victims = VictimsGang
		p := newPass(&in, make([]lack, len(in.Needs)))
		for _, n := range p.needs {
			p.phase1(n)
		}
		p.machines = filter(p.machines, func(m *model.Machine) bool { return !p.excess(m) && m.State != model.Draining })
		for _, n := range p.needs {
			if !n.deficit.IsZero() {
				units += sameOrder(t, seed, p, n)
			}
		}
	}
	if units < 2_000 {
		t.Errorf("only %d units were compared", units)
	}
}

func sameOrder(t *testing.T, seed int64, p *pass, n *need) int {
	t.Helper()
	var want, got []string
	for _, v := range p.victimCandidates(n) {
		want = append(want, v.ID)
	}
	s := p.selection(n, p.byPriority(n), n.deficit, everywhere)
	for len(s.units) > 0 {
		u := s.next(nil, n.Aggregate)
		got = append(got, u.members[0].ID)
		s.units = dropUnits(s.units, func(o *unit) bool { return o == u })
	}
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d: Need of rank %d takes %v, by score it is %v", seed, n.rank, got, want)
	}
	return len(got)
}
