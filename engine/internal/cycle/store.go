package cycle

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Store is what one cycle leaves to the next: the Needs, their order, and the machines that each was
// credited. Clusters whose demand or machines changed are decided again. Acquisitions and preemptions
// are never taken over: each cycle decides them anew.
type Store struct {
	Opts       *plan.Options // of the engine, as are the next two
	CycleArena *alloc.Arena  // memory of one cycle
	Crew       *workers.Crew

	Arena    *alloc.Arena
	Seen     seenBefore
	Clusters []ClusterState
	NeedTable
	MachineTable
	Kinds     state.Kinds
	classesOf [][]uint32 // by matcher; see Fleet.ClassesOf
	classMask []uint64   // by class; see Fleet.ClassMask
	RankSlots []int32    // by row: the Need that sits on its rank slot; see ranks.Slots
	Holds     holds.Store
	Undoing   undoLists
	Divided   []int32 // rows of one stamp whose machines were divided anew: their clusters are credited anew
	// Resettle are Needs to be credited again: something was held for them in the last cycle, or their
	// plan went to another domain.
	Resettle []int32
}

// seenBefore is what the last cycle saw of the tables.
type seenBefore struct {
	Supply *supply.Table
	Demand *demand.Table
	Valid  bool // that cycle completed
	Dims   int
	// DimsVersion is the version of the demand's numbering of dimensions. Numbers of profiles and units
	// may change without it: rows with such a number are among the changed rows.
	DimsVersion uint64
	version     uint64 // of the demand
	Names       uint64 // sequence number of the supply's names
	Epoch       uint64 // of ladders; grows over all cycles
}

// undoLists is what the last cycle did after credit, for undo of package order.
type undoLists struct {
	Visited []Visit
	Undone  []columnar.Row // machines taken that were not acquired
}

// LetGoRoom is for how many lines ClusterState.LetGo has room once it has one.
const LetGoRoom = 16

// ClusterState is what a cluster's credit depends on, and what must be done about it in this cycle.
type ClusterState struct {
	version  uint64 // of its demand block
	Names    uint64 // sequence number of the supply's names when its groups were numbered
	Named    bool   // a machine that names it has changed
	Dirty    bool   // credit it anew: nothing is claimed, and all Needs are on the worklist
	Replay   bool   // some rows or machines changed: credit the Needs that this may concern
	Freeless bool   // some domain was chosen because nothing was free anywhere
	// Stamps are the fingerprints that its machines carry, and that some carried before, if StampsKnown.
	Stamps      StampFilter
	StampsKnown bool
	Restamped   bool                 // some row has another kind, group or fold than in the last cycle
	Patch       bool                 // the rows are those of the last cycle, except for those of Change
	Satisfied   int32                // rows that credit alone satisfies
	Change      demand.ClusterChange // how its rows changed; no rows, and Arrived alone, without Patch
	LetGo       []int32              // lines whose claims credit lets go first; the Needs may rank otherwise now
	Folds       folds
	Fold        foldState
	// Uncredited are the Needs whose credit waits for their turn. Waiting are the classes that they
	// accept, as a set; empty when no Need waits.
	Uncredited []int32
	Waiting    []uint64
	WaitKinds  []uint32 // the kinds of Uncredited
	Cheapest   []ClassPriority
}

// foldState is what the folds of a cluster depend on beside its rows.
type foldState struct {
	HasSame bool
	// Unsettled: whether some Same-row folds depends on more than which classes there are that hold it.
	Unsettled bool
	// Held is an order-independent hash of the machines held for the cluster's Same-Needs and folds.
	// HeldMoved says that it differs from the last cycle.
	Held      uint64
	HeldMoved bool
	Created   []CreatedFor // machines being created for members of its folds
	Swaps     []Swap       // sorted by rank slot
	RankSlots []Swap       // the same, sorted by Need
}

