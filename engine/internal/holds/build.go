package holds

import (
	"cmp"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// holding is the machines that are reserved for one owner. Many equal rows may share one owner, so there is one
// holding for all of them.
type holding struct {
	owner   model.Owner
	cluster int32          // the owner's
	members []int32        // the Needs that own it, in rank order
	rows    []columnar.Row // live, in keep order
	// ofPlan says that a plan holds some of the machines, leaves that some of these are still
	// Configured for a cluster other than the owner's.
	ofPlan, leaves bool
	end            plan.PlanEnd // why its reservations have ended in this pass
}

// Store keeps the memory of indexes from cycle to cycle, and what they are made with.
type Store struct {
	t        Tables // of this cycle
	blocks   []Block
	keeps    []keepRank
	lower    [2][]LowerClass // memory of Lower.Classes
	holdings []holding
	at       map[model.Owner]int32 // of holdings
	mixed    []int32               // Needs with several owners
	planners []int32               // Needs for which plans hold something
	// The names that occur in reservations.
	clusters     map[string]bool
	fingerprints map[uint64]bool
	reserved     []reserved           // the machines of reservations that may hold
	standing     map[model.Owner]bool // owners of whose plans some machine has not passed its deadline
	rows, drains [][]columnar.Row     // memory of Index.rows and drains
}

// reserved is a machine, and the index of the holding that its reservation is part of.
type reserved struct {
	row     columnar.Row
	holding int32
}

// Begin prepares MayHold for a cycle, which needs the snapshot and Plans alone.
func (x *Store) Begin(s *snapshot.Snapshot, plans bool) {
	x.t = Tables{Snapshot: s, Plans: plans}
	if s.Supply.ReservationCount() == 0 {
		return
	}
	x.clear()
	x.findStanding()
}

func (x *Store) clear() {
	if x.at == nil {
		x.at = map[model.Owner]int32{}
		x.clusters, x.fingerprints, x.standing = map[string]bool{}, map[uint64]bool{}, map[model.Owner]bool{}
		return
	}
	clear(x.holdings)
	x.holdings, x.mixed = x.holdings[:0], x.mixed[:0]
	clear(x.at)
	clear(x.clusters)
	clear(x.fingerprints)
	clear(x.standing)
}

// OfPlan reports whether a reservation is part of a plan.
func (x *Store) OfPlan(res *model.Reservation) bool { return x.t.ofPlan(res) }

// MayHold reports whether a reservation is in force as far as its machine, and the other machines of
// its plan, are concerned: state and deadline. It does not look at the owner. Draining stops the clock: a
// draining machine has no deadline.
func (x *Store) MayHold(r columnar.Row, res *model.Reservation) bool {
	t := &x.t
	switch t.Snapshot.View.State[r] {
	case model.Draining:
		return true
	case model.Idle, model.Configured, model.Creating:
		return res.Deadline == 0 || t.Snapshot.Now <= res.Deadline || t.ofPlan(res) && x.standing[res.Owner]
	}
	return false
}

// findStanding finds the owners of plans of which some machine is held in its own right. It is skipped
// unless some machine of a plan is past its deadline. All plans of one owner count as one, whatever
// their ids, since a plan of a later cycle adds to the earlier ones.
func (x *Store) findStanding() {
	t, late := &x.t, false
	for _, res := range t.Snapshot.Supply.Reservations() {
		late = late || t.ofPlan(&res) && res.Deadline != 0 && t.Snapshot.Now > res.Deadline
	}
	if !late {
		return
	}
	for r, res := range t.Snapshot.Supply.Reservations() {
		if t.ofPlan(&res) && x.MayHold(r, &res) {
			x.standing[res.Owner] = true
		}
	}
}

// forget clears the marks that followed from the reservations of the cycle before. fresh says that the lines are
// new and have none.
func (x *Store) forget(fresh bool) {
	for _, need := range x.planners {
		if !fresh {
			x.t.Lines[need].Status &^= state.IsHeldBack
		}
	}
	x.planners = x.planners[:0]
}

// Index finds the live reservations and their owners. Begin must have been called in this cycle. fresh says that all
// lines are new. O(reservations + rows of the clusters that they name).
func (x *Store) Index(tables Tables, fresh bool) Index {
	x.t = tables
	t, s := &x.t, tables.Snapshot
	x.forget(fresh)
	if s.Supply.ReservationCount() == 0 {
		return Index{store: x}
	}
	all := Index{store: x, live: bitmap.DenseIn(t.Arena, s.Supply.RowMax()), Blocks: x.blocks[:0]}
	x.listReserved()
	x.findMembers()
	x.keeps = x.keeps[:0]
	for _, held := range x.reserved {
		r, h := held.row, &x.holdings[held.holding]
		if len(h.members) == 0 && s.Demand.Reported(h.owner.Cluster) {
			continue
		}
		res := s.Supply.Reservation(r)
		all.live.Set(uint32(r))
		h.rows = alloc.Append(t.Arena, h.rows, r)
		if t.ofPlan(&res) {
			all.Plans, h.ofPlan = true, true
			h.leaves = h.leaves || t.leaves(r, h.cluster)
		}
		if s.View.State[r] == model.Idle {
			all.Blocks = append(all.Blocks, Block{t.heldFrom(&res, h.members), r})
			x.keeps = append(x.keeps, keepRank{r, t.placeOfHold(&res, h.members)})
		}
	}
	x.deal(&all)
	slices.SortFunc(all.Blocks, func(a, b Block) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Row, b.Row))
	})
	x.blocks = all.Blocks
	if len(x.keeps) > 0 {
		all.Lower = x.listLower()
	}
	return all
}

