package order

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// Whether a Same-row folds depends also on the machines of its cluster that carry its stamp or are held
// for it. A machine that serves it only in part has begun a gang: the row does not fold. A machine that
// is being created or drained for it, or for its fold, may hold it whole: that speaks for folding.

// foldProfiles memoizes which profiles have a Same requirement, and what their folds are.
type foldProfiles struct {
	numbers map[string]uint32
	list    []foldProfile // by profile
}

// foldProfile is what folding needs to know about a profile.
type foldProfile struct {
	has      int8   // 1 = has Same, −1 = has none, 0 = unknown
	known    bool   // the fields below are filled
	number   uint32 // number of the fold's profile; profiles that fold alike share it
	Plain    uint32 // 1 + the fold's profile in the demand, if some row has it; 0 = none
	matcher  uint32 // the fold's matcher, which decides on classes alone
	Stamp    uint64 // fingerprint in the stamps of the row's machines
	foldsOwn uint64 // fingerprint in the stamps of the fold's machines
	owner    uint64 // fingerprint of the owner in reservations: without Same
}

func (x *foldProfiles) reset(profiles int) {
	if x.numbers == nil {
		x.numbers = map[string]uint32{}
	}
	clear(x.numbers)
	x.list = reuse.Resize(x.list, profiles)
}

// same reports whether a profile has a Same requirement.
func (x *foldProfiles) same(p *Pass, profile uint32) bool {
	e := &x.list[profile]
	if e.has == 0 {
		e.has = -1
		if p.Snap.Demand.Profile(profile).Same() != nil {
			e.has = 1
		}
	}
	return e.has == 1
}

// of returns what a profile with Same folds to.
func (x *foldProfiles) of(p *Pass, profile uint32) *foldProfile {
	e := &x.list[profile]
	if !e.known {
		full := p.Snap.Demand.Profile(profile)
		fold := full.Folded()
		id, ok := x.numbers[fold.Canonical()]
		if !ok {
			id = uint32(len(x.numbers)) + 1
			x.numbers[fold.Canonical()] = id
		}
		e.known, e.number, e.matcher = true, id, p.Snap.Supply.Matcher(fold)
		if id, ok := p.Snap.Demand.ProfileID(fold); ok {
			e.Plain = id + 1
		}
		e.Stamp, e.foldsOwn, e.owner = full.Fingerprint(), fold.Fingerprint(), full.WithoutSame().Fingerprint()
	}
	return e
}

// ProfileOf returns what a profile with Same folds to.
func (f *Folder) ProfileOf(profile uint32) *foldProfile { return f.profiles.of(f.p, profile) }

// heldForFold is an Idle or draining machine that is held for an owner, which may be a Same-row or a
// fold.
type heldForFold struct {
	fingerprint uint64
	group       uint32 // the demand's number of the group
	class       uint32
	draining    bool
}

// findHeldForFolds lists, by cluster, the machines that are held for Same-rows and folds, and marks the
// clusters where that list differs from the last cycle (by an order-independent hash).
func (p *Pass) findHeldForFolds() {
	p.findDeciding()
	st, s := p.st, p.Snap
	p.folding.foldHeldOff = nil
	type holds struct {
		cluster int32
		heldForFold
	}
	var list []holds
	sums := alloc.Make[uint64](p.Arena, len(s.Clusters))
	if s.Supply.ReservationCount() > 0 && p.folding.anySame {
		for r, res := range s.Supply.Reservations() {
			state := s.View.State[r]
			if state != model.Idle && state != model.Draining || !p.MayHold(r, &res) {
				continue
			}
			c := s.ClusterByName(res.Owner.Cluster)
			group, known := s.Demand.GroupID(res.Owner.Group)
			if c < 0 || !known {
				continue
			}
			x := holds{c, heldForFold{res.Owner.Fingerprint, group, s.View.Class[r], state == model.Draining}}
			list = alloc.Append(p.Arena, list, x)
			sums[c] += heldHash(&res.Owner, x.class, x.draining)
		}
	}
	for c := range st.Clusters {
		x := &st.Clusters[c]
		x.Fold.HeldMoved = x.Fold.Held != sums[c]
		x.Fold.Held = sums[c]
	}
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b holds) int { return cmp.Compare(a.cluster, b.cluster) })
	p.folding.foldHeldOff = alloc.Make[uint32](p.Arena, len(s.Clusters)+1)
	p.folding.foldHeld = alloc.MakeDirty[heldForFold](p.Arena, len(list))
	for i := range list {
		p.folding.foldHeldOff[list[i].cluster+1]++
		p.folding.foldHeld[i] = list[i].heldForFold
	}
	for c := range s.Clusters {
		p.folding.foldHeldOff[c+1] += p.folding.foldHeldOff[c]
	}
}

