package coordinator

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// queue is what one shard has yet to acknowledge about its domains, in order.
// Acknowledged numbers stay in sequences until they are at the front or half of
// all: a shard acknowledges mostly in order, hundreds at a time.
type queue struct {
	sequences []int64
	live      int
}

func (c *Core) addInstruction(i *DomainInstruction) {
	if c.instructions[i.Sequence] != nil {
		return
	}
	c.instructions[i.Sequence] = i
	q := c.pending[i.Shard]
	if q == nil {
		q = &queue{}
		c.pending[i.Shard] = q
	}
	at := len(q.sequences)
	if at > 0 && q.sequences[at-1] > i.Sequence {
		at, _ = slices.BinarySearch(q.sequences, i.Sequence)
	}
	q.sequences = slices.Insert(q.sequences, at, i.Sequence)
	q.live++
	if !i.Assign {
		c.losing[i.Shard]++
	}
	c.about[i.Domain] = append(c.about[i.Domain], i.Sequence)
}

func (c *Core) dropInstruction(sequence int64) {
	i := c.instructions[sequence]
	if i == nil {
		return
	}
	delete(c.instructions, sequence)
	if !i.Assign {
		if c.losing[i.Shard]--; c.losing[i.Shard] == 0 {
			delete(c.losing, i.Shard)
		}
	}
	rest := slices.DeleteFunc(c.about[i.Domain], func(n int64) bool { return n == sequence })
	if c.about[i.Domain] = rest; len(rest) == 0 {
		delete(c.about, i.Domain)
	}
	q := c.pending[i.Shard]
	if q == nil {
		return
	}
	q.live--
	gone := func(n int64) bool { return c.instructions[n] == nil }
	if first := slices.IndexFunc(q.sequences, func(n int64) bool { return !gone(n) }); first > 0 {
		q.sequences = q.sequences[first:]
	}
	if 2*q.live < len(q.sequences) {
		q.sequences = slices.DeleteFunc(q.sequences, gone)
	}
	if q.live == 0 {
		delete(c.pending, i.Shard)
	}
}

// Verb is what an instruction asks a shard to do.
type Verb uint8

// The verbs. Release and Adopt are both sides of one hand-over: which of them a
// shard is asked for shows in whether it is From or To.
const (
	VerbAssign Verb = iota
	VerbUnassign
	VerbRelease            // idle machines
	VerbReleaseSpeculative // slots of quota
	VerbDrain              // machines in use: drain, then release
	VerbAdopt
)

// Instruction is one thing that a shard is told with each answer until it
// acknowledges it.
type Instruction struct {
	Sequence int64
	ID       string
	Verb     Verb
	Domain   Domain // VerbAssign and VerbUnassign
	// For the others:
	Machines          []string
	From, To          string
	PreemptorPriority int32 // VerbDrain
}

// Instructions returns what a shard has yet to acknowledge, in order of sequence
// numbers, at most InstructionsMax. A domain that another shard has not let go
// of is not given away yet.
func (c *Core) Instructions(shard string) []Instruction {
	var out []Instruction
	for _, m := range c.moves {
		if i, ok := m.instruction(); ok && i.to == shard {
			out = append(out, i.Instruction)
		}
	}
	if q := c.pending[shard]; q != nil {
		taken := 0
		for _, n := range q.sequences {
			i := c.instructions[n]
			if i == nil || i.Assign && c.heldElsewhere(i) {
				continue
			}
			verb := VerbUnassign
			if i.Assign {
				verb = VerbAssign
			}
			out = append(out, Instruction{Sequence: n, ID: i.ID(), Verb: verb, Domain: i.Domain})
			if taken++; taken == InstructionsMax {
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b Instruction) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return out[:min(len(out), InstructionsMax)]
}

// heldElsewhere tells whether another shard has yet to acknowledge that it lost
// the domain.
func (c *Core) heldElsewhere(i *DomainInstruction) bool {
	return slices.ContainsFunc(c.about[i.Domain], func(n int64) bool {
		x := c.instructions[n]
		return !x.Assign && x.Shard != i.Shard
	})
}

// replaced removes what a shard was to be told about a domain before. Were both
// kept, the older one could be carried out after the newer.
func (c *Core) replaced(d Domain, shard string) []Write {
	var out []Write
	for _, n := range c.about[d] {
		if c.instructions[n].Shard == shard {
			out = append(out, del(instructionKey(n)))
		}
	}
	return out
}

// PendingCount is how many instructions a shard has yet to acknowledge.
func (c *Core) PendingCount(shard string) int {
	n := 0
	if q := c.pending[shard]; q != nil {
		n = q.live
	}
	for _, m := range c.moves {
		if i, ok := m.instruction(); ok && i.to == shard {
			n++
		}
	}
	return n
}

// Outcome is a shard's answer to an instruction.
type Outcome uint8

// The outcomes, numbered as on the wire.
const (
	OutcomeUnspecified Outcome = iota
	Accepted
	RejectedStale
	RejectedInvalid
	Failed
)

// Ack is a shard's answer to one instruction.
type Ack struct {
	ID      string
	Outcome Outcome
	Reason  string
}

// final tells whether an answer ends the instruction: one that was refused for
// its term or failed is given again.
func (o Outcome) final() bool { return o == Accepted || o == RejectedInvalid }

// acknowledge returns the writes that follow from a shard's answers.
func (c *Core) acknowledge(now int64, shard string, acks []Ack, e *Effects) {
	done, gaveUp := map[string]bool{}, map[Domain]bool{}
	for _, a := range acks[:min(len(acks), AcksMax)] {
		if done[a.ID] {
			continue
		}
		done[a.ID] = true
		if a.Outcome != Accepted {
			e.note("shard %q answers %s to instruction %s: %s", shard, a.Outcome, a.ID, a.Reason)
		}
		if id, step, ok := strings.Cut(a.ID, "/"); ok {
			if m := c.moves[id]; m != nil {
				c.acknowledgeMove(now, shard, m, step, a, e)
			}
			continue
		}
		text, ok := strings.CutPrefix(a.ID, "d-")
		if !ok || !a.Outcome.final() {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if i := c.instructions[n]; err == nil && i != nil && i.Shard == shard {
			e.Writes = append(e.Writes, del(instructionKey(n)))
			if !i.Assign && a.Outcome == Accepted {
				gaveUp[i.Domain] = true
			}
		}
	}
	e.Writes = append(e.Writes, c.gaveUp(shard, gaveUp)...)
}

func (o Outcome) String() string {
	names := [...]string{"unspecified", "accepted", "rejected as stale", "rejected as invalid", "failed"}
	if int(o) < len(names) {
		return names[o]
	}
	return "unknown"
}
