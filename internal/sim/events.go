package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// events lets happen what the timeline holds for this cycle.
func (r *run) events() error {
	if r.resendAt == r.cycle {
		if err := r.resend(); err != nil {
			return err
		}
	}
	for i := range r.scenario.Timeline {
		if e := &r.scenario.Timeline[i]; e.At == r.cycle {
			if err := r.event(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) event(e *Event) error {
	r.gangs.change(r.cycle)
	if e.Replace != nil {
		if err := r.report(e.Replace); err != nil {
			return err
		}
	}
	r.fleet.Lose(e.Lose...)
	for _, id := range e.Lose {
		delete(r.expected, id)
	}
	if e.Restart {
		if err := r.boot(); err != nil {
			return err
		}
		clear(r.names)
		r.gangs.forget()
		if e.Resend {
			r.resendAt = r.cycle + 1
		}
	}
	if e.Pause != nil {
		r.paused = *e.Pause
		r.shard.SetPaused(r.paused)
	}
	if c := e.Change; c != nil {
		err := r.fleet.Change(c.Machine, simulated.Change{
			PricePerHour: c.PricePerHour, InterruptionProbability: c.InterruptionProbability, Labels: c.Labels, Allocatable: c.Allocatable,
		})
		if err != nil && !errors.Is(err, simulated.ErrNotFound) { // a lost machine changes no more
			return fmt.Errorf("cycle %d: %w", r.cycle, err)
		}
	}
	return nil
}

// resend sends each cluster's last roll-up again.
func (r *run) resend() error {
	for _, c := range slices.Sorted(maps.Keys(r.last)) {
		if err := r.report(r.last[c]); err != nil {
			return err
		}
	}
	return nil
}

// report sends a roll-up to the shard.
func (r *run) report(d *Rollup) error {
	outcome, err := r.shard.ApplyRollup(d.Cluster, rowsOf(d), r.now())
	if err != nil {
		return fmt.Errorf("cycle %d: %w", r.cycle, err)
	}
	r.last[d.Cluster] = d
	if outcome == shard.RollupAccepted {
		r.accept(d)
	}
	return nil
}

func (r *run) accept(d *Rollup) {
	names := make([]string, len(d.Needs))
	for i := range d.Needs {
		names[i] = d.Needs[i].Name
	}
	r.names[d.Cluster] = names
	r.gangs.accepted[d.Cluster] = d
	r.gangs.change(r.cycle)
}

func rowsOf(d *Rollup) []model.Need {
	rows := make([]model.Need, len(d.Needs))
	for i := range d.Needs {
		rows[i] = d.Needs[i].Need
	}
	return rows
}
