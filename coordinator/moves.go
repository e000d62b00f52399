package coordinator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tonnage/tonnage/engine/model"
)

// Tier is how dear a move is.
type Tier int

// The tiers, cheapest first.
const (
	TierIdle        Tier = 1
	TierSpeculative Tier = 2
	TierPreempt     Tier = 3
)

func (t Tier) String() string {
	switch t {
	case TierIdle:
		return "idle"
	case TierSpeculative:
		return "speculative"
	case TierPreempt:
		return "preempt"
	}
	return "tier " + strconv.Itoa(int(t))
}

// Phase is how far a move has come; see the package's essay.
type Phase string

// The phases.
const (
	Asked     Phase = "asked"
	Released  Phase = "released"
	Adopted   Phase = "adopted"
	Settled   Phase = "settled"
	Returning Phase = "returning"
	Returned  Phase = "returned"
	Cancelled Phase = "cancelled"
)

func (p Phase) over() bool  { return p == Settled || p == Returned || p == Cancelled }
func (p Phase) moved() bool { return p == Adopted || p == Settled }

// Move is the hand-over of some machines from one shard to another.
type Move struct {
	ID       string   `json:"id"`
	Sequence int64    `json:"sequence"` // of the instruction that the phase gives out
	Tier     Tier     `json:"tier"`
	Phase    Phase    `json:"phase"`
	Donor    string   `json:"donor"`
	Receiver string   `json:"receiver"`
	Machines []string `json:"machines"`
	Kind
	// Shape is the kind of machine, and Unit what one of them holds.
	Shape string           `json:"shape"`
	Unit  map[string]int64 `json:"unit,omitempty"`
	// Shortfall is the key of what it is for.
	Shortfall         uint64 `json:"shortfall,string"`
	PreemptorPriority int32  `json:"preemptorPriority,omitempty"`
	Began             int64  `json:"began"` // Unix nanoseconds
	Ended             int64  `json:"ended,omitempty"`
	Note              string `json:"note,omitempty"`
}

// The steps that instructions are named after.
const (
	stepRelease = "release"
	stepAdopt   = "adopt"
	stepReturn  = "return"
)

type addressed struct {
	Instruction
	to string
}

// instruction is what the phase of a move asks for.
func (m *Move) instruction() (addressed, bool) {
	i := Instruction{Sequence: m.Sequence, Machines: m.Machines, From: m.Donor, To: m.Receiver}
	switch m.Phase {
	case Asked:
		i.ID = m.ID + "/" + stepRelease
		switch m.Tier {
		case TierSpeculative:
			i.Verb = VerbReleaseSpeculative
		case TierPreempt:
			i.Verb, i.PreemptorPriority = VerbDrain, m.PreemptorPriority
		default:
			i.Verb = VerbRelease
		}
		return addressed{i, m.Donor}, true
	case Released:
		i.ID, i.Verb = m.ID+"/"+stepAdopt, VerbAdopt
		return addressed{i, m.Receiver}, true
	case Returning:
		i.ID, i.Verb, i.From, i.To = m.ID+"/"+stepReturn, VerbAdopt, m.Receiver, m.Donor
		return addressed{i, m.Donor}, true
	}
	return addressed{}, false
}

// HandOver is what a donor says it has released, until it is told that this is
// settled.
type HandOver struct {
	Move string // the move's id
	// To may be empty: the instructions about speculative and used machines do not
	// say who is to have them.
	To       string
	Machines []string
}

// enter writes a move in its next phase. Each instruction has a sequence number
// of its own.
func (c *Core) enter(e *Effects, now int64, m *Move, to Phase, note string) {
	next := *m
	next.Phase = to
	if note != "" {
		next.Note = note
	}
	if to.over() {
		next.Ended = now
	}
	if _, ok := next.instruction(); ok {
		next.Sequence = c.take1(e)
	}
	if to == Adopted {
		e.Writes = append(e.Writes, c.lend(&next)...)
	}
	e.Writes = append(e.Writes, put(moveKey(m.ID), next))
	if to.moved() {
		e.Writes = append(e.Writes, c.comeHome(&next)...)
	}
	e.note("move %s from %q to %q, %d machines of %s: %s%s", m.ID, m.Donor, m.Receiver, len(next.Machines), m.Shape, to, suffix(note))
	if to.over() {
		c.prune(e)
	}
}

func suffix(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}

// take1 gives out the next sequence number within one event's writes.
func (c *Core) take1(e *Effects) int64 {
	n := c.sequence
	at := -1
	for i, w := range e.Writes {
		if w.Key == keySequence {
			given, _ := strconv.ParseInt(string(w.Value), 10, 64)
			n, at = given, i
		}
	}
	w := putSequence(n + 1)
	if at >= 0 {
		e.Writes[at] = w
	} else {
		e.Writes = append(e.Writes, w)
	}
	return n + 1
}

// written is a move as it will be after the writes so far.
func (c *Core) written(e *Effects, id string) *Move {
	for i := len(e.Writes) - 1; i >= 0; i-- {
		if e.Writes[i].Key == moveKey(id) && e.Writes[i].Value != nil {
			m := &Move{}
			if json.Unmarshal(e.Writes[i].Value, m) == nil {
				return m
			}
		}
	}
	return c.moves[id]
}

