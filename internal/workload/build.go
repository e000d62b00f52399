package workload

import (
	"math"

	"github.com/tonnage/tonnage/engine/model"
)

// objectsPerCluster is how many workloads a cluster of 25,000 pods holds.
const objectsPerCluster = 1350

// rackMachines is how many machines stand in a rack.
const rackMachines = 16

// Purposes of random streams, so that no two draws share one.
const (
	drawObjects uint64 = iota * 64 // plus the archetype
	drawSizes
	drawArrivals
	drawRegime
	drawLive
	drawRows
)

// Build makes the fleet of a rung. The same rung and seed give the same fleet
// on every machine.
func Build(r Rung, seed uint64) *Fleet {
	f := &Fleet{rung: r, seed: seed, catalog: catalog, clusters: clusterNames(r.Clusters)}
	switch r.kind {
	case kindRows:
		buildRows(f)
	case kindFlat:
		buildFlat(f)
	default:
		buildCatalog(f)
	}
	f.unit, f.members = units(f.catalog), gangVectors(f.catalog)
	f.contend()
	return f
}

// buildCatalog makes a fleet of the calibrated catalog.
func buildCatalog(f *Fleet) {
	weights := f.makeRows()
	configured := f.shareConfigured(weights)
	idle := apportion(f.rung.Idle, shares(f.catalog))
	speculative := apportion(f.rung.Speculative, shares(f.catalog))
	for a := range f.catalog {
		f.layOut(a, configured[a], idle[a], speculative[a])
	}
	f.slotStart = append(f.slotStart, len(f.slots))
	f.deal()
}

// shares returns the machine shares of a catalog.
func shares(catalog []archetype) []float64 {
	out := make([]float64, len(catalog))
	for a := range catalog {
		out[a] = catalog[a].share
	}
	return out
}

// makeRows makes every cluster's rows, gangs complete and plain Needs still
// without machines, and returns the weight of each row: the replicas of the
// objects that join in it.
func (f *Fleet) makeRows() []float64 {
	frequency := make([]float64, len(f.catalog))
	for a := range f.catalog {
		frequency[a] = float64(f.catalog[a].weight)
	}
	objects := apportion(f.rung.Clusters*objectsPerCluster, frequency)
	perCluster := make([][]int, len(f.catalog))
	drawn := make([][]int32, len(f.catalog))
	profileOf := make([][2]uint16, len(f.catalog)) // without, with spread
	for a := range f.catalog {
		t := &f.catalog[a]
		perCluster[a] = evenly(newRNG(f.seed, drawObjects+uint64(a)), objects[a], f.rung.Clusters)
		sizes := newRNG(f.seed, drawSizes+uint64(a))
		if t.isGang() {
			drawn[a] = drawUniform(sizes, objects[a], t.gang[0], t.gang[1])
		} else {
			drawn[a] = drawReplicas(sizes, objects[a])
		}
		for spread := range 2 {
			profileOf[a][spread] = uint16(len(f.profiles))
			if (spread == 0 && t.spread < 1) || (spread == 1 && t.spread > 0) {
				f.profiles = append(f.profiles, t.profile(spread == 1))
			}
		}
	}
	arrivals := newRNG(f.seed, drawArrivals)
	next := make([]int, len(f.catalog)) // objects handed out so far
	var weights []float64
	for c := range f.rung.Clusters {
		f.rowStart = append(f.rowStart, len(f.rows))
		for a := range f.catalog {
			from := next[a]
			next[a] += perCluster[a][c]
			mine := drawn[a][from:next[a]]
			if f.catalog[a].isGang() {
				weights = f.addGangs(a, profileOf[a][0], mine, weights)
			} else {
				weights = f.addPlain(a, profileOf[a], mine, from, weights)
			}
		}
		for i := f.rowStart[c]; i < len(f.rows); i++ {
			f.rows[i].arrival = Epoch.UnixNano() - int64(1+arrivals.float()*float64(arrivalSpread))
		}
	}
	f.rowStart = append(f.rowStart, len(f.rows))
	return weights
}

// addGangs adds one row for each gang of the sizes.
func (f *Fleet) addGangs(a int, profile uint16, sizes []int32, weights []float64) []float64 {
	for i, n := range sizes {
		r := row{archetype: uint8(a), profile: profile, number: int32(i), pods: [2]int32{n}}
		if !f.catalog[a].foldable() {
			r.machines = n
		}
		f.rows = append(f.rows, r)
		weights = append(weights, float64(n))
	}
	return weights
}

