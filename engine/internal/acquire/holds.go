package acquire

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// What acquisition does with reservations, and how they end; what phase 2 does with them beside that is in
// victims/holds.go. Which machines are held for which Needs, and what ends together, is in package holds.

// BlockUpTo withdraws, before the turn of the Need at a place in the order, the machines held for Needs
// that rank above it.
func (l *Worker) BlockUpTo(rank int32) {
	blocks := l.p.Reserved.Blocks
	for l.NextBlock < len(blocks) && blocks[l.NextBlock].From <= rank {
		if r := blocks[l.NextBlock].Row; l.has(l.p.Snap.View.Class[r]) && l.p.Reserved.Live(r) {
			l.MarkTaken(r)
			l.Undone = append(l.Undone, r)
		}
		l.NextBlock++
	}
}

// AnyLower reports whether an available machine is left for a kind that is held for a Need of lower rank.
func (p *Pass) AnyLower(k *state.Kind) bool { return p.Reserved.Lower.Any(k, p.Taken) }

// headCost is the sort key of a machine when the heads of tuples are compared; held machines follow all others.
func (p *Pass) headCost(cost []uint32, r columnar.Row) uint64 {
	return p.Reserved.Lower.HeadKey(cost[p.Snap.View.Class[r]], r)
}

// acquireLower claims machines of a stage that are held for Needs of lower rank, the lowest first.
func (l *Worker) acquireLower(need int32, k *state.Kind, stage int) {
	if len(l.p.Reserved.Lower.Classes[stage]) == 0 {
		return
	}
	for l.Lacks != 0 {
		r := l.nextLower(need, k, stage)
		if r == columnar.None {
			return
		}
		l.ClaimFree(r, need, stage)
	}
}

// nextLower returns the available held machine that goes first, of those that help the Need at work.
func (l *Worker) nextLower(need int32, k *state.Kind, stage int) columnar.Row {
	best, first := columnar.None, uint32(math.MaxUint32)
	lower := &l.p.Reserved.Lower
	list := lower.Classes[stage]
	for i := range list {
		x := &list[i]
		if l.p.ClassMask[x.Class]&l.Lacks == 0 || !k.AcceptsClass(x.Class) || !lower.Head(x, l.p.Taken) {
			continue
		}
		for _, r := range x.Rows[x.At:] {
			l.Figures.Probes++
			place := lower.Place(r)
			if place >= first {
				break
			}
			if lower.IsOpen(r, l.p.Taken) && l.p.InDomain(r, need) {
				best, first = r, place
				break
			}
		}
	}
	return best
}

// VoidFor ends the reservations of an owner when another Need takes one of its machines.
func (l *Worker) VoidFor(need int32, r columnar.Row) {
	if l.p.Reserved.Live(r) && !l.p.Reserved.OwnedBy(r, need) {
		l.EndReservations(l.p.Snap.Supply.Reservation(r).Owner, plan.PlanRankLost)
	}
}