// acknowledgeMove takes a shard's answer to the instruction of a move.
func (c *Core) acknowledgeMove(now int64, shard string, m *Move, step string, a Ack, e *Effects) {
	i, ok := m.instruction()
	if !ok || i.to != shard || i.ID != a.ID || a.Outcome == RejectedStale {
		return
	}
	yes := a.Outcome == Accepted
	switch step {
	case stepRelease:
		// What was released is said in the offer, with the machines; an answer alone
		// moves nothing. A no ends the move, and should the donor have released
		// something after all, it will say so.
		if !yes {
			c.enter(e, now, m, Cancelled, "the donor refused: "+a.Reason)
		}
	case stepAdopt:
		if yes {
			c.enter(e, now, m, Adopted, "")
		} else {
			c.enter(e, now, m, Returning, "the receiver refused: "+a.Reason)
		}
	case stepReturn:
		if yes {
			c.enter(e, now, m, Returned, "")
		}
	}
}

// handOvers compares what a donor says it released with the moves. A donor
// mentions a hand-over from its release on until it is told that it is settled;
// so one that was adopted and is mentioned no longer is settled already.
func (c *Core) handOvers(now int64, donor string, said []HandOver, e *Effects) (settled []string) {
	mentions := make(map[string]bool, len(said))
	for _, h := range said {
		mentions[h.Move] = true
	}
	c.soft[donor].mentions = mentions
	for _, m := range c.sortedMoves() {
		if m.Donor == donor && m.Phase == Adopted && !mentions[m.ID] {
			c.enter(e, now, m, Settled, "")
		}
	}
	for _, h := range said {
		m := c.written(e, h.Move)
		switch {
		case m == nil:
			m = &Move{ID: h.Move, Tier: TierIdle, Donor: donor, Receiver: h.To, Began: now, Note: "taken up as the donor stands"}
			c.takeUp(now, m, h, e)
		case m.Donor != donor:
			e.note("shard %q speaks of move %s, whose donor is %q; it is left alone", donor, h.Move, m.Donor)
		case m.Phase == Asked, m.Phase == Cancelled:
			c.takeUp(now, m, h, e)
		case m.Phase == Adopted:
			settled = append(settled, m.ID)
			c.enter(e, now, m, Settled, "")
		case m.Phase == Settled, m.Phase == Returned:
			settled = append(settled, m.ID)
		}
	}
	return settled
}

// takeUp records a donor's release: what was not released stays with it.
func (c *Core) takeUp(now int64, m *Move, h HandOver, e *Effects) {
	next := *m
	next.Machines, next.Ended = h.Machines, 0
	if c.shards[next.Receiver] == nil {
		c.enter(e, now, &next, Returning, "the receiver is not registered")
		return
	}
	c.enter(e, now, &next, Released, "")
}

// orphanMoves settles the moves of a shard that is gone for good.
func (c *Core) orphanMoves(id string) []Write {
	var e Effects
	for _, m := range c.sortedMoves() {
		switch {
		case m.Phase.over():
		case m.Donor == id && m.Phase == Asked:
			c.enter(&e, m.Began, m, Cancelled, "the donor was removed")
		case m.Donor == id && m.Phase == Returning:
			c.enter(&e, m.Began, m, Cancelled, "the donor was removed; its machines are nobody's")
		case m.Donor == id && m.Phase == Adopted:
			c.enter(&e, m.Began, m, Settled, "the donor was removed")
		case m.Receiver == id && m.Phase == Asked:
			c.enter(&e, m.Began, m, Cancelled, "the receiver was removed")
		case m.Receiver == id && m.Phase == Released:
			c.enter(&e, m.Began, m, Returning, "the receiver was removed")
		}
	}
	return e.Writes
}

// prune forgets the oldest moves that are over, but none that its donor may
// still mention: it would be taken up again, long after its machines may have
// moved on.
func (c *Core) prune(e *Effects) {
	var over []*Move
	for _, m := range c.sortedMoves() {
		if m.Phase.over() && c.unmentioned(m) {
			over = append(over, m)
		}
	}
	for _, m := range over[:max(0, len(over)-MovesFinishedMax)] {
		e.Writes = append(e.Writes, del(moveKey(m.ID)))
	}
}

func (c *Core) unmentioned(m *Move) bool {
	if c.shards[m.Donor] == nil {
		return true
	}
	s := c.soft[m.Donor]
	return s != nil && s.offered && !s.mentions[m.ID]
}

// sortedMoves are all moves, oldest first.
func (c *Core) sortedMoves() []*Move {
	return slices.SortedFunc(maps.Values(c.moves), func(a, b *Move) int {
		return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.ID, b.ID))
	})
}

// Moves returns all moves that are known, oldest first.
func (c *Core) Moves() []Move {
	out := make([]Move, 0, len(c.moves))
	for _, m := range c.sortedMoves() {
		out = append(out, *m)
	}
	return out
}

// holds is what all machines of a move offer together.
func (m *Move) holds() model.Resources {
	amounts := make([]model.Amount, 0, len(m.Unit))
	for name, v := range m.Unit {
		amounts = append(amounts, model.Amount{Name: name, Value: model.SatMul(v, int64(len(m.Machines)))})
	}
	return model.NewResources(amounts...)
}

// resting tells whether a pair of shards still waits after a move. It begins
// when machines were adopted, or when the move failed.
func (c *Core) resting(m *Move) bool {
	return (m.Phase.over() || m.Phase.moved()) && c.reportsOf(m.Receiver) < c.rest[m.ID]
}

// moveID names a move after the sequence number that it began with.
func moveID(sequence int64) string { return fmt.Sprintf("m-%d", sequence) }
