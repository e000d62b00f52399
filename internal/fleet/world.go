package fleet

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// World is a fleet and its demand at one moment.
type World struct {
	Machines     []model.Machine
	Needs        []model.Need    // rows of a cluster in their order
	Reported     map[string]bool // every cluster with rows, and others
	Now          int64           // Unix nanoseconds
	DrainSeconds map[string]float64
	OneByOne     bool     // victims are chosen one by one, not by gangs
	Band         float64  // of the victim score, in priority points; may be +Inf
	Tenants      []Tenant // nil = nobody shares
	Nested       []string // topology keys, the widest first
	TopDomains   int      // that phase 2 tries; 0 = as many as by default
	SearchPairs  int      // that phase 2 looks at; 0 = as many as by default
	SearchUnits  int      // that are offered there; 0 = as many as by default
	Fit          bool     // free machines are acquired by fit
	// MaxMachineShare is the largest part of a Need that one machine should be; 0 = any.
	MaxMachineShare float64
	// BackingOff are owners whose plan of preemption has failed.
	BackingOff map[model.Owner]bool
}

// Tenant is a named set of clusters and their share of the fleet.
type Tenant struct {
	Name     string
	Clusters []string
	Share    model.Resources
}

// Size is how large a world is drawn, about.
type Size struct{ Machines, Needs int }

// The sizes that tests use. In a tiny world rules meet each other most often;
// a medium one has walks that are long.
var (
	Tiny   = Size{Machines: 12, Needs: 5}
	Small  = Size{Machines: 60, Needs: 25}
	Medium = Size{Machines: 300, Needs: 80}
)

// Clone returns a copy whose slices and maps may be changed.
func (w World) Clone() World {
	w.Machines = slices.Clone(w.Machines)
	for i := range w.Machines {
		w.Machines[i].Labels = maps.Clone(w.Machines[i].Labels)
	}
	w.Needs = slices.Clone(w.Needs)
	w.Reported = maps.Clone(w.Reported)
	w.DrainSeconds = maps.Clone(w.DrainSeconds)
	w.BackingOff = maps.Clone(w.BackingOff)
	return w
}

// Shuffle returns the world with its machines in another order and the rows of
// its clusters interleaved in another way; rows of one cluster keep their
// order. from[i] is the place that row i of the result had before.
func Shuffle(w World, seed int64) (shuffled World, from []int) {
	rng := newRand(seed)
	s := w.Clone()
	rng.Shuffle(len(s.Machines), func(i, j int) { s.Machines[i], s.Machines[j] = s.Machines[j], s.Machines[i] })
	rows := map[string][]int{}
	var turns []string // one cluster id a row
	for i, n := range w.Needs {
		rows[n.Cluster] = append(rows[n.Cluster], i)
		turns = append(turns, n.Cluster)
	}
	rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	for i, cluster := range turns {
		row := rows[cluster][0]
		rows[cluster] = rows[cluster][1:]
		from = append(from, row)
		s.Needs[i] = w.Needs[row]
	}
	return s, from
}

func newRand(seed int64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), 0x746f6e6e616765))
}