// listReserved lists the machines of reservations that may hold, and finds the holdings.
func (x *Store) listReserved() {
	x.reserved = x.reserved[:0]
	for r, res := range x.t.Snapshot.Supply.Reservations() {
		if x.MayHold(r, &res) {
			x.reserved = append(x.reserved, reserved{r, x.holdingFor(&res.Owner)})
		}
	}
}

// holdingFor returns the index of an owner's holding, adding it if it is new.
func (x *Store) holdingFor(owner *model.Owner) int32 {
	at, known := x.at[*owner]
	if !known {
		at = int32(len(x.holdings))
		x.at[*owner] = at
		x.holdings = append(x.holdings, holding{owner: *owner, cluster: x.t.Snapshot.ClusterByName(owner.Cluster)})
	}
	return at
}

// deal numbers the machines and their owners, and fills Index.rows. A fold may answer to the names of all its rows: then it gets a
// merged list of its own.
func (x *Store) deal(all *Index) {
	all.held = bitmap.NumberedIn(x.t.Arena, &all.live)
	all.of = alloc.MakeDirty[int32](x.t.Arena, len(x.reserved))
	owners := bitmap.DenseIn(x.t.Arena, len(x.t.Lines))
	for i := range x.holdings {
		h := &x.holdings[i]
		for _, r := range h.rows {
			all.of[all.held.Number(uint32(r))] = int32(i)
		}
		for _, n := range h.members {
			if len(h.rows) > 0 {
				owners.Set(uint32(n))
			}
		}
	}
	all.owners = bitmap.NumberedIn(x.t.Arena, &owners)
	x.rows = reuse.Resize(x.rows, all.owners.Len())
	x.drains = reuse.Resize(x.drains, all.owners.Len())
	all.rows, all.drains = x.rows, x.drains
	for i := range x.holdings {
		if h := &x.holdings[i]; len(h.rows) > 0 {
			x.dealHolding(all, h)
		}
	}
	slices.Sort(x.mixed)
	for _, n := range slices.Compact(x.mixed) {
		SortKeep(x.t.Snapshot, all.Of(n))
	}
}

func (x *Store) dealHolding(all *Index, h *holding) {
	SortKeep(x.t.Snapshot, h.rows)
	h.rows = slices.Clip(h.rows)
	x.noteOwners(all, h)
	for _, n := range h.members {
		rows := &all.rows[all.owners.Number(uint32(n))]
		if *rows == nil {
			*rows = h.rows
			continue
		}
		for _, r := range h.rows {
			*rows = alloc.Append(x.t.Arena, *rows, r)
		}
		x.mixed = append(x.mixed, n)
	}
}

// noteOwners sets the flags that follow from a holding: which Needs are held back, and whether turns depend on each other.
func (x *Store) noteOwners(all *Index, h *holding) {
	t := &x.t
	if h.ofPlan {
		x.planners = append(x.planners, h.members...)
	}
	if h.leaves {
		for _, n := range h.members {
			t.holdBack(n)
		}
	}
	isSame := slices.ContainsFunc(h.members, func(n int32) bool { return t.kindOf(n).Same })
	idle, ends := false, 0
	for _, r := range h.rows {
		state := t.Snapshot.View.State[r]
		idle = idle || state == model.Idle
		if state != model.Creating {
			ends++
		}
		all.InOrder = all.InOrder || isSame && state == model.Configured
	}
	if idle && ends > 1 {
		all.Breakable, all.InOrder = true, true
	}
}

