package supply

import "github.com/tonnage/tonnage/engine/model"

// columns are the machine fields by row that machines of one class may differ
// in; see class for the others. They are plain slices of equal length: the engine reads
// them in its innermost loops. Row 0 and rows not in use are zero.
type columns struct {
	state        []model.State
	capacity     []model.CapacityType
	interruption []model.Bucket
	reclamation  []model.Bucket
	cluster      []uint32 // names
	group        []uint32 // names
	host         []uint32 // hosts
	labels       []uint32 // label sets, the zone among them
	class        []uint32 // classes
	stamp        []uint32 // stamps
	idleSince    []int64
}

// columnBytes is what a row takes in all columns together.
const columnBytes = 4*1 + 6*4 + 8

// grow makes at least n rows exist.
func (c *columns) grow(n int) {
	if n > len(c.state) {
		c.growTo(roomFor(n, len(c.state)))
	}
}

// growTo makes exactly n rows exist, if there are fewer.
func (c *columns) growTo(n int) {
	if n <= len(c.state) {
		return
	}
	c.state = extend(c.state, n)
	c.capacity = extend(c.capacity, n)
	c.interruption = extend(c.interruption, n)
	c.reclamation = extend(c.reclamation, n)
	c.cluster = extend(c.cluster, n)
	c.group = extend(c.group, n)
	c.host = extend(c.host, n)
	c.labels = extend(c.labels, n)
	c.class = extend(c.class, n)
	c.stamp = extend(c.stamp, n)
	c.idleSince = extend(c.idleSince, n)
}

// doubleRows is up to how many rows the columns double; larger ones grow by an
// eighth, so that a full table has little to spare.
const doubleRows = 1 << 14

// roomFor returns how many rows to make for n, when there are have.
func roomFor(n, have int) int {
	if have < doubleRows {
		return max(n, 2*have, 64)
	}
	return max(n, have+have/8)
}

// extend lengthens a column to n elements; new ones are zero.
func extend[T any](s []T, n int) []T {
	out := make([]T, n)
	copy(out, s)
	return out
}
