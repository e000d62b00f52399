package snapshot

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// tally is what the first walk counts; the lists are laid out from it.
type tally struct {
	idle        []uint32 // by class + 1
	speculative []uint32 // by class + 1
	bound       []uint32 // by name number: Configured and Configuring machines
	named       []uint32 // by name number: machines that have the cluster
}

// count walks over the rows in row order, where the columns are read as they
// lie in memory.
func (b *Builder) count() {
	s, t := &b.snap, &b.tally
	v := &s.View
	classes, names := len(s.Classes), s.Supply.NameIDMax()
	t.idle, t.speculative = alloc.Make[uint32](b.arena, room(classes)+1), alloc.Make[uint32](b.arena, room(classes)+1)
	t.bound, t.named = alloc.Make[uint32](b.arena, names), alloc.Make[uint32](b.arena, names)
	b.others = b.others[:0]
	rows, anyLate := s.Supply.RowMax(), s.Supply.AnyLateBound()
	idle, speculative, bound := t.idle, t.speculative, t.bound
	class, cluster := v.Class[:rows], v.Cluster[:rows]
	for r, state := range v.State[:rows] {
		switch state {
		case model.StateUnspecified:
			continue
		case model.Idle:
			if anyLate && s.Supply.IsLateBound(columnar.Row(r)) {
				speculative[class[r]+1]++
			} else {
				idle[class[r]+1]++
			}
		case model.Speculative:
			speculative[class[r]+1]++
		case model.Configured, model.Configuring:
			bound[cluster[r]]++
			continue
		}
		if cluster[r] == 0 && state != model.Deleting && state != model.Failed {
			continue
		}
		if x, ok := b.otherOf(columnar.Row(r)); ok {
			t.named[cluster[r]]++
			b.others = append(b.others, x)
		}
	}
	for _, r := range b.departing {
		bound[cluster[r]]--
		t.named[cluster[r]]++
		x, _ := b.otherOf(r)
		b.others = append(b.others, x)
	}
	for id, n := range bound {
		t.named[id] += n
	}
}

// otherOf describes a machine that is not bound, and reports whether it counts
// beside the lists. Its cluster is not known yet.
func (b *Builder) otherOf(r columnar.Row) (other, bool) {
	v := &b.snap.View
	x := other{row: r, class: v.Class[r], cluster: -1, unusable: v.State[r] == model.Deleting || v.State[r] == model.Failed}
	return x, v.State[r] != model.StateUnspecified && (x.unusable || v.Cluster[r] != 0)
}

// countOther counts such a machine in or out.
func (b *Builder) countOther(x *other, by uint32) {
	if x.unusable {
		b.unusable[x.class] += by
	}
	if x.cluster >= 0 {
		b.machines[x.cluster] += by
	}
}

// order walks over the rows in id order: each gets its rank, and what goes to a
// list is dealt to it, so that the lists are in id order.
func (b *Builder) order() {
	s := &b.snap
	v := &s.View
	rows := room(s.Supply.RowMax())
	s.Keep = alloc.Make[uint32](b.arena, rows)
	b.was = alloc.Make[place](b.arena, rows)
	idle, speculative := b.cursors(s.Idle.Off), b.cursors(s.Speculative.Off)
	end, anyLate := s.bound.end, s.Supply.AnyLateBound()
	for i, r := range s.Order {
		s.Keep[r] = keepOf(v.Reclamation[r], uint32(i))
		state := v.State[r]
		if anyLate && s.Supply.IsLateBound(r) {
			state = model.Speculative
		}
		switch state {
		case model.Idle:
			c := v.Class[r]
			s.Idle.Rows[idle[c]] = r
			idle[c]++
		case model.Speculative:
			c := v.Class[r]
			s.Speculative.Rows[speculative[c]] = r
			speculative[c]++
		case model.Configured, model.Configuring:
			if c := s.ClusterOf[v.Cluster[r]]; c >= 0 && !b.isDeparting(r) {
				b.was[r] = end[c] // where it stands, for now
				end[c]++
			}
		}
	}
}

