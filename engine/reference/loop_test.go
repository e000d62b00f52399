package reference_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/fleet/contract"
)

var (
	loops    = flag.Int64("loops", 40, "random worlds to run until they are quiet")
	loopSeed = flag.Int64("loop-seed", -1, "run only this world, and print what happens")
)

const (
	loopCycles       = 150
	loopQuietCycles  = 40 // at the end nothing may happen in so many
	loopCycleSeconds = 10
)

// loop carries plans out on a world whose demand stays as it is.
type loop struct {
	in      reference.Input
	rng     *rand.Rand
	free    map[string]int // by machine: the cycle in which its drain is done
	grace   map[string]int
	short   map[int]int64
	history []string
	faults  []string
	last    int // cycle with an action
}

func newLoop(seed int64) *loop {
	w := fleet.Random(seed, fleet.Tiny)
	l := &loop{in: contract.InputOf(w), rng: rand.New(rand.NewPCG(uint64(seed), 1)), free: map[string]int{}, grace: map[string]int{}, short: map[int]int64{}}
	l.in.Options.Victims = reference.VictimsGang
	l.in.Options.Tenants = nil
	for _, m := range l.in.Machines {
		l.in.Reported[m.Cluster] = true
	}
	for i := range l.in.Machines {
		m := &l.in.Machines[i]
		m.Reservation = model.Reservation{}
		switch m.State {
		case model.Draining:
			l.free[m.ID] = 1 + l.rng.IntN(6)
		case model.Configuring, model.Creating, model.Deleting, model.Failed:
			m.State, m.Cluster, m.Host, m.LastError = model.Idle, "", "h", ""
		}
	}
	return l
}

func (l *loop) cycle(k int) {
	l.in.Now += loopCycleSeconds * 1e9
	for i := range l.in.Machines {
		m := &l.in.Machines[i]
		if m.State == model.Draining && k >= l.free[m.ID] {
			m.State, m.Cluster, m.IdleSince = model.Idle, "", l.in.Now
			if m.Reservation.Active() {
				m.Reservation.Deadline = l.in.Now + int64(2*max(l.grace[m.ID], 10))*1e9
			}
		}
	}
	for i := range l.in.Needs {
		l.in.Needs[i].ShortSince = l.short[i]
	}
	plan := reference.Decide(l.in)
	l.faults = append(l.faults, contract.Faults(l.in, plan)...)
	for i, n := range plan.Needs {
		if n.Satisfied {
			delete(l.short, i)
		} else if l.short[i] == 0 {
			l.short[i] = l.in.Now
		}
	}
	at := map[string]*model.Machine{}
	for i := range l.in.Machines {
		at[l.in.Machines[i].ID] = &l.in.Machines[i]
	}
	for _, id := range plan.Ended {
		at[id].Reservation = model.Reservation{}
	}
	for _, r := range plan.Reserved {
		n := &l.in.Needs[r.Need]
		at[r.Machine].Reservation = model.Reservation{
			Owner: n.Owner(), Priority: n.Profile.Priority(), Interruption: n.Profile.Interruption(), Reclamation: n.Profile.Reclamation(),
			Arrival: n.Arrival, Plan: uint64(k), Domain: r.Domain, Deadline: l.in.Now + int64(2*r.Grace+60)*1e9,
		}
		l.grace[r.Machine] = r.Grace
	}
	for _, a := range plan.Actions {
		l.carryOut(k, a, at[a.Machine])
	}
}

func (l *loop) carryOut(k int, a reference.Action, m *model.Machine) {
	l.last = k
	l.history = append(l.history, fmt.Sprintf("%d %s %s %d", k, a.Kind, a.Machine, a.Need))
	switch a.Kind {
	case reference.Bootstrap:
		n := &l.in.Needs[a.Need]
		if owner := m.Reservation.Owner; m.Reservation.Active() && owner != n.Owner() && owner.Fingerprint != n.Profile.WithoutSame().Fingerprint() {
			l.faults = append(l.faults, fmt.Sprintf("cycle %d: %s is held for %v and bound to row %d", k, m.ID, owner, a.Need))
		}
		m.State, m.Cluster, m.Reservation = model.Configured, n.Cluster, model.Reservation{}
		m.Assigned = model.Assignment{Priority: n.Profile.Priority(), Interruption: n.Profile.Interruption(), Reclamation: n.Profile.Reclamation(), Fingerprint: n.Profile.Fingerprint(), Group: n.Group}
	case reference.Provision:
		n := &l.in.Needs[a.Need]
		m.State, m.Host, m.IdleSince = model.Idle, "h", l.in.Now
		m.Reservation = model.Reservation{Owner: n.Owner(), Priority: n.Profile.Priority(), Deadline: l.in.Now + int64(10*time.Minute)}
	case reference.Preempt, reference.Reclaim:
		m.State = model.Draining
		l.free[m.ID] = k + 1 + l.rng.IntN(6)
	case reference.Delete:
		m.State, m.Host = model.Speculative, ""
	}
}

// TestWorldsComeToRest: with demand as it is, and drains of random length,
// nothing happens any more after a while; until then every plan is sound, and
// what is held for a Need goes to nobody else while the reservation lives.
func TestWorldsComeToRest(t *testing.T) {
	for seed := range *loops {
		if *loopSeed >= 0 && seed != *loopSeed {
			continue
		}
		l := newLoop(seed)
		for k := 1; k <= loopCycles; k++ {
			l.cycle(k)
		}
		if l.last > loopCycles-loopQuietCycles {
			t.Errorf("seed %d: still acts in cycle %d: %v", seed, l.last, l.history[max(0, len(l.history)-6):])
		}
		if len(l.faults) > 0 {
			t.Errorf("seed %d: %s", seed, strings.Join(l.faults, "\n"))
		}
		if *loopSeed >= 0 {
			t.Log(strings.Join(l.history, "\n"), "\n", fleet.Describe(fleet.World{Machines: l.in.Machines, Needs: l.in.Needs, Now: l.in.Now, Band: l.in.Options.Band}))
		}
	}
}
