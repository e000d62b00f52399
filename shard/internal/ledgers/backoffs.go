package ledgers

import "github.com/tonnage/tonnage/engine/model"

const (
	// The cycles for which an owner preempts nobody after its plans have failed
	// once, and at the most; every failure doubles them.
	backOffCyclesMin = 1
	backOffCyclesMax = 64
	// backOffForget is after how many cycles without a failure the next is the
	// first again.
	backOffForget = 2 * backOffCyclesMax
	// BackingOffMax bounds how many owners are remembered.
	BackingOffMax = 1 << 14
)

// backOff is how long an owner waits.
type backOff struct {
	cycles uint64 // that the last failure costs
	until  uint64 // number of the first cycle in which it may preempt again
}

// backOffs are the owners whose plans have failed lately.
type backOffs struct {
	owners  map[model.Owner]backOff
	waiting map[model.Owner]bool // of this cycle
}

// failed notes that a plan of the owner has failed, which the given cycle is the
// first to see: it waits that one out too. Drains of one plan that fail before
// the same cycle count once.
func (b *backOffs) failed(owner model.Owner, cycle uint64) {
	if b.owners == nil {
		b.owners = map[model.Owner]backOff{}
	}
	x, known := b.owners[owner]
	switch {
	case known && x.until == cycle+x.cycles+1:
		return
	case !known && len(b.owners) >= BackingOffMax:
		return
	}
	x.cycles = min(max(2*x.cycles, backOffCyclesMin), backOffCyclesMax)
	x.until = cycle + x.cycles + 1
	b.owners[owner] = x
}

// In returns the owners that back off in a cycle, nil if there are none, and
// forgets old entries.
func (b *backOffs) In(cycle uint64) map[model.Owner]bool {
	if len(b.owners) == 0 {
		return nil
	}
	if b.waiting == nil {
		b.waiting = map[model.Owner]bool{}
	}
	clear(b.waiting)
	for owner, x := range b.owners {
		switch {
		case cycle < x.until:
			b.waiting[owner] = true
		case cycle >= x.until+backOffForget:
			delete(b.owners, owner)
		}
	}
	return b.waiting
}