// describe walks over the rows in row order once more and writes down what the
// lists say of each.
func (b *Builder) describe() {
	s := &b.snap
	v, rows, anyLate := &s.View, s.Supply.RowMax(), s.Supply.AnyLateBound()
	s.Keep, b.was = s.Keep[:rows], b.was[:rows]
	for r := 1; r < rows; r++ {
		state := v.State[r]
		if state == model.StateUnspecified {
			continue
		}
		if anyLate && s.Supply.IsLateBound(columnar.Row(r)) {
			state = model.Speculative
		}
		switch state {
		case model.Idle:
			b.was[r] = inIdle | v.Class[r]
		case model.Speculative:
			b.was[r] = inSpeculative | v.Class[r]
		case model.Configured, model.Configuring:
			c := s.ClusterOf[v.Cluster[r]]
			if c < 0 || b.isDeparting(columnar.Row(r)) {
				continue
			}
			s.bound.all[b.was[r]] = Bound{
				Fingerprint: v.Fingerprint(columnar.Row(r)), Row: columnar.Row(r), Class: v.Class[r], Group: v.Group[r],
				Next: s.Keep[r] &^ rankMask, // for arrange
			}
			if state == model.Configured {
				s.configured[c]++
			} else {
				s.bound.all[b.was[r]].Next |= 1
			}
			b.was[r] = boundAs(state, c)
		}
	}
}

// sortIdle brings the lists of Idle machines from id order into keep order.
func (b *Builder) sortIdle() {
	s := &b.snap
	for c := range s.Classes {
		rows := s.Idle.At(c)
		places := resize(b.scratch.places, len(rows))
		b.scratch.places = places
		for i, r := range rows {
			places[i] = s.Keep[r]
		}
		if slices.IsSorted(places) {
			continue
		}
		slices.Sort(places)
		for i, at := range places {
			rows[i] = s.Order[at&rankMask]
		}
	}
}

// arrange brings a cluster's bound machines, which are in id order, into keep
// order, by what describe has noted of them.
func (x *patcher) arrange(c int) {
	s := &x.b.snap
	list := s.BoundOf(c)
	keys := resize(x.keys, len(list))
	x.keys = keys
	x.spare = resize(x.spare, len(list))
	for i := range list {
		m := &list[i]
		keys[i] = uint64(m.Next&1)<<63 | uint64(s.PriceRank[m.Class])<<keepBits | uint64(m.Next&^rankMask) | uint64(i)
	}
	if !slices.IsSorted(keys) {
		keys = sortAbove(keys, x.spare, rankBits)
		x.bound = append(x.bound[:0], list...)
		for i, k := range keys {
			list[i] = x.bound[k&rankMask]
		}
	}
	s.creatingFrom[c] = uint32(len(list))
}

// findCreating lists the machines being created for somebody, by cluster.
func (b *Builder) findCreating() {
	s, e := &b.snap, &b.entering
	e.bound = e.bound[:0]
	if s.Supply.Count(model.Creating) > 0 {
		for r := range s.Supply.Reservations() {
			if s.View.State[r] == model.Creating {
				b.enterCreating(r)
			}
		}
	}
	b.dealArrivals()
	for i := range e.bound {
		b.was[e.bound[i].row] = inCluster | asCreating | e.bound[i].cluster
	}
}

// arrival is a machine that comes into a cluster's list.
type arrival struct {
	row     columnar.Row
	cluster uint32
}

// dealArrivals puts what comes in in the order of clusters.
func (b *Builder) dealArrivals() {
	e, l := &b.entering, &b.lists
	l.in = resize(l.in, len(b.snap.Clusters)+2)
	clear(l.in)
	for i := range e.bound {
		l.in[e.bound[i].cluster+2]++
	}
	sum(l.in)
	e.dealt = resize(e.dealt, len(e.bound))
	for i := range e.bound {
		at := &l.in[e.bound[i].cluster+1]
		e.dealt[*at] = e.bound[i].row
		*at++
	}
}

// arrivals returns what comes into a cluster's list, in any order.
func (b *Builder) arrivals(c int) []columnar.Row {
	return b.entering.dealt[b.lists.in[c]:b.lists.in[c+1]]
}

// enterCreating notes a machine that is being created, if that is for a cluster.
func (b *Builder) enterCreating(r columnar.Row) {
	s := &b.snap
	c, ok := slices.BinarySearch(s.Clusters, s.Supply.Reservation(r).Owner.Cluster)
	if ok {
		b.entering.bound = append(b.entering.bound, arrival{r, uint32(c)})
	}
}
