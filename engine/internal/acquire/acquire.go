package acquire

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// What one Need acquires, once its turn has come: free machines, cheapest first or by the least total cost (fit.go),
// and with hard spread where the skew allows it (spread.go).

// AnyFree reports whether a free machine is left that could serve a kind. From turn to turn the answer
// changes only from true to false, unless a reservation is voided; see revive.
func (p *Pass) AnyFree(k *state.Kind) bool {
	return p.any(p.Ladders[k.Number][0], k, 0) || p.any(p.Ladders[k.Number][1], k, 1) || p.AnyLower(k)
}

// Acquire claims free machines in this order: Idle ones that are held for the Need, other Idle ones,
// Idle ones that are held for lower ranks, Speculative and late-bound ones, late-bound ones that are
// held for lower ranks. Then it gives back what is superfluous.
func (l *Worker) Acquire(need int32, k *state.Kind) {
	if l.Lacks != 0 {
		for _, r := range l.p.Reserved.Of(need) {
			if l.CanTakeHeld(r, need, k) {
				l.ClaimFree(r, need, 0)
			}
		}
		switch {
		case len(k.Spread) == 0:
			for stage := range l.p.Free {
				l.acquireStage(need, k, stage)
				l.acquireLower(need, k, stage)
			}
		case l.p.Opts.Acquire == plan.AcquireFit:
			l.acquireSpreadFit(need, k)
		default:
			l.acquireSpread(need, k)
		}
	}
	l.GiveBackSuperfluous(need, k)
}

// acquireStage claims machines of a stage (0 = Idle, 1 = Speculative) that are not held, by the rule of
// acquisition; with AcquireCheapest the cheapest first.
func (l *Worker) acquireStage(need int32, k *state.Kind, stage int) {
	if l.p.Opts.Acquire == plan.AcquireFit {
		l.acquireFit(need, k, stage)
		return
	}
	if k.Same {
		l.acquireInDomain(need, k, stage)
		return
	}
	x := l.p.Ladders[k.Number][stage]
	for l.Lacks != 0 {
		c, ok := l.p.nextClass(x, k, stage, l.Lacks)
		if !ok {
			break
		}
		l.Figures.Probes++
		l.acquireHead(c, need, stage)
	}
}

// ClaimFree claims a free machine of a stage and subtracts what it covers.
func (l *Worker) ClaimFree(r columnar.Row, need int32, stage int) {
	l.Subtract(l.p.Snap.View.Class[r])
	l.Pick(r, need, stage)
}

// Pick is ClaimFree without the subtraction, for a machine that was subtracted before.
func (l *Worker) Pick(r columnar.Row, need int32, stage int) {
	l.noteAcquired(r, need, stage)
	if !l.p.Taken[r] {
		l.p.Taken[r] = true
		l.p.Free[l.p.StageOf(r)].Took(r, l.p.Snap.View.Class[r], l.p.Taken) // a held machine may be of the other stage
		l.Acquiring.Domains.Take(r)
	}
}

// acquireHead claims the first free machine of a class: ClaimFree without a search for the machine's
// place.
func (l *Worker) acquireHead(class uint32, need int32, stage int) {
	x := &l.p.Free[stage]
	r := x.Head(class)
	l.Subtract(class)
	l.noteAcquired(r, need, stage)
	l.p.Taken[r] = true
	x.TakeHead(class, l.p.Taken)
	l.Acquiring.Domains.Take(r)
}

func (l *Worker) noteAcquired(r columnar.Row, need int32, stage int) {
	n := &l.p.Lines[need]
	l.p.Claims.Acquire(r, need, n)
	c := l.p.ClusterOf(need)
	l.Acquiring.Clusters[c>>6] |= 1 << (c & 63)
	l.Acquiring.Acquisitions[stage] = append(l.Acquiring.Acquisitions[stage], Acquisition{r, need})
}

// CanTakeHeld reports whether the Need at work can acquire a machine that is held for it, and gains by
// it.
func (l *Worker) CanTakeHeld(r columnar.Row, need int32, k *state.Kind) bool {
	return l.p.FreeReserved(r, k) && l.p.InDomain(r, need) && l.Helps(r)
}

// FreeReserved reports whether a machine that is held for a Need of this kind is Idle, accepted and
// unclaimed.
func (p *Pass) FreeReserved(r columnar.Row, k *state.Kind) bool {
	// Test the class first: the claim of a machine that the kind does not accept may be another
	// worker's to write.
	return p.Snap.View.State[r] == model.Idle && p.Accepts(r, k) && !p.Claimed(r)
}

// DomainsFor returns the index of a matcher's Same key, built when it is first needed in a cycle.
// Machines that are taken by then are not counted.
func (l *Worker) DomainsFor(matcher uint32) *domains.Index {
	key := l.p.Snap.Supply.SameKey(matcher)
	d := l.Acquiring.Domains.At(key)
	if d.Stale {
		d.Build(l.p.Snap, l.Arena, l.p.Dims, key, l.p.Taken, l.has, &l.Acquiring.byText)
	}
	return d
}

// acquireInDomain claims free machines of a stage in the Need's domain, cheapest first.
func (l *Worker) acquireInDomain(need int32, k *state.Kind, stage int) {
	d := l.DomainsFor(k.Matcher)
	shelves := l.p.shelvesOf(d, need, k)
	for l.Lacks != 0 {
		r := l.nextOnShelves(d, shelves, k, stage)
		if r == columnar.None {
			return
		}
		l.ClaimFree(r, need, stage)
	}
}

// nextOnShelves returns the cheapest available machine of a stage, on shelves, that helps the Need at
// work; None if there is none.
func (l *Worker) nextOnShelves(d *domains.Index, shelves []uint32, k *state.Kind, stage int) columnar.Row {
	cost := l.p.Costs(k, stage)
	best, bestKey := columnar.None, ^uint64(0)
	for _, i := range shelves {
		sh := &d.Shelves[i]
		if sh.Stage != stage || sh.Left == 0 || l.p.ClassMask[sh.Class]&l.Lacks == 0 || !k.AcceptsClass(sh.Class) {
			continue
		}
		for int(sh.At) < len(sh.Rows) && (l.p.Taken[sh.Rows[sh.At]] || l.p.Reserved.Lower.Has(sh.Rows[sh.At])) {
			sh.At++
		}
		if int(sh.At) == len(sh.Rows) {
			continue // all that is left is held for others
		}
		l.Figures.Probes++
		r := sh.Rows[sh.At]
		if key := uint64(cost[sh.Class])<<32 | uint64(l.p.Free[stage].Place.Of(r)); key < bestKey {
			best, bestKey = r, key
		}
	}
	return best
}

// Acquisition is a free machine that a Need has claimed.
type Acquisition struct {
	Row  columnar.Row
	Need int32
}

// shelvesOf returns the shelves of the Need's domain.
func (p *Pass) shelvesOf(d *domains.Index, need int32, k *state.Kind) []uint32 {
	return d.Of(k.Matcher).ShelvesOf(p.Lines[need].Domain)
}
