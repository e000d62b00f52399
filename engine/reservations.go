package engine

import (
	"cmp"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/model"
)

// reservations says, for one cycle, which machines are held for which Needs. A reservation is live if
// its owner is in the demand, or may be because its cluster has not reported yet, and its deadline has
// not passed. Draining stops the clock: a draining machine has no deadline. The machines of a plan are
// held for as long as one of them is.
type reservations struct {
	// members are, by machine with a live reservation, the Needs that own it, in rank order. An owner
	// is a cluster, a profile without Same and a group; several rows may share it. Empty = its cluster
	// has not reported.
	members map[columnar.Row][]int32
	// rows are, by Need, the machines held for it, in keep order. Needs of one owner may share a slice.
	rows map[int32][]columnar.Row
	// blocks say, by Idle machine, the first place in the order that it is withdrawn from; ascending.
	blocks []block
	lower  lowerHeld // the held Idle machines, as candidates for higher ranks
	// plans says that some machines are held by a plan of preemption. voided are the machines whose
	// reservations have ended in this pass, with their members. See reservations_void.go.
	plans bool
	// breakable says that a Need of higher rank may take an Idle machine of several that are held for
	// one owner. That voids the reservations of the others, which are free for the very next turn.
	// inOrder says that turns depend on claims of held machines, so that all turns must run in rank
	// order on one worker.
	breakable, inOrder bool
	voided             map[columnar.Row][]int32
	// drains are, by Need, the voided machines that still drain. passing are all of these that no plan
	// has been offered yet, and next is the least rank after whose turn one of them will be.
	drains  map[int32][]columnar.Row
	passing []columnar.Row
	next    int32
	rankOf  []int32
}

// holding is what is held for one owner. Very many equal rows may share one owner, so it is listed once
// for all of them.
type holding struct {
	owner   model.Owner
	members []int32        // the Needs that own it, in rank order
	rows    []columnar.Row // live, in keep order
	// ofPlan says that a plan holds some of the machines, leaves that some of these are still
	// Configured for a cluster other than the owner's.
	ofPlan, leaves bool
	end            PlanEnd // why its reservations have ended in this pass
}

// reservationStore keeps the memory of reservations, and what they are computed with.
type reservationStore struct {
	members  map[columnar.Row][]int32
	rows     map[int32][]columnar.Row
	blocks   []block
	keeps    []keepRank
	late     map[columnar.Row]lateness
	holdings []holding
	at       map[model.Owner]int32 // of holdings
	mixed    []int32               // Needs with several owners
	// The names that occur in reservations.
	wanted       map[model.Owner]bool
	clusters     map[string]bool
	fingerprints map[uint64]bool
	owners       map[model.Owner][]int32 // the Needs of each owner
	standing     map[model.Owner]bool    // owners of whose plans some machine has not passed its deadline
	voided       map[columnar.Row][]int32
	drains       map[int32][]columnar.Row
	fates        map[model.Owner]plan.Fate // of plans of earlier cycles
}

// begin empties the store.
func (x *reservationStore) begin() {
	if x.members == nil {
		*x = reservationStore{
			members: map[columnar.Row][]int32{}, late: map[columnar.Row]lateness{}, rows: map[int32][]columnar.Row{}, at: map[model.Owner]int32{}, wanted: map[model.Owner]bool{},
			clusters: map[string]bool{}, fingerprints: map[uint64]bool{}, owners: map[model.Owner][]int32{}, standing: map[model.Owner]bool{},
			fates: map[model.Owner]plan.Fate{},
		}
		return
	}
	clear(x.members)
	clear(x.rows)
	clear(x.late)
	clear(x.holdings)
	x.holdings, x.mixed = x.holdings[:0], x.mixed[:0]
	clear(x.at)
	clear(x.wanted)
	clear(x.clusters)
	clear(x.fingerprints)
	clear(x.owners)
	clear(x.standing)
}

// block withdraws an Idle machine from all Needs at place from in the order, and below.
type block struct {
	from int32
	row  columnar.Row
}

// beginReservations prepares mayHold.
func (p *pass) beginReservations() {
	if p.s.Supply.ReservationCount() > 0 {
		st := &p.e.store.reserved
		st.begin()
		p.findStanding(st)
	}
}

