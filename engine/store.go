package engine

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
	"github.com/tonnage/tonnage/engine/supply"
)

// store is what one cycle leaves to the next: the needs, their order, and what
// of the machines bound to its cluster each is credited with. A cluster is
// looked at again where its demand or its machines have changed. What was acquired or preempted is decided anew every time.
type store struct {
	arena  *alloc.Arena
	supply *supply.Table
	demand *demand.Table
	valid  bool // the last cycle came to its end
	dims   int

	clusters []clusterState
	sources  []rowSource
	// What the demand's numbering of dimensions was. That of profiles and units may
	// change: rows that have such a number are among those that have changed.
	dimsVersion uint64

	seen  uint64 // version of the demand
	names uint64 // sequence of the supply's names
	epoch uint64 // of ladders, over all cycles
	lines []line
	// By line: the number of the row's aggregate in the demand.
	aggregates []uint32
	kinds      kinds
	folds      []foldList // by worker
	rankSlots  []rankSlot
	order      []int32
	rankOf     []int32
	kindAt     []uint32
	byCluster  []int32 // the needs of each cluster in rank order, from its first line on
	sorted     []int32 // by cluster: how many these are; 0 = not sorted yet
	lacking    []bool  // by place in the order: something is missing after credit
	held       []hold
	taken      []bool
	priority   []int32 // of Configured machines, as victims
	// owner is, by row of machines that are bound or being created, the last need in rank
	// order that carries their stamp in their cluster; unheld when there is none.
	owner []int32
	// place is, by row, where machines are in their cluster's list, while it is
	// credited again.
	place []uint32

	acquisitions     [2][2][]acquisition // of several workers; those merged so far, and one more
	classesOf        [][]uint32          // by matcher
	pools            stock[victimPool]
	noVictims        victimPool
	unitPools        stock[unitPool]
	planners         []int32 // needs for whom plans held something in the last cycle
	alikes           stock[alike]
	candidateDomains stock[domainBounds]
	noUnits          unitPool
	gangs            gangTable // of one cycle
	limits           limits    // of one cycle

	// freeAny remembers, by matcher with Same and class, whether a machine was
	// free in a domain: that decides folds.
	freeAny map[classMatcher]bool
	// resettle are the needs for which something was held in the last cycle, or whose
	// plan went to another domain: they are credited again.
	resettle []int32
	class    []uint32 // by row: the machine's in the last cycle
	// Memory of the pass, to be used again.
	spares     []spares
	reserved   reservationStore
	victims    []victim
	withheldBy map[columnar.Row]int32
	withheld   []int32
	tried      []tried
	// What the last cycle did beyond credit: to be undone.
	visited  []int32
	reclaims []columnar.Row // memory for the next
	undone   []columnar.Row // machines taken that were not acquired
}

// clusterState is what a cluster's credit was based on.
type clusterState struct {
	version   uint64 // of its block
	dirty     bool   // to be credited anew in this cycle
	replay    bool   // to be credited again where rows or machines have changed
	freeless  bool   // a domain was chosen because nothing was free anywhere
	hasSame   bool
	patch     bool  // the rows are those of before, but for changed
	whole     uint8 // for how many times it is credited anew rather than again
	satisfied int32 // rows that credit alone satisfies
	changed   []uint32
	// The needs whose credit waits for their turn, and the classes of machines
	// that they may be credited, a bit each; empty when there are none.
	uncredited []int32
	waiting    []uint64
	waitKinds  []uint32 // which kinds they are of
	cheapest   []classPriority
	// held sums up the machines that are held for the cluster's Same-Needs and their
	// folds; heldMoved says that they are others than before.
	held      uint64
	heldMoved bool
	created   []createdFor // for members of its folds
	swaps     []swap       // by rank slot
	rankSlots []swap       // the same by need
}

