// Package ownership knows which of the machines that a provider lists are a shard's: domains, and
// machines that change their shard.
package ownership

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/internal/pace"
)

// Which of the machines that a provider lists are this shard's:
//
//   - one that it gave away is not, whatever else holds;
//   - one that it was given is;
//   - of the others, those in its domains, as soon as it was assigned one; all,
//     as long as it never was.
//
// A shard whose last domain was taken away takes nothing, rather than everything:
// what was its own may be another's by now. So does one that does not know its
// domains any more. All of it outlives the process.

// everAssigned stands in the set of domains once there was one. No machine is in
// it.
var everAssigned = Domain{}

// Ownership is which machines are this shard's.
type Ownership struct {
	pace      *pace.Pace
	inventory *inventory.Inventory
	inFlight  *inventory.InFlight
	memory    memory.Memory // nil = nothing outlives the process
	log       *slog.Logger
	onChange  func()                 // what is this shard's has changed
	knowledge func() DomainKnowledge // nil = domains are never lost
	lost      bool                   // they are not known; those that are there are what is left

	domains    map[Domain]struct{}
	domainKeys map[string]int // how many domains have the key
	given      map[string]given
	received   map[string]string // machine → instruction
	adoptions  map[string]int64  // instruction → when it was carried out, Unix nanoseconds
	arrived    map[string]uint64 // machine → cycle in which it came from another shard
	gone       map[string]int    // machines given or received → looks at full listings in which they were not
	fullLists  int               // since machines were given or received
	keptUpTo   uint64            // position in the memory of the last change
	reown      bool              // what is there is to be looked at again

	offeredUpTo columnar.Row // where the next offers begin, when one look is not enough
	term        atomic.Int64 // the coordinator's, the highest heard of
}

// New returns the ownership of a shard that was never assigned a domain. knowledge is what a
// memory knows of its domains, nil = it never loses any; onChange is called when what is the shard's
// has changed.
func New(p *pace.Pace, v *inventory.Inventory, f *inventory.InFlight, kept memory.Memory, knowledge func() DomainKnowledge, onChange func(), log *slog.Logger) *Ownership {
	return &Ownership{
		pace: p, inventory: v, inFlight: f, memory: kept, log: log, knowledge: knowledge, onChange: onChange,
		domains: map[Domain]struct{}{}, domainKeys: map[string]int{}, given: map[string]given{}, received: map[string]string{},
		adoptions: map[string]int64{}, arrived: map[string]uint64{}, gone: map[string]int{},
	}
}

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

// Owns tells whether a machine is this shard's.
func (o *Ownership) Owns(m *model.Machine) bool {
	if _, gone := o.given[m.ID]; gone {
		return false
	}
	if _, got := o.received[m.ID]; got || len(o.domains) == 0 && !o.lost {
		return true
	}
	for key := range o.domainKeys {
		if value, ok := m.Attribute(key); ok && o.has(Domain{key, value}) {
			return true
		}
	}
	return false
}

// homesOf returns the domains by which a machine is this shard's, sorted by key.
func (o *Ownership) homesOf(r columnar.Row) (out []Domain) {
	m := o.inventory.Table.Get(r)
	for _, key := range slices.Sorted(maps.Keys(o.domainKeys)) {
		if value, ok := m.Attribute(key); ok && o.has(Domain{key, value}) {
			out = append(out, Domain{key, value})
		}
	}
	return out
}

// changed has the next cycle list everything, and look again at what is there.
func (o *Ownership) changed() {
	o.reown = true
	o.onChange()
	o.pace.WakeUp()
}

// DropForeign removes what is no longer this shard's, and returns how many machines that are. A machine with a call
// under way is looked at again when it has changed.
func (o *Ownership) DropForeign() (dropped int) {
	if !o.reown {
		return 0
	}
	o.reown = false
	var foreign []columnar.Row
	for r := range o.inventory.Table.All() {
		if m := o.inventory.Table.Get(r); !o.Owns(&m) && !o.inFlight.Busy(m.ID) {
			foreign = append(foreign, r)
		}
	}
	for _, r := range foreign {
		o.inventory.DropQuietly(r)
	}
	return len(foreign)
}

