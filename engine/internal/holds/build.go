package holds

import (
	"cmp"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// holding is the machines that are reserved for one owner. Many equal rows may share one owner, so there is one
// holding for all of them.
type holding struct {
	owner   model.Owner
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
	members  map[columnar.Row][]int32
	rows     map[int32][]columnar.Row
	blocks   []Block
	keeps    []keepRank
	lower    [2][]LowerClass // memory of Lower.Classes
	holdings []holding
	at       map[model.Owner]int32 // of holdings
	mixed    []int32               // Needs with several owners
	planners []int32               // Needs for which plans hold something
	// The names that occur in reservations.
	wanted       map[model.Owner]bool
	clusters     map[string]bool
	fingerprints map[uint64]bool
	owners       map[model.Owner][]int32 // the Needs of each owner
	standing     map[model.Owner]bool    // owners of whose plans some machine has not passed its deadline
	voided       map[columnar.Row][]int32
	drains       map[int32][]columnar.Row
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
	if x.members == nil {
		x.members, x.rows, x.at = map[columnar.Row][]int32{}, map[int32][]columnar.Row{}, map[model.Owner]int32{}
		x.wanted, x.clusters, x.fingerprints = map[model.Owner]bool{}, map[string]bool{}, map[uint64]bool{}
		x.owners, x.standing = map[model.Owner][]int32{}, map[model.Owner]bool{}
		return
	}
	clear(x.members)
	clear(x.rows)
	clear(x.holdings)
	x.holdings, x.mixed = x.holdings[:0], x.mixed[:0]
	clear(x.at)
	clear(x.wanted)
	clear(x.clusters)
	clear(x.fingerprints)
	clear(x.owners)
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
	all := Index{store: x, members: x.members, live: bitmap.DenseIn(t.Arena, s.Supply.RowMax()), rows: x.rows, Blocks: x.blocks[:0]}
	x.findOwnersNamed()
	x.keeps = x.keeps[:0]
	for r, res := range s.Supply.Reservations() {
		if !x.MayHold(r, &res) {
			continue
		}
		members := x.owners[res.Owner]
		if len(members) == 0 && s.Demand.Reported(res.Owner.Cluster) {
			continue
		}
		all.members[r] = members
		all.live.Set(uint32(r))
		h := x.holdingOf(&res.Owner, members)
		h.rows = alloc.Append(t.Arena, h.rows, r)
		if t.ofPlan(&res) {
			all.Plans, h.ofPlan = true, true
			h.leaves = h.leaves || t.leaves(r, s.ClusterByName(h.owner.Cluster))
		}
		if s.View.State[r] == model.Idle {
			all.Blocks = append(all.Blocks, Block{t.heldFrom(&res, members), r})
			x.keeps = append(x.keeps, keepRank{r, t.placeOfHold(&res, members)})
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

// holdingOf returns the holding of an owner, adding it if it is new.
func (x *Store) holdingOf(owner *model.Owner, members []int32) *holding {
	at, known := x.at[*owner]
	if !known {
		at = int32(len(x.holdings))
		x.at[*owner] = at
		x.holdings = append(x.holdings, holding{owner: *owner, members: members})
	}
	return &x.holdings[at]
}

// deal fills Index.rows. A fold may answer to the names of all its rows: then it gets a merged list
// of its own.
func (x *Store) deal(all *Index) {
	for i := range x.holdings {
		h := &x.holdings[i]
		SortKeep(x.t.Snapshot, h.rows)
		h.rows = slices.Clip(h.rows)
		x.noteOwners(all, h)
		for _, n := range h.members {
			rows, has := x.rows[n]
			if !has {
				x.rows[n] = h.rows
				continue
			}
			for _, r := range h.rows {
				rows = alloc.Append(x.t.Arena, rows, r)
			}
			x.rows[n] = rows
			x.mixed = append(x.mixed, n)
		}
	}
	slices.Sort(x.mixed)
	for _, n := range slices.Compact(x.mixed) {
		SortKeep(x.t.Snapshot, x.rows[n])
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

// findOwnersNamed finds the Needs of each owner that a reservation names, in rank order. A row of a
// fold stands for the fold, which answers to its own name too.
func (x *Store) findOwnersNamed() {
	t := &x.t
	for _, res := range t.Snapshot.Supply.Reservations() {
		x.wanted[res.Owner], x.clusters[res.Owner.Cluster], x.fingerprints[res.Owner.Fingerprint] = true, true, true
	}
	named := x.namedProfiles()
	note := func(o model.Owner, need int32) {
		if x.wanted[o] {
			x.owners[o] = alloc.Append(t.Arena, x.owners[o], need)
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
				profile := t.Snapshot.Demand.Profile(id)
				note(model.Owner{Cluster: b.Cluster(), Fingerprint: profile.WithoutSame().Fingerprint(), Group: b.Group(row)}, need)
			}
		}
	}
	for o, members := range x.owners {
		slices.SortFunc(members, func(a, b int32) int { return cmp.Compare(t.RankOf[a], t.RankOf[b]) })
		x.owners[o] = slices.Compact(members)
	}
}

// namedProfiles says, by profile, whether a reservation names it: by its fingerprint without Same.
func (x *Store) namedProfiles() []bool {
	t := &x.t
	named := alloc.Make[bool](t.Arena, int(t.Snapshot.Demand.ProfileIDMax()))
	for id := range named {
		profile := t.Snapshot.Demand.Profile(uint32(id))
		named[id] = profile != nil && x.fingerprints[profile.WithoutSame().Fingerprint()]
	}
	return named
}