// carryOver takes over what the cycle before has left: it finds out which
// clusters have to be looked at, and makes room when that is all of them.
func (p *pass) carryOver() {
	st, s := &p.e.store, p.s
	dimsVersion := s.Demand.Numbering().Dims
	fresh := !st.valid || p.renumbered || st.demand != s.Demand || dimsVersion != st.dimsVersion ||
		len(st.clusters) != len(s.Clusters) || st.dims != p.dims || p.manyFolds() || st.kinds.many()
	st.valid = false // until this cycle has come to its end
	st.supply, st.demand = s.Supply, s.Demand
	st.dimsVersion = dimsVersion
	p.renamed = st.names != s.Supply.NameSequence()
	st.names = s.Supply.NameSequence()
	p.findFree()
	if !fresh {
		fresh = !p.findDirty()
	}
	p.fresh = fresh
	if fresh {
		p.startOver()
	}
	p.sources, p.lines, p.aggregates, p.kinds = st.sources, st.lines, st.aggregates, st.kinds.list
	p.order, p.rankOf, p.kindAt = st.order, st.rankOf, st.kindAt
	p.byCluster, p.sorted, p.lacking = st.byCluster, st.sorted, st.lacking
	p.held, p.taken = st.held, st.taken
}

// findDirty marks the clusters that have changed; false when one has more rows
// than there is room for.
func (p *pass) findDirty() bool {
	st, s := &p.e.store, p.s
	if len(st.held) < s.Supply.RowMax() {
		return false
	}
	outer := int32(0)
	for c, id := range s.Clusters {
		x, src := &st.clusters[c], &st.sources[c]
		block := s.Demand.Block(id)
		rows, version := 0, uint64(0)
		if block != nil {
			rows, version = block.Len(), block.Version()
		}
		if rows > src.room {
			return false
		}
		src.block, src.outer, src.had, src.rows = block, outer, src.rows, rows
		outer += int32(rows)
		x.dirty = x.freeless && p.freeMoved
		x.replay = s.Dirty[c] || version != x.version
		x.patch = (x.dirty || x.replay) && src.rows == src.had
		x.changed = nil
		x.version = version
	}
	p.findChanged()
	for c := range st.clusters {
		x := &st.clusters[c]
		x.dirty = x.dirty || x.replay && !x.patch
		if x.replay && !x.dirty && x.whole > 0 {
			x.whole--
			x.dirty = true
		}
		x.replay = x.replay && !x.dirty
	}
	p.groupMoves()
	return true
}

// moved is a machine that came to a cluster's list, or left it, of its class now,
// and before; or that is another there.
type moved struct {
	row   columnar.Row
	class uint32
	how   change
	was   model.State // if it remains
}

// change is what has become of a machine of a cluster's list.
type change uint8

const (
	left    change = iota
	came           // from elsewhere; or it was on its way, or of another class, and has left
	remains        // it is bound as before, but may have another stamp, and another place
)

// changeOf returns what has become of a machine that stands in a cluster's list now,
// or in none; its class may be another than before.
func (p *pass) changeOf(m snapshot.Move, to int32) change {
	switch {
	case to < 0:
		return left
	case m.From == to && m.Was != model.Creating && p.s.View.State[m.Row] != model.Creating && p.s.View.Class[m.Row] == p.e.store.class[m.Row]:
		return remains
	}
	return came
}

// groupMoves groups what has come and left, or is another, by cluster.
func (p *pass) groupMoves() {
	st, s := &p.e.store, p.s
	off := alloc.Make[uint32](p.e.arena, len(s.Clusters)+2)
	type fate struct {
		to  int32
		how change
	}
	fates := alloc.MakeDirty[fate](p.e.arena, len(s.Moves))
	for i, m := range s.Moves {
		to := p.listedIn(m.Row)
		x := fate{to, p.changeOf(m, to)}
		if fates[i] = x; m.From >= 0 && x.how != remains {
			off[m.From+2]++
		}
		if to >= 0 {
			off[to+2]++
		}
	}
	for i := range off[1:] {
		off[i+1] += off[i]
	}
	list := alloc.MakeDirty[moved](p.e.arena, int(off[len(off)-1]))
	put := func(c int32, m moved) {
		list[off[c+1]] = m
		off[c+1]++
	}
	for i, m := range s.Moves {
		x := fates[i]
		if m.From >= 0 && x.how != remains {
			put(m.From, moved{row: m.Row, class: st.class[m.Row], how: left})
		}
		class := s.View.Class[m.Row]
		if x.to >= 0 {
			put(x.to, moved{m.Row, class, x.how, m.Was})
		}
		st.class[m.Row] = class
	}
	p.moves, p.moveOff = list, off
}

// movesOf returns the machines that came to a cluster's list or left it, or are others.
func (p *pass) movesOf(c int) []moved {
	if p.moves == nil {
		return nil
	}
	return p.moves[p.moveOff[c]:p.moveOff[c+1]]
}

