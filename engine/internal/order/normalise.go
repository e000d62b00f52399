package order

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Normalise turns the rows of changed clusters into lines. A Same-Need needs no co-location if one
// machine could hold it whole and it has not begun as a gang. Such Needs of one cluster are folded if
// they agree in aggregate and in profile, where Same is replaced by what it demands of one machine:
// they are summed into one plain Need whose minimum unit is one member's aggregate. Whether machines
// can hold a row is decided once for each pair of profile and aggregate in a cluster. Demand without
// Same is not copied. moved reports whether the order may have changed.
func (p *Pass) Normalise() (moved bool) {
	st, crew := p.st, p.Crew
	p.NeedTable, p.MachineTable, p.Kinds = st.NeedTable, st.MachineTable, st.Kinds.List
	for _, l := range st.workers {
		l.Folder.enter(p)
	}
	if !p.Changed.Fresh {
		p.undo()
	}
	p.findHeldForFolds()
	crew.Each(len(p.Sources), cycle.ClustersPerChunk, p.st.tasks.renew)
	p.Kinds = st.Kinds.List
	for i := range st.Clusters {
		p.AnyFolds = p.AnyFolds || len(st.Clusters[i].Folds.List) > 0
		p.folding.anySwaps = p.folding.anySwaps || len(st.Clusters[i].Fold.Swaps) > 0
	}
	moved = p.Changed.Fresh
	for i := range p.st.workers {
		moved = moved || p.st.workers[i].Folder.moves.moved
	}
	return moved
}

// Folder makes the lines of clusters, one cluster at a time, for one worker.
type Folder struct {
	p      *Pass
	sums   *alloc.Arena // of the folds of clusters; lives until the store starts over
	c      int32
	block  *demand.Block
	base   int32
	Groups groupNumbers
	kinds  []lastKind // by profile: memoizes the last kind
	// foldKinds memoizes the same for folds, whose minimum unit is a member's aggregate.
	foldKinds []lastKind
	decided   aggregateTable // by (profile, aggregate) in the cluster: the answer of supplySays
	inParts   map[partsKey]bool
	folds     aggregateTable // by (profile of the fold, aggregate) in the cluster: the fold
	listed    bool           // folds is filled
	dueFolds  []uint32       // folds of the cluster that rows have come to or left
	remade    []uint32       // rows of the cluster whose lines are made again
	profiles  foldProfiles
	begun     begunIndex
	swapping  swapScratch
	alike     []uint32 // scratch: profiles of plain rows that are also profiles of folds
	moves     orderMoves
}

// orderMoves is what rank must do about the clusters of a worker.
type orderMoves struct {
	touched []int32 // rows of the cluster whose rank slot may have changed
	moved   bool    // the order may have changed
	left    []int32 // places in the order that lost their Need
	arrived []int32 // rank slots whose Need must be inserted into the order
}

// lastKind memoizes the kind of the last row of a profile.
type lastKind struct {
	mask uint64
	unit uint32
	kind uint32 // 1 + number
}

// enter prepares the folder for a pass.
func (f *Folder) enter(p *Pass) {
	f.p, f.moves.moved = p, false
	f.moves.left, f.moves.arrived = f.moves.left[:0], f.moves.arrived[:0]
	if p.Changed.Fresh {
		f.sums.Reset()
	}
	profiles := int(p.Snap.Demand.ProfileIDMax())
	f.Groups = reuse.Resize(f.Groups, int(p.Snap.Demand.GroupIDMax()))
	f.kinds, f.foldKinds = reuse.Resize(f.kinds, profiles), reuse.Resize(f.foldKinds, profiles)
	f.profiles.reset(profiles)
	if f.inParts == nil {
		f.inParts = map[partsKey]bool{}
	}
	clear(f.inParts)
	f.swapping.byName = f.swapping.byName[:0]
}

