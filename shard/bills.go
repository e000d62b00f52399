package shard

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
)

const (
	// billInterval is the least time between two cycles that are billed: each takes a walk over Needs and
	// machines. It is no divisor of a minute, so that demand that repeats every minute is not met in one phase alone.
	billInterval = 47 * time.Second
	// billIntervalSmall is the same of fleets of at most billSmallMax machines and rows, in which the walk takes less than
	// a millisecond: who looks at both sees a bill that is as old as the machines.
	billIntervalSmall = 3 * time.Second
	billSmallMax      = 4096
)

// bills keeps what the fleet costs, as of a recent cycle. The cycle copies the input of the bill; the
// first request waits while the bound is computed.
type bills struct {
	at    int64       // time of the cycle that was billed last; only the cycle knows it
	eager bool        // the bound is computed at once, beside the cycles
	busy  atomic.Bool // compute is at work
	last  atomic.Pointer[func() bill.Bill]
	known atomic.Pointer[bill.Bill] // the last whose bound is known

	taken uint64 // how many were; only the cycle knows it

	mu      sync.Mutex
	learned uint64 // which of them known is
}

// take bills the plan of a cycle if a bill is due. now is Unix nanoseconds.
func (b *bills) take(in engine.Input, plan *engine.Plan) {
	interval := billInterval
	if in.Supply.Len()+in.Demand.Len() <= billSmallMax {
		interval = billIntervalSmall
	}
	if since := in.Now - b.at; b.last.Load() != nil && since >= 0 && since < int64(interval) {
		return
	}
	b.at = in.Now
	b.taken++
	problem, now, number := bill.Read(plan, in.Supply), in.Now, b.taken
	of := sync.OnceValue(func() bill.Bill {
		x := problem.Bill()
		x.At = now / 1e6
		b.learn(number, &x)
		return x
	})
	b.last.Store(&of)
	if b.eager && b.busy.CompareAndSwap(false, true) {
		go b.compute()
	}
}

// learn takes a bill over whose bound is known, unless a newer one is.
func (b *bills) learn(number uint64, x *bill.Bill) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if number > b.learned {
		b.learned = number
		b.known.Store(x)
	}
}

// compute computes the bill that was taken last, again and again until none was taken meanwhile. Older ones are skipped.
func (b *bills) compute() {
	for {
		of := b.last.Load()
		(*of)()
		b.busy.Store(false)
		if b.last.Load() == of || !b.busy.CompareAndSwap(false, true) {
			return
		}
	}
}

// get returns the last bill; false before the first.
func (b *bills) get() (bill.Bill, bool) {
	of := b.last.Load()
	if of == nil {
		return bill.Bill{}, false
	}
	return (*of)(), true
}