// indexReservations finds the live reservations and their owners.
func (p *pass) indexReservations() reservations {
	p.forgetPlans()
	if p.s.Supply.ReservationCount() == 0 {
		return reservations{}
	}
	st := &p.e.store.reserved
	x := reservations{members: st.members, rows: st.rows, blocks: st.blocks[:0], rankOf: p.rankOf}
	p.findOwnersNamed(st)
	st.keeps = st.keeps[:0]
	for r, res := range p.s.Supply.Reservations() {
		if !p.mayHold(r, &res) {
			continue
		}
		members := st.owners[res.Owner]
		if len(members) == 0 && p.s.Demand.Reported(res.Owner.Cluster) {
			continue
		}
		x.members[r] = members
		h := st.holdingOf(&res.Owner, members)
		h.rows = alloc.Append(p.e.arena, h.rows, r)
		p.notePlan(&x, h, r, &res)
		if p.s.View.State[r] == model.Idle {
			x.blocks = append(x.blocks, block{p.heldFrom(res, members), r})
			st.keeps = append(st.keeps, keepRank{r, p.placeOfHold(&res, members)})
		}
	}
	p.dealHoldings(&x, st)
	slices.SortFunc(x.blocks, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.row, b.row))
	})
	st.blocks = x.blocks
	if len(st.keeps) > 0 {
		x.lower = p.listLower(st.keeps)
	}
	return x
}

// holdingOf returns the holding of an owner, adding it if it is new.
func (x *reservationStore) holdingOf(owner *model.Owner, members []int32) *holding {
	at, known := x.at[*owner]
	if !known {
		at = int32(len(x.holdings))
		x.at[*owner] = at
		x.holdings = append(x.holdings, holding{owner: *owner, members: members})
	}
	return &x.holdings[at]
}

// dealHoldings fills rows. A fold may answer to the names of all its rows: then it gets a merged list
// of its own.
func (p *pass) dealHoldings(all *reservations, x *reservationStore) {
	for i := range x.holdings {
		h := &x.holdings[i]
		p.sortKeep(h.rows)
		h.rows = slices.Clip(h.rows)
		p.noteOwners(all, h)
		for _, n := range h.members {
			rows, has := x.rows[n]
			if !has {
				x.rows[n] = h.rows
				continue
			}
			for _, r := range h.rows {
				rows = alloc.Append(p.e.arena, rows, r)
			}
			x.rows[n] = rows
			x.mixed = append(x.mixed, n)
		}
	}
	slices.Sort(x.mixed)
	for _, n := range slices.Compact(x.mixed) {
		p.sortKeep(x.rows[n])
	}
}

func (fl *fleet) sortKeep(rows []columnar.Row) {
	slices.SortFunc(rows, func(a, b columnar.Row) int { return cmp.Compare(fl.s.KeepKey(a), fl.s.KeepKey(b)) })
}

// mayHold reports whether a reservation is in force as far as its machine, and the other machines of
// its plan, are concerned: state and deadline. It does not look at the owner.
func (p *pass) mayHold(r columnar.Row, res *model.Reservation) bool {
	switch p.s.View.State[r] {
	case model.Draining:
		return true
	case model.Idle, model.Configured, model.Creating:
		return res.Deadline == 0 || p.s.Now <= res.Deadline || p.ofPlan(res) && p.e.store.reserved.standing[res.Owner]
	}
	return false
}

// findStanding finds the owners of plans of which some machine is held in its own right. It is skipped
// unless some machine of a plan is past its deadline. All plans of one owner count as one, whatever
// their ids, since a plan of a later cycle adds to the earlier ones.
func (p *pass) findStanding(st *reservationStore) {
	late := false
	for _, res := range p.s.Supply.Reservations() {
		late = late || p.ofPlan(&res) && res.Deadline != 0 && p.s.Now > res.Deadline
	}
	if !late {
		return
	}
	for r, res := range p.s.Supply.Reservations() {
		if p.ofPlan(&res) && p.mayHold(r, &res) {
			st.standing[res.Owner] = true
		}
	}
}

// heldFrom returns the place in the order from which on a held machine is withdrawn: right after its
// first owner. Before the owner's cluster has reported, it is right after the last Need that ranks
// above the record. What is held by a plan for a tenant yields to higher priority only. Otherwise the
// Need that gave the machine, and ranks above the owner by age or penalties, would take it back.
func (p *pass) heldFrom(res model.Reservation, members []int32) int32 {
	if p.tenants.shares.Holds(&res) {
		priority := res.Priority
		if len(members) > 0 {
			priority = p.kindOf(members[0]).Priority
		}
		return int32(sort.Search(len(p.order), func(i int) bool { return p.kindOf(p.order[i]).Priority <= priority }))
	}
	if len(members) > 0 {
		return p.rankOf[members[0]] + 1
	}
	return int32(p.firstNotAbove(&res))
}

