package units

import (
	"math"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/reuse"
)

// ClassVictims is what needs up to a priority could preempt of a class. It ignores reservations
// and what was taken since: readers check those.
type ClassVictims struct {
	Listed bool
	// Priority is the highest that it is complete for.
	Priority int32
	Serial   uint64 // number of its last listing
	Alikes   []*Alike
	Broken   []columnar.Row // members of broken gangs
	Gangs    []int32
	// Plain is the alikes that are no excess, sorted by level. Shut is an index in it: nobody can take a machine of the alikes before it, which
	// are all with a level below ShutBelow; math.MinInt32 = nothing is known. See IsShut in package victims.
	Plain     []*Alike
	Shut      int
	ShutBelow int32
}

// Reopen forgets that nobody can take some of the machines.
func (x *ClassVictims) Reopen() { x.Shut, x.ShutBelow = 0, math.MinInt32 }

// VictimTable is the victims of all classes.
type VictimTable struct {
	Of []ClassVictims // by class; empty = not laid out in this pass
	// Holders are the clusters with Configured machines, by class: those of class c are
	// holders[from[c]:from[c+1]].
	Holders []Holder
	From    []uint32
	// Most is, by class, the highest priority that will ask; nil = not known.
	Most []int32
	// Opened is the read position in Reserved.Ended: up to there Shut and ShutBelow of the classes are true.
	Opened int
	// Serial counts the listings of classes. roster is by matcher.
	Serial  uint64
	Rosters reuse.Stock[Roster]
	Roster  map[uint32]*Roster

	// Scratch of one class.
	Rows  bitmap.Dense
	Found []FoundRow
	Count []int32
	ByKey map[VictimGroupKey]int32
}

// Holder is a cluster that has machines of a class.
type Holder struct {
	Cluster int32
	First   uint32 // index of the first in its chain of bound machines
	Lowest  int32  // lowest priority; see clusterState.cheapest
}

// FoundRow is a machine and the index of its alike.
type FoundRow struct {
	Row columnar.Row
	At  int32
}

// Forget empties the table for the next pass.
func (t *VictimTable) Forget() {
	t.Of, t.Most, t.Opened = t.Of[:0], nil, 0
	t.Rosters.TakeBack()
	clear(t.Roster)
}
