//go:build invariants

package invariants

import (
	"fmt"
	"sync/atomic"
)

// Enabled says whether the expensive checks are compiled in.
const Enabled = true

// Epoch counts the lives of something that lends its memory. It must not be
// copied once a stamp was taken.
type Epoch struct{ n atomic.Uint64 }

// Advance ends every loan made so far.
func (e *Epoch) Advance() { e.n.Add(1) }

// Stamp returns the mark of a loan made now.
func (e *Epoch) Stamp() Stamp { return Stamp{e, e.n.Load()} }

// Stamp is carried by what was lent. The zero value never expires.
type Stamp struct {
	lender *Epoch
	taken  uint64
}

// Check panics when the lender has moved on since the loan.
func (s Stamp) Check(what string) {
	if s.lender == nil {
		return
	}
	if now := s.lender.n.Load(); now != s.taken {
		panic(fmt.Sprintf("invariants: %s used after its end: lent in epoch %d, now is %d", what, s.taken, now))
	}
}
