package snapshot

import (
	"slices"

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

// Matches reports whether a matcher accepts the class. O(matchers of the class).
func (c *Class) Matches(matcher uint32) bool {
	_, ok := slices.BinarySearch(c.Matchers, matcher)
	return ok
}

// Group is a list of a cluster's bound machines of one class: a chain through
// BoundOf the cluster, First and then by Next.
type Group struct {
	Class uint32
	First uint32 // the place of the first one, less than CreatingFrom
}

// Bound is what the credit looks at of a machine that counts for a cluster, so
// that it reads one list as it lies in memory and no column by row. The places
// of a cluster's list order its machines: Configured, Configuring, Creating;
// keep order within each.
type Bound struct {
	Fingerprint uint64
	Row         columnar.Row
	Class       uint32
	Group       uint32 // name number of the supply
	// Next is 1 + the place of the cluster's next machine of the same class; 0
	// when there is none. Creating machines are in no group, and have 0.
	Next uint32
}

// Snapshot is the frozen view of supply, with the demand's vectors translated
// to its dimensions. It is valid until the next Build.
type Snapshot struct {
	Supply *supply.Table
	Demand *demand.Table
	View   supply.View
	Now    int64

	// Dims are all dimensions: the demand's, in its order, then those that only
	// supply names.
	Dims []string

	Order []columnar.Row // rows in id order
	// Keep is, by row, a number that orders machines of equal price by keep
	// order; see KeepKey for others.
	Keep []uint32

	Classes  []Class
	ClassVec []int64 // class c at [c*len(Dims):]
	// PriceRank is, by class, the place of its price among all, ascending.
	PriceRank []uint32
	// Usable counts, by class, the machines in a state from which they may yet
	// serve somebody: neither Deleting nor Failed.
	Usable []uint32

	// Late-bound Idle machines are among the Speculative.
	Idle        Lists // by class, keep order
	Speculative Lists // by class, id order

	// Clusters are the ids of clusters with demand or with machines, sorted.
	Clusters []string
	// ClusterOf translates a name number of the supply to an index of
	// Clusters; −1 for names that are no cluster.
	ClusterOf []int32
	// What follows says what may differ from the snapshot that the same builder
	// built before. Numbers of names and of values of attributes may be others'
	// at any time; the machines that have either are in dirty clusters and
	// classes then. See supply.Table.NameSequence and ValueSequence.

	// Fresh: everything may differ, and the numbers of classes, clusters,
	// dimensions, matchers and keys may mean other things. A caller that has
	// derived something from the snapshot before forgets it.
	Fresh bool
	// ClassesChanged: Classes, ClassVec or PriceRank may differ, because classes
	// came or went. Numbers of those that stayed mean what they did; a number
	// that means another class has dirty lists.
	ClassesChanged bool
	// Dirty tells, by cluster, whether its machines may be others, or others
	// in anything that Bound says of them, or in another place or state.
	Dirty []bool
	// FreeDirty tells, by class, whether its lists of Idle or Speculative
	// machines may differ.
	FreeDirty []bool

	// Moves are the machines that may be others, when not everything may be.
	Moves []Move

	bound                    boundLists
	configured, creatingFrom []uint32 // by cluster
	groups                   [][]Group
}

// boundLists are the lists of clusters over one array, list c at all[off[c]:end[c]].
// Behind it there is room up to off[c+1].
type boundLists struct {
	off, end []uint32
	all      []Bound
}

// Move is a machine that may be another than at the Build before: new, gone, in
// another place, or other in what is said of it.
type Move struct {
	Row columnar.Row
	// From is the cluster whose list it was in, and To the one whose list it is in, as indexes of
	// Clusters; −1 when it was, or is, in none.
	From, To int32
	Class    uint32      // that it had in the list of From
	Was, Is  model.State // its state then and now, as far as it was, or is, in a list
}

// Vector returns the effective allocatable of a class.
func (s *Snapshot) Vector(class uint32) []int64 {
	n := len(s.Dims)
	return s.ClassVec[int(class)*n:][:n:n]
}

// ClusterByName returns the index of a cluster, −1 = unknown. O(log clusters).
func (s *Snapshot) ClusterByName(name string) int32 {
	if at, ok := slices.BinarySearch(s.Clusters, name); ok {
		return int32(at)
	}
	return -1
}

// GroupsOf returns a cluster's Configured and Configuring machines by class,
// classes ascending.
func (s *Snapshot) GroupsOf(cluster int) []Group { return s.groups[cluster] }

// BoundOf returns a cluster's countable machines: Configured, Configuring, then
// Creating ones on their way to it, in keep order each.
func (s *Snapshot) BoundOf(cluster int) []Bound {
	return s.bound.all[s.bound.off[cluster]:s.bound.end[cluster]]
}

// Configured returns how many Configured machines a cluster has: they come
// first in its list.
func (s *Snapshot) Configured(cluster int) int { return int(s.configured[cluster]) }

// CreatingFrom returns the place in a cluster's list from which on its machines
// are Creating. Before it they are bound: Configured, then Configuring.
func (s *Snapshot) CreatingFrom(cluster int) int { return int(s.creatingFrom[cluster]) }
