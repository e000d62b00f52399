package workload

import "github.com/tonnage/tonnage/engine/model"

// keyRack is the label of the rack that a machine stands in.
const keyRack = "topology.kubernetes.io/rack"

// The dimensions of the catalog's resource vectors.
const (
	dimCPU    = "cpu"
	dimMemory = "memory"
	dimGPU    = "nvidia.com/gpu"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// Prices are US dollars per hour, on demand, Linux, of us-east-1 and
// us-central1 in July 2026.
const (
	// spotPriceFactor is a spot slot's price relative to the list price: the
	// median discount of the two clouds is about 60 %.
	spotPriceFactor = 0.4
	// spotInterruption is a spot slot's probability of interruption per hour.
	spotInterruption = 0.05
)

// instanceType is one row of the price list.
type instanceType struct {
	name    string
	price   float64
	devices int64 // GPUs
}

// The instance types of the catalog.
var (
	m6iLarge   = instanceType{name: "m6i.large", price: 0.096}
	m6iXlarge  = instanceType{name: "m6i.xlarge", price: 0.192}
	m6i2xlarge = instanceType{name: "m6i.2xlarge", price: 0.384}
	c6i4xlarge = instanceType{name: "c6i.4xlarge", price: 0.68}
	c6i8xlarge = instanceType{name: "c6i.8xlarge", price: 1.36}
	n2std32    = instanceType{name: "n2-standard-32", price: 1.5539}
	r6iXlarge  = instanceType{name: "r6i.xlarge", price: 0.252}
	r6i2xlarge = instanceType{name: "r6i.2xlarge", price: 0.504}
	r6i4xlarge = instanceType{name: "r6i.4xlarge", price: 1.008}
	a2high8    = instanceType{name: "a2-highgpu-8g", price: 29.3871, devices: 8}
	a3high8    = instanceType{name: "a3-highgpu-8g", price: 88.49, devices: 8}
)

// podSize is one of an archetype's pod sizes and the instance types that carry
// pods of this size, in equal parts.
type podSize struct {
	weight   int
	cpuMilli int64
	memory   int64
	gpus     int64
	types    []instanceType
}

// archetype is one line of the catalog.
type archetype struct {
	name        string
	weight      int       // frequency of objects
	sizes       []podSize // smallest first
	priority    int32
	interrupt   float64 // penalty in dollars
	reclaim     float64
	gang        [2]int32 // least and most members; zero for plain archetypes
	sameKey     string   // gangs only
	spread      float64  // probability that an object has a zone spread
	spreadSkew  int32
	spreadHard  bool
	perMachine  int32    // pods per machine
	share       float64  // of the machines
	zones       []string // that the workload accepts; nil = all
	lifeSeconds int64    // of one object; 0 = it stays
	surges      bool     // now and then its rows ask for several times as much
	visits      bool     // now and then one more gang comes for a while
}

// isGang reports whether the archetype's objects are gangs.
func (a *archetype) isGang() bool { return a.gang[1] > 0 }

// foldable reports whether one machine holds any gang of the archetype, so
// that its rows fold.
func (a *archetype) foldable() bool { return a.isGang() && a.gang[1] <= a.perMachine }

// catalog is the table of workloads that every fleet holds. Order matters: it is the order of rows in
// a roll-up.
var catalog = []archetype{
	{
		name: "tiny-stateless", weight: 16073, priority: 100, interrupt: 32, reclaim: 64,
		sizes: []podSize{
			{40, 300, 384 * mib, 0, []instanceType{m6iLarge}},
			{60, 400, 500 * mib, 0, []instanceType{m6iXlarge}},
		},
		spread: 0.45, spreadSkew: 2, perMachine: 100, share: 66.4,
	},
	{
		name: "cpu-service", weight: 2755, priority: 1000, interrupt: 1024, reclaim: 8192,
		sizes: []podSize{
			{70, 2200, 8500 * mib, 0, []instanceType{m6iXlarge}},
			{30, 4200, 16500 * mib, 0, []instanceType{m6i2xlarge}},
		},
		spread: 0.75, spreadSkew: 1, spreadHard: true, perMachine: 100, share: 11.4,
	},
	{
		name: "cpu-batch", weight: 1378, priority: 100, interrupt: 64, reclaim: 256,
		sizes: []podSize{
			{60, 4000, 8 * gib, 0, []instanceType{c6i4xlarge}},
			{40, 8000, 16 * gib, 0, []instanceType{c6i8xlarge, n2std32}},
		},
		spread: 0.15, spreadSkew: 2, perMachine: 100, share: 5.7, lifeSeconds: 600,
	},
	{
		name: "critical-realtime", weight: 230, priority: 1_000_000, interrupt: 65536, reclaim: 65536,
		sizes:  []podSize{{1, 4000, 8 * gib, 0, []instanceType{c6i4xlarge, m6i2xlarge}}},
		spread: 1, spreadSkew: 1, spreadHard: true, perMachine: 100, share: 0.95, surges: true,
	},
	{
		name: "memory-cache", weight: 2000, priority: 1000, interrupt: 4096, reclaim: 16384,
		sizes: []podSize{{1, 2000, 16 * gib, 0, []instanceType{r6iXlarge, r6i2xlarge}}},
		gang:  [2]int32{3, 5}, sameKey: keyRack, perMachine: 100, share: 1.5,
	},
	{
		name: "stateful-db", weight: 2000, priority: 1000, interrupt: 8192, reclaim: 32768,
		sizes: []podSize{{1, 8000, 32 * gib, 0, []instanceType{r6i2xlarge, r6i4xlarge}}},
		gang:  [2]int32{3, 5}, sameKey: keyRack, perMachine: 100, share: 1.5,
	},
	{
		name: "gpu-inference", weight: 100, priority: 1000, interrupt: 4096, reclaim: 8192,
		sizes:  []podSize{{1, 8000, 32 * gib, 1, []instanceType{a2high8, a3high8}}},
		spread: 0.5, spreadSkew: 2, perMachine: 8, share: 5.2,
	},
	{
		name: "gpu-training-small", weight: 32, priority: 1000, interrupt: 16384, reclaim: 32768,
		sizes: []podSize{{1, 64000, 256 * gib, 8, []instanceType{a3high8}}},
		gang:  [2]int32{2, 8}, sameKey: keyRack, perMachine: 1, share: 3.1, visits: true,
	},
	{
		name: "gpu-training-medium", weight: 18, priority: 1000, interrupt: 32768, reclaim: 65536,
		sizes: []podSize{{1, 64000, 256 * gib, 8, []instanceType{a3high8}}},
		gang:  [2]int32{8, 16}, sameKey: keyRack, perMachine: 1, share: 4.2,
	},
}

// trainingLarge comes with bursts only: fleets hold no object of it and keep no
// machine for it.
var trainingLarge = archetype{
	name: "gpu-training-large", priority: 1000, interrupt: 65536, reclaim: 131072,
	sizes: []podSize{{1, 128000, 512 * gib, 8, []instanceType{a3high8}}},
	gang:  [2]int32{64, 256}, sameKey: model.KeyZone, perMachine: 1,
}

// zones of every rung.
var zones = []string{"zone-a", "zone-b", "zone-c"}

// replicaBands are the heavy-tailed replicas of a plain object: percent of the
// objects, and the range inside which they are uniform. The mean is 21.4.
var replicaBands = []struct {
	percent  float64
	min, max int32
}{{55, 1, 5}, {30, 6, 25}, {12, 26, 100}, {3, 101, 400}}

// pod returns the resources of one pod.
func (s *podSize) pod() model.Resources { return s.pods(1) }

// pods returns the resources of n pods.
func (s *podSize) pods(n int64) model.Resources {
	return model.NewResources(
		model.Amount{Name: dimCPU, Value: s.cpuMilli * n},
		model.Amount{Name: dimMemory, Value: s.memory * n},
		model.Amount{Name: dimGPU, Value: s.gpus * n},
	)
}

// instanceTypes lists every type of the archetype.
func (a *archetype) instanceTypes() []string {
	var names []string
	for _, s := range a.sizes {
		for _, t := range s.types {
			names = append(names, t.name)
		}
	}
	return names
}

// profile makes the archetype's profile, with or without its spread.
func (a *archetype) profile(spread bool) *model.Profile {
	accepted := a.zones
	if accepted == nil {
		accepted = zones
	}
	spec := model.ProfileSpec{
		Requirements: []model.Requirement{
			{Key: model.KeyInstanceType, Operator: model.In, Values: a.instanceTypes()},
			{Key: model.KeyZone, Operator: model.In, Values: accepted},
		},
		Priority:     a.priority,
		Interruption: model.BucketForDollars(a.interrupt),
		Reclamation:  model.BucketForDollars(a.reclaim),
	}
	if a.isGang() {
		spec.Requirements = append(spec.Requirements, model.Requirement{Key: a.sameKey, Operator: model.Same})
	}
	if spread {
		when := model.ScheduleAnyway
		if a.spreadHard {
			when = model.DoNotSchedule
		}
		spec.Spread = []model.Spread{{Key: model.KeyZone, MaxSkew: a.spreadSkew, WhenUnsatisfiable: when}}
	}
	return mustProfile(spec)
}

// mustProfile makes a profile of constants of this package.
func mustProfile(spec model.ProfileSpec) *model.Profile {
	p, err := model.NewProfile(spec)
	if err != nil {
		panic("workload: the catalog has a faulty profile: " + err.Error())
	}
	return p
}
