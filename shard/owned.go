package shard

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Which of the machines that a provider lists are this shard's:
//
//   - one that it gave away is not, whatever else holds;
//   - one that it was given is;
//   - of the others, those in its domains, as soon as it was assigned one; all,
//     as long as it never was.
//
// A shard that has lost its last domain takes nothing, rather than everything:
// what was its own may be another's by now. All of it outlives the process.

// everAssigned stands in the set of domains once there was one. No machine is in
// it.
var everAssigned = Domain{}

// HandOver is machines that this shard gave to another.
type HandOver struct {
	Move     string // the id that the coordinator has for it
	To       string // the other shard
	Machines []string
}

// given is what is remembered of a machine that was given away.
type given struct {
	move, to string
	settled  bool   // it need not be mentioned any more
	received string // the move by which it had come; empty = by a domain
	// homes are the domains by which it was this shard's; none = it is not known.
	homes []Domain
}

func (g given) encode() []byte {
	b := fmt.Appendf(nil, "%s\x00%s\x00%t\x00%s", g.move, g.to, g.settled, g.received)
	for _, d := range g.homes {
		b = fmt.Appendf(b, "\x00%s\x00%s", d.Key, d.Value)
	}
	return b
}

func decodeGiven(value []byte) (given, bool) {
	parts := strings.Split(string(value), "\x00")
	if len(parts) == 3 { // without received
		parts = append(parts, "")
	}
	if len(parts) < 4 || len(parts)%2 != 0 {
		return given{}, false
	}
	g := given{move: parts[0], to: parts[1], settled: parts[2] == "true", received: parts[3]}
	for at := 4; at < len(parts); at += 2 {
		g.homes = append(g.homes, Domain{parts[at], parts[at+1]})
	}
	return g, true
}

// owns tells whether a machine is this shard's.
func (s *Shard) owns(m *model.Machine) bool {
	if _, gone := s.given[m.ID]; gone {
		return false
	}
	if _, got := s.received[m.ID]; got || len(s.domains) == 0 {
		return true
	}
	for key := range s.domainKeys {
		if value, ok := m.Attribute(key); ok && s.has(Domain{key, value}) {
			return true
		}
	}
	return false
}

// homesOf returns the domains by which a machine is this shard's, sorted by key.
func (s *Shard) homesOf(r columnar.Row) (out []Domain) {
	m := s.machines.Get(r)
	for _, key := range slices.Sorted(maps.Keys(s.domainKeys)) {
		if value, ok := m.Attribute(key); ok && s.has(Domain{key, value}) {
			out = append(out, Domain{key, value})
		}
	}
	return out
}

// noteDomain adds a domain to the set.
func (s *Shard) noteDomain(d Domain) {
	if _, there := s.domains[d]; there {
		return
	}
	s.domains[d] = struct{}{}
	if d != everAssigned {
		s.domainKeys[d.Key]++
	}
}

func (s *Shard) dropDomain(d Domain) {
	if _, there := s.domains[d]; !there {
		return
	}
	delete(s.domains, d)
	if s.domainKeys[d.Key]--; s.domainKeys[d.Key] == 0 {
		delete(s.domainKeys, d.Key)
	}
}

// ownershipChanged has the next cycle list everything, and look again at what is
// there.
func (s *Shard) ownershipChanged() {
	s.relist, s.reown = true, true
	s.Wake()
}

// dropForeign removes what is no longer this shard's. A machine with a call
// under way is looked at again when it has changed.
func (s *Shard) dropForeign(out *Reconciled) {
	if !s.reown {
		return
	}
	s.reown = false
	var foreign []columnar.Row
	for r := range s.machines.All() {
		if m := s.machines.Get(r); !s.owns(&m) && !s.busy(m.ID) {
			foreign = append(foreign, r)
		}
	}
	for _, r := range foreign {
		s.dropQuietly(r)
		out.Removed++
	}
}

// dropQuietly forgets a machine that goes on under another shard: its cluster is
// told nothing.
func (s *Shard) dropQuietly(r columnar.Row) {
	if s.memory != nil {
		s.memory.Set(memoryMachine+s.machines.ID(r), nil)
	}
	s.remove(r)
}

// errNothing says that none of the machines can be given away.
var errNothing = fmt.Errorf("%w: none of the machines is this shard's to give", ErrInvalid)

