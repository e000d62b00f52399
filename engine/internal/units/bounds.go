package units

import (
	"cmp"

	"github.com/tonnage/tonnage/columnar"
)

// BoundUnit is one machine that could be preempted.
type BoundUnit struct {
	// Level is the priority at which the machine can be taken, math.MinInt64 for excess.
	Level   int64
	ID      uint32 // rank of the machine's id
	Row     columnar.Row
	Class   uint32
	Cluster int32
}

// CompareBoundUnits is the order in which machines are counted as freed: lowest priority first,
// then by id.
func CompareBoundUnits(a, b BoundUnit) int {
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.ID, b.ID))
}
