package workload

import (
	"fmt"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// Epoch is the time from which arrivals count back: every row of a fleet
// arrived in the day before it.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// arrivalSpread is how far before Epoch a row may have arrived.
const arrivalSpread = 24 * time.Hour

// Fleet is one rung, built: compact records of its machines and rows.
type Fleet struct {
	rung      Rung
	seed      uint64
	catalog   []archetype
	clusters  []string
	profiles  []*model.Profile
	shapes    []shape
	racks     []map[string]string // labels of the machines of a rack
	slots     []slot              // grouped by archetype
	slotStart []int               // first slot of each archetype, and the end
	rows      []row               // by cluster, in roll-up order
	rowStart  []int               // first row of each cluster, and the end
	unit      [][4]model.Resources
	members   [][]model.Resources // aggregates of gangs, by archetype and members
	prio      [][]*model.Profile  // per profile, at each contended priority
	growth    float64             // of rows that can grow, in a contended fleet
}

// shape is what the machines of one instance type in one archetype look like.
type shape struct {
	instanceType string
	price        float64
	resources    model.Resources
	size         uint8 // index of the pod size
}

// slot is one machine.
type slot struct {
	owner    int32 // row that it serves when bound, plus one; 0 = none
	rack     int32
	shape    uint16
	zone     uint8
	tier     uint8
	capacity model.CapacityType
}

// The tiers of a fleet.
const (
	tierConfigured uint8 = iota
	tierIdle
	tierSpeculative
)

// row is one Need.
type row struct {
	arrival   int64
	pods      [2]int32 // by pod size
	machines  int32    // that serve it when bound
	number    int32    // of a gang within its cluster
	profile   uint16
	archetype uint8
}

// Rung returns the rung that the fleet was built for.
func (f *Fleet) Rung() Rung { return f.rung }

// Seed returns the seed that the fleet was built from.
func (f *Fleet) Seed() uint64 { return f.seed }

// Clusters returns the ids of the clusters, sorted; do not modify.
func (f *Fleet) Clusters() []string { return f.clusters }

// Rows returns the number of Needs of all clusters in the Steady regime.
func (f *Fleet) Rows() int { return len(f.rows) }

// Profiles returns the number of distinct profiles.
func (f *Fleet) Profiles() int { return len(f.profiles) }

// clusterNames returns n ids whose byte order is their numeric order.
func clusterNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("cluster-%04d", i)
	}
	return names
}

// units returns, per archetype, the minimum unit of a row by the set of pod
// sizes in it (bit i = size i).
func units(catalog []archetype) [][4]model.Resources {
	out := make([][4]model.Resources, len(catalog))
	for a := range catalog {
		for set := 1; set < 4; set++ {
			for s := range catalog[a].sizes {
				if set>>s&1 == 1 {
					out[a][set] = out[a][set].Max(catalog[a].sizes[s].pod())
				}
			}
		}
	}
	return out
}

// aggregate returns what a number of pods of each size ask for together.
func (a *archetype) aggregate(pods [2]int32) model.Resources {
	if len(a.sizes) == 1 {
		return a.sizes[0].pods(int64(pods[0]))
	}
	s, l := &a.sizes[0], &a.sizes[1]
	n, m := int64(pods[0]), int64(pods[1])
	return model.NewResources(
		model.Amount{Name: dimCPU, Value: s.cpuMilli*n + l.cpuMilli*m},
		model.Amount{Name: dimMemory, Value: s.memory*n + l.memory*m},
		model.Amount{Name: dimGPU, Value: s.gpus*n + l.gpus*m},
	)
}

// aggregate returns what a row asks for; equal gangs share the vector.
func (f *Fleet) aggregate(r *row) model.Resources {
	if of := f.members[r.archetype]; int(r.pods[0]) < len(of) {
		return of[r.pods[0]]
	}
	return f.catalog[r.archetype].aggregate(r.pods)
}

// gangVectors returns, per gang archetype, the aggregates by number of members.
func gangVectors(catalog []archetype) [][]model.Resources {
	out := make([][]model.Resources, len(catalog))
	for a := range catalog {
		if t := &catalog[a]; t.isGang() {
			for n := range t.gang[1] + 1 {
				out[a] = append(out[a], t.aggregate([2]int32{n}))
			}
		}
	}
	return out
}

// sizeSet returns the set of pod sizes that occur.
func sizeSet(pods [2]int32) int {
	set := 0
	for i, n := range pods {
		if n > 0 {
			set |= 1 << i
		}
	}
	return set
}