// VoidTaken ends the reservations on machines that a Need has acquired. It runs after the Need
// has acquired everything, so the Need itself does not use what is set free.
func (l *Worker) VoidTaken(need int32) {
	if !l.p.Reserved.Breakable {
		return
	}
	for n, r := l.p.Claims.WalkAcquired(&l.p.Lines[need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
		l.VoidFor(need, r)
	}
}

// VoidAllTaken ends, after all Needs have acquired, the reservations on machines that others
// have claimed. An owner of a single machine was not checked before.
func (l *Worker) VoidAllTaken() {
	for _, b := range l.p.Reserved.Blocks {
		if holder := l.p.Claims.Of(b.Row); holder != state.Unclaimed {
			l.VoidFor(holder, b.Row)
		}
	}
}

// EndReservations ends an owner's reservations for a cause. The Idle machines among them become available like any other.
func (l *Worker) EndReservations(owner model.Owner, why plan.PlanEnd) {
	l.available = l.available[:0]
	l.p.Reserved.End(l.Arena, owner, why, func(r columnar.Row) {
		l.p.NoteFreed(r)
		if l.p.Snap.View.State[r] == model.Idle && !l.p.Claimed(r) && l.p.Promised.TakenBy(r) == ranks.None {
			l.unhold(r)
		}
	})
	if len(l.available) > 0 {
		l.revive()
	}
}

// unhold makes an Idle machine available that is not held any more.
func (l *Worker) unhold(r columnar.Row) {
	if l.p.Taken[r] {
		l.PutBack(r)
	} else {
		l.p.Stock.Epoch++ // as PutBack does
		l.offer(r)
		l.Acquiring.Domains.Rewind(r)
	}
	class, words := l.p.Snap.View.Class[r], (len(l.p.Snap.Classes)+63)/64
	if len(l.available) == 0 {
		l.available = reuse.Resize(l.available, words)
	}
	l.available[class>>6] |= 1 << (class & 63)
}

// revive lets Needs that found nothing try again, since machines of some classes have become available.
func (l *Worker) revive() {
	for i := range l.p.Kinds {
		if cycle.Meet(l.available, l.p.Kinds[i].Accepts) {
			l.p.Stock.Spent[i] = false
		}
	}
	l.Acquiring.Revived = true
}

// HeldFor returns the machines that are reserved for a Need, in keep order. It adds those that still drain for a plan of
// the Need that ended in this pass, unless another plan counts on them.
func (p *Pass) HeldFor(need int32) []columnar.Row {
	rows, drains := p.Reserved.Of(need), p.Reserved.Draining(need)
	if len(drains) == 0 {
		return rows
	}
	rows = slices.Clone(rows)
	for _, r := range drains {
		if p.Promised.TakenBy(r) == ranks.None {
			rows = append(rows, r)
		}
	}
	holds.SortKeep(p.Snap, rows)
	return rows
}

// Arrives reports whether a machine drains for the need and no other need of the same owner
// counts on it.
func (p *Pass) Arrives(r columnar.Row, need int32, k *state.Kind) bool {
	return p.drainsFor(r, need, k) && !p.Promised.Flying.Has(uint32(r))
}

// drainsFor reports whether a machine that is held for the need is on its way to it: it drains,
// or it will because its preemption was accepted.
func (p *Pass) drainsFor(r columnar.Row, need int32, k *state.Kind) bool {
	switch p.Snap.View.State[r] {
	case model.Draining:
	case model.Configured:
		if p.Snap.ClusterOf[p.Snap.View.Cluster[r]] == p.ClusterOf(need) {
			return false
		}
	default:
		return false
	}
	return p.Accepts(r, k)
}

// NoteFreed records the class of a machine that is put back after phase 1 skipped it.
func (p *Pass) NoteFreed(r columnar.Row) {
	if p.Promised.Freed == nil {
		p.Promised.Freed = alloc.Make[uint64](p.Arena, (len(p.Snap.Classes)+63)/64)
	}
	class := p.Snap.View.Class[r]
	p.Promised.Freed[class>>6] |= 1 << (class & 63)
}

// TakenBy returns the need whose plan of this cycle counts on a machine; ranks.None = none.
func (x *Promised) TakenBy(r columnar.Row) int32 {
	if !x.taken.Has(uint32(r)) {
		return ranks.None
	}
	return x.takers[r]
}

// NoteTaker records the Need whose plan of this cycle counts on a machine.
func (x *Promised) NoteTaker(r columnar.Row, need int32) {
	x.taken.Set(uint32(r))
	x.takers[r] = need
}

// ComesTo reports whether a machine is being created for a Need.
func (p *Pass) ComesTo(r columnar.Row, need int32) bool {
	return p.CountsFor(r) == p.ClusterOf(need) && (p.IsOwn(r, need) || p.IsCreatedFor(r, need))
}

// PutBackBlocked restarts phase 2 at the head of the order. A reserved Idle machine is again a
// candidate for every need that ranks above its owner, so it is put back.
func (l *Worker) PutBackBlocked() {
	for _, b := range l.p.Reserved.Blocks {
		if !l.p.Claimed(b.Row) && l.p.Promised.TakenBy(b.Row) == ranks.None {
			l.PutBack(b.Row)
		}
	}
	l.NextBlock = 0
}
