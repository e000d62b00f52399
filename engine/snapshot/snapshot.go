package snapshot

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Lists are lists of rows over one array, list i at Rows[Off[i]:Off[i+1]].
type Lists struct {
	Off  []uint32
	Rows []columnar.Row
}

// At returns list i.
func (l *Lists) At(i int) []columnar.Row { return l.Rows[l.Off[i]:l.Off[i+1]] }

// Class is what a class's machines have in common, in the cycle's terms.
type Class struct {
	Price        float64
	Probability  float64
	InstanceType string
	Matchers     []uint32
	Live         bool
}

// Group is a list of a cluster's bound machines of one class.
type Group struct {
	Class uint32
	Rows  []columnar.Row
}

// Snapshot is the frozen view of supply, with the demand's vectors translated
// to its dimensions. It is valid until the next Build.
type Snapshot struct {
	Supply *supply.Table
	Demand *demand.Table
	View   supply.View
	Now    int64

	// Dims are all dimensions: the supply's, then those that only demand names.
	Dims []string
	// DemandDim translates a demand dimension to its place in Dims.
	DemandDim []int

	Order  []columnar.Row // rows in id order
	IDRank []uint32       // by row: place in Order
	ByKeep []columnar.Row // rows in keep order
	Keep   []uint32       // by row: place in ByKeep

	Classes  []Class
	ClassVec []int64 // class c at [c*len(Dims):]

	Idle        Lists // by class, keep order
	Speculative Lists // by class, id order

	// Clusters are the ids of clusters with demand or with machines, sorted.
	Clusters []string
	// ClusterOf translates a name number of the supply to an index of
	// Clusters; −1 for names that are no cluster.
	ClusterOf []int32
	// ClusterRows are each cluster's countable machines: Configured,
	// Configuring, then Creating ones on their way to it, in keep order each.
	ClusterRows Lists
	// Groups are each cluster's Configured and Configuring machines by class,
	// cluster i at Groups[GroupOff[i]:GroupOff[i+1]], classes ascending.
	Groups   []Group
	GroupOff []uint32
}

// Builder builds snapshots, reusing the memory of the one before.
type Builder struct {
	arena *alloc.Arena
	snap  Snapshot
}

// NewBuilder returns a builder whose memory is entered in the accounts.
func NewBuilder(accounts *alloc.Accounts) *Builder {
	return &Builder{arena: accounts.NewArena(alloc.Snapshot)}
}

// Build freezes the tables at a time. The tables must not change before the
// cycle that uses the snapshot has ended. Cost: O(machines + rows of demand).
func (b *Builder) Build(s *supply.Table, d *demand.Table, now int64) (*Snapshot, error) {
	b.arena.Reset()
	if err := s.Use(profilesOf(d)); err != nil {
		return nil, err
	}
	b.snap = Snapshot{Supply: s, Demand: d, View: s.View(), Now: now, Order: s.Order(), Classes: b.snap.Classes[:0], Groups: b.snap.Groups[:0]}
	b.dims()
	b.classes()
	b.keepOrder()
	b.pools()
	b.clusters()
	b.groups()
	return &b.snap, nil
}

// profilesOf lists the profiles in use, and what they are when folded.
func profilesOf(d *demand.Table) []*model.Profile {
	out := make([]*model.Profile, 0, d.ProfileIDMax())
	for id := range d.ProfileIDMax() {
		p := d.Profile(id)
		if p == nil {
			continue
		}
		out = append(out, p)
		if p.Same() != nil {
			out = append(out, p.WithoutSame())
		}
	}
	return out
}

func (b *Builder) dims() {
	s := &b.snap
	s.Dims = slices.Clone(s.Supply.Dims())
	for _, name := range s.Demand.Dims() {
		i := slices.Index(s.Dims, name)
		if i < 0 {
			i = len(s.Dims)
			s.Dims = append(s.Dims, name)
		}
		s.DemandDim = append(s.DemandDim, i)
	}
}

func (b *Builder) classes() {
	s := &b.snap
	n, stride := s.Supply.ClassMax(), len(s.Dims)
	s.ClassVec = alloc.Make[int64](b.arena, n*stride)
	for c := range n {
		info := s.Supply.ClassInfo(uint32(c))
		s.Classes = append(s.Classes, Class{
			Price: info.Price, Probability: info.Probability, InstanceType: info.InstanceType,
			Matchers: info.Matchers, Live: info.Count > 0,
		})
		copy(s.ClassVec[c*stride:(c+1)*stride], info.Vector)
	}
}

