// Package state has the Needs of a cycle as lines, their kinds, and the claims on machines. It alone
// writes claims.
package state

import (
	"math"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/internal/invariants"
)

// Unclaimed is the claimant of a machine that no Need claims, and Loose that of one that no Need claims
// and that came to the cluster, or was let go, while the cluster is credited.
const (
	Unclaimed int32 = -1
	Loose     int32 = -2
)

// NoGroup is the group number of a Need whose group name no machine carries.
const NoGroup = ^uint32(0) - 1

// Status is a set of flags that say what is known of a Need.
type Status uint32

// The flags.
const (
	IsParked Status = 1 << iota
	IsFold          // stands for several rows; group is the fold's number in its cluster
	IsMember        // row in a fold that another line stands for; domain is that line, group as above
	IsSatisfied
	IsUncoverable   // a Same-Need that no domain could cover at its turn
	IsPinned        // a live reservation determines the domain
	IsSkewBlocked   // hard spread forbade free candidates
	IsWithheld      // the plan goes to another domain: acquisitions are revoked
	HasCandidates   // phase 2 found a machine to preempt
	IsAwaiting      // what drains for it covers the rest
	NeverFolds      // has Same, and no class, free or not, could hold it whole
	HasSame         // has Same, and may come to fold
	IsUncredited    // credit waits for its turn, since it depends on what is free
	IsStale         // must be credited again
	IsHeldBack      // a drain of its plan is not acknowledged: it acquires nothing yet
	HasPlan         // a machine drains for it, or a plan of this cycle holds one for it
	HasOwnPlan      // a plan of this cycle holds machines for it
	IsVisited       // had a turn after credit, which the next cycle undoes
	HasForeignStamp // was credited a machine that did not carry its stamp
	IsTouched       // a machine that it claims differs from the last cycle
	IsChanged       // its row changed
	IsRobbed        // a Need of higher rank has claimed a machine of it in this cycle
	IsResettled     // something is or was held for it, or its plan went to another domain
	LeavesToEqual   // left machines to Needs of its own priority that have them and want more of them than it does
	CountsOnDrain   // its plan of this cycle counts on a machine that drains, but not for it so far
	LostAcquired    // the plan of another Need counts on an Idle machine that it had acquired in this cycle
	LackedNothing   // before that
	LeftSuperfluous // left machines of its stamp that others which it took made superfluous
)

// SitsOut are the reasons for which a Need acquires nothing.
const SitsOut = IsParked | IsHeldBack

// Line is the working record of one row of the demand. A Need is identified by the number of its line.
// Rows are numbered cluster by cluster, in the order of the clusters' ids, with gaps that leave room
// for new rows; see Atlas. A fold has the number of the first of its rows in the cluster. A line
// is 24 bytes and contains no pointers.
type Line struct {
	Kind   uint32
	Group  uint32 // number of the group's name in the supply, or NoGroup; a fold's number with IsFold or IsMember
	Status Status
	// Domain is the chosen value of the Same key, 0 = none; with IsMember, the line that stands for the
	// fold.
	Domain uint32
	// The claims are a chain that ends at Tail (see Claims): credited machines first, then, from
	// Acquired on, machines that were free.
	Tail, Acquired columnar.Row
}

// BeginAnew resets the line to what it is before credit. What normalise and the reservations say of the Need stays.
func (n *Line) BeginAnew() {
	if n.Is(IsMember) {
		n.Empty() // of before it joined
		return
	}
	*n = Line{Kind: n.Kind, Group: n.Group, Status: n.Status & (IsParked | IsFold | HasSame | NeverFolds | IsHeldBack)}
	if n.Is(NeverFolds) || n.Is(HasSame) && !n.Is(IsFold) {
		n.Status |= IsUncoverable // until its turn has shown that a domain covers it
	}
}

// Is reports whether any of the flags of s is set.
func (n *Line) Is(s Status) bool { return n.Status&s != 0 }

// claim says which Need claims a machine, and the next machine in the Need's chain.
type claim struct {
	need int32
	next columnar.Row
}

// Claims says, by machine, which Need claims it. The claims of a Need are a chain that ends at
// Line.Tail; behind the last machine comes the first. Only the methods here write claims and the ends of chains. A machine
// is on one chain at most: whoever claims it has to take it off another Need's chain before.
type Claims []claim

// NewClaims returns a table in which no machine is claimed.
func NewClaims(a *alloc.Arena, machines int) Claims {
	c := alloc.MakeDirty[claim](a, machines)
	for i := range c {
		c[i].need = Unclaimed
	}
	return c
}

// Of returns the Need that claims a machine; Unclaimed or Loose when none does.
func (c Claims) Of(r columnar.Row) int32 { return c[r].need }

// First returns the first machine in the chain of a Need; None when it has none.
func (c Claims) First(n *Line) columnar.Row {
	if n.Tail == columnar.None {
		return columnar.None
	}
	return c[n.Tail].next
}

// Next returns the machine after another one in the chain of a Need; None at its end.
func (c Claims) Next(r columnar.Row, n *Line) columnar.Row {
	if r == n.Tail {
		return columnar.None
	}
	return c[r].next
}

