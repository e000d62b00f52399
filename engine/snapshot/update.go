package snapshot

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// entering is what an update puts into lists.
type entering struct {
	// Classes and places in the list's order above each other.
	idle, speculative []uint64
	bound             []arrival
	dealt             []columnar.Row // of these the machines, by cluster

	idleDirty, speculativeDirty, clustersDirty bool
}

func (e *entering) reset() {
	*e = entering{idle: e.idle[:0], speculative: e.speculative[:0], bound: e.bound[:0], dealt: e.dealt}
}

// When more than one row in updateShare has changed, and more than updateMin,
// everything is built anew.
const (
	updateShare = 8
	updateMin   = 64
)

// goesOn reports whether the tables are those of the Build before, with the
// same dimensions and clusters with demand, and there is room for what has been
// added to them.
func (b *Builder) goesOn(s *supply.Table, d *demand.Table) bool {
	x := &b.snap
	return b.ready && s == x.Supply && d == x.Demand &&
		slices.Equal(d.Dims(), x.Dims[:b.demandDims]) && b.sameDemand(d.Clusters()) &&
		s.RowMax() <= cap(b.was) && s.ClassMax() <= cap(x.Usable) && s.NameIDMax() <= cap(x.ClusterOf)
}

// sameDemand reports whether these are the clusters that had demand.
func (b *Builder) sameDemand(clusters []string) bool {
	at := 0
	for c, in := range b.inDemand {
		if !in {
			continue
		}
		if at == len(clusters) || clusters[at] != b.snap.Clusters[c] {
			return false
		}
		at++
	}
	return at == len(clusters)
}

// update brings the snapshot up to date with the rows that have changed. It
// returns false when that is not possible; the snapshot is broken then.
func (b *Builder) update(rows []columnar.Row) bool {
	s := &b.snap
	if len(rows) > max(s.Supply.RowMax()/updateShare, updateMin) {
		return false
	}
	b.ready = false
	s.View, s.Order, s.Fresh = s.Supply.View(), s.Supply.Order(), false
	b.entering.reset()
	if s.Supply.NameSequence() != b.names {
		b.numberClusters()
	}
	if s.Supply.Membership() != b.membership {
		b.rank(rows)
	}
	s.ClassesChanged = !b.sameClasses()
	if s.ClassesChanged {
		b.refreshClasses()
	}
	rows = b.mark(rows)
	b.leave(rows)
	done := b.enterAll(rows) && b.sameClusters() && b.makeRoom()
	if done {
		b.patchFree()
		if b.entering.clustersDirty {
			b.eachCluster(false)
		}
		b.useClasses()
	}
	for _, r := range rows {
		b.changed.Clear(uint32(r))
	}
	return done
}

// refreshClasses describes the classes anew, in the room that there is.
func (b *Builder) refreshClasses() {
	s := &b.snap
	n := s.Supply.ClassMax()
	b.describeClasses()
	s.Usable, b.unusable = s.Usable[:n], b.unusable[:n]
	s.FreeDirty = s.FreeDirty[:n]
}

// mark makes a set of the rows that have changed, and returns them in ascending order.
func (b *Builder) mark(rows []columnar.Row) []columnar.Row {
	b.changed.Grow(b.snap.Supply.RowMax())
	for _, r := range rows {
		b.changed.Set(uint32(r))
	}
	b.moveOf.Assign(&b.changed)
	b.scratch.rows = b.scratch.rows[:0]
	if len(rows) < len(b.changed.Words()) {
		b.scratch.rows = append(b.scratch.rows, rows...)
		slices.Sort(b.scratch.rows)
		return b.scratch.rows
	}
	for r := range b.changed.All() {
		b.scratch.rows = append(b.scratch.rows, columnar.Row(r))
	}
	return b.scratch.rows
}