// heldHash hashes what folding looks at of a held machine: owner, class, draining.
func heldHash(o *model.Owner, class uint32, draining bool) uint64 {
	group := plan.Hash(plan.HashStart)
	for i := range len(o.Group) {
		group.Add(uint64(o.Group[i]))
	}
	h := uint64(group) ^ bits.RotateLeft64(o.Fingerprint, 17) ^ uint64(class)<<1
	if draining {
		h ^= 1
	}
	h *= exact.Mixer
	return (h ^ h>>29) * exact.Mixer
}

// stamped stands for all machines of a class that carry one stamp, or that are held for one owner, in
// one state.
type stamped struct {
	fingerprint uint64
	group       uint32 // a stamp's group: the supply's number; an owner's group: the demand's
	class       uint32
	how         stampedHow
	next        int32 // 1 + the next of the chain; 0 = none
}

type stampedHow uint8

const (
	isBound    stampedHow = iota // Configured or Configuring, with this stamp
	isCreating                   // Creating, with this stamp
	isIdle                       // Idle and held for this owner
	isDraining                   // draining and held for this owner
)

// begunIndex is a hash table of the machines of the cluster at work, by stamp or by owner.
type begunIndex struct {
	listed bool
	heads  []int32 // by hash: 1 + the head of the chain; 0 = none
	list   []stamped
}

func (x *begunIndex) head(fingerprint uint64, group uint32, held bool) *int32 {
	h := fingerprint ^ uint64(group)*0xd6e8feb86659fd93
	if held {
		h = ^h
	}
	return &x.heads[h*exact.Mixer>>32&uint64(len(x.heads)-1)]
}

// add adds a machine; of equal ones it keeps one.
func (x *begunIndex) add(m stamped) {
	head := x.head(m.fingerprint, m.group, m.how >= isIdle)
	for at := *head; at != 0; at = x.list[at-1].next {
		if o := &x.list[at-1]; o.fingerprint == m.fingerprint && o.group == m.group && o.class == m.class && o.how == m.how {
			return
		}
	}
	m.next = *head
	x.list = append(x.list, m)
	*head = int32(len(x.list))
}

// held returns the machines that are held for Same-rows and folds of the cluster at work.
func (f *Folder) held() []heldForFold {
	if f.p.folding.foldHeldOff == nil {
		return nil
	}
	return f.p.folding.foldHeld[f.p.folding.foldHeldOff[f.c]:f.p.folding.foldHeldOff[f.c+1]]
}

// index fills begunIndex for the cluster at work.
func (f *Folder) index(state *cycle.ClusterState) {
	x, s := &f.begun, f.p.Snap
	bound, creating := s.BoundOf(int(f.c)), s.CreatingFrom(int(f.c))
	held := f.held()
	state.Stamps, state.StampsKnown = cycle.StampFilter{}, true
	x.listed, x.list = true, x.list[:0]
	x.heads = reuse.Resize(x.heads, 1<<bits.Len(uint(len(bound)+len(held))))
	for i := range bound {
		if b := &bound[i]; b.Fingerprint != 0 {
			how := isBound
			if i >= creating {
				how = isCreating
			}
			state.Stamps.Add(b.Fingerprint)
			x.add(stamped{b.Fingerprint, b.Group, b.Class, how, 0})
		}
	}
	for _, m := range held {
		how := isIdle
		if m.draining {
			how = isDraining
		}
		x.add(stamped{m.fingerprint, m.group, m.class, how, 0})
	}
}

// any reports whether some machine with a stamp (held: for an owner) passes a test.
func (x *begunIndex) any(fingerprint uint64, group uint32, held bool, test func(*stamped) bool) bool {
	for at := *x.head(fingerprint, group, held); at != 0; at = x.list[at-1].next {
		m := &x.list[at-1]
		if m.fingerprint == fingerprint && m.group == group && (m.how >= isIdle) == held && test(m) {
			return true
		}
	}
	return false
}

// noteStamps adds the stamps of the changed machines of the cluster at work to the filter of stamps,
// and reports whether Same-rows that have not changed may fold otherwise because of these machines:
// one has the stamp of a Same-row; or it may be that no other machine holds a row whole;
// or what machines are on their way decides whether a row folds.
func (f *Folder) noteStamps(x *cycle.ClusterState) (mayRefold bool) {
	for _, m := range f.p.MovesOf(int(f.c)) {
		mayRefold = mayRefold || x.Fold.Unsettled || f.p.folding.decides[m.Class]
		if m.How != cycle.Left {
			fingerprint := f.p.Snap.View.Fingerprint(m.Row)
			x.Stamps.Add(fingerprint)
			mayRefold = mayRefold || f.p.folding.sameStamps.May(fingerprint)
		}
	}
	return mayRefold
}

// foldable reports whether a Same-row of the cluster at work needs no co-location: one machine could
// hold it whole, and no machine has begun it as a gang. With AcquireFit it also has such a machine, or is
// not cheaper in parts.
func (f *Folder) foldable(state *cycle.ClusterState, row int) bool {
	profile, aggregate := f.block.Profile(row), f.block.AggregateIDs()[row]
	says := f.supplySays(profile, aggregate)
	inParts := says != neverFits && f.p.Opts.Acquire == plan.AcquireFit && f.isCheaperInParts(profile, aggregate, f.block.UnitIDs()[row])
	folds := says != neverFits && f.foldsWith(state, row, says, inParts)
	state.Fold.Unsettled = state.Fold.Unsettled || !folds || inParts || says == fitsNot
	return folds
}

