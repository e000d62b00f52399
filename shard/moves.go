package shard

import (
	"context"
	"fmt"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/ownership"
)

// What a coordinator has a shard do: domains and machines change their shard.

// AssignDomain notes that a domain is this shard's. A shard that was never
// assigned one takes everything that its provider lists. It is kept across
// restarts; see Kept.
func (s *Shard) AssignDomain(d ownership.Domain) error {
	if err := model.CheckName(d.Key); err != nil {
		return fmt.Errorf("%w: the key of the domain %w", ownership.ErrInvalid, err)
	}
	if err := model.CheckName(d.Value); err != nil {
		return fmt.Errorf("%w: the value of the domain %w", ownership.ErrInvalid, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownership.Assign(d)
}

// UnassignDomain takes a domain off the shard's; one that is not there is fine. A
// domain stays as long as machines of it are with another shard: whoever has it
// next could not know of them, and would take them up too.
func (s *Shard) UnassignDomain(d ownership.Domain) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownership.Unassign(d)
}

// Domains returns the domains that are assigned to this shard, sorted.
func (s *Shard) Domains() []ownership.Domain {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownership.Assigned()
}

// Kept waits until all that was said of domains, and of machines that change
// their shard, is on disk. The error says that this is not known: what was taken
// away may be back after a crash, and must not be another's yet.
func (s *Shard) Kept(ctx context.Context) error {
	s.mu.Lock()
	kept, at := s.ownership.LastKept()
	s.mu.Unlock()
	if kept == nil {
		return nil
	}
	return kept.Durable(ctx, at)
}

// CoordinatorTerm returns the highest term of a coordinator that this process
// has heard of, 0 = none.
func (s *Shard) CoordinatorTerm() int64 { return s.ownership.CoordinatorTerm() }

// HearTerm takes note of a coordinator's term. false says that a higher one is
// known: whoever speaks has been replaced.
func (s *Shard) HearTerm(term int64) bool { return s.ownership.HearTerm(term) }

// Release gives machines away that are in the state: they are on disk as given
// before it returns, and not used from then on. to may be empty, when it is not
// known. Those that are in use, on their way, reserved or not there are left out.
// A move gives once: a repeat returns what was given, and nothing more. The error
// says that it is not known to be on disk, or wraps ErrInvalid when there is
// nothing to give.
func (s *Shard) Release(ctx context.Context, move, to string, machines []string, in model.State) (ownership.HandOver, error) {
	if err := ownership.CheckMove(move, to); err != nil {
		return ownership.HandOver{}, err
	}
	s.mu.Lock()
	table := s.inventory.Table
	h, full := s.ownership.Release(move, to, machines, func(r columnar.Row) bool {
		return table.State(r) == in && !table.Reservation(r).Active()
	})
	s.mu.Unlock()
	switch {
	case full != nil:
		return h, full
	case len(h.Machines) == 0:
		return h, ownership.ErrNothing
	}
	return h, s.Kept(ctx)
}

// DrainAway begins to drain machines whose work has a lower priority than the
// given one, and gives them away, as Release does, all at once when the last one
// is Idle: call it until HandOvers mentions the move. nil says that drains are
// under way or machines were given; an error that wraps ErrInvalid, that none of
// the machines can be.
func (s *Shard) DrainAway(ctx context.Context, move string, machines []string, priority int32) error {
	if err := ownership.CheckMove(move, ""); err != nil {
		return err
	}
	given, pending, err := s.drainAway(move, machines, priority)
	switch {
	case err != nil:
		return err
	case given:
		return s.Kept(ctx)
	case pending == 0:
		return ownership.ErrNothing
	}
	return nil
}

// drainAway is DrainAway before what it gives is on disk: whether the move has given
// its machines, and how many are on their way.
func (s *Shard) drainAway(move string, machines []string, priority int32) (given bool, pending int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ownership.GivenBy(move)) > 0 {
		return true, 0, nil
	}
	pending, ready, err := s.executor.drainAway(move, machines, priority)
	if err != nil || pending > 0 || ready == 0 {
		return false, pending, err
	}
	_, err = s.ownership.Release(move, "", machines, func(r columnar.Row) bool {
		return s.inventory.Table.State(r) == model.Idle && ownership.Leaves(s.inventory.Table, r, move)
	})
	return err == nil, 0, err
}

// Adopt takes machines over that another shard has given, or that this one gave
// and is to have back. They are on disk as its own before they are used. id is
// the instruction's; a repeat does nothing, whatever became of the machines since.
func (s *Shard) Adopt(ctx context.Context, id string, machines []string) error {
	if err := ownership.CheckMove(id, ""); err != nil {
		return err
	}
	s.mu.Lock()
	done, err := s.ownership.NoteAdoption(id, machines)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.Kept(ctx); err != nil || done {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ownership.Adopt(id, machines)
	return nil
}

// HandOvers returns what this shard gave away and has not been told is settled,
// by move. All of it is on disk: who hears of it may let another shard have the
// machines. The error says that this is not known.
func (s *Shard) HandOvers(ctx context.Context) ([]ownership.HandOver, error) {
	s.mu.Lock()
	out := s.ownership.HandOvers()
	s.mu.Unlock()
	if len(out) == 0 {
		return nil, nil
	}
	return out, s.Kept(ctx)
}

// Settle notes that moves need not be mentioned any more. Their machines stay
// given away; one that had itself been received, and is of no domain of this
// shard, is forgotten: it would not be taken up.
func (s *Shard) Settle(moves []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ownership.Settle(moves)
}

// Offers returns the kinds of machines that this shard could give to another:
// none that is in flight, reserved, or came from another shard lately. They are
// sorted, unused machines first, and at most OffersMax.
func (s *Shard) Offers() []ownership.Offer { return s.ownership.Offers(&s.mu) }

// Retire forgets a Failed machine. If the provider still lists it, it is taken
// up again as the provider says, at once and whatever happened to it.
func (s *Shard) Retire(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := s.inventory.Table
	r, ok := table.Lookup(id)
	switch {
	case !ok:
		return fmt.Errorf("no machine %q", id)
	case table.State(r) != model.Failed:
		return fmt.Errorf("machine %q is %s; only a Failed one can be retired", id, table.State(r))
	}
	s.ledgers.Failed.Over(id)
	s.inventory.Remove(r)
	s.reconciler.listAll()
	s.pace.WakeUp()
	return nil
}