// listedIn returns the cluster in whose list a machine is, −1 when in none.
func (p *pass) listedIn(r columnar.Row) int32 {
	switch p.s.View.State[r] {
	case model.Configured, model.Configuring:
		if p.s.Supply.Departs(r) {
			return -1
		}
		return p.s.ClusterOf[p.s.View.Cluster[r]]
	case model.Creating:
		if x := p.s.Supply.Reservation(r); x.Active() {
			return p.clusterByName(x.Owner.Cluster)
		}
	}
	return -1
}

// findChanged finds out which rows of the clusters are others than before.
func (p *pass) findChanged() {
	st, s := &p.e.store, p.s
	changes, complete := s.Demand.Changes(st.seen)
	st.seen = s.Demand.Version()
	if !complete {
		for c := range st.clusters {
			st.clusters[c].patch = false
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
		if x := &st.clusters[c]; s.Clusters[c] == changes[i].Cluster {
			x.changed = changes[i].Rows
			x.patch = x.patch && !changes[i].Whole
		}
	}
}

// startOver forgets everything and makes room for what there is now.
func (p *pass) startOver() {
	st, s := &p.e.store, p.s
	st.arena.Reset()
	st.dims = p.dims
	st.seen = s.Demand.Version()
	rows := p.layRows()
	room := s.Supply.RowMax() + s.Supply.RowMax()/16
	st.reserve(rows, room)
	st.lines = alloc.MakeDirty[line](st.arena, rows)
	st.aggregates = alloc.MakeDirty[uint32](st.arena, rows)
	st.rankSlots = alloc.MakeDirty[rankSlot](st.arena, rows)
	st.rankOf = alloc.MakeDirty[int32](st.arena, rows)
	st.order = alloc.MakeDirty[int32](st.arena, rows)[:0]
	st.kindAt = alloc.MakeDirty[uint32](st.arena, rows)[:0]
	st.byCluster = alloc.MakeDirty[int32](st.arena, rows)
	st.lacking = alloc.Make[bool](st.arena, rows)
	st.held = alloc.MakeDirty[hold](st.arena, room)
	st.taken = alloc.Make[bool](st.arena, room)
	st.priority = alloc.MakeDirty[int32](st.arena, room)
	st.class = alloc.MakeDirty[uint32](st.arena, room)
	st.place = alloc.MakeDirty[uint32](st.arena, room)
	st.owner = alloc.MakeDirty[int32](st.arena, room)
	copy(st.class, s.View.Class[:s.Supply.RowMax()])
	for i := range st.held {
		st.held[i] = hold{need: unheld}
	}
	if p.e.opts.Victims == VictimsGang {
		st.gangs.lay(p, rows, room)
	}
	st.sorted = resize(st.sorted, len(s.Clusters))
	st.kinds.reset()
	st.folds = grown(st.folds, len(p.e.workers))
	for i := range st.folds {
		st.folds[i].reset()
	}
	st.visited, st.undone, st.resettle = st.visited[:0], st.undone[:0], st.resettle[:0]
}

// What the store's columns take for each line and each machine.
const (
	lineBytes    = 32 + 4 + 16 + 4*4 + 1 + 1
	machineBytes = 8 + 1 + 5*4
)

// columnsSlack is for columns to begin at cache lines.
const columnsSlack = 1 << 10

// reserve lays the columns side by side, where each would take whole pages.
func (st *store) reserve(rows, machines int) {
	if n := rows*lineBytes + machines*machineBytes + columnsSlack; n >= alloc.ChunkBytes {
		st.arena.Reserve(n)
	}
}

// There is room from the beginning for the credit of so many needs of a cluster
// to wait, and one more for so many of its rows.
const (
	uncreditedRoom  = 8
	uncreditedShare = 8
	waitKindsRoom   = 32 // and for so many kinds of these
)

// layRows numbers the rows of all clusters anew and returns how many lines that
// takes.
func (p *pass) layRows() int {
	st, s := &p.e.store, p.s
	st.clusters, st.sources = grown(st.clusters, len(s.Clusters)), resize(st.sources, len(s.Clusters))
	base, outer := int32(0), int32(0)
	words := (len(s.Classes) + 63) / 64
	for c, id := range s.Clusters {
		x := rowSource{base: base, outer: outer}
		rows := 0
		if x.block = s.Demand.Block(id); x.block != nil {
			rows = x.block.Len()
		}
		state := clusterState{
			dirty:      true,
			cheapest:   alloc.MakeDirty[classPriority](st.arena, roomFor(len(s.GroupsOf(c))))[:0],
			uncredited: alloc.MakeDirty[int32](st.arena, uncreditedRoom+rows/uncreditedShare)[:0],
			waiting:    alloc.MakeDirty[uint64](st.arena, words)[:0],
			waitKinds:  alloc.MakeDirty[uint32](st.arena, waitKindsRoom)[:0],
		}
		if x.rows = rows; x.block != nil {
			state.version = x.block.Version()
		}
		x.room = roomFor(x.rows)
		base, outer = base+int32(x.room), outer+int32(x.rows)
		st.sources[c], st.clusters[c] = x, state
	}
	return int(base)
}

// findFree looks up where machines are free in a domain, and whether that is
// another answer than before.
func (p *pass) findFree() {
	st, s := &p.e.store, p.s
	if st.freeAny == nil || p.renumbered {
		st.freeAny = map[classMatcher]bool{} // what it named may be other things
	}
	for m, classes := range p.classesOf {
		if s.Supply.SameKey(uint32(m)) < 0 {
			continue
		}
		for _, c := range classes {
			key := classMatcher{c, uint32(m)}
			now := p.anyInDomain(key.matcher, s.Idle.At(int(c))) || p.anyInDomain(key.matcher, s.Speculative.At(int(c)))
			was, known := st.freeAny[key]
			if !known || was != now {
				p.freeMoved = true
				st.freeAny[key] = now
			}
		}
	}
}

// undo takes back what the last cycle did beyond credit. Of clusters that are to
// be credited anew, what their needs were credited stays claimed until then.
func (p *pass) undo() {
	st := &p.e.store
	for _, r := range st.undone {
		p.taken[r] = false
	}
	p.e.crew.each(len(st.visited), visitedPerChunk, p.e.tasks.undo)
	st.visited, st.undone = st.visited[:0], st.undone[:0]
}

// visitedPerChunk is how many needs a worker takes at a time.
const visitedPerChunk = 1 << 10

// undoTurn takes back what came of a need's turns after credit.
func (p *pass) undoTurn(need int32) {
	n := &p.lines[need]
	last, from := columnar.None, n.head
	if !n.is(isUncredited) { // credited at its turn: all of it is taken back
		from = n.acquired
		for r := n.head; r != n.acquired; r = p.held[r].next {
			last = r
		}
	}
	for r := from; r != columnar.None; {
		next := p.held[r].next
		p.held[r] = hold{need: unheld}
		p.taken[r] = false
		r = next
	}
	if last == columnar.None {
		n.head = columnar.None
	} else {
		p.held[last].next = columnar.None
	}
	n.tail, n.acquired = last, columnar.None
	n.status &= isParked | isFold | isMember | hasSame | neverFolds | isUncredited | hasForeignStamp
	if p.kinds[n.kind].same {
		n.status |= isUncoverable
		if last == columnar.None {
			n.domain = 0 // it was chosen by what was free
		}
	}
}

// markLacking notes anew, by a new order, which needs credit has not satisfied.
func (p *pass) markLacking() {
	clear(p.lacking)
	if p.fresh {
		return // all of them will say so themselves
	}
	for _, need := range p.order {
		p.lacking[p.rankOf[need]] = !p.lines[need].is(isSatisfied)
	}
}

// leaveBehind hands the cycle's end to the next one.
func (p *pass) leaveBehind() {
	st := &p.e.store
	for _, l := range p.e.workers {
		st.visited = append(st.visited, l.visited...)
		st.undone = append(st.undone, l.undone...)
	}
	st.resettle = append(st.resettle[:0], p.withheld...)
	for need := range p.reserved.rows {
		st.resettle = append(st.resettle, need)
	}
	st.reclaims = p.reclaims
	st.victims, st.withheld, st.tried = p.victims, p.withheld, p.tried
	st.epoch = p.epoch
	st.pools.takeBack()
	st.takeBackUnits()
	st.alikes.takeBack()
	st.candidateDomains.takeBack()
	if p.e.opts.Victims == VictimsGang {
		st.gangs.plans, st.gangs.planned = p.plans, p.planned
	}
	if p.fresh {
		st.kinds.after = len(st.kinds.list)
	}
	st.valid = true
}