// Vector returns the effective allocatable of a class.
func (s *Snapshot) Vector(class uint32) []int64 {
	n := len(s.Dims)
	return s.ClassVec[int(class)*n:][:n:n]
}

// keepOrder deals the rows, in id order, into one pile per price and
// reclamation penalty.
func (b *Builder) keepOrder() {
	s := &b.snap
	n := s.Supply.RowMax()
	prices, rank := b.priceRanks()
	piles := len(prices) * model.NumBuckets
	at := alloc.Make[uint32](b.arena, piles+1)
	pile := func(r columnar.Row) int {
		// Unspecified and zero are the same penalty; larger ones come first.
		penalty := max(s.View.Reclamation[r], model.BucketZero)
		return int(rank[s.View.Class[r]])*model.NumBuckets + int(model.BucketPinned-penalty)
	}
	s.IDRank = alloc.Make[uint32](b.arena, n)
	for i, r := range s.Order {
		s.IDRank[r] = uint32(i)
		at[pile(r)+1]++
	}
	for i := range piles {
		at[i+1] += at[i]
	}
	s.ByKeep = alloc.Make[columnar.Row](b.arena, len(s.Order))
	s.Keep = alloc.Make[uint32](b.arena, n)
	for _, r := range s.Order {
		p := pile(r)
		s.ByKeep[at[p]] = r
		s.Keep[r] = at[p]
		at[p]++
	}
}

// priceRanks returns the distinct prices ascending and each class's place
// among them.
func (b *Builder) priceRanks() ([]float64, []uint32) {
	s := &b.snap
	prices := alloc.Make[float64](b.arena, len(s.Classes))[:0]
	for i := range s.Classes {
		if s.Classes[i].Live {
			prices = append(prices, s.Classes[i].Price)
		}
	}
	slices.Sort(prices)
	prices = slices.Compact(prices)
	rank := alloc.Make[uint32](b.arena, len(s.Classes))
	for i := range s.Classes {
		if s.Classes[i].Live {
			at, _ := slices.BinarySearch(prices, s.Classes[i].Price)
			rank[i] = uint32(at)
		}
	}
	return prices, rank
}

// pools lists the Idle and Speculative machines by class.
func (b *Builder) pools() {
	s := &b.snap
	s.Idle = b.byClass(s.ByKeep, model.Idle)
	s.Speculative = b.byClass(s.Order, model.Speculative)
}

func (b *Builder) byClass(order []columnar.Row, state model.State) Lists {
	s := &b.snap
	l := Lists{Off: alloc.Make[uint32](b.arena, len(s.Classes)+1), Rows: alloc.Make[columnar.Row](b.arena, s.Supply.Count(state))}
	for _, r := range order {
		if s.View.State[r] == state {
			l.Off[s.View.Class[r]+1]++
		}
	}
	for i := range len(s.Classes) {
		l.Off[i+1] += l.Off[i]
	}
	at := alloc.Make[uint32](b.arena, len(s.Classes))
	copy(at, l.Off)
	for _, r := range order {
		if s.View.State[r] == state {
			c := s.View.Class[r]
			l.Rows[at[c]] = r
			at[c]++
		}
	}
	return l
}

// clusters finds the clusters and lists what counts for each.
func (b *Builder) clusters() {
	s := &b.snap
	s.Clusters = append(s.Clusters[:0], s.Demand.Clusters()...)
	seen := alloc.Make[bool](b.arena, s.Supply.NameIDMax())
	for _, r := range s.Order {
		if c := s.View.Cluster[r]; !seen[c] && c != 0 {
			seen[c] = true
			s.Clusters = append(s.Clusters, s.Supply.Name(c))
		}
	}
	slices.Sort(s.Clusters)
	s.Clusters = slices.Compact(s.Clusters)
	s.ClusterOf = alloc.Make[int32](b.arena, s.Supply.NameIDMax())
	for i := range s.ClusterOf {
		s.ClusterOf[i] = -1
	}
	for i, c := range s.Clusters {
		if id, ok := s.Supply.NameID(c); ok {
			s.ClusterOf[id] = int32(i)
		}
	}
	b.clusterRows()
}

