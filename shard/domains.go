package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// Domain is one value of a topology key.
type Domain struct{ Key, Value string }

// DomainsMax is how many domains a shard can be assigned, and how many machines
// it can have given away.
const DomainsMax = 1 << 20

// ErrInvalid says that an instruction cannot be followed, now or later.
var ErrInvalid = errors.New("the instruction cannot be followed")

// AssignDomain notes that a domain is this shard's. A shard that was never
// assigned one takes everything that its provider lists. It is kept across
// restarts; see Kept.
func (s *Shard) AssignDomain(d Domain) error {
	if err := model.CheckName(d.Key); err != nil {
		return fmt.Errorf("%w: the key of the domain %w", ErrInvalid, err)
	}
	if err := model.CheckName(d.Value); err != nil {
		return fmt.Errorf("%w: the value of the domain %w", ErrInvalid, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.domains) >= DomainsMax {
		return errNoRoom
	}
	for _, one := range [...]Domain{everAssigned, d} {
		if !s.keep(one.memoryKey(), []byte{1}) && !s.has(one) {
			return errUnkept
		}
		s.noteDomain(one)
	}
	s.ownershipChanged()
	return nil
}

func (d Domain) memoryKey() string { return memoryDomain + d.Key + "\x00" + d.Value }

// UnassignDomain takes a domain off the shard's; one that is not there is fine. A
// domain stays as long as machines of it are with another shard: whoever has it
// next could not know of them, and would take them up too.
func (s *Shard) UnassignDomain(d Domain) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has(d) || d == everAssigned {
		return nil
	}
	if lent := s.lent(d); len(lent) > 0 {
		return fmt.Errorf("%d machines of domain %s=%s are with other shards, such as %s, and must come home first: assign the domain to this shard again until they have",
			len(lent), d.Key, d.Value, lent[0])
	}
	s.dropDomain(d)
	s.keep(d.memoryKey(), nil)
	s.ownershipChanged()
	return nil
}

// lent returns machines of a domain that this shard has given away, sorted.
func (s *Shard) lent(d Domain) (out []string) {
	for id, g := range s.given {
		if g.received == "" && (len(g.homes) == 0 || slices.Contains(g.homes, d)) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (s *Shard) has(d Domain) bool {
	_, ok := s.domains[d]
	return ok
}

// Kept waits until all that was said of domains, and of machines that change
// their shard, is on disk. The error says that this is not known: what was taken
// away may be back after a crash, and must not be another's yet.
func (s *Shard) Kept(ctx context.Context) error { return s.ownershipKept(ctx) }

// Domains returns the domains that are assigned to this shard, sorted.
func (s *Shard) Domains() []Domain {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Domain, 0, len(s.domains))
	for d := range s.domains {
		if d != everAssigned {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Domain) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	return out
}

// CoordinatorTerm returns the highest term of a coordinator that this process
// has heard of, 0 = none.
func (s *Shard) CoordinatorTerm() int64 { return s.term.Load() }

// HearTerm takes note of a coordinator's term. false says that a higher one is
// known: whoever speaks has been replaced.
func (s *Shard) HearTerm(term int64) bool {
	for {
		known := s.term.Load()
		if term < known {
			return false
		}
		if s.term.CompareAndSwap(known, term) {
			return true
		}
	}
}

// Retire forgets a Failed machine. If the provider still lists it, it is taken
// up again as the provider says, at once and whatever happened to it.
func (s *Shard) Retire(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.machines.Lookup(id)
	switch {
	case !ok:
		return fmt.Errorf("no machine %q", id)
	case s.machines.State(r) != model.Failed:
		return fmt.Errorf("machine %q is %s; only a Failed one can be retired", id, s.machines.State(r))
	}
	s.waits.over(id)
	s.remove(r)
	s.relist = true
	s.Wake()
	return nil
}