// Release gives machines away that are in the state: they are on disk as given
// before it returns, and not used from then on. to may be empty, when it is not
// known. Those that are in use, on their way, reserved or not there are left out.
// A move gives once: a repeat returns what was given, and nothing more. The error
// says that it is not known to be on disk, or wraps ErrInvalid when there is
// nothing to give.
func (s *Shard) Release(ctx context.Context, move, to string, machines []string, in model.State) (HandOver, error) {
	if err := checkMove(move, to); err != nil {
		return HandOver{}, err
	}
	s.mu.Lock()
	h, full := s.release(move, to, machines, func(r columnar.Row) bool {
		return s.machines.State(r) == in && !s.machines.Reservation(r).Active()
	})
	s.mu.Unlock()
	switch {
	case full != nil:
		return h, full
	case len(h.Machines) == 0:
		return h, errNothing
	}
	return h, s.ownershipKept(ctx)
}

func checkMove(move, to string) error {
	if err := model.CheckName(move); err != nil {
		return fmt.Errorf("%w: the id of the move %w", ErrInvalid, err)
	}
	if err := model.CheckOptionalName(to); err != nil {
		return fmt.Errorf("%w: the receiver of the move %w", ErrInvalid, err)
	}
	return nil
}

// release is Release for those that may go, before it is on disk.
func (s *Shard) release(move, to string, machines []string, may func(columnar.Row) bool) (HandOver, error) {
	h := HandOver{Move: move, To: to, Machines: s.givenBy(move)}
	if len(h.Machines) > 0 {
		return h, nil
	}
	for _, id := range machines {
		r, there := s.machines.Lookup(id)
		if !there || s.busy(id) || !may(r) {
			continue
		}
		if len(s.given) >= DomainsMax {
			return h, fmt.Errorf("this shard has given %d machines away, and there is no room for more", len(s.given))
		}
		id = strings.Clone(id)
		g := given{move: move, to: to, received: s.received[id], homes: s.homesOf(r)}
		// First the one, then the other: in between the machine is given.
		if !s.keep(memoryGiven+id, g.encode()) {
			return h, errUnkept
		}
		s.keep(memoryReceived+id, nil)
		s.given[id] = g
		delete(s.received, id)
		s.dropQuietly(r)
		h.Machines = append(h.Machines, id)
	}
	return h, nil
}

