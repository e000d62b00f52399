package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// The keys that machines are labelled with beside the typed fields.
const (
	keyRack       = "topology.kubernetes.io/rack"
	keyGeneration = "example.com/generation" // an integer, mostly
	keyAccel      = "example.com/accelerator"
)

// draw is one world being drawn. Its temper is chosen once, so that worlds
// differ in kind and not only in detail.
type draw struct {
	*rand.Rand
	w        World
	profiles []*model.Profile

	clusters   []string // with rows, or reported without rows
	unreported []string
	prices     []float64
	racks      []string
	zones      []string
	priorities []int32
	states     []model.State // as often as they are to be drawn

	same, spread, stamps, holds, huge, elastic, plans float64 // shares

	alike bool // of Elastic: gangs cost the same
}

// Random draws a world: of one half the rules meet each other in every way, the
// other half is full of gangs.
func Random(seed int64, size Size) World {
	d := &draw{Rand: newRand(seed)}
	d.w = World{Reported: map[string]bool{}, Now: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()}
	d.temper()
	if d.chance(0.5) {
		d.gangFleet(size)
	} else {
		d.anyFleet(size)
	}
	d.Shuffle(len(d.w.Machines), func(i, j int) {
		d.w.Machines[i], d.w.Machines[j] = d.w.Machines[j], d.w.Machines[i]
	})
	if d.chance(0.4) {
		d.w.Nested = d.nested()
	}
	if d.chance(0.3) {
		d.w.TopDomains = 1 + d.IntN(3)
	}
	if d.chance(0.2) {
		d.backOff()
	}
	if d.chance(0.1) {
		d.w.SearchPairs = 1 + d.IntN(8)
	}
	if d.chance(0.1) {
		d.w.SearchUnits = 1 + d.IntN(24)
	}
	return d.w
}

// nested draws topology keys of which each should lie in the one before; racks
// mostly lie in a zone.
func (d *draw) nested() []string {
	keys := []string{model.KeyZone, keyRack, keyRole, model.KeyInstanceType}
	switch d.IntN(8) {
	case 0:
		return []string{keyRack, model.KeyZone}
	case 1:
		return keys[1 : 2+d.IntN(3)]
	}
	return keys[:2+d.IntN(3)]
}

// anyFleet draws a world in which everything is met with everything.
func (d *draw) anyFleet(size Size) {
	for range 2 + d.IntN(5) {
		d.profiles = append(d.profiles, d.profile())
	}
	for range about(d, size.Needs) {
		d.w.Needs = append(d.w.Needs, d.need())
	}
	for i := range about(d, size.Machines) {
		d.w.Machines = append(d.w.Machines, d.machine(i, size.Machines))
	}
}

// about draws a number from a half of n to one and a half.
func about(d *draw, n int) int { return n/2 + d.IntN(n+1) }

func (d *draw) temper() {
	for i := range 1 + d.IntN(4) {
		d.clusters = append(d.clusters, fmt.Sprintf("c%d", i+1))
		d.w.Reported[d.clusters[i]] = true
	}
	d.unreported = []string{"u1", "u2"}[:d.IntN(3)]
	d.prices = [][]float64{{1}, {0, 1}, {0.5, 1, 2}, {0, 0.1, 0.3, 1, 1.5}}[d.IntN(4)]
	d.racks = []string{"r1", "r2", "r3", "r4"}[:1+d.IntN(4)]
	if d.chance(0.15) {
		d.racks[0] = "" // a label may be there and say nothing
	}
	d.zones = []string{"za", "zb", "zc"}[:1+d.IntN(3)]
	d.priorities = [][]int32{
		{10}, {0, 10, 1000}, {100, 200, 300, 200_000}, {-5, 0, 600_000, 1_000_000}, {math.MinInt32, 0, math.MaxInt32},
	}[d.IntN(5)]
	d.states = [][]model.State{
		{model.Idle, model.Speculative},
		{model.Configured},
		{model.Configured, model.Configured, model.Configured, model.Configured, model.Configured, model.Configured, model.Configured, model.Idle, model.Draining},
		{model.Configured, model.Configured, model.Idle},
		{model.Configured, model.Configured, model.Configured, model.Draining, model.Idle, model.Speculative},
		{model.Speculative, model.Creating, model.Idle, model.Configuring, model.Configured, model.Configured, model.Draining, model.Deleting, model.Failed},
	}[d.IntN(6)]
	d.same = []float64{0, 0.3, 0.8}[d.IntN(3)]
	d.spread = []float64{0, 0.2, 0.7}[d.IntN(3)]
	d.stamps = []float64{0.2, 0.6, 0.95}[d.IntN(3)]
	d.holds = []float64{0, 0.2, 0.6}[d.IntN(3)]
	d.elastic = []float64{0, 0.3, 0.8}[d.IntN(3)]
	d.plans = []float64{0, 0.5, 1}[d.IntN(3)]
	d.w.OneByOne = d.chance(0.2)
	d.w.Band = []float64{1, 1, 1, 0, 100, math.Inf(1)}[d.IntN(6)]
	d.huge = []float64{0, 0, 0.1, 0.5}[d.IntN(4)]
	if d.chance(0.2) {
		d.tenants()
	}
	if d.chance(0.3) {
		d.w.DrainSeconds = map[string]float64{"small": 300, "large": 0.2, "gpu": 5}
	}
}

// chance is true with probability p.
func (d *draw) chance(p float64) bool { return d.Float64() < p }

func pick[T any](d *draw, from ...T) T { return from[d.IntN(len(from))] }

func (d *draw) bucket() model.Bucket {
	return pick(d, model.BucketUnspecified, model.BucketZero, model.BucketHalfDollar, model.BucketOneDollar, 9, 26, model.BucketPinned)
}

func (d *draw) anyCluster() string {
	return pick(d, append(append([]string{}, d.clusters...), d.unreported...)...)
}

// topologyKey is a key that co-location and spread look at.
func (d *draw) topologyKey() string { return pick(d, keyRack, keyRack, model.KeyZone) }