// holdBack makes an all-or-nothing Need acquire nothing, since a machine of its plan has not
// acknowledged its drain. A fold has no Same, so that the Need is a row.
func (t *Tables) holdBack(need int32) {
	src := &t.Sources[t.Atlas.ClusterOf(need)]
	if k := t.kindOf(need); k.Same && !columnar.Covers(k.Unit, t.Snapshot.Demand.Vector(src.Aggregates[need-src.Base])) {
		t.Lines[need].Status |= state.IsHeldBack
	}
}

// leaves reports whether a machine still serves another cluster: its drain is not acknowledged.
func (t *Tables) leaves(r columnar.Row, cluster int32) bool {
	s := t.Snapshot
	return s.View.State[r] == model.Configured && s.ClusterOf[s.View.Cluster[r]] != cluster
}

// heldFrom returns the place in the order from which on a held machine is withdrawn: right after its
// first owner. Before the owner's cluster has reported, it is right after the last Need that ranks
// above the record. What is held by a plan for a tenant yields to higher priority only. Otherwise the
// Need that gave the machine, and ranks above the owner by age or penalties, would take it back.
func (t *Tables) heldFrom(res *model.Reservation, members []int32) int32 {
	if t.Shares.Holds(res) {
		priority := res.Priority
		if len(members) > 0 {
			priority = t.kindOf(members[0]).Priority
		}
		return int32(sort.Search(len(t.Order), func(i int) bool { return t.kindOf(t.Order[i]).Priority <= priority }))
	}
	if len(members) > 0 {
		return t.RankOf[members[0]] + 1
	}
	return int32(t.firstNotAbove(res))
}

// firstNotAbove returns the place of the first Need that ranks no higher than a record, by priority and
// penalties. Binary search.
func (t *Tables) firstNotAbove(res *model.Reservation) int {
	record := state.Worth(res.Priority, res.Interruption, res.Reclamation)
	return sort.Search(len(t.Order), func(i int) bool { return t.kindOf(t.Order[i]).Worth >= record })
}

// findMembers finds the Needs of each owner that a reservation names, in rank order. A row of a
// fold stands for the fold, which answers to its own name too.
func (x *Store) findMembers() {
	t := &x.t
	for i := range x.holdings {
		o := &x.holdings[i].owner
		x.clusters[o.Cluster], x.fingerprints[o.Fingerprint] = true, true
	}
	bare, named := x.namedProfiles()
	note := func(o model.Owner, need int32) {
		if at, known := x.at[o]; known {
			h := &x.holdings[at]
			h.members = alloc.Append(t.Arena, h.members, need)
		}
	}
	for c := range t.Sources {
		src := &t.Sources[c]
		b := src.Block
		if b == nil || !x.clusters[b.Cluster()] {
			continue
		}
		for row, id := range b.Profiles() {
			line := src.Base + int32(row)
			n, need := &t.Lines[line], line
			if n.Is(state.IsMember) {
				need = int32(n.Domain)
			}
			if n.Is(state.IsFold) {
				note(model.Owner{Cluster: b.Cluster(), Fingerprint: t.kindOf(line).Fingerprint}, line)
			}
			if named[id] {
				note(model.Owner{Cluster: b.Cluster(), Fingerprint: bare[id], Group: b.Group(row)}, need)
			}
		}
	}
	for i := range x.holdings {
		h := &x.holdings[i]
		slices.SortFunc(h.members, func(a, b int32) int { return cmp.Compare(t.RankOf[a], t.RankOf[b]) })
		h.members = slices.Compact(h.members)
	}
}

// namedProfiles returns, by profile, its fingerprint without Same, and whether a reservation names it.
func (x *Store) namedProfiles() (bare []uint64, named []bool) {
	t := &x.t
	n := int(t.Snapshot.Demand.ProfileIDMax())
	bare, named = alloc.Make[uint64](t.Arena, n), alloc.Make[bool](t.Arena, n)
	for id := range named {
		if profile := t.Snapshot.Demand.Profile(uint32(id)); profile != nil {
			bare[id] = profile.WithoutSame().Fingerprint()
			named[id] = x.fingerprints[bare[id]]
		}
	}
	return bare, named
}
