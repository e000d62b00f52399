package engine

import (
	"math/bits"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// A Need gives back machines that it acquired and does not need: small ones that a larger one, picked
// later, made superfluous. They are free for the next Need of the same pass, as if they had
// never been taken, since no other Need looked during this one's turn.

// surplus is what a Need's machines offer beyond what it wants, by dimension, as 128-bit integers: the
// sum of what machines offer may exceed an int64. It is negative where the Need lacks something.
type surplus struct{ hi, lo []uint64 }

func (x *surplus) add(v []int64) {
	for d, n := range v {
		var carry uint64
		x.lo[d], carry = bits.Add64(x.lo[d], uint64(n), 0)
		x.hi[d] += carry
	}
}

func (x *surplus) sub(v []int64) {
	for d, n := range v {
		var borrow uint64
		x.lo[d], borrow = bits.Sub64(x.lo[d], uint64(n), 0)
		x.hi[d] -= borrow
	}
}

// spares reports whether what is lacking stays as it is without a machine that offers v.
func (x *surplus) spares(v, want []int64) bool {
	for d, n := range want {
		if n <= 0 || v[d] == 0 {
			continue
		}
		if lacks := x.hi[d]>>63 == 1; lacks || x.hi[d] == 0 && x.lo[d] < uint64(v[d]) {
			return false
		}
	}
	return true
}

// giveBackSuperfluous makes the Need at work give back what it acquired in this turn and would lack no more
// without, the last picked first. Under hard spread it gives back only machines without which
// the others stay within the skew, or are as even as they were. Credited machines stay.
func (l *worker) giveBackSuperfluous(need int32, k *state.Kind) {
	if !l.mayBeSuperfluous(need) {
		return
	}
	n := &l.p.lines[need]
	want := l.p.aggregate(need)
	x := &l.sharing.surplus
	x.hi, x.lo = reuse.Resize(x.hi, l.p.dims), reuse.Resize(x.lo, l.p.dims)
	acquired := l.used[:0]
	for r := n.Head; r != columnar.None; r = l.p.claims.Next(r) {
		x.add(l.p.vec(r))
		if l.p.isAcquirable(r) {
			acquired = append(acquired, r)
		}
	}
	l.used = acquired
	x.sub(want)
	if len(k.Spread) > 0 {
		l.acquiring.spread.Start(l.p.s.Supply, k.Spread)
		for r := n.Head; r != columnar.None; r = l.p.claims.Next(r) {
			l.acquiring.spread.Count(r)
		}
	}
	gave := false
	for i := len(acquired) - 1; i >= 0; i-- {
		r := acquired[i]
		if v := l.p.vec(r); x.spares(v, want) && (len(k.Spread) == 0 || l.acquiring.spread.StaysEven(r)) {
			x.sub(v)
			l.giveBackOne(r, need, k)
			gave = true
		}
	}
	if gave {
		l.relink(need)
		l.reopenSpread(k)
	}
}

// reopenSpread makes Needs under hard spread look again at machines that a Need of this kind gave back:
// the ladders and deals had advanced beyond them during its turn.
func (l *worker) reopenSpread(k *state.Kind) {
	if len(k.Spread) == 0 {
		return
	}
	if l.p.layouts[k.Number] != nil {
		for i := range l.p.layouts[k.Number].tuples {
			for stage := range l.p.layouts[k.Number].tuples[i].ladders {
				l.p.layouts[k.Number].tuples[i].ladders[stage].Reopen()
			}
		}
	}
	for _, d := range l.acquiring.dealt.list[:l.acquiring.dealt.n] {
		d.epoch = 0
	}
}

// isAcquirable reports whether the machine's state is one that is acquired, not credited.
func (fl *fleet) isAcquirable(r columnar.Row) bool {
	return fl.s.View.State[r] == model.Idle || fl.s.View.State[r] == model.Speculative
}

// mayBeSuperfluous reports whether a Need may have acquired too much. The last pick was needed
// when it was made, so it is not superfluous, and neither is any machine of its class. The exception is
// a Need that was credited something after its picks.
func (l *worker) mayBeSuperfluous(need int32) bool {
	n := &l.p.lines[need]
	if n.Acquired == columnar.None {
		return false
	}
	if l.sharing.creditedLate {
		return true
	}
	last := l.p.s.View.Class[n.Tail]
	for r := n.Acquired; r != columnar.None; r = l.p.claims.Next(r) {
		if l.p.s.View.Class[r] != last {
			return true
		}
	}
	return false
}

// giveBackOne makes a machine free that the Need has acquired. One that is held for the Need stays
// taken; one that is held for a lower rank returns to that list.
func (l *worker) giveBackOne(r columnar.Row, need int32, k *state.Kind) {
	l.figures.gaveBack++
	l.p.claims.Release(r)
	if l.p.reserved.OwnedBy(r, need) {
		l.undone = append(l.undone, r)
		return
	}
	if stage := l.p.stageOf(r); !l.p.reserved.Lower.Has(r) && !l.p.free[stage].Has(l.p.s.View.Class[r]) {
		l.p.ladders[k.Number][stage].Reopen() // ladders may have dropped the class; no other Need has looked meanwhile
	}
	l.restore(r)
}

// relink removes what a Need has given back from its chain of claims and from the list of acquisitions.
func (l *worker) relink(need int32) {
	l.p.claims.Filter(need, &l.p.lines[need])
	for stage, list := range l.acquiring.acquisitions {
		from := len(list)
		for from > 0 && list[from-1].need == need {
			from--
		}
		kept := list[:from]
		for _, x := range list[from:] {
			if l.p.claims.Of(x.row) == need {
				kept = append(kept, x)
			}
		}
		l.acquiring.acquisitions[stage] = kept
	}
}
