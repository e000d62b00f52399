package victims

import (
	"iter"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// CountInFlight subtracts what drains for the need from what it misses, so that nothing is
// Preempted for it twice, and records those machines. With domain ≠ 0 only machines in that
// domain, or cell, count. Needs of one owner use a machine up in rank order.
func (p *Pass) CountInFlight(need int32, k *state.Kind, domain uint32, missing []int64) (counted int) {
	for r := range p.OnTheirWay(need) {
		if columnar.IsZero(missing) {
			return counted
		}
		if !p.Arrives(r, need, k) || !columnar.Helps(p.Vec(r), missing) {
			continue
		}
		if v, ok := p.Cell(k.Matcher, r); !ok || domain != 0 && v != domain {
			continue
		}
		p.Promised.Flying.Set(uint32(r))
		if p.Tenants.Reclaiming {
			p.Preempted.Spared.Clear(uint32(r)) // it was there for all after the need's first turn, and is the need's again
		}
		p.Tenants.noteCounted(r, need)
		p.Lines[need].Status |= state.HasPlan
		if counted++; p.Reserved.HadMembers(r) {
			p.Preempted.Awaited = append(p.Preempted.Awaited, r)
		}
		if p.Preempted.InFlight == nil {
			p.Preempted.InFlight = map[int32][]int64{}
		}
		if p.Preempted.InFlight[need] == nil {
			p.Preempted.InFlight[need] = alloc.Make[int64](p.Arena, p.Dims)
		}
		columnar.SatAdd(p.Preempted.InFlight[need], p.Vec(r))
		columnar.SubClamp(missing, p.Vec(r))
	}
	return counted
}

// SubInFlight subtracts what CountInFlight would use, without recording it.
func (p *Pass) SubInFlight(need int32, k *state.Kind, domain uint32, missing []int64) {
	for r := range p.OnTheirWay(need) {
		if columnar.IsZero(missing) {
			return
		}
		if v, ok := p.Cell(k.Matcher, r); ok && v == domain && p.Arrives(r, need, k) && columnar.Helps(p.Vec(r), missing) {
			columnar.SubClamp(missing, p.Vec(r))
		}
	}
}

// OnTheirWay lists what is held for a need as it counts on it: what drains already first, each in keep order.
func (p *Pass) OnTheirWay(need int32) iter.Seq[columnar.Row] {
	return func(yield func(columnar.Row) bool) {
		rows := p.HeldFor(need)
		for _, drains := range [2]bool{true, false} {
			for _, r := range rows {
				if (p.Snap.View.State[r] == model.Draining) == drains && !yield(r) {
					return
				}
			}
		}
	}
}

// InFlightFor returns the machines that CountInFlight would use for the need.
func (l *Worker) InFlightFor(need int32, k *state.Kind) []columnar.Row {
	if !l.p.Reserved.Had(need) {
		return nil
	}
	missing := l.CopyForPlan(l.Missing)
	var out []columnar.Row
	for r := range l.p.OnTheirWay(need) {
		if l.p.Arrives(r, need, k) && columnar.Helps(l.p.Vec(r), missing) {
			out = append(out, r)
			columnar.SubClamp(missing, l.p.Vec(r))
		}
	}
	return out
}
