package acquire

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
type surplus struct{ Hi, Lo []uint64 }

func (x *surplus) Add(v []int64) {
	for d, n := range v {
		var carry uint64
		x.Lo[d], carry = bits.Add64(x.Lo[d], uint64(n), 0)
		x.Hi[d] += carry
	}
}

func (x *surplus) Sub(v []int64) {
	for d, n := range v {
		var borrow uint64
		x.Lo[d], borrow = bits.Sub64(x.Lo[d], uint64(n), 0)
		x.Hi[d] -= borrow
	}
}

// Spares reports whether what is lacking stays as it is without a machine that offers v.
func (x *surplus) Spares(v, want []int64) bool {
	for d, n := range want {
		if n <= 0 || v[d] == 0 {
			continue
		}
		if lacks := x.Hi[d]>>63 == 1; lacks || x.Hi[d] == 0 && x.Lo[d] < uint64(v[d]) {
			return false
		}
	}
	return true
}

// GiveBackSuperfluous makes the Need at work give back what it acquired in this turn and would lack no more
// without, the last picked first. Under hard spread it gives back only machines without which
// the others stay within the skew, or are as even as they were. Credited machines stay.
func (l *Worker) GiveBackSuperfluous(need int32, k *state.Kind) {
	if !l.mayBeSuperfluous(need) {
		return
	}
	n := &l.p.Lines[need]
	want := l.p.Aggregate(need)
	x := &l.Acquiring.Surplus
	x.Hi, x.Lo = reuse.Resize(x.Hi, l.p.Dims), reuse.Resize(x.Lo, l.p.Dims)
	acquired := l.used[:0]
	for r := l.p.Claims.First(n); r != columnar.None; r = l.p.Claims.Next(r, n) {
		x.Add(l.p.Vec(r))
		if l.p.isAcquirable(r) {
			acquired = append(acquired, r)
		}
	}
	l.used = acquired
	x.Sub(want)
	if len(k.Spread) > 0 {
		l.Acquiring.Spread.Start(l.p.Snap.Supply, k.Spread)
		for r := l.p.Claims.First(n); r != columnar.None; r = l.p.Claims.Next(r, n) {
			l.Acquiring.Spread.Count(r)
		}
	}
	gave := false
	for i := len(acquired) - 1; i >= 0; i-- {
		r := acquired[i]
		if v := l.p.Vec(r); x.Spares(v, want) && (len(k.Spread) == 0 || l.Acquiring.Spread.StaysEven(r)) {
			x.Sub(v)
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
func (l *Worker) reopenSpread(k *state.Kind) {
	if len(k.Spread) == 0 {
		return
	}
	if l.p.Layouts[k.Number] != nil {
		for i := range l.p.Layouts[k.Number].tuples {
			for stage := range l.p.Layouts[k.Number].tuples[i].ladders {
				l.p.Layouts[k.Number].tuples[i].ladders[stage].Reopen()
			}
		}
	}
	for _, d := range l.Acquiring.dealt.list[:l.Acquiring.dealt.n] {
		d.epoch = 0
	}
}

// isAcquirable reports whether the machine's state is one that is acquired, not credited.
func (p *Pass) isAcquirable(r columnar.Row) bool {
	return p.Snap.View.State[r] == model.Idle || p.Snap.View.State[r] == model.Speculative
}

// mayBeSuperfluous reports whether a Need may have acquired too much. The last pick was needed
// when it was made, so it is not superfluous, and neither is any machine of its class. The exception is
// a Need that was credited something after its picks.
func (l *Worker) mayBeSuperfluous(need int32) bool {
	n := &l.p.Lines[need]
	if n.Acquired == columnar.None {
		return false
	}
	if l.Acquiring.CreditedLate {
		return true
	}
	last := l.p.Snap.View.Class[n.Tail]
	for r := n.Acquired; r != columnar.None; r = l.p.Claims.Next(r, n) {
		if l.p.Snap.View.Class[r] != last {
			return true
		}
	}
	return false
}

// giveBackOne makes a machine free that the Need has acquired. One that is held for the Need stays
// taken; one that is held for a lower rank returns to that list.
func (l *Worker) giveBackOne(r columnar.Row, need int32, k *state.Kind) {
	l.Figures.GaveBack++
	l.p.Claims.Release(r)
	if l.p.Reserved.OwnedBy(r, need) {
		l.Undone = append(l.Undone, r)
		return
	}
	if stage := l.p.StageOf(r); !l.p.Reserved.Lower.Has(r) && !l.p.Free[stage].Has(l.p.Snap.View.Class[r]) {
		l.p.Ladders[k.Number][stage].Reopen() // ladders may have dropped the class; no other Need has looked meanwhile
	}
	l.restore(r)
}

// relink removes what a Need has given back from its chain of claims and from the list of acquisitions.
func (l *Worker) relink(need int32) {
	l.p.Claims.Filter(need, &l.p.Lines[need])
	for stage, list := range l.Acquiring.Acquisitions {
		from := len(list)
		for from > 0 && list[from-1].Need == need {
			from--
		}
		kept := list[:from]
		for _, x := range list[from:] {
			if l.p.Claims.Of(x.Row) == need {
				kept = append(kept, x)
			}
		}
		l.Acquiring.Acquisitions[stage] = kept
	}
}