// findOwnersNamed finds the Needs of each owner that a reservation names, in rank order. A row of a
// fold stands for the fold, which answers to its own name too.
func (p *pass) findOwnersNamed(x *reservationStore) {
	for _, res := range p.s.Supply.Reservations() {
		x.wanted[res.Owner], x.clusters[res.Owner.Cluster], x.fingerprints[res.Owner.Fingerprint] = true, true, true
	}
	named := p.namedProfiles(x.fingerprints)
	for c := range p.sources {
		b := p.sources[c].Block
		if b == nil || !x.clusters[b.Cluster()] {
			continue
		}
		for row, id := range b.Profiles() {
			if !named[id] {
				continue
			}
			profile := p.s.Demand.Profile(id)
			o := model.Owner{Cluster: b.Cluster(), Fingerprint: profile.WithoutSame().Fingerprint(), Group: b.Group(row)}
			if x.wanted[o] {
				x.owners[o] = alloc.Append(p.e.arena, x.owners[o], p.needOf(p.sources[c].Base+int32(row)))
			}
		}
	}
	for c, id := range p.s.Clusters {
		if !x.clusters[id] {
			continue
		}
		list := p.e.store.clusters[c].folds.list
		for i := range list {
			if need := list[i].row; list[i].rows > 0 {
				if o := (model.Owner{Cluster: id, Fingerprint: p.kindOf(need).Fingerprint}); x.wanted[o] {
					x.owners[o] = alloc.Append(p.e.arena, x.owners[o], need)
				}
			}
		}
	}
	for o, members := range x.owners {
		slices.SortFunc(members, func(a, b int32) int { return cmp.Compare(p.rankOf[a], p.rankOf[b]) })
		x.owners[o] = slices.Compact(members)
	}
}

// namedProfiles says, by profile, whether a reservation names it: by its fingerprint without Same.
func (p *pass) namedProfiles(fingerprints map[uint64]bool) []bool {
	named := alloc.Make[bool](p.e.arena, int(p.s.Demand.ProfileIDMax()))
	for id := range named {
		profile := p.s.Demand.Profile(uint32(id))
		named[id] = profile != nil && fingerprints[profile.WithoutSame().Fingerprint()]
	}
	return named
}

// blockUpTo withdraws, before the turn of the Need at a place in the order, the machines held for Needs
// that rank above it.
func (l *worker) blockUpTo(rank int32) {
	blocks := l.p.reserved.blocks
	for l.nextBlock < len(blocks) && blocks[l.nextBlock].from <= rank {
		if r := blocks[l.nextBlock].row; l.has(l.p.s.View.Class[r]) && l.p.reserved.live(r) {
			l.take(r)
			l.undone = append(l.undone, r)
		}
		l.nextBlock++
	}
}

// live reports whether a machine is held for an owner.
func (x *reservations) live(r columnar.Row) bool {
	if len(x.members) == 0 {
		return false
	}
	_, ok := x.members[r]
	return ok
}

// isVoided reports whether a machine's reservation has ended in this pass.
func (x *reservations) isVoided(r columnar.Row) bool {
	_, void := x.voided[r]
	return void
}

// ownedBy reports whether a machine is held for this Need. O(log members).
func (x *reservations) ownedBy(r columnar.Row, need int32) bool {
	if len(x.members) == 0 {
		return false
	}
	_, owns := slices.BinarySearchFunc(x.members[r], x.rankOf[need], func(n, rank int32) int { return cmp.Compare(x.rankOf[n], rank) })
	return owns
}

// of returns the machines held for a Need, in keep order.
func (x *reservations) of(need int32) []columnar.Row {
	if len(x.rows) == 0 {
		return nil
	}
	return x.rows[need]
}

// had reports whether anything was held for a Need when the cycle began.
func (x *reservations) had(need int32) bool {
	_, ok := x.rows[need]
	return ok
}

// has reports whether anything is held for a Need.
func (x *reservations) has(need int32) bool { return len(x.of(need)) > 0 }