// renew updates the lines of a cluster: none, those of changed rows, or all.
func (f *Folder) renew(c int32) {
	f.open(c)
	if f.p.Changed.Fresh {
		f.clearRankSlots()
	}
	f.vacate()
	x := &f.p.st.Clusters[c]
	if x.Dirty || x.Replay {
		f.p.PartFrom(int(c), x.Dirty)
	}
	if f.block == nil {
		x.Folds.Reset()
		return
	}
	rows := f.rowsToMake(x)
	switch {
	case x.Dirty && !x.Patch:
		f.cluster(x)
	case len(rows) > 0:
		f.changedRows(x, rows)
	}
	if f.p.st.Seen.Names != x.Names && (x.Dirty || x.Replay || x.Named) {
		f.renumberGroups(x)
	}
	if x.Dirty && x.Patch {
		f.beginAnew()
	}
	if x.Dirty || x.Replay {
		f.fillRankSlots()
		f.listCreated(x)
	}
	if f.p.Audit.Has(int(c)) {
		auditLines(f)
	}
}

// rowsToMake returns the rows of a cluster whose lines are made again: those that changed, and those that
// fold otherwise because machines have changed. The latter have the cluster credited again.
func (f *Folder) rowsToMake(x *cycle.ClusterState) []uint32 {
	asks := f.noteStamps(x) || x.Fold.HeldMoved || f.p.folding.foldsMoved
	if !asks || !x.Fold.HasSame || x.Dirty && !x.Patch {
		return x.Change.Rows
	}
	rows := f.withRefolding(x)
	x.Replay = x.Replay || !x.Dirty && len(rows) > 0
	return rows
}

// cluster makes the lines of all rows of a cluster.
func (f *Folder) cluster(x *cycle.ClusterState) {
	x.Folds.Reset()
	x.Fold.HasSame, x.Fold.Unsettled = false, false
	lines := f.p.Lines[f.base:][:f.block.Len()]
	for row := range lines {
		f.moves.touched = append(f.moves.touched, int32(row))
		f.row(x, &lines[row], row)
	}
	f.settleFolds(x)
	f.moveRankSlot(x)
}

// open makes a cluster the one at work.
func (f *Folder) open(c int32) {
	src := &f.p.Sources[c]
	f.c, f.block, f.base = c, src.Block, src.Base
	f.moves.touched = f.moves.touched[:0]
	f.decided.reset()
	f.begun.listed, f.listed = false, false
}

// withRefolding returns the changed rows of a cluster and those that fold otherwise than in the last
// cycle, because the machines decide otherwise. The result is valid until the next call.
func (f *Folder) withRefolding(x *cycle.ClusterState) []uint32 {
	f.remade, x.Fold.Unsettled = f.remade[:0], false
	changed, lines := x.Change.Rows, f.p.Lines[f.base:][:f.block.Len()]
	for row := range lines {
		n := &lines[row]
		switch {
		case len(changed) > 0 && int(changed[0]) == row:
			changed = changed[1:]
		case !n.Is(state.HasSame) || f.foldable(x, row) == (n.Status&(state.IsFold|state.IsMember) != 0):
			continue
		}
		f.remade = append(f.remade, uint32(row))
	}
	return f.remade
}

// changedRows makes new lines for some rows of a cluster. Where it is credited again, their Needs are stale. They
// keep what they claim until their turn, or, where other Needs may come before them now, until credit begins.
func (f *Folder) changedRows(x *cycle.ClusterState, rows []uint32) {
	p := f.p
	for _, row := range rows {
		n := &p.Lines[f.base+int32(row)]
		if n.Status&(state.IsFold|state.IsMember) != 0 {
			f.leave(x, int(row))
		} else if n.Is(state.IsSatisfied) {
			x.Satisfied--
		}
	}
	f.recount(x)
	for _, row := range rows {
		number := f.base + int32(row)
		n := &p.Lines[number]
		was := *n
		f.moves.touched = append(f.moves.touched, int32(row))
		f.row(x, n, int(row))
		n.Tail = was.Tail
		if n.Kind == was.Kind && n.Group == was.Group && (n.Status|was.Status)&(state.IsFold|state.IsMember) == 0 {
			n.Status |= state.IsStale | state.IsChanged
			continue
		}
		x.LetGo, x.Restamped = reuse.Append(x.LetGo, cycle.LetGoRoom, number), true
	}
	f.recount(x)
	f.settleFolds(x)
	f.moveRankSlot(x)
}

// beginAnew resets the lines of the cluster at work to the state before credit.
func (f *Folder) beginAnew() {
	lines := f.p.Lines[f.base:][:f.block.Len()]
	for row := range lines {
		lines[row].BeginAnew()
	}
}

