package engine

import (
	"cmp"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// reservations resolves, once per cycle, for whom machines are held. A live
// reservation is one whose owner is in the demand, or may yet be because its
// cluster has not reported; it has not passed its deadline, unless the machine
// is still draining, which stops the clock. The machines of a plan are held for
// as long as one of them is.
type reservations struct {
	// members are, by live reserved machine, the needs that own it, by rank:
	// several rows may agree in cluster, profile and group. Empty = the owner's
	// cluster has not reported.
	members map[columnar.Row][]int32
	// rows are each need's machines in keep order; needs of one owner may share them.
	rows map[int32][]columnar.Row
	// blocks say from which place in the order on an Idle machine is no
	// longer a candidate for others; ascending.
	blocks []block
	lower  lowerHeld // the Idle ones
	// plans says that some are part of a plan of preemption; voided are those that
	// have ended in this pass, with their members. See gang_void.go.
	plans bool
	// breakable says that others may take an Idle machine of several that are held for
	// one owner: what ends with it is there for who has his turn next. inOrder says that
	// turns hang on what others have claimed of what is held.
	breakable, inOrder bool
	voided             map[columnar.Row][]int32
	// drains are, by need, those of the voided that still drain.
	drains map[int32][]columnar.Row
	rankOf []int32
}

// holding is what is held for one owner. Rows that are equal but for their number have
// one owner, and there may be very many of either: what is held is listed once for all.
type holding struct {
	owner   model.Owner
	members []int32        // the needs that own it, by rank
	rows    []columnar.Row // live, in keep order
	// ofPlan says that some are part of a plan, leaves that some of these are
	// Configured for another cluster than the owner's.
	ofPlan, leaves bool
	end            PlanEnd // why its reservations have ended in this pass
}

// reservationStore is the memory of reservations and of what they are found with.
type reservationStore struct {
	members  map[columnar.Row][]int32
	rows     map[int32][]columnar.Row
	blocks   []block
	keeps    []keepRank
	late     map[columnar.Row]lateness
	holdings []holding
	at       map[model.Owner]int32 // of holdings
	mixed    []int32               // needs of several owners
	// What is named by any reservation.
	wanted       map[model.Owner]bool
	clusters     map[string]bool
	fingerprints map[uint64]bool
	owners       map[model.Owner][]int32 // the needs of each
	standing     map[model.Owner]bool    // whose plans have some machine that has not passed its deadline
	voided       map[columnar.Row][]int32
	drains       map[int32][]columnar.Row
	fates        map[model.Owner]planFate // of plans of earlier cycles
}

// begin empties the store.
func (x *reservationStore) begin() {
	if x.members == nil {
		*x = reservationStore{
			members: map[columnar.Row][]int32{}, late: map[columnar.Row]lateness{}, rows: map[int32][]columnar.Row{}, at: map[model.Owner]int32{}, wanted: map[model.Owner]bool{},
			clusters: map[string]bool{}, fingerprints: map[uint64]bool{}, owners: map[model.Owner][]int32{}, standing: map[model.Owner]bool{},
			fates: map[model.Owner]planFate{},
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

type block struct {
	from int32
	row  columnar.Row
}

// beginReservations makes ready for what asks whether reservations hold.
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

// holdingOf returns what is held for an owner, to be added to.
func (x *reservationStore) holdingOf(owner *model.Owner, members []int32) *holding {
	at, known := x.at[*owner]
	if !known {
		at = int32(len(x.holdings))
		x.at[*owner] = at
		x.holdings = append(x.holdings, holding{owner: *owner, members: members})
	}
	return &x.holdings[at]
}

// dealHoldings tells each need what is held for it. A fold may answer to the names of all
// its rows, and has a list of its own then.
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

// clusterByName returns the index of a cluster, −1 when it is not known.
func (p *pass) clusterByName(name string) int32 {
	if at, ok := slices.BinarySearch(p.s.Clusters, name); ok {
		return int32(at)
	}
	return -1
}

func (p *pass) sortKeep(rows []columnar.Row) {
	slices.SortFunc(rows, func(a, b columnar.Row) int { return cmp.Compare(p.s.KeepKey(a), p.s.KeepKey(b)) })
}

// mayHold reports whether a reservation holds as far as its machine goes, and the
// others of its plan.
func (p *pass) mayHold(r columnar.Row, res *model.Reservation) bool {
	switch p.s.View.State[r] {
	case model.Draining:
		return true
	case model.Idle, model.Configured, model.Creating:
		return res.Deadline == 0 || p.s.Now <= res.Deadline || p.ofPlan(res) && p.e.store.reserved.standing[res.Owner]
	}
	return false
}

// findStanding finds the owners for whose plans some machine is held for its own sake,
// where a machine of any plan is past its deadline. All plans of an owner are one,
// whatever their ids: what it planned in one cycle adds to what it had planned before.
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

// heldFrom returns the place in the order from which on others do not see the
// machine: right after its first owner, or, before the owner's cluster has
// reported, after the last need that ranks above the record. What a tenant's
// plan holds is lost to higher priority alone: else whoever gave it, and ranks
// above the owner by age or penalties, takes it back.
func (p *pass) heldFrom(res model.Reservation, members []int32) int32 {
	if p.tenancy.holds(&res) {
		priority := res.Priority
		if len(members) > 0 {
			priority = p.kindOf(members[0]).priority
		}
		return int32(sort.Search(len(p.order), func(i int) bool { return p.kindOf(p.order[i]).priority <= priority }))
	}
	if len(members) > 0 {
		return p.rankOf[members[0]] + 1
	}
	return int32(p.firstNotAbove(&res))
}

// findOwnersNamed finds the needs of each owner that a reservation names, by rank.
// A row that is part of a fold stands for the fold, which answers to its own name too.
func (p *pass) findOwnersNamed(x *reservationStore) {
	for _, res := range p.s.Supply.Reservations() {
		x.wanted[res.Owner], x.clusters[res.Owner.Cluster], x.fingerprints[res.Owner.Fingerprint] = true, true, true
	}
	named := p.namedProfiles(x.fingerprints)
	for c := range p.sources {
		b := p.sources[c].block
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
				x.owners[o] = alloc.Append(p.e.arena, x.owners[o], p.needOf(p.sources[c].base+int32(row)))
			}
		}
	}
	for worker, folds := range p.e.store.folds {
		for i := range folds.made {
			need := folds.made[i].row
			n := &p.lines[need]
			if src := &p.sources[n.cluster]; !n.is(isFold) || n.group != uint32(worker<<foldBits|i) || int(need-src.base) >= src.rows {
				continue // the cluster has been folded anew since, or has no such row any more
			}
			o := model.Owner{Cluster: p.s.Clusters[p.lines[need].cluster], Fingerprint: p.kindOf(need).fingerprint}
			if x.wanted[o] {
				x.owners[o] = alloc.Append(p.e.arena, x.owners[o], need)
			}
		}
	}
	for o, members := range x.owners {
		slices.SortFunc(members, func(a, b int32) int { return cmp.Compare(p.rankOf[a], p.rankOf[b]) })
		x.owners[o] = slices.Compact(members)
	}
}

// namedProfiles tells, by profile, whether one of some fingerprints is its own
// without Same.
func (p *pass) namedProfiles(fingerprints map[uint64]bool) []bool {
	named := alloc.Make[bool](p.e.arena, int(p.s.Demand.ProfileIDMax()))
	for id := range named {
		profile := p.s.Demand.Profile(uint32(id))
		named[id] = profile != nil && fingerprints[profile.WithoutSame().Fingerprint()]
	}
	return named
}

// blockUpTo withdraws, before the turn of the need in a place of the order,
// what is reserved for those ranked above it.
func (l *worker) blockUpTo(rank int32) {
	blocks := l.reserved.blocks
	for l.nextBlock < len(blocks) && blocks[l.nextBlock].from <= rank {
		if r := blocks[l.nextBlock].row; l.has(l.s.View.Class[r]) && l.reserved.live(r) {
			l.take(r)
			l.undone = append(l.undone, r)
		}
		l.nextBlock++
	}
}

// live reports whether a machine is held for somebody.
func (x *reservations) live(r columnar.Row) bool {
	if len(x.members) == 0 {
		return false
	}
	_, ok := x.members[r]
	return ok
}

// isVoided reports whether what a machine was held for has ended in this pass.
func (x *reservations) isVoided(r columnar.Row) bool {
	_, void := x.voided[r]
	return void
}

// ownedBy reports whether a machine is held for this need.
func (x *reservations) ownedBy(r columnar.Row, need int32) bool {
	if len(x.members) == 0 {
		return false
	}
	_, owns := slices.BinarySearchFunc(x.members[r], x.rankOf[need], func(n, rank int32) int { return cmp.Compare(x.rankOf[n], rank) })
	return owns
}

// of returns what is held for a need, in keep order.
func (x *reservations) of(need int32) []columnar.Row {
	if len(x.rows) == 0 {
		return nil
	}
	return x.rows[need]
}

// had reports whether anything was held for a need when the cycle began.
func (x *reservations) had(need int32) bool {
	_, ok := x.rows[need]
	return ok
}

// has reports whether anything is held for a need.
func (x *reservations) has(need int32) bool { return len(x.of(need)) > 0 }