// Walk returns a Need and the first machine in its chain, for a loop with Next.
func (c Claims) Walk(n *Line) (*Line, columnar.Row) { return n, c.First(n) }

// WalkAcquired is Walk from the first acquired machine on.
func (c Claims) WalkAcquired(n *Line) (*Line, columnar.Row) { return n, n.Acquired }

// Claim claims a machine for a Need: it becomes the last of the chain.
func (c Claims) Claim(r columnar.Row, need int32, n *Line) {
	if invariants.Enabled && c[r].need >= 0 {
		panic("a machine that a Need claims is claimed once more")
	}
	first := r
	if last := n.Tail; last != columnar.None {
		first, c[last].next = c[last].next, r
	}
	c[r], n.Tail = claim{need, first}, r
}

// Acquire claims a free machine for a Need.
func (c Claims) Acquire(r columnar.Row, need int32, n *Line) {
	if n.Acquired == columnar.None {
		n.Acquired = r
	}
	c.Claim(r, need, n)
}

// Release ends the claim of a machine. The chain still has it, until Filter, Truncate or Empty.
func (c Claims) Release(r columnar.Row) { c[r].need = Unclaimed }

// MarkLoose marks a machine that no Need claims as loose, until Settle.
func (c Claims) MarkLoose(r columnar.Row) {
	if invariants.Enabled && c[r].need >= 0 {
		panic("a machine that a Need claims is loose")
	}
	c[r].need = Loose
}

// Settle takes the mark of MarkLoose off, unless a Need has claimed the machine since.
func (c Claims) Settle(r columnar.Row) {
	if c[r].need == Loose {
		c[r].need = Unclaimed
	}
}

// Filter takes the machines off a Need's chain that have been released.
func (c Claims) Filter(need int32, n *Line) {
	r, last, first := c.First(n), n.Tail, n.Acquired
	n.Empty()
	for acquired := false; r != columnar.None; {
		next := c[r].next
		if r == last {
			next = columnar.None
		}
		acquired = acquired || r == first
		if c[r].need == need {
			c[r].need = Unclaimed
			if acquired {
				c.Acquire(r, need, n)
			} else {
				c.Claim(r, need, n)
			}
		}
		r = next
	}
}

// Truncate ends a Need's chain at a machine that was credited; None empties it.
func (c Claims) Truncate(n *Line, last columnar.Row) {
	if last != columnar.None {
		c[last].next = c.First(n)
	}
	n.Tail, n.Acquired = last, columnar.None
}

// Unlink releases a machine and takes it off a Need's chain. O(machines claimed).
func (c Claims) Unlink(r columnar.Row, n *Line) {
	before := n.Tail
	for c[before].next != r {
		if before = c[before].next; before == n.Tail {
			panic("the machine is not on the Need's chain")
		}
	}
	c[before].next = c[r].next
	switch {
	case before == r:
		n.Tail = columnar.None
	case n.Tail == r:
		n.Tail = before
	}
	c.Release(r)
}

// Empty forgets the chain of a Need.
func (n *Line) Empty() { n.Tail, n.Acquired = columnar.None, columnar.None }

// Source describes the lines of one cluster.
type Source struct {
	Block      *demand.Block // nil: the cluster has no demand
	Aggregates []uint32      // the block's: by row, the number of its aggregate
	Base       int32         // number of its first line
	Outer      int32         // number of its first row in outputs, which have no gaps
	Rows       int
	Had        int // rows in the last cycle
	Room       int // how many lines are reserved for it, more than rows
}

// SetBlock says what the cluster's demand is; nil = it has none.
func (s *Source) SetBlock(b *demand.Block) {
	s.Block, s.Aggregates, s.Rows = b, nil, 0
	if b != nil {
		s.Aggregates, s.Rows = b.AggregateIDs(), b.Len()
	}
}

// RoomFor returns how many lines to reserve for a number of rows.
func RoomFor(rows int) int { return rows + rows/32 + 16 }

// Atlas maps a Need's number to its cluster, by tables small enough to stay in the cache.
type Atlas struct {
	first []int32 // by stretch of numbers: the cluster of its first number
	bases []int32 // by cluster: the number of its first line; a sentinel at the end
}

// stretchBits is log2 of the length of a stretch. Every cluster has room for at least 16 lines, so at
// most 16 clusters begin in one.
const stretchBits = 8

// NewAtlas builds the atlas of a number of lines.
func NewAtlas(a *alloc.Arena, sources []Source, lines int) Atlas {
	n := len(sources)
	x := Atlas{first: alloc.MakeDirty[int32](a, lines>>stretchBits+1), bases: alloc.MakeDirty[int32](a, n+1)}
	stretch := 0
	for c := range sources {
		src := &sources[c]
		x.bases[c] = src.Base
		for ; stretch<<stretchBits < int(src.Base)+src.Room; stretch++ {
			x.first[stretch] = int32(c)
		}
	}
	x.bases[n] = math.MaxInt32
	return x
}

// ClusterOf returns the cluster of a Need: one look-up, then a scan of the clusters of a stretch.
func (x *Atlas) ClusterOf(need int32) int32 {
	c := x.first[need>>stretchBits]
	for x.bases[c+1] <= need {
		c++
	}
	return c
}
