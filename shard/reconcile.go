package shard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

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
	if s.cfg.AlwaysFull || s.relist || s.fullListDue() {
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
	batch := l.Batch
	if batch == nil {
		batch = plainBatch(l.Records)
	}
	out := Reconciled{Full: l.Full, Listed: batch.Len()}
	s.listing = false
	s.revision = l.Revision
	s.sinceFull++
	if l.Full {
		s.sinceFull, s.callFailed, s.relist = 0, false, false
		if s.machines.Len() == 0 {
			s.machines.GrowTo(batch.Len())
		}
	}
	s.dropForeign(&out)
	w := s.newWalk(batch, l.Full)
	for from := 0; from < batch.Len(); from += walkBatch {
		w.next(from, min(from+walkBatch, batch.Len()), &out)
	}
	for _, id := range l.Removed {
		s.vanished(id, &out)
	}
	if l.Full {
		s.removeUnseen(w.seen, &out)
		s.forgetRecalled()
		s.forgetGone(batch)
	}
	batch.Done()
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
// flight: a listing by revision would not repeat it. It takes and returns what
// observeAt does.
func (s *Shard) observeOrDefer(r columnar.Row, rec *Record, out *Reconciled) (columnar.Row, bool) {
	id := rec.Machine.ID
	if s.busy(id) {
		s.deferred[strings.Clone(id)] = news{record: ownCopy(rec)}
		out.Skipped++
		return r, false
	}
	delete(s.deferred, id)
	return s.observeAt(r, rec, out)
}

// ownCopy returns a record that outlives its listing.
func ownCopy(rec *Record) Record {
	own := *rec
	m := &own.Machine
	for _, s := range [...]*string{&m.ID, &m.Host, &m.Cluster, &m.InstanceType, &m.Zone, &m.LastError} {
		*s = strings.Clone(*s)
	}
	return own
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
	if s.memory != nil {
		s.memory.Set(memoryMachine+s.machines.ID(r), nil)
	}
	s.tellGone(r)
	s.remove(r)
}

// removeUnseen removes what a full listing does not mention. A record that was
// refused was mentioned.
func (s *Shard) removeUnseen(seen rowSet, out *Reconciled) {
	var gone []columnar.Row
	for r := columnar.Row(1); int(r) < s.machines.RowMax(); r++ {
		if !s.machines.Has(r) || seen.has(r) || s.busy(s.machines.ID(r)) {
			continue
		}
		gone = append(gone, r)
	}
	slices.SortFunc(gone, func(a, b columnar.Row) int { return strings.Compare(s.machines.ID(a), s.machines.ID(b)) })
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