// FindDirty marks the clusters that changed; false when a cluster has as many rows as it has room for, or more.
func (p *Pass) FindDirty(freeMoved bool) bool {
	st, s := p.st, p.Snap
	if len(st.Claims) < s.Supply.RowMax() {
		return false
	}
	outer := int32(0)
	for c, id := range s.Clusters {
		x, src := &st.Clusters[c], &st.Sources[c]
		version := uint64(0)
		src.Outer, src.Had = outer, src.Rows
		if src.SetBlock(s.Demand.Block(id)); src.Block != nil {
			version = src.Block.Version()
		}
		if src.Rows >= src.Room { // Touch reads the line behind a row
			return false
		}
		outer += int32(src.Rows)
		x.Dirty = x.Freeless && freeMoved
		x.Replay = s.Dirty[c] || version != x.version
		x.Patch = (x.Dirty || x.Replay) && src.Rows == src.Had
		x.Change, x.LetGo, x.Named = demand.ClusterChange{}, x.LetGo[:0], false
		x.version = version
	}
	for _, need := range st.Divided {
		c := st.ClusterOf(need)
		st.Clusters[c].Dirty, st.Clusters[c].Patch = true, st.Sources[c].Rows == st.Sources[c].Had
	}
	p.findChanged()
	for c := range st.Clusters {
		x := &st.Clusters[c]
		x.Dirty = x.Dirty || x.Replay && !x.Patch
		x.Replay = x.Replay && !x.Dirty
	}
	p.groupMoves()
	return true
}

// Moved is a change in a cluster's list: a machine that came, left, or remains but differs.
type Moved struct {
	Row   columnar.Row
	Class uint32
	How   change
}

// change says how a machine of a cluster's list changed.
type change uint8

// The changes.
const (
	Left    change = iota
	Came           // new in the list, or it was being created, or its class changed: also listed as left
	Remains        // bound as before; its stamp and its place may differ
)

// groupMoves groups the changes of machines by cluster: a counting sort.
func (p *Pass) groupMoves() {
	st, s := p.st, p.Snap
	off := alloc.Make[uint32](p.Arena, len(s.Clusters)+2)
	remain := alloc.MakeDirty[bool](p.Arena, len(s.Moves))
	for i := range s.Moves {
		m := &s.Moves[i]
		remain[i] = m.From >= 0 && m.From == m.To && m.Was != model.Creating && m.Is != model.Creating && s.View.Class[m.Row] == m.Class
		if m.From >= 0 && !remain[i] {
			off[m.From+2]++
		}
		if m.To >= 0 {
			off[m.To+2]++
		}
	}
	for i := range off[1:] {
		off[i+1] += off[i]
	}
	list := alloc.MakeDirty[Moved](p.Arena, int(off[len(off)-1]))
	put := func(c int32, m Moved) {
		list[off[c+1]] = m
		off[c+1]++
	}
	for i := range s.Moves {
		m, class, how := &s.Moves[i], s.View.Class[s.Moves[i].Row], Came
		if remain[i] {
			how = Remains
		} else if m.From >= 0 {
			put(m.From, Moved{Row: m.Row, Class: m.Class, How: Left})
		}
		if m.To >= 0 {
			put(m.To, Moved{m.Row, class, how})
		}
		if c := s.ClusterOf[s.View.Cluster[m.Row]]; c >= 0 {
			st.Clusters[c].Named = true
		}
	}
	p.Changed.Moves, p.Changed.moveOff = list, off
}

// MovesOf returns the changes of a cluster's list.
func (ch *Changed) MovesOf(c int) []Moved {
	if ch.Moves == nil {
		return nil
	}
	return ch.Moves[ch.moveOff[c]:ch.moveOff[c+1]]
}

