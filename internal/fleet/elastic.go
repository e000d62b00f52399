package fleet

import (
	"fmt"
	"math"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// manyGangs is above how many gangs of [Elastic] all are alike.
const manyGangs = 100

// Elastic draws a world of gangs whose roles differ in what an interruption costs, in priority and in size, most of which can live with
// less, and of rows that preempt them, most without Same and some of the same clusters. Hardly a machine is free or of no gang. So what is
// taken comes from many gangs, now a machine above a minimum and now a whole gang. There are up to so many gangs, and rows that want a
// part of all machines.
func Elastic(seed int64, gangs int) World {
	d := &draw{Rand: newRand(seed ^ 0x656c6173)}
	d.w = World{Reported: map[string]bool{}, Now: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()}
	d.temper()
	d.plans, d.spread, d.w.OneByOne = 0, 0.3, false
	d.priorities = [][]int32{{100}, {100, 101}, {1, 5, 9, 100}, {-5, 100, 150_000}}[d.IntN(4)]
	d.elastic = pick(d, 0, 0.2, 0.8, 0.8)
	d.w.Band = pick(d, 0, 1, 100, math.Inf(1))
	if gangs > manyGangs || d.chance(0.5) { // gangs that are alike, of one band
		d.priorities, d.prices, d.alike = d.priorities[:1], d.prices[:1], true
	}
	for range gangs/2 + d.IntN(gangs/2) {
		d.elasticGang()
	}
	most := 4 + len(d.w.Machines)/16
	if gangs > manyGangs {
		most = len(d.w.Machines)
	}
	for range d.IntN(4) {
		d.w.Machines = append(d.w.Machines, d.gangMachine(pick(d, model.Idle, model.Speculative)))
	}
	for range 1 + d.IntN(8) {
		spec := model.ProfileSpec{Priority: pick(d, int32(1000), 1000, 1001, 102, 1_000_000), Interruption: d.bucket(), Reclamation: d.bucket()}
		switch {
		case d.chance(0.2):
			spec.Requirements = append(spec.Requirements, model.Requirement{Key: pick(d, model.KeyZone, model.KeyZone, keyRack), Operator: model.Same})
		case d.chance(d.spread):
			spec.Spread = append(spec.Spread, model.Spread{Key: d.topologyKey(), MaxSkew: pick(d, int32(1), 2), WhenUnsatisfiable: model.DoNotSchedule})
		}
		n := d.gangRow(pick(d, append([]string{"top", "king"}, d.clusters...)...), pick(d, "", "a", "b"), spec, 1+d.IntN(most))
		d.w.Reported[n.Cluster] = true
	}
	if d.chance(0.2) {
		d.w.Nested = d.nested()
	}
	d.Shuffle(len(d.w.Machines), func(i, j int) { d.w.Machines[i], d.w.Machines[j] = d.w.Machines[j], d.w.Machines[i] })
	return d.w
}

// elasticGang draws a gang of one to three roles with the machines that serve it, all in one zone.
func (d *draw) elasticGang() {
	group, cluster, zone := fmt.Sprintf("g%d", d.IntN(100)), pick(d, d.clusters...), pick(d, d.zones...)
	roles := 1 + d.IntN(3)
	if d.alike {
		roles = 1
	}
	for range roles {
		spec := model.ProfileSpec{
			Priority: pick(d, d.priorities...), Interruption: d.bucket(), Reclamation: d.bucket(),
			Requirements: []model.Requirement{{Key: model.KeyZone, Operator: model.Same}},
		}
		count, first := 1+d.IntN(4), len(d.w.Machines)
		if d.alike {
			spec.Interruption, spec.Reclamation, count = model.BucketOneDollar, model.BucketOneDollar, pick(d, 2, 2, 2, 3)
		}
		n := d.gangRow(cluster, group, spec, count)
		d.serve(&n, model.KeyZone, count)
		whole := d.alike && d.chance(0.9) // served by as many machines as it wants, of one size
		for whole && len(d.w.Machines)-first < count {
			d.serve(&n, model.KeyZone, 1)
		}
		for i := range d.w.Machines[first:] {
			m := &d.w.Machines[first+i]
			if m.Zone = zone; whole {
				m.State, m.Cluster, m.InstanceType, m.Resources = model.Configured, cluster, "gpu", times(gpuUnit, 8)
			}
		}
	}
}

// GangsInTurn returns the world with many more gangs of few machines and of one or two kinds, which preempt in turn. Most stay in a zone,
// of which there are few. So what could be preempted in a domain is looked at again after each of them has taken something.
func GangsInTurn(w World, seed int64) World {
	d := &draw{Rand: newRand(seed ^ 0x67697475), w: w.Clone(), prices: []float64{1}}
	kinds := make([]model.ProfileSpec, 1+d.IntN(2))
	for i := range kinds {
		kinds[i] = model.ProfileSpec{Priority: pick(d, int32(1000), 1001, 1_000_000), Interruption: d.bucket(), Reclamation: d.bucket()}
		kinds[i].Requirements = []model.Requirement{{Key: pick(d, model.KeyZone, model.KeyZone, model.KeyZone, keyRack), Operator: model.Same}}
	}
	d.elastic = pick(d, 0, 0.3)
	clusters := pick(d, []string{"top"}, []string{"top", "king", "c1", "c2"})
	for i := range 6 + d.IntN(30) {
		n := d.gangRow(pick(d, clusters...), fmt.Sprint("t", i), pick(d, kinds...), 1+d.IntN(3))
		d.w.Reported[n.Cluster] = true
	}
	if served := len(w.Needs); served > 0 && d.chance(0.5) { // roles that preempt, of gangs that are preempted
		for range 1 + d.IntN(8) {
			if n := &w.Needs[d.IntN(served)]; n.Group != "" {
				d.elastic = pick(d, 0.0, 1.0)
				d.gangRow(n.Cluster, n.Group, pick(d, kinds...), 1+d.IntN(3))
			}
		}
	}
	return d.w
}
