package demand

import (
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// Copy is what a Table held at one moment. It is read while the table changes, from any goroutine.
type Copy struct{ t Table } // only what its methods read

// Copy returns the rows as they are now. It copies columns, no text and no profile: some 30 bytes a row. O(rows).
func (t *Table) Copy() *Copy {
	c := &Copy{Table{
		blocks: make(map[string]*Block, len(t.blocks)), order: slices.Clone(t.order), profiles: profiles{byID: slices.Clone(t.profiles.byID)},
		dims: t.dims, vectors: vectors{dict: t.vectors.dict.Frozen()}, groups: names{dict: t.groups.dict.Frozen()}, reported: maps.Clone(t.reported),
	}}
	for cluster, b := range t.blocks {
		c.t.blocks[cluster] = &Block{
			cluster: b.cluster, table: &c.t, profile: slices.Clone(b.profile), arrival: slices.Clone(b.arrival), aggregate: slices.Clone(b.aggregate),
			unit: slices.Clone(b.unit), group: slices.Clone(b.group), parked: slices.Clone(b.parked),
			minAggregate: maps.Clone(b.minAggregate), shortSince: maps.Clone(b.shortSince), unoffered: maps.Clone(b.unoffered),
		}
	}
	return c
}

// Clusters returns the ids of the clusters that have rows, sorted; do not modify.
func (c *Copy) Clusters() []string { return c.t.order }

// Len returns how many rows a cluster has.
func (c *Copy) Len(cluster string) int {
	if b := c.t.blocks[cluster]; b != nil {
		return b.Len()
	}
	return 0
}

// Row returns a row of a cluster.
func (c *Copy) Row(cluster string, i int) model.Need { return c.t.Row(c.t.blocks[cluster], i) }

// Reported is Table.Reported.
func (c *Copy) Reported(cluster string) bool { return c.t.Reported(cluster) }