// foldsWith is foldable, given what supply says, and whether the row is cheaper in parts.
func (f *Folder) foldsWith(state *cycle.ClusterState, row int, says int32, inParts bool) bool {
	p, b := f.p, f.block
	profile, aggregate := b.Profile(row), b.AggregateIDs()[row]
	x := f.profiles.of(p, profile)
	if says == fitsOne && f.hasNone(state, x, inParts) {
		return !inParts
	}
	if !f.begun.listed {
		f.index(state)
	}
	if len(f.begun.list) == 0 {
		return says == fitsOne && !inParts
	}
	want, unit := p.Snap.Demand.Vector(aggregate), p.Snap.Demand.Vector(b.UnitIDs()[row])
	named := b.GroupID(row)
	group := f.nameOf(named)
	holds := func(m *stamped) bool {
		return columnar.Covers(p.Vector(m.class), want) && p.Snap.Classes[m.class].Matches(x.matcher)
	}
	comes := func(m *stamped) bool { return (m.how == isCreating || m.how == isDraining) && holds(m) }
	if says == fitsNot && !f.begun.anyOf(x, group, named, comes) || inParts && !f.begun.anyOf(x, group, named, holds) {
		return false
	}
	mask := cycle.PositiveDims(want)
	begins := func(m *stamped) bool {
		v := p.Vector(m.class)
		return p.ClassMask[m.class]&mask != 0 && columnar.Covers(v, unit) && !columnar.Covers(v, want) && p.Snap.Classes[m.class].Matches(x.matcher)
	}
	return !f.begun.any(x.Stamp, group, false, begins) && !f.begun.any(x.owner, named, true, begins)
}

// hasNone reports that no machine of the cluster at work carries the stamp of a row or, if that matters, its fold, and none is held.
func (f *Folder) hasNone(state *cycle.ClusterState, row *foldProfile, folds bool) bool {
	x := &state.Stamps
	return state.StampsKnown && !x.May(row.Stamp) && (!folds || !x.May(row.foldsOwn)) && len(f.held()) == 0
}

// anyOf reports whether some machine that carries the stamp of a row or its fold, or is held for either, passes a test. group and
// named are the supply's and the demand's number of the row's group.
func (x *begunIndex) anyOf(row *foldProfile, group, named uint32, test func(*stamped) bool) bool {
	return x.any(row.Stamp, group, false, test) || x.any(row.foldsOwn, 0, false, test) ||
		x.any(row.owner, named, true, test) || x.any(row.foldsOwn, 0, true, test)
}

// nameOf translates the demand's number of a group to the supply's.
func (f *Folder) nameOf(group uint32) uint32 {
	if group == 0 {
		return 0
	}
	return f.Groups.Number(f.p.Snap, group)
}

// listCreated lists the machines that are being created for members of the folds of the cluster at
// work.
func (f *Folder) listCreated(x *cycle.ClusterState) {
	x.Fold.Created = x.Fold.Created[:0]
	s := f.p.Snap
	coming := s.BoundOf(int(f.c))[s.CreatingFrom(int(f.c)):]
	if len(coming) == 0 || !x.Fold.HasSame {
		return
	}
	lines := f.p.Lines[f.base:][:f.block.Len()]
	stamps := uint64(0)
	for i := range coming {
		stamps |= 1 << cycle.StampHash(coming[i].Fingerprint, coming[i].Group)
	}
	for row := range lines {
		if lines[row].Status&(state.IsFold|state.IsMember) == 0 {
			continue
		}
		stamp, group := f.profiles.of(f.p, f.block.Profile(row)).Stamp, f.nameOf(f.block.GroupID(row))
		if stamps>>cycle.StampHash(stamp, group)&1 == 0 {
			continue
		}
		for i := range coming {
			if coming[i].Fingerprint == stamp && coming[i].Group == group {
				x.Fold.Created = append(x.Fold.Created, cycle.CreatedFor{Row: coming[i].Row, Need: f.p.NeedOf(f.base + int32(row))})
			}
		}
	}
	slices.SortFunc(x.Fold.Created, compareCreated)
	x.Fold.Created = slices.Compact(x.Fold.Created)
}

func compareCreated(a, b cycle.CreatedFor) int {
	return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Need, b.Need))
}

// IsCreatedFor reports whether a machine is being created for a member of the fold that the Need is.
// O(log n).
func (p *Pass) IsCreatedFor(r columnar.Row, need int32) bool {
	n := &p.Lines[need]
	if !n.Is(state.IsFold) {
		return false
	}
	_, found := slices.BinarySearchFunc(p.st.Clusters[p.ClusterOf(need)].Fold.Created, cycle.CreatedFor{Row: r, Need: need}, compareCreated)
	return found
}