// addPlain joins the objects of a plain archetype in at most two rows: those
// without and those with spread. from is the number of the first object in the
// whole fleet.
func (f *Fleet) addPlain(a int, profile [2]uint16, replicas []int32, from int, weights []float64) []float64 {
	var pods [2]float64
	for i, n := range replicas {
		if everyNth(from+i, f.catalog[a].spread) {
			pods[1] += float64(n)
		} else {
			pods[0] += float64(n)
		}
	}
	for spread, n := range pods {
		if n > 0 {
			f.rows = append(f.rows, row{archetype: uint8(a), profile: profile[spread]})
			weights = append(weights, n)
		}
	}
	return weights
}

// shareConfigured returns how many machines of the Configured tier each
// archetype has, and gives every row its number of machines.
func (f *Fleet) shareConfigured(weights []float64) []int {
	count := make([]int, len(f.catalog))
	rest := f.rung.Configured
	plain := make([]float64, len(f.catalog))
	for a := range f.catalog {
		switch t := &f.catalog[a]; {
		case t.foldable():
			count[a] = f.foldMachines(a)
		case t.isGang():
			for i := range f.rows {
				if int(f.rows[i].archetype) == a {
					count[a] += int(f.rows[i].machines)
				}
			}
		default:
			plain[a] = t.share
		}
		rest -= count[a]
	}
	for a, n := range apportion(max(rest, 0), plain) {
		if plain[a] == 0 {
			continue
		}
		count[a] = n
		var mine []int
		var w []float64
		for i := range f.rows {
			if int(f.rows[i].archetype) == a {
				mine = append(mine, i)
				w = append(w, weights[i])
			}
		}
		for j, m := range apportionAtLeastOne(n, w) {
			f.rows[mine[j]].machines = int32(m)
		}
	}
	return count
}

// foldMachines gives the machines of a foldable archetype to the first row of
// each fold (cluster and gang size) and returns how many there are.
func (f *Fleet) foldMachines(a int) int {
	t := &f.catalog[a]
	total := 0
	for c := range f.clusters {
		var gangs, leader [64]int
		for i := f.rowStart[c]; i < f.rowStart[c+1]; i++ {
			if r := &f.rows[i]; int(r.archetype) == a {
				if gangs[r.pods[0]] == 0 {
					leader[r.pods[0]] = i
				}
				gangs[r.pods[0]]++
			}
		}
		for size, n := range gangs {
			if n > 0 {
				m := int(math.Ceil(float64(n*size) / float64(t.perMachine)))
				f.rows[leader[size]].machines = int32(m)
				total += m
			}
		}
	}
	return total
}

// deal gives the Configured tier to the rows, and sets what plain rows ask for
// by what their machines hold.
func (f *Fleet) deal() {
	next := make([]int, len(f.catalog))
	copy(next, f.slotStart)
	for i := range f.rows {
		r := &f.rows[i]
		t := &f.catalog[r.archetype]
		if r.machines == 0 || t.isGang() && !t.foldable() {
			continue // it shares, or was placed with its rack
		}
		at := next[r.archetype]
		next[r.archetype] += int(r.machines)
		var pods [2]int32
		for s := at; s < at+int(r.machines); s++ {
			f.slots[s].owner = int32(i) + 1
			pods[f.shapes[f.slots[s].shape].size] += t.perMachine
		}
		if t.isGang() {
			continue // it asks for its members
		}
		least := 0
		if pods[0] == 0 {
			least = 1
		}
		pods[least] -= t.perMachine / 2
		r.pods = pods
	}
}

// contend makes what only the Contended regime needs: every profile at each of
// its priorities, and the factor by which rows grow.
func (f *Fleet) contend() {
	f.prio = make([][]*model.Profile, len(f.profiles))
	for i, p := range f.profiles {
		for _, priority := range contendedPriorities {
			f.prio[i] = append(f.prio[i], mustProfile(model.ProfileSpec{
				Requirements: p.Requirements(), Spread: p.Spread(), Priority: priority,
				Interruption: p.Interruption(), Reclamation: p.Reclamation(),
			}))
		}
	}
	f.growth = f.contendedGrowth()
}