// givenBy returns what was given away by a move, sorted.
func (s *Shard) givenBy(move string) (out []string) {
	for id, g := range s.given {
		if g.move == move {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// errUnkept says that the memory has no room for what must not be forgotten.
var errUnkept = errors.New("the journal has no room for machines that change their shard")

// keep writes down what matters for who owns a machine; see ownershipKept. false
// says that a new value was refused.
func (s *Shard) keep(key string, value []byte) bool {
	if s.memory == nil {
		return true
	}
	at := s.memory.Set(key, value)
	s.ownedAt = max(s.ownedAt, at)
	return at > 0 || len(value) == 0
}

// ownershipKept waits until all that was said of who owns what is on disk.
func (s *Shard) ownershipKept(ctx context.Context) error {
	if s.memory == nil {
		return nil
	}
	s.mu.Lock()
	at := s.ownedAt
	s.mu.Unlock()
	return s.memory.Durable(ctx, at)
}

// AdoptionsMax is how many adoptions a shard remembers, the latest: a repeat of
// one of them does nothing. A coordinator repeats those of moves that it still
// has, which are far fewer.
const AdoptionsMax = 1 << 13

// Adopt takes machines over that another shard has given, or that this one gave
// and is to have back. They are on disk as its own before they are used. id is
// the instruction's; a repeat does nothing, whatever became of the machines since.
func (s *Shard) Adopt(ctx context.Context, id string, machines []string) error {
	if err := checkMove(id, ""); err != nil {
		return err
	}
	s.mu.Lock()
	_, done := s.adoptions[id]
	fits := len(s.received)+len(machines) <= DomainsMax
	var err error
	if !done && fits {
		err = s.noteAdoption(id, machines)
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !done && !fits:
		return fmt.Errorf("this shard has received %d machines, and there is no room for %d more", len(s.received), len(machines))
	}
	if err := s.ownershipKept(ctx); err != nil || done {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range machines {
		m = strings.Clone(m)
		back, own := s.given[m]
		delete(s.given, m)
		if !own || back.received != "" {
			s.received[m] = id
		}
		s.arrived[m] = s.cycles
	}
	s.adoptions[strings.Clone(id)] = s.now
	s.forgetAdoptions()
	s.ownershipChanged()
	return nil
}

// noteAdoption writes an adoption down. The mark that it is done comes last: it
// is done anew when it was cut short.
func (s *Shard) noteAdoption(id string, machines []string) error {
	if s.memory == nil {
		return nil
	}
	for _, m := range machines {
		// One that comes home is its domain's again, unless it had been received.
		if g, own := s.given[m]; !own || g.received != "" {
			was, had := s.received[m]
			if !had { // an adoption that was cut short may have said it: only want of room refuses it now
				s.memory.Set(memoryReceived+m, nil)
			}
			if was != id && !s.keep(memoryReceived+m, []byte(id)) {
				return errUnkept
			}
		}
		s.keep(memoryGiven+m, nil)
	}
	s.memory.Set(memoryAdoption+id, nil)
	if !s.keep(memoryAdoption+id, binary.AppendVarint(nil, s.now)) {
		return errUnkept
	}
	return nil
}

// forgetAdoptions drops the oldest.
func (s *Shard) forgetAdoptions() {
	if len(s.adoptions) <= AdoptionsMax {
		return
	}
	ids := slices.SortedFunc(maps.Keys(s.adoptions), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.adoptions[a], s.adoptions[b]), cmp.Compare(a, b))
	})
	for _, id := range ids[:len(ids)-AdoptionsMax] {
		delete(s.adoptions, id)
		s.keep(memoryAdoption+id, nil)
	}
}

// HandOvers returns what this shard gave away and has not been told is settled,
// by move. All of it is on disk: who hears of it may let another shard have the
// machines. The error says that this is not known.
func (s *Shard) HandOvers(ctx context.Context) ([]HandOver, error) {
	out := s.handOvers()
	if len(out) == 0 {
		return nil, nil
	}
	return out, s.ownershipKept(ctx)
}

func (s *Shard) handOvers() []HandOver {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := map[string]*HandOver{}
	for id, g := range s.given {
		if g.settled {
			continue
		}
		if by[g.move] == nil {
			by[g.move] = &HandOver{Move: g.move, To: g.to}
		}
		by[g.move].Machines = append(by[g.move].Machines, id)
	}
	out := make([]HandOver, 0, len(by))
	for _, h := range by {
		slices.Sort(h.Machines)
		out = append(out, *h)
	}
	slices.SortFunc(out, func(a, b HandOver) int { return strings.Compare(a.Move, b.Move) })
	return out
}

// Settle notes that moves need not be mentioned any more. Their machines stay
// given away; one that had itself been received, and is of no domain of this
// shard, is forgotten: it would not be taken up.
func (s *Shard) Settle(moves []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, g := range s.given {
		switch {
		case g.settled || !slices.Contains(moves, g.move):
			continue
		case g.received != "" && len(g.homes) == 0:
			delete(s.given, id)
			s.keep(memoryGiven+id, nil)
			continue
		}
		g.settled = true
		s.given[id] = g
		s.keep(memoryGiven+id, g.encode())
	}
}

// errNoRoom says that there are too many domains.
var errNoRoom = errors.New("this shard has as many domains as it can have")

// How machines that no longer exist are forgotten, among those given away and
// received: looked for in one of many full listings, and missing in some of
// those looks in a row. A machine that a provider leaves out by mistake, and that
// is forgotten, would be taken up by its domain when it is there again.
const (
	GoneLookListings = 64
	GoneLooks        = 3
)

// forgetGone looks at a full listing for machines that were given or received.
func (s *Shard) forgetGone(batch Batch) {
	if len(s.given)+len(s.received) == 0 {
		s.fullLists = 0
		return
	}
	if s.fullLists++; s.fullLists%GoneLookListings != 0 {
		return
	}
	missing := map[string]int{}
	for id, g := range s.given {
		if g.settled {
			missing[id] = s.gone[id] + 1
		}
	}
	for id := range s.received {
		missing[id] = s.gone[id] + 1
	}
	for i := range batch.Len() {
		delete(missing, batch.ID(i))
	}
	for id, looks := range missing {
		if looks < GoneLooks {
			continue
		}
		delete(missing, id)
		delete(s.given, id)
		delete(s.received, id)
		s.keep(memoryReceived+id, nil)
		s.keep(memoryGiven+id, nil)
	}
	s.gone = missing
}