// findChanged finds the changed rows of each cluster.
func (p *Pass) findChanged() {
	st, s := p.st, p.Snap
	changes, complete := s.Demand.Changes(st.Seen.version)
	st.Seen.version = s.Demand.Version()
	if !complete {
		for c := range st.Clusters {
			st.Clusters[c].Patch, st.Clusters[c].Change.AllArrived = false, true
		}
		return
	}
	c := 0
	for i := range changes {
		for c < len(s.Clusters) && s.Clusters[c] < changes[i].Cluster {
			c++
		}
		if c == len(s.Clusters) {
			return
		}
		if x := &st.Clusters[c]; s.Clusters[c] == changes[i].Cluster {
			x.Change = changes[i]
			x.Patch = x.Patch && !changes[i].Whole
		}
	}
}

// StartOver discards the state and allocates columns for the present demand and supply.
func (p *Pass) StartOver() {
	st, s := p.st, p.Snap
	st.Arena.Reset()
	st.Seen.Dims = p.Dims
	st.Seen.version = s.Demand.Version()
	rows := p.layRows()
	room := s.Supply.RowMax() + s.Supply.RowMax()/16
	st.reserve(rows, room)
	st.Atlas = state.NewAtlas(st.Arena, st.Sources, rows)
	st.Lines = alloc.MakeDirty[state.Line](st.Arena, rows)
	st.RankSlots = alloc.MakeDirty[int32](st.Arena, rows)
	st.RankOf = alloc.MakeDirty[int32](st.Arena, rows)
	st.Order = alloc.MakeDirty[int32](st.Arena, rows)[:0]
	st.KindAt = alloc.MakeDirty[uint32](st.Arena, rows)[:0]
	st.ByCluster = alloc.MakeDirty[int32](st.Arena, rows)
	st.Lacking = alloc.Make[bool](st.Arena, rows)
	st.Claims = state.NewClaims(st.Arena, room)
	st.Taken = alloc.Make[bool](st.Arena, room)
	st.Priority = alloc.MakeDirty[int32](st.Arena, room)
	st.Owner = alloc.MakeDirty[int32](st.Arena, room)
	st.Sorted = reuse.Resize(st.Sorted, len(s.Clusters))
	st.Kinds.Reset()
	st.Undoing.Visited, st.Undoing.Undone, st.Resettle, st.Divided = st.Undoing.Visited[:0], st.Undoing.Undone[:0], st.Resettle[:0], st.Divided[:0]
}

// LineBytes and MachineBytes are the sizes of the columns per line and per machine: those of the store, and those of
// gangs that package victims lays beside them.
const (
	LineBytes    = 24 + 5*4 + 1 + 1
	MachineBytes = 8 + 1 + 3*4
)

// columnsSlack allows each column to begin at a cache line.
const columnsSlack = 1 << 10

// reserve reserves memory for all columns side by side; alone, each would occupy whole pages.
func (st *Store) reserve(rows, machines int) {
	if n := rows*LineBytes + machines*MachineBytes + columnsSlack; n >= alloc.ChunkBytes {
		st.Arena.Reserve(n)
	}
}

// Initial capacity of a cluster's lists of waiting Needs: uncreditedRoom, and one more for each
// uncreditedShare rows.
const (
	uncreditedRoom  = 8
	uncreditedShare = 8
	waitKindsRoom   = 32 // the same for their kinds
)

// layRows numbers the lines of all clusters anew and returns how many there are, gaps included.
func (p *Pass) layRows() int {
	st, s := p.st, p.Snap
	st.Clusters, st.Sources = reuse.Grown(st.Clusters, len(s.Clusters)), reuse.Resize(st.Sources, len(s.Clusters))
	base, outer := int32(0), int32(0)
	words := (len(s.Classes) + 63) / 64
	for c, id := range s.Clusters {
		src := state.Source{Base: base, Outer: outer}
		src.SetBlock(s.Demand.Block(id))
		x := ClusterState{
			Dirty:      true,
			Names:      st.Seen.Names,
			Cheapest:   alloc.MakeDirty[ClassPriority](st.Arena, state.RoomFor(len(s.GroupsOf(c))))[:0],
			Uncredited: alloc.MakeDirty[int32](st.Arena, uncreditedRoom+src.Rows/uncreditedShare)[:0],
			Waiting:    alloc.MakeDirty[uint64](st.Arena, words)[:0],
			WaitKinds:  alloc.MakeDirty[uint32](st.Arena, waitKindsRoom)[:0],
		}
		if src.Block != nil {
			x.version = src.Block.Version()
		}
		src.Room = state.RoomFor(src.Rows)
		base, outer = base+int32(src.Room), outer+int32(src.Rows)
		st.Sources[c], st.Clusters[c] = src, x
	}
	return int(base)
}

