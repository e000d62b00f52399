package engine

import (
	"math/bits"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// A covered Need gives back machines that it acquired and does not need: small ones that a larger one,
// picked later, made superfluous. They are free for the next Need of the same pass, as if they had
// never been taken, since no other Need looked during this one's turn.

// surplus is what a Need's machines offer beyond what it wants, by dimension, as 128-bit integers: the
// sum of what machines offer may exceed an int64.
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

// covers reports whether what is wanted stays covered without a machine that offers v.
func (x *surplus) covers(v, want []int64) bool {
	for d, n := range want {
		if n > 0 && x.hi[d] == 0 && x.lo[d] < uint64(v[d]) {
			return false
		}
	}
	return true
}

// giveBackSuperfluous makes the covered Need at work give back what it acquired in this turn and is
// covered without, the last picked first. Under hard spread it gives back only machines without which
// the others stay within the skew, or are as even as they were. Credited machines stay.
func (l *worker) giveBackSuperfluous(need int32, k *kind) {
	if l.lacks != 0 || !l.mayBeSuperfluous(need) {
		return
	}
	n := &l.lines[need]
	want := l.aggregate(need)
	x := &l.surplus
	x.hi, x.lo = resize(x.hi, l.dims), resize(x.lo, l.dims)
	acquired := l.used[:0]
	for r := n.head; r != columnar.None; r = l.held[r].next {
		x.add(l.vec(r))
		if l.isAcquirable(r) {
			acquired = append(acquired, r)
		}
	}
	l.used = acquired
	x.sub(want)
	if len(k.spread) > 0 {
		l.startSpread(k)
		for r := n.head; r != columnar.None; r = l.held[r].next {
			l.spread.count(l.pass, r)
		}
	}
	gave := false
	for i := len(acquired) - 1; i >= 0; i-- {
		r := acquired[i]
		if v := l.vec(r); x.covers(v, want) && (len(k.spread) == 0 || l.spread.staysEven(l.pass, r)) {
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
func (l *worker) reopenSpread(k *kind) {
	if len(k.spread) == 0 {
		return
	}
	if k.tuples != nil {
		for i := range k.tuples.tuples {
			for stage := range k.tuples.tuples[i].ladders {
				k.tuples.tuples[i].ladders[stage].reopen()
			}
		}
	}
	for _, d := range l.dealt.list[:l.dealt.n] {
		d.epoch = 0
	}
}

// isAcquirable reports whether the machine's state is one that is acquired, not credited.
func (p *pass) isAcquirable(r columnar.Row) bool {
	return p.s.View.State[r] == model.Idle || p.s.View.State[r] == model.Speculative
}

// mayBeSuperfluous reports whether a covered Need may have acquired too much. The last pick was needed
// when it was made, so it is not superfluous, and neither is any machine of its class. The exception is
// a Need that was credited something after its picks.
func (l *worker) mayBeSuperfluous(need int32) bool {
	n := &l.lines[need]
	if n.acquired == columnar.None {
		return false
	}
	if l.creditedLate {
		return true
	}
	last := l.s.View.Class[n.tail]
	for r := n.acquired; r != columnar.None; r = l.held[r].next {
		if l.s.View.Class[r] != last {
			return true
		}
	}
	return false
}

// giveBackOne makes a machine free that the Need has acquired. One that is held for the Need stays
// taken; one that is held for a lower rank returns to that list.
func (l *worker) giveBackOne(r columnar.Row, need int32, k *kind) {
	l.gaveBack++
	l.held[r].need = unheld
	if l.reserved.ownedBy(r, need) {
		l.undone = append(l.undone, r)
		return
	}
	stage := 0
	if l.s.View.State[r] == model.Speculative {
		stage = 1
	}
	l.taken[r] = false
	class := l.s.View.Class[r]
	if x := l.reserved.lower.ofClass(class); l.reserved.lower.has(r) {
		x.at = 0
	} else {
		if l.free[stage].key[class] == exhausted {
			k.ladders[stage].reopen() // ladders may have dropped the class; no other Need has looked meanwhile
		}
		l.noteReopened(r, stage)
		l.free[stage].gave(r, class)
	}
	for _, d := range l.domains {
		if d != nil && !d.stale {
			d.putBack(r)
		}
	}
}

// relink removes what a Need has given back from its chain of claims and from the list of acquisitions.
func (l *worker) relink(need int32) {
	n := &l.lines[need]
	r, first := n.head, n.acquired
	n.head, n.tail, n.acquired = columnar.None, columnar.None, columnar.None
	for acquired := false; r != columnar.None; {
		next := l.held[r].next
		acquired = acquired || r == first
		l.held[r].next = columnar.None
		if l.held[r].need == need {
			if n.head == columnar.None {
				n.head = r
			} else {
				l.held[n.tail].next = r
			}
			if n.tail = r; acquired && n.acquired == columnar.None {
				n.acquired = r
			}
		}
		r = next
	}
	for stage, list := range l.acquisitions {
		from := len(list)
		for from > 0 && list[from-1].need == need {
			from--
		}
		kept := list[:from]
		for _, x := range list[from:] {
			if l.held[x.row].need == need {
				kept = append(kept, x)
			}
		}
		l.acquisitions[stage] = kept
	}
}
