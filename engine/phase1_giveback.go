package engine

import (
	"math/bits"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// A need that is covered gives back what it acquired and is covered without: small
// machines that a larger one, picked after them, has made superfluous. That is free
// for the next need in the same pass, as if it had never been taken: while the need
// had its turn nobody else looked.

// surplus is what a need has beyond what it wants, by dimension: exactly, for what
// machines offer together may be more than an int64 holds.
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

// covers reports whether nothing that is wanted is missing without a machine.
func (x *surplus) covers(v, want []int64) bool {
	for d, n := range want {
		if n > 0 && x.hi[d] == 0 && x.lo[d] < uint64(v[d]) {
			return false
		}
	}
	return true
}

// giveBackSuperfluous has the need at work give back, the last picked first, what it
// acquired in this turn and is covered without; under hard spread only what leaves the
// others as even as is allowed, or as they were. What was credited stays.
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

// reopenSpread lets needs under hard spread look again at what a need of such a kind has
// given back: in its turn it has gone on to what comes after.
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

// isAcquirable reports whether a machine is one that is acquired, not credited.
func (p *pass) isAcquirable(r columnar.Row) bool {
	return p.s.View.State[r] == model.Idle || p.s.View.State[r] == model.Speculative
}

// mayBeSuperfluous reports whether something that a covered need has acquired may be
// superfluous. What it has picked last is not, nor is what is like that; unless it was
// credited something after that.
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

// giveBackOne makes a machine one that the need has not acquired. What is held for
// the need, or for one above it, stays so.
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
			k.ladders[stage].reopen() // who else might have let go of the class has not looked meanwhile
		}
		l.free[stage].gave(r, class)
	}
	for _, d := range l.domains {
		if d != nil && !d.stale {
			d.putBack(r)
		}
	}
}

// relink takes what a need has given back off the list of what it holds, and off
// what was acquired.
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