// VisitedPerChunk is how many Needs a worker takes at a time.
const VisitedPerChunk = 1 << 10

// Visit is a Need that had a turn after credit, and the last machine that it was credited before.
type Visit struct {
	Need     int32
	credited columnar.Row
}

// UndoTurn takes back what a Need claimed in its turns after credit.
func (p *Pass) UndoTurn(v Visit) {
	n := &p.Lines[v.Need]
	last, from := v.credited, n.Acquired
	if n.Is(state.IsUncredited) { // it was credited at its turn: everything is taken back
		last, from = columnar.None, p.Claims.First(n)
	}
	for r := from; r != columnar.None; {
		next := p.Claims.Next(r, n)
		p.Claims.Release(r)
		p.Taken[r] = false
		r = next
	}
	p.Claims.Truncate(n, last)
	n.Status &= state.IsParked | state.IsFold | state.IsMember | state.HasSame | state.NeverFolds |
		state.IsUncredited | state.HasForeignStamp | state.LeavesToEqual | state.LeftSuperfluous // what credit has found stays
	if p.Kinds[n.Kind].Same {
		n.Status |= state.IsUncoverable
		// Without credited machines, the domain was chosen by what was free.
		if last == columnar.None {
			n.Domain = 0
		}
	}
}

// MarkLacking recomputes lacking for a new order.
func (p *Pass) MarkLacking() {
	clear(p.Lacking)
	if p.Changed.Fresh {
		return // the credit of each Need sets it
	}
	for _, need := range p.Order {
		p.Lacking[p.RankOf[need]] = !p.Lines[need].Is(state.IsSatisfied)
	}
}

// Save saves what the next cycle builds on. withheld are Needs whose acquisitions were revoked.
func (p *Pass) Save(withheld []int32) {
	st := p.st
	st.Resettle = append(st.Resettle[:0], withheld...)
	for need := range p.Reserved.Needs() {
		st.Resettle = append(st.Resettle, need)
	}
	if p.Changed.Fresh {
		st.Kinds.After = len(st.Kinds.List)
	}
	st.Seen.Valid = true
}

// LeaveBehind saves what the worker did after credit.
func (l *Worker) LeaveBehind() {
	st := l.p.st
	st.Undoing.Visited = append(st.Undoing.Visited, l.Visited...)
	st.Undoing.Undone = append(st.Undoing.Undone, l.Undone...)
}

// StampFilter is a Bloom filter of fingerprints.
type StampFilter [8]uint64

// Add adds a fingerprint.
func (x *StampFilter) Add(fingerprint uint64) { x[fingerprint>>61] |= 1 << (fingerprint >> 55 & 63) }

// May reports whether a fingerprint may have been added.
func (x *StampFilter) May(fingerprint uint64) bool {
	return x[fingerprint>>61]>>(fingerprint>>55&63)&1 != 0
}

// ClassPriority is the lowest priority of a cluster's Configured machines of a class.
type ClassPriority struct {
	Class    uint32
	Priority int32
}

// StampHash returns a hash of a stamp, 0 to 63: the number of its bit in a 64-bit filter.
func StampHash(fingerprint uint64, group uint32) uint64 {
	return (fingerprint ^ uint64(group)*0xd6e8feb86659fd93) >> 58
}