// row makes the line of a row.
func (f *Folder) row(x *cycle.ClusterState, n *state.Line, row int) {
	p, b := f.p, f.block
	*n = state.Line{}
	profile, aggregate := b.Profiles()[row], b.AggregateIDs()[row]
	unoffered, same := b.Unoffered(row), f.profiles.same(p, profile)
	waits := unoffered.Waits(same)
	if same {
		switch {
		case waits || f.supplySays(profile, aggregate) == neverFits: // no machine can hold what none offers
			n.Status = state.IsUncoverable | state.NeverFolds
		case f.foldable(x, row):
			x.Fold.HasSame = true
			f.join(x, f.fold(x, profile, aggregate), row)
			n.Status |= state.HasSame
			return
		default:
			x.Fold.HasSame = true
			n.Status = state.IsUncoverable | state.HasSame // until its turn has shown that a domain covers it
		}
	}
	n.Kind = f.kindOf(profile, b.UnitIDs()[row], cycle.PositiveDims(p.Snap.Demand.Vector(aggregate)))
	n.Group = f.nameOf(b.GroupID(row))
	if waits || b.Parked(row) {
		n.Status |= state.IsParked
	}
}

// kindOf returns the kind of a row, memoized by profile.
func (f *Folder) kindOf(profile, unit uint32, mask uint64) uint32 {
	last := &f.kinds[profile]
	if last.kind == 0 || last.mask != mask || last.unit != unit {
		s := f.p.Snap
		*last = lastKind{mask, unit, 1 + f.p.st.Kinds.OfRow(s, profile, s.Demand.Vector(unit), mask)}
	}
	return last.kind - 1
}

// renumberGroups translates the groups of the rows of the cluster at work again, since the supply's
// numbers of names have changed. A cluster needs that once a machine that names it has changed: the
// numbers of those that have not mean what they did.
func (f *Folder) renumberGroups(x *cycle.ClusterState) {
	x.Names = f.p.st.Seen.Names
	for row, group := range f.block.GroupIDs() {
		if n := &f.p.Lines[int(f.base)+row]; group != 0 && n.Status&(state.IsFold|state.IsMember) == 0 {
			n.Group = f.Groups.Number(f.p.Snap, group)
		}
	}
}

// groupNumbers translates the demand's numbers of groups to the supply's, memoized. The empty group is
// 0 in both.
type groupNumbers []uint32 // 1 + the supply's

func (g groupNumbers) Number(s *snapshot.Snapshot, group uint32) uint32 {
	if g[group] == 0 {
		id, ok := s.Supply.NameID(s.Demand.GroupName(group))
		if !ok {
			id = state.NoGroup
		}
		g[group] = id + 1
	}
	return g[group] - 1
}

// aggregateTable is a hash table from (number, aggregate) to a value, for the rows of one cluster. It
// probes linearly and is small enough for the L1 cache.
type aggregateTable struct {
	slots   []int32 // 1 + place in entries
	entries []aggregateEntry
}

type aggregateEntry struct {
	key   uint64
	value int32
}

func (t *aggregateTable) reset() {
	if len(t.entries) > 0 {
		clear(t.slots)
		t.entries = t.entries[:0]
	}
}

// find returns the entry of a key, adding it if it is new. The entry is valid until the next call.
func (t *aggregateTable) find(number, aggregate uint32) (e *aggregateEntry, found bool) {
	if 2*len(t.entries) >= len(t.slots) {
		t.grow()
	}
	key := uint64(number)<<32 | uint64(aggregate)
	at := t.home(key)
	for ; t.slots[at] != 0; at = (at + 1) & (len(t.slots) - 1) {
		if e := &t.entries[t.slots[at]-1]; e.key == key {
			return e, true
		}
	}
	t.entries = append(t.entries, aggregateEntry{key: key})
	t.slots[at] = int32(len(t.entries))
	return &t.entries[len(t.entries)-1], false
}

// home returns the slot where the search for a key begins.
func (t *aggregateTable) home(key uint64) int {
	return int(key*exact.Mixer>>32) & (len(t.slots) - 1)
}

func (t *aggregateTable) grow() {
	t.slots = make([]int32, max(64, 2*len(t.slots)))
	for i := range t.entries {
		at := t.home(t.entries[i].key)
		for t.slots[at] != 0 {
			at = (at + 1) & (len(t.slots) - 1)
		}
		t.slots[at] = int32(i + 1)
	}
}
