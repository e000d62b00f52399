package handover

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/engine/model"
)

func machines(zone string, n int, state model.State) (out []model.Machine) {
	for i := range n {
		m := model.Machine{
			ID: fmt.Sprintf("%s-%02d", zone, i), State: state, Zone: zone, InstanceType: "std", PricePerHour: 1, CapacityType: model.BareMetal,
			Resources: cpu(machineCPU),
		}
		if state == model.Speculative {
			m.CapacityType = model.OnDemand
		}
		out = append(out, m)
	}
	return out
}

func cpu(milli int64) model.Resources {
	return model.NewResources(model.Amount{Name: "cpu", Value: milli})
}

// needs asks for so many machines.
func needs(t *testing.T, n int, priority int32, worth model.Bucket) []model.Need {
	t.Helper()
	p, err := model.NewProfile(model.ProfileSpec{Priority: priority, Interruption: worth})
	if err != nil {
		t.Fatal(err)
	}
	return []model.Need{{Profile: p, Aggregate: cpu(int64(n) * machineCPU), MinUnit: cpu(machineCPU)}}
}

// story is a fleet in which machines change their shard.
type story struct {
	name   string
	rounds int // until all is quiet, when nobody crashes
	moves  int // machines
	steps  []string
	begin  func(t *testing.T) *region
	// goOn is called after each round.
	goOn func(r *region)
	// other is how many move when the crash changes the story.
	other func(r *region) int
}

// both are steps of every story.
var both = []string{
	"the shard remembers g", "the shard remembers r", "the shard remembers a", "the shard is on disk",
	"the coordinator is about to write", "the coordinator has written",
	"the shard sends /bigfleet.v1alpha1.Coordinator/ReportShard", "the shard is answered /bigfleet.v1alpha1.Coordinator/ReportShard",
	"the shard sends /tonnage.v1alpha1.Fleet/Offer", "the shard is answered /tonnage.v1alpha1.Fleet/Offer",
}

// short is a region whose second shard has two machines and needs more.
func short(t *testing.T, donor []model.Machine, want int) *region {
	r := newRegion(t, append(donor, machines("b", 2, model.Idle)...), "a", "b")
	r.shards[1].wants["short"] = needs(t, want, demandTop, model.BucketOneDollar+5)
	return r
}

var stories = []story{
	{
		name: "idle machines", rounds: 24, moves: 3, steps: append([]string{"the shard calls Configure"}, both...),
		begin: func(t *testing.T) *region { return short(t, machines("a", 5, model.Idle), 5) },
	},
	{
		name: "quota", rounds: 28, moves: 2, steps: append([]string{"the shard calls Create"}, both...),
		begin: func(t *testing.T) *region { return short(t, machines("a", 4, model.Speculative), 4) },
	},
	{
		name: "machines in use", rounds: 36, moves: 2, steps: append([]string{"the shard calls Drain", "the shard has called Drain"}, both...),
		begin: func(t *testing.T) *region {
			r := short(t, machines("a", 4, model.Idle), 4)
			r.shards[0].wants["basic"] = needs(t, 4, demandBasic, model.BucketZero)
			return r
		},
	},
	{
		name: "the receiver is removed", rounds: 24, moves: 0,
		steps: []string{"the shard remembers g", "the shard forgets g", "the shard remembers a", "the coordinator has written"},
		begin: func(t *testing.T) *region { return short(t, machines("a", 5, model.Idle), 5) },
		other: func(r *region) int { return 3 * (len(r.shards) - 1) }, // it adopted before it could be removed
		goOn: func(r *region) {
			for _, m := range r.core.Moves() {
				if m.Phase == coordinator.Released && len(r.shards) == 2 {
					r.remove(1)
				}
			}
			if len(r.shards) == 1 { // again until it has been done, which is no error
				_, _ = r.Do(r.t.Context(), coordinator.RemoveShard{Shard: "shard-1"}, nil)
			}
		},
	},
	{
		name: "the domain is ordered away", rounds: 24, moves: 3, steps: both,
		begin: func(t *testing.T) *region {
			r := newRegion(t, append(machines("a", 5, model.Idle), machines("b", 2, model.Idle)...), "a", "b", "c")
			r.shards[1].wants["short"] = needs(t, 5, demandTop, model.BucketOneDollar+5)
			return r
		},
		other: func(r *region) int { return r.moved() }, // the domain may go before its machines do
		goOn: func(r *region) {
			if len(r.open()) == 0 {
				return
			}
			a := coordinator.Domain{Key: model.KeyZone, Value: "a"}
			_, _ = r.Do(r.t.Context(), coordinator.UnassignDomain{Domain: a}, nil)
			_, _ = r.Do(r.t.Context(), coordinator.AssignDomain{Assignment: coordinator.Assignment{Domain: a, Shard: "shard-2"}}, nil)
		},
	},
	{
		name: "there and back", rounds: 70, moves: 5, steps: append([]string{"the shard forgets g", "the shard forgets r"}, both...),
		begin: func(t *testing.T) *region { return short(t, machines("a", 5, model.Idle), 5) },
		goOn: func(r *region) {
			if r.rounds == 30 { // what was lent is wanted at home
				r.known = r.points
				r.shards[1].wants["short"] = needs(r.t, 1, demandTop, model.BucketOneDollar+5)
				r.shards[0].wants["home"] = needs(r.t, 5, demandTop, model.BucketOneDollar+5)
			}
		},
	},
}

