package snapshot

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
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

// Vector returns the effective allocatable of a class.
func (s *Snapshot) Vector(class uint32) []int64 {
	n := len(s.Dims)
	return s.ClassVec[int(class)*n:][:n:n]
}

// GroupsOf returns a cluster's groups.
func (s *Snapshot) GroupsOf(cluster int) []Group {
	return s.Groups[s.GroupOff[cluster]:s.GroupOff[cluster+1]]
}
