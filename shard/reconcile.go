package shard

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// RefusalsLoggedMax is how many refused records one cycle logs one by one.
const RefusalsLoggedMax = 10

// FullListAfterFailureCycles is how many cycles must lie between two full
// listings when calls have failed.
const FullListAfterFailureCycles = 6

// Reconciled says what a cycle took over from the provider.
type Reconciled struct {
	Full     bool
	Listed   int // records in the answer
	Added    int // machines that this process did not know
	Moved    int // transitions that came to their end
	Diverged int // machines found in a state that nothing here led to
	Changed  int // same state, other price, probability, labels or capacity
	Removed  int // no longer listed
	Retired  int // Failed ones that the provider lists as healthy, or no longer
	Skipped  int // in flight, looked at later
	Refused  [NumRefusals]int
}

// Refusal is why a provider's record was refused.
type Refusal uint8

// The reasons for refusing a record.
const (
	RefusedPrice Refusal = iota
	RefusedProbability
	RefusedStructural

	// NumRefusals is the number of reasons.
	NumRefusals = int(RefusedStructural) + 1
)

// String returns the reason as metrics spell it.
func (x Refusal) String() string {
	return [NumRefusals]string{"price", "interruption_probability", "structural"}[x]
}

func refusalOf(err error) Refusal {
	switch {
	case errors.Is(err, model.ErrPrice):
		return RefusedPrice
	case errors.Is(err, model.ErrProbability):
		return RefusedProbability
	}
	return RefusedStructural
}

// news is what the provider said of a machine while it was in flight.
type news struct {
	record  Record
	removed bool
}

// list asks the provider what changed, or for everything when it is time for
// that. It runs without the mutex.
func (s *Shard) list(ctx context.Context) (ListResponse, error) {
	s.mu.Lock()
	req := ListRequest{SinceRevision: s.revision}
	if s.fullListDue() {
		req.SinceRevision = nil
	}
	s.listing = true
	clear(s.settled)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ListTimeout)
	defer cancel()
	return s.provider.List(ctx, req)
}

// fullListDue tells whether everything should be listed: a listing by revision
// says nothing of a machine whose call failed on the way, nor, from some
// providers, of one that is gone.
func (s *Shard) fullListDue() bool {
	every := s.cfg.FullListCycles
	return every > 0 && (s.sinceFull >= every || s.callFailed && s.sinceFull >= FullListAfterFailureCycles)
}

// reconcile brings the machine table in step with a listing.
func (s *Shard) reconcile(l *ListResponse) Reconciled {
	out := Reconciled{Full: l.Full, Listed: len(l.Records)}
	s.listing = false
	s.revision = l.Revision
	s.sinceFull++
	var seen []uint64
	if l.Full {
		s.sinceFull, s.callFailed = 0, false
		seen = make([]uint64, (s.machines.RowMax()+len(l.Records))/64+1)
	}
	for i := range l.Records {
		rec := &l.Records[i]
		s.observeOrDefer(rec, &out)
		if r, ok := s.machines.Lookup(rec.Machine.ID); ok && seen != nil {
			seen[r>>6] |= 1 << (r & 63)
		}
	}
	for _, id := range l.Removed {
		s.vanished(id, &out)
	}
	if l.Full {
		s.removeUnseen(seen, &out)
	}
	s.lookAgain(&out)
	clear(s.settled)
	return out
}

// busy tells whether the provider's word on a machine may be older than a call
// that this shard makes or made while it listed.
func (s *Shard) busy(id string) bool {
	if _, ok := s.inFlight[id]; ok {
		return true
	}
	_, ok := s.settled[id]
	return ok
}

// observeOrDefer takes a record over, or puts it aside while the machine is in
// flight. A listing by revision would not repeat it.
func (s *Shard) observeOrDefer(rec *Record, out *Reconciled) {
	id := rec.Machine.ID
	if s.busy(id) {
		s.deferred[id] = news{record: *rec}
		out.Skipped++
		return
	}
	delete(s.deferred, id)
	s.observe(rec, out)
}

// vanished removes a machine that the provider says is gone.
func (s *Shard) vanished(id string, out *Reconciled) {
	if s.busy(id) {
		s.deferred[id] = news{removed: true}
		out.Skipped++
		return
	}
	delete(s.deferred, id)
	if r, ok := s.machines.Lookup(id); ok {
		s.drop(r, out)
	}
}

func (s *Shard) drop(r columnar.Row, out *Reconciled) {
	if s.machines.State(r) == model.Failed {
		out.Retired++
	} else {
		out.Removed++
	}
	s.remove(r)
}

// removeUnseen removes what a full listing does not mention. A record that was
// refused was mentioned.
func (s *Shard) removeUnseen(seen []uint64, out *Reconciled) {
	var gone []columnar.Row
	for _, r := range s.machines.Order() {
		if int(r>>6) < len(seen) && seen[r>>6]>>(r&63)&1 == 1 || s.busy(s.machines.ID(r)) {
			continue
		}
		gone = append(gone, r)
	}
	for _, r := range gone {
		s.drop(r, out)
	}
}

// lookAgain takes over what was put aside, for machines whose calls have ended
// before this listing began.
func (s *Shard) lookAgain(out *Reconciled) {
	if len(s.deferred) == 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.deferred)) {
		if s.busy(id) {
			continue
		}
		n := s.deferred[id]
		delete(s.deferred, id)
		if n.removed {
			s.vanished(id, out)
		} else {
			s.observe(&n.record, out)
		}
	}
}
