package simulated

import (
	"errors"
	"fmt"
	"math"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// Fault makes calls fail, which leaves the machine Failed. Either Times or
// Probability is set.
type Fault struct {
	Op          shard.Op // OpAny = every operation
	Machine     string   // empty = every machine
	Times       int      // the first so many matching calls fail
	Probability float64  // each matching call fails with this probability
}

// fault is a fault of a fleet: of the call at once, or, late, of the transition
// when it would have ended.
type fault struct {
	Fault
	late bool
}

func (x *Fault) validate() error {
	switch {
	case int(x.Op) >= shard.NumOps:
		return fmt.Errorf("op: no such operation: %d", x.Op)
	case x.Times < 0:
		return fmt.Errorf("times: must be at least 1, got %d", x.Times)
	case !(x.Probability >= 0 && x.Probability <= 1):
		return fmt.Errorf("probability: must be between 0 and 1, got %v", x.Probability)
	case (x.Times > 0) == (x.Probability > 0):
		return errors.New("give either times or probability")
	}
	return nil
}

func (f *Fleet) addFault(x Fault) error {
	if err := x.validate(); err != nil {
		return err
	}
	f.faults = append(f.faults, fault{Fault: x})
	return nil
}

// Inject adds a fault.
func (f *Fleet) Inject(x Fault) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addFault(x)
}

// SetFaults replaces all faults: those that fail a call at once, and those that
// let a transition begin and end in Failed.
func (f *Fleet) SetFaults(atOnce, late []Fault) error {
	var all []fault
	for _, x := range atOnce {
		all = append(all, fault{Fault: x})
	}
	for _, x := range late {
		all = append(all, fault{Fault: x, late: true})
	}
	for i := range all {
		if err := all[i].validate(); err != nil {
			return fmt.Errorf("faults[%d]: %w", i, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = all
	return nil
}

// ClearFaults takes all faults off.
func (f *Fleet) ClearFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// fails decides whether a call is to fail, and whether late; the first fault
// that matches and is not used up decides.
func (f *Fleet) fails(op shard.Op, id string) (fails, late bool) {
	for k := range f.faults {
		x := &f.faults[k]
		if x.Op != shard.OpAny && x.Op != op || x.Machine != "" && x.Machine != id {
			continue
		}
		if x.Probability > 0 {
			if f.rng.Float64() < x.Probability {
				return true, x.late
			}
		} else if x.Times > 0 {
			x.Times--
			return true, x.late
		}
	}
	return false, false
}

// Add puts a new machine into the fleet.
func (f *Fleet) Add(m model.Machine) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.put(&m)
}

// Lose makes machines vanish, whatever they are doing. It returns how many
// there were.
func (f *Fleet) Lose(ids ...string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	lost := 0
	for _, id := range ids {
		i, ok := f.byID[id]
		if !ok {
			continue
		}
		f.unlink(i)
		delete(f.byID, id)
		f.entries[i] = entry{prev: none, next: none, started: f.entries[i].started}
		f.free = append(f.free, i)
		f.revision++
		f.tombstones = append(f.tombstones, tombstone{id, f.revision})
		lost++
	}
	if over := len(f.tombstones) - TombstonesMax; over > 0 {
		f.forgotten = f.tombstones[over-1].revision
		f.tombstones = append(f.tombstones[:0], f.tombstones[over:]...)
	}
	return lost
}

// Change is what the fleet says of a machine from now on; nil fields stay.
type Change struct {
	PricePerHour            *float64
	InterruptionProbability *float64
	Labels                  map[string]string // replaces all labels when not nil
	Allocatable             *model.Resources
}

// Change alters what the fleet says of a machine, whatever its state.
func (f *Fleet) Change(id string, c Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, ok := f.byID[id]
	if !ok {
		return fmt.Errorf("change machine %q: %w", id, ErrNotFound)
	}
	if p := c.PricePerHour; p != nil && (!(*p >= 0) || math.IsInf(*p, 0)) {
		return fmt.Errorf("change machine %q: %w", id, model.ErrPrice)
	}
	if p := c.InterruptionProbability; p != nil && !(*p >= 0 && *p <= 1) {
		return fmt.Errorf("change machine %q: %w", id, model.ErrProbability)
	}
	m := &f.entries[i].machine
	if c.PricePerHour != nil {
		m.PricePerHour = *c.PricePerHour
	}
	if c.InterruptionProbability != nil {
		m.InterruptionProbability = *c.InterruptionProbability
	}
	if c.Labels != nil {
		m.Labels = c.Labels
	}
	if c.Allocatable != nil {
		m.Allocatable = *c.Allocatable
	}
	f.touch(i)
	return nil
}

// Heal makes a Failed machine whole again: Idle when it has a host, else a
// quota slot.
func (f *Fleet) Heal(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, ok := f.byID[id]
	if !ok {
		return fmt.Errorf("heal machine %q: %w", id, ErrNotFound)
	}
	m := &f.entries[i].machine
	if m.State != model.Failed {
		return fmt.Errorf("heal machine %q in state %s: %w", id, m.State, ErrPosition)
	}
	m.State, m.LastError, m.Cluster = model.Speculative, "", ""
	if m.Host != "" {
		m.State, m.IdleSince = model.Idle, f.now
	}
	f.touch(i)
	return nil
}
