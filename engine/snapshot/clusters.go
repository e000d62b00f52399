package snapshot

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// incoming is a machine that is being created for a cluster.
type incoming struct {
	row     columnar.Row
	cluster int // index of Clusters
}

// clusters finds the clusters and lays out what counts for each.
func (b *Builder) clusters() {
	s, t := &b.snap, &b.tally
	s.Clusters = append(s.Clusters, s.Demand.Clusters()...)
	known := len(s.Clusters)
	for id, named := range t.named {
		if !named || id == 0 {
			continue
		}
		name := s.Supply.Name(uint32(id))
		if _, ok := slices.BinarySearch(s.Clusters[:known], name); !ok {
			s.Clusters = append(s.Clusters, name)
		}
	}
	if len(s.Clusters) > known {
		slices.Sort(s.Clusters)
	}
	s.ClusterOf = alloc.MakeDirty[int32](b.arena, len(t.named))
	for i := range s.ClusterOf {
		s.ClusterOf[i] = -1
	}
	off := alloc.Make[uint32](b.arena, len(s.Clusters)+1)
	for i, c := range s.Clusters {
		if id, ok := s.Supply.NameID(c); ok {
			s.ClusterOf[id] = int32(i)
			off[i+1] = t.bound[id]
		}
	}
	b.findCreating()
	for _, in := range b.creating {
		off[in.cluster+1]++
	}
	sum(off)
	s.ClusterRows = Lists{Off: off, Rows: alloc.MakeDirty[columnar.Row](b.arena, int(off[len(s.Clusters)]))}
}

// findCreating lists the machines being created for somebody, in no order.
func (b *Builder) findCreating() {
	s := &b.snap
	b.creating = b.creating[:0]
	if s.Supply.Count(model.Creating) == 0 {
		return
	}
	for r, res := range s.Supply.Reservations() {
		if s.View.State[r] == model.Creating {
			if at, ok := slices.BinarySearch(s.Clusters, res.Owner.Cluster); ok {
				b.creating = append(b.creating, incoming{r, at})
			}
		}
	}
}

// dealCreating deals them to their clusters, in keep order.
func (b *Builder) dealCreating(at []uint32) {
	s := &b.snap
	slices.SortFunc(b.creating, func(x, y incoming) int { return cmp.Compare(s.Keep[x.row], s.Keep[y.row]) })
	for _, in := range b.creating {
		s.ClusterRows.Rows[at[in.cluster]] = in.row
		at[in.cluster]++
	}
}

// groups splits each cluster's bound machines by class, keeping their order.
func (b *Builder) groups() {
	s := &b.snap
	s.GroupOff = alloc.Make[uint32](b.arena, len(s.Clusters)+1)
	size := alloc.Make[uint32](b.arena, len(s.Classes)) // in this cluster
	at := alloc.MakeDirty[uint32](b.arena, len(s.Classes))
	flat := alloc.MakeDirty[columnar.Row](b.arena, len(s.ClusterRows.Rows))
	used := uint32(0)
	for c := range s.Clusters {
		rows := s.ClusterRows.At(c)
		for n := len(rows); n > 0 && s.View.State[rows[n-1]] == model.Creating; n-- {
			rows = rows[:n-1]
		}
		first := len(s.Groups)
		for _, r := range rows {
			k := s.View.Class[r]
			if size[k] == 0 {
				s.Groups = append(s.Groups, Group{Class: k})
			}
			size[k]++
		}
		own := s.Groups[first:]
		slices.SortFunc(own, byClass)
		for i := range own {
			k := own[i].Class
			own[i].Rows = flat[used : used+size[k] : used+size[k]]
			at[k], size[k], used = used, 0, used+size[k]
		}
		for _, r := range rows {
			k := s.View.Class[r]
			flat[at[k]] = r
			at[k]++
		}
		s.GroupOff[c+1] = uint32(len(s.Groups))
	}
}

func byClass(x, y Group) int { return cmp.Compare(x.Class, y.Class) }