// ErrNothing says that none of the machines can be given away.
var ErrNothing = fmt.Errorf("%w: none of the machines is this shard's to give", ErrInvalid)

// CheckMove checks the names of a move and of its receiver, which may be empty. The error wraps ErrInvalid.
func CheckMove(move, to string) error {
	if err := model.CheckName(move); err != nil {
		return fmt.Errorf("%w: the id of the move %w", ErrInvalid, err)
	}
	if err := model.CheckOptionalName(to); err != nil {
		return fmt.Errorf("%w: the receiver of the move %w", ErrInvalid, err)
	}
	return nil
}

// Release is Release for those that may go, before it is on disk.
func (o *Ownership) Release(move, to string, machines []string, may func(columnar.Row) bool) (HandOver, error) {
	h := HandOver{Move: move, To: to, Machines: o.GivenBy(move)}
	if len(h.Machines) > 0 {
		return h, nil
	}
	for _, id := range machines {
		r, there := o.inventory.Table.Lookup(id)
		if !there || o.inFlight.Busy(id) || !may(r) {
			continue
		}
		if len(o.given) >= DomainsMax {
			return h, fmt.Errorf("this shard has given %d machines away, and there is no room for more", len(o.given))
		}
		id = strings.Clone(id)
		g := given{move: move, to: to, received: o.received[id], homes: o.homesOf(r)}
		// First the one, then the other: in between the machine is given.
		if !o.keep(memory.Given+id, g.encode()) {
			return h, errUnkept
		}
		o.keep(memory.Received+id, nil)
		o.given[id] = g
		delete(o.received, id)
		o.inventory.DropQuietly(r)
		h.Machines = append(h.Machines, id)
	}
	return h, nil
}