// creating lists the machines being created for somebody, with the index of
// the cluster, in keep order.
func (b *Builder) creating() (rows []columnar.Row, clusters []int) {
	s := &b.snap
	for r, res := range s.Supply.Reservations() {
		if s.View.State[r] == model.Creating {
			if _, ok := slices.BinarySearch(s.Clusters, res.Owner.Cluster); ok {
				rows = append(rows, r)
			}
		}
	}
	slices.SortFunc(rows, func(a, c columnar.Row) int { return cmp.Compare(s.Keep[a], s.Keep[c]) })
	for _, r := range rows {
		at, _ := slices.BinarySearch(s.Clusters, s.Supply.Reservation(r).Owner.Cluster)
		clusters = append(clusters, at)
	}
	return rows, clusters
}

func (b *Builder) clusterRows() {
	s := &b.snap
	creating, of := b.creating()
	off := alloc.Make[uint32](b.arena, len(s.Clusters)+1)
	bound := func(r columnar.Row, state model.State) int32 {
		if s.View.State[r] != state {
			return -1
		}
		return s.ClusterOf[s.View.Cluster[r]]
	}
	for _, r := range s.Order {
		if c := max(bound(r, model.Configured), bound(r, model.Configuring)); c >= 0 {
			off[c+1]++
		}
	}
	for _, c := range of {
		off[c+1]++
	}
	for i := range len(s.Clusters) {
		off[i+1] += off[i]
	}
	rows := alloc.Make[columnar.Row](b.arena, int(off[len(s.Clusters)]))
	at := alloc.Make[uint32](b.arena, len(s.Clusters))
	copy(at, off)
	for _, state := range [...]model.State{model.Configured, model.Configuring} {
		for _, r := range s.ByKeep {
			if c := bound(r, state); c >= 0 {
				rows[at[c]] = r
				at[c]++
			}
		}
	}
	for i, r := range creating {
		rows[at[of[i]]] = r
		at[of[i]]++
	}
	s.ClusterRows = Lists{Off: off, Rows: rows}
}

// groups splits each cluster's bound machines by class, keeping their order.
func (b *Builder) groups() {
	s := &b.snap
	s.GroupOff = alloc.Make[uint32](b.arena, len(s.Clusters)+1)
	slot := alloc.Make[uint32](b.arena, len(s.Classes)) // 1 + index of the class's group in this cluster
	flat := alloc.Make[columnar.Row](b.arena, len(s.ClusterRows.Rows))
	used := uint32(0)
	for c := range s.Clusters {
		rows := s.ClusterRows.At(c)
		first := len(s.Groups)
		for _, r := range rows {
			if s.View.State[r] == model.Creating {
				continue
			}
			k := s.View.Class[r]
			if slot[k] == 0 {
				s.Groups = append(s.Groups, Group{Class: k})
				slot[k] = 1
			}
		}
		own := s.Groups[first:]
		slices.SortFunc(own, func(a, b Group) int { return cmp.Compare(a.Class, b.Class) })
		used = fillGroups(own, rows, flat, used, slot, s)
		for i := range own {
			slot[own[i].Class] = 0
		}
		s.GroupOff[c+1] = uint32(len(s.Groups))
	}
}

// fillGroups gives each group its rows, taken from flat at used on.
func fillGroups(groups []Group, rows, flat []columnar.Row, used uint32, slot []uint32, s *Snapshot) uint32 {
	for i := range groups {
		slot[groups[i].Class] = uint32(i)
	}
	count := func(f func(g *Group, r columnar.Row)) {
		for _, r := range rows {
			if s.View.State[r] != model.Creating {
				f(&groups[slot[s.View.Class[r]]], r)
			}
		}
	}
	sizes := make([]uint32, len(groups))
	count(func(_ *Group, r columnar.Row) { sizes[slot[s.View.Class[r]]]++ })
	for i := range groups {
		groups[i].Rows = flat[used : used : used+sizes[i]]
		used += sizes[i]
	}
	count(func(g *Group, r columnar.Row) { g.Rows = append(g.Rows, r) })
	return used
}

// GroupsOf returns a cluster's groups.
func (s *Snapshot) GroupsOf(cluster int) []Group {
	return s.Groups[s.GroupOff[cluster]:s.GroupOff[cluster+1]]
}