// remove takes a shard away for good, with its disk and its machines.
func (r *region) remove(i int) {
	p := r.shards[i]
	p.shard.Close()
	for id, zone := range r.zones {
		if zone == "b" {
			delete(r.zones, id)
		}
	}
	r.shards = slices.Delete(r.shards, i, i+1)
}

// play lets a story come to its end; more is how many rounds a crash may cost.
func (s *story) play(t *testing.T, crashAt int, keeps bool, more int) *region {
	t.Helper()
	r := s.begin(t)
	r.crashAt, r.keeps = crashAt, keeps
	for range s.rounds + more {
		r.round()
		if s.goOn != nil {
			s.goOn(r)
		}
	}
	for _, p := range r.shards {
		p.shard.Close()
	}
	return r
}

// check holds when all is quiet: every machine has one owner, who knows it; no
// move is open, and as many machines have moved as were missing.
func (s *story) check(r *region, what string) {
	t := r.t
	t.Helper()
	for id, zone := range r.zones {
		var by []string
		for _, p := range r.shards {
			if owns(p.memory.live, id, zone) {
				by = append(by, p.id)
			}
			p.shard.Machines(func(m model.Machine) bool {
				if m.ID == id {
					by = append(by, p.id+"'s table")
				}
				return true
			})
		}
		if len(by) != 2 || by[1] != by[0]+"'s table" {
			t.Errorf("%s: machine %s is had by %v, want by one", what, id, by)
		}
	}
	if open := r.open(); len(open) > 0 {
		t.Errorf("%s: moves left open: %+v", what, open)
	}
	want := s.moves
	if s.other != nil {
		want = s.other(r)
	}
	if got := r.moved(); got != want {
		t.Errorf("%s: %d machines have moved, want %d: %+v", what, got, want, r.core.Moves())
	}
}

// crashRounds is how many rounds a crash may cost: what was asked for may have to
// be given up, and the pair of shards rests.
const crashRounds = 30

// TestACrashAtEachStepLeavesOneOwner plays each story once to count its steps,
// and then once for each step and each state of the disk, with a crash there.
func TestACrashAtEachStepLeavesOneOwner(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			whole := s.play(t, 0, false, 0)
			s.check(whole, "without a crash")
			again := s.play(t, 0, false, crashRounds)
			s.check(again, "without a crash, and later")
			for _, want := range s.steps {
				if whole.names[want] == 0 {
					t.Errorf("%q is none of the steps %v", want, whole.names)
				}
			}
			t.Logf("%d steps: %v", whole.points, whole.names)
			for at := whole.known + 1; at <= whole.points && !t.Failed(); at += stride {
				what := func(r *region) string {
					return fmt.Sprintf("crash at step %d of %d, when %s (what was written is kept: %t)", at, whole.points, r.crashed, r.keeps)
				}
				r := s.play(t, at, false, crashRounds)
				if s.check(r, what(r)); r.lost {
					r = s.play(t, at, true, crashRounds)
					s.check(r, what(r))
				}
			}
		})
	}
}