// GivenBy returns what was given away by a move, sorted.
func (o *Ownership) GivenBy(move string) (out []string) {
	for id, g := range o.given {
		if g.move == move {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// errUnkept says that the memory has no room for what must not be forgotten.
var errUnkept = errors.New("the journal has no room for machines that change their shard")

// keep journals what decides which shard owns a machine; see ownershipKept.
// false says that a new value was refused.
func (o *Ownership) keep(key string, value []byte) bool {
	if o.memory == nil {
		return true
	}
	at := o.memory.Set(key, value)
	o.keptUpTo = max(o.keptUpTo, at)
	return at > 0 || len(value) == 0
}

// LastKept returns the position in the memory of the last change, and that memory; nil = there is none.
func (o *Ownership) LastKept() (memory.Memory, uint64) { return o.memory, o.keptUpTo }

// AdoptionsMax is how many adoptions a shard remembers, the latest: a repeat of
// one of them does nothing. A coordinator repeats those of moves that it still
// has, which are far fewer.
const AdoptionsMax = 1 << 13

// NoteAdoption writes an adoption down; done says that it was carried out before. The mark
// that it is done comes last: it is done anew when it was cut short.
func (o *Ownership) NoteAdoption(id string, machines []string) (done bool, err error) {
	switch _, done = o.adoptions[id]; {
	case done:
		return true, nil
	case len(o.received)+len(machines) > DomainsMax:
		return false, fmt.Errorf("this shard has received %d machines, and there is no room for %d more", len(o.received), len(machines))
	case o.memory == nil:
		return false, nil
	}
	for _, m := range machines {
		// One that comes home is its domain's again, unless it had been received.
		if g, own := o.given[m]; !own || g.received != "" {
			was, had := o.received[m]
			if !had { // an adoption that was cut short may have said it: only want of room refuses it now
				o.memory.Set(memory.Received+m, nil)
			}
			if was != id && !o.keep(memory.Received+m, []byte(id)) {
				return false, errUnkept
			}
		}
		o.keep(memory.Given+m, nil)
	}
	o.memory.Set(memory.Adoption+id, nil)
	if !o.keep(memory.Adoption+id, binary.AppendVarint(nil, o.pace.Now)) {
		return false, errUnkept
	}
	return false, nil
}

// forgetAdoptions drops the oldest.
func (o *Ownership) forgetAdoptions() {
	if len(o.adoptions) <= AdoptionsMax {
		return
	}
	ids := slices.SortedFunc(maps.Keys(o.adoptions), func(a, b string) int {
		return cmp.Or(cmp.Compare(o.adoptions[a], o.adoptions[b]), cmp.Compare(a, b))
	})
	for _, id := range ids[:len(ids)-AdoptionsMax] {
		delete(o.adoptions, id)
		o.keep(memory.Adoption+id, nil)
	}
}

// HandOvers returns what was given away and is not settled, by move.
func (o *Ownership) HandOvers() []HandOver {
	by := map[string]*HandOver{}
	for id, g := range o.given {
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

// Recall takes over what an earlier process left; false says that it cannot be read.
func (o *Ownership) Recall(kind, rest string, value []byte) bool {
	switch kind {
	case memory.Domain:
		if k, v, ok := strings.Cut(rest, "\x00"); ok {
			o.noteDomain(Domain{k, v})
		}
	case memory.Given:
		g, ok := decodeGiven(value)
		if !ok {
			return false
		}
		o.given[rest] = g
	case memory.Received:
		o.received[rest] = string(value)
	case memory.Adoption:
		o.adoptions[rest], _ = binary.Varint(value)
	default:
		return false
	}
	return true
}

// EndReleases ends releases that were cut short: what was given away is not received.
func (o *Ownership) EndReleases() {
	for id := range o.given {
		if _, both := o.received[id]; both {
			delete(o.received, id)
			o.keep(memory.Received+id, nil)
		}
	}
}

// Adopt is Adopt, once it has been written down.
func (o *Ownership) Adopt(id string, machines []string) {
	for _, m := range machines {
		m = strings.Clone(m)
		back, own := o.given[m]
		delete(o.given, m)
		if !own || back.received != "" {
			o.received[m] = id
		}
		o.arrived[m] = o.pace.Cycle
	}
	o.adoptions[strings.Clone(id)] = o.pace.Now
	o.forgetAdoptions()
	o.changed()
}

// Settle is Settle.
func (o *Ownership) Settle(moves []string) {
	for id, g := range o.given {
		switch {
		case g.settled || !slices.Contains(moves, g.move):
			continue
		case g.received != "" && len(g.homes) == 0:
			delete(o.given, id)
			o.keep(memory.Given+id, nil)
			continue
		}
		g.settled = true
		o.given[id] = g
		o.keep(memory.Given+id, g.encode())
	}
}

// LeftBehind tells whether a reservation is the hold of a move by which machines
// have come to this shard, or come back to it. Providers that keep reservations
// give it out with the machine.
func (o *Ownership) LeftBehind(machine string, r *model.Reservation) bool {
	move, held := strings.CutPrefix(r.Owner.Cluster, leavingPrefix)
	if !held {
		return false
	}
	by := func(instruction string) bool {
		of, _, _ := strings.Cut(instruction, "/")
		return of == move
	}
	if by(o.received[machine]) {
		return true
	}
	for id := range o.adoptions { // one that came home is not among the received
		if by(id) {
			return true
		}
	}
	return false
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

// ids are those of the machines in a listing.
type ids interface {
	Len() int
	ID(i int) string
}

// ForgetGone looks at a full listing for machines that were given or received.
func (o *Ownership) ForgetGone(listed ids) {
	if len(o.given)+len(o.received) == 0 {
		o.fullLists = 0
		return
	}
	if o.fullLists++; o.fullLists%GoneLookListings != 0 {
		return
	}
	missing := map[string]int{}
	for id, g := range o.given {
		if g.settled {
			missing[id] = o.gone[id] + 1
		}
	}
	for id := range o.received {
		missing[id] = o.gone[id] + 1
	}
	for i := range listed.Len() {
		delete(missing, listed.ID(i))
	}
	for id, looks := range missing {
		if looks < GoneLooks {
			continue
		}
		delete(missing, id)
		delete(o.given, id)
		delete(o.received, id)
		o.keep(memory.Received+id, nil)
		o.keep(memory.Given+id, nil)
	}
	o.gone = missing
}