// leave takes the changed rows out of what is counted, and finds the lists that
// they leave.
func (b *Builder) leave(rows []columnar.Row) {
	s, e := &b.snap, &b.entering
	clear(s.Dirty)
	clear(s.FreeDirty)
	s.Moves = s.Moves[:0]
	out := b.lists.out
	clear(out)
	for _, r := range rows {
		i := b.was[r] &^ placeKind
		m := Move{Row: r, To: -1}
		m.From, m.Was = listed(b.was[r])
		switch b.was[r] & placeKind {
		case inIdle:
			s.FreeDirty[i], e.idleDirty = true, true
		case inSpeculative:
			s.FreeDirty[i], e.speculativeDirty = true, true
		case inCluster:
			c := i &^ (asCreating | asConfiguring)
			s.Dirty[c], e.clustersDirty = true, true
			if out[c]++; i&asCreating == 0 {
				b.machines[c]--
			}
		}
		b.was[r] = 0
		s.Moves = append(s.Moves, m)
	}
	kept := b.others[:0]
	for i := range b.others {
		x := b.others[i]
		if b.changed.Has(uint32(x.row)) {
			b.countOther(&x, ^uint32(0))
			continue
		}
		kept = append(kept, x)
	}
	b.others = kept
}

// listed returns the cluster in whose list a place is, −1 = in none, and the state of a machine there.
func listed(at place) (cluster int32, state model.State) {
	switch {
	case at&placeKind != inCluster:
		return -1, model.StateUnspecified
	case at&asCreating != 0:
		state = model.Creating
	case at&asConfiguring != 0:
		state = model.Configuring
	default:
		state = model.Configured
	}
	return int32(at &^ (placeKind | asCreating | asConfiguring)), state
}

// enterAll finds out where the changed rows belong now; false when one names a
// cluster that is not known.
func (b *Builder) enterAll(rows []columnar.Row) bool {
	e := &b.entering
	for i, r := range rows {
		if !b.enter(r) {
			return false
		}
		m := &b.snap.Moves[i]
		m.To, m.Is = listed(b.was[r])
	}
	slices.Sort(e.idle)
	slices.Sort(e.speculative)
	b.dealArrivals()
	for i := range e.bound {
		b.snap.Dirty[e.bound[i].cluster], e.clustersDirty = true, true
	}
	return true
}

func (b *Builder) enter(r columnar.Row) bool {
	s, v, e := &b.snap, &b.snap.View, &b.entering
	state, class := v.State[r], v.Class[r]
	if state == model.StateUnspecified {
		s.Keep[r] = 0
		return true
	}
	s.Keep[r] = keepOf(v.Reclamation[r], s.Keep[r]&rankMask)
	cluster := s.ClusterOf[v.Cluster[r]]
	if cluster < 0 && v.Cluster[r] != 0 {
		return false
	}
	if state == model.Idle && s.Supply.IsLateBound(r) {
		state = model.Speculative
	}
	switch state {
	case model.Idle:
		e.idle = append(e.idle, uint64(class)<<32|uint64(s.Keep[r]))
		b.was[r], s.FreeDirty[class], e.idleDirty = inIdle|class, true, true
	case model.Speculative:
		e.speculative = append(e.speculative, uint64(class)<<32|uint64(s.Keep[r]&rankMask))
		b.was[r], s.FreeDirty[class], e.speculativeDirty = inSpeculative|class, true, true
	case model.Configured, model.Configuring:
		if s.Supply.Departs(r) {
			break
		}
		if cluster >= 0 {
			e.bound = append(e.bound, arrival{r, uint32(cluster)})
			b.was[r] = boundAs(state, cluster)
			b.machines[cluster]++
		}
		return true
	case model.Creating:
		n := len(e.bound)
		if b.enterCreating(r); len(e.bound) > n {
			b.was[r] = inCluster | asCreating | e.bound[n].cluster
		}
	}
	if x, ok := b.otherOf(r); ok {
		x.cluster = cluster
		b.countOther(&x, 1)
		b.others = append(b.others, x)
	}
	return true
}

// sameClusters reports whether each cluster still has demand or is named by a
// machine.
func (b *Builder) sameClusters() bool {
	for c, n := range b.machines {
		if n == 0 && !b.inDemand[c] {
			return false
		}
	}
	return true
}
