package benches

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// The worlds of BenchmarkGangs: machines of one size, all of them bound and
// claimed by demand of low priority, and demand of high priority that finds
// nothing free.
const (
	gangCoresMilli   = 4000 // of a machine
	gangRackKey      = "topology/rack"
	gangRacks        = 5
	gangLowClusters  = 10
	gangLowPriority  = 10
	gangHighPriority = 100
)

// gangWorld is one of them.
type gangWorld struct {
	name     string
	machines int
	// members is how many machines a gang of low priority has; 0 = no gangs.
	members int
	// unmet is in how many clusters demand of high priority lacks machines, and
	// wanted how many machines each lacks; with rack all in one rack.
	unmet, wanted int
	rack          bool
	// covered: all of it can be freed.
	covered bool
}

var gangWorlds = []gangWorld{
	{name: "unmet=100/candidates=100000", machines: 100_000, unmet: 100, wanted: 1, covered: true},
	{name: "gang=100/of=1000/scope=any", machines: 1000, members: 2, unmet: 1, wanted: 100, covered: true},
	{name: "gang=100/of=1000/scope=rack", machines: 1000, members: 2, unmet: 1, wanted: 100, rack: true, covered: true},
	{name: "gang=1001/of=1000/scope=any", machines: 1000, members: 2, unmet: 1, wanted: 1001},
	{name: "gang=201/of=1000/scope=rack", machines: 1000, members: 2, unmet: 1, wanted: 201, rack: true},
}

// BenchmarkGangs chooses victims by gangs where every machine is claimed: what
// counts is phase2-cpu-ms. No two members of a gang lie in one rack. The worlds that
// want more than there is must not take longer than their twins.
func BenchmarkGangs(b *testing.B) {
	for i := range gangWorlds {
		w := &gangWorlds[i]
		b.Run(w.name, func(b *testing.B) { benchmarkGangs(b, w) })
	}
}

func benchmarkGangs(b *testing.B, w *gangWorld) {
	in := w.build(b)
	opts := engine.DefaultOptions()
	opts.Workers = 1
	e, err := engine.New(opts)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	began := processorTime(b)
	in.Clock = func() int64 { return int64(processorTime(b) - began) }
	cycle := func() *engine.Plan {
		plan, err := e.Cycle(in)
		if err != nil {
			b.Fatal(err)
		}
		return plan
	}
	w.check(b, cycle())
	b.ReportAllocs()
	phase2 := int64(0)
	for b.Loop() {
		phase2 += cycle().Stats.Phase2Nanos
	}
	b.ReportMetric(float64(phase2)/float64(b.N)/1e6, "phase2-cpu-ms/op")
}

// check sees that the world is what its name says.
func (w *gangWorld) check(b *testing.B, plan *engine.Plan) {
	preempted := 0
	for i := range plan.Actions {
		if plan.Actions[i].Kind == engine.Preempt {
			preempted++
		}
	}
	if want := w.unmet * w.wanted; w.covered && preempted < want {
		b.Fatalf("%d machines are preempted, want at least %d", preempted, want)
	} else if !w.covered && preempted > 0 {
		b.Fatalf("%d machines are preempted in vain", preempted)
	}
}

// build fills the tables.
func (w *gangWorld) build(b *testing.B) engine.Input {
	in := engine.Input{Supply: supply.New(), Demand: demand.New()}
	// What asks for one domain is a gang.
	low := w.profile(b, model.ProfileSpec{Priority: gangLowPriority, Requirements: []model.Requirement{{Key: model.KeyZone, Operator: model.Same}}})
	if w.members == 0 {
		low = low.WithoutSame()
	}
	perCluster := w.machines / gangLowClusters
	for c := range gangLowClusters {
		cluster := fmt.Sprintf("low-%02d", c)
		var needs []model.Need
		for i := range perCluster {
			group := ""
			if w.members > 0 {
				group = fmt.Sprintf("gang-%04d", i/w.members)
			}
			if w.members > 0 && i%w.members == 0 {
				needs = append(needs, w.need(low, w.members, group))
			}
			w.put(b, in.Supply, low, cluster, group, c*perCluster+i)
		}
		if w.members == 0 {
			needs = append(needs, w.need(low, perCluster, ""))
		}
		w.replace(b, in.Demand, cluster, needs)
	}
	spec := model.ProfileSpec{Priority: gangHighPriority}
	if w.rack {
		spec.Requirements = []model.Requirement{{Key: gangRackKey, Operator: model.Same}}
	}
	high := w.profile(b, spec)
	for c := range w.unmet {
		w.replace(b, in.Demand, fmt.Sprintf("high-%03d", c), []model.Need{w.need(high, w.wanted, "")})
	}
	return in
}

func (w *gangWorld) profile(b *testing.B, spec model.ProfileSpec) *model.Profile {
	p, err := model.NewProfile(spec)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func (w *gangWorld) need(p *model.Profile, machines int, group string) model.Need {
	return model.Need{Profile: p, Aggregate: gangCores(machines), MinUnit: gangCores(1), Group: group}
}

// gangCores is what some machines offer together.
func gangCores(machines int) model.Resources {
	return model.NewResources(model.Amount{Name: model.DimensionCPU, Value: int64(machines) * gangCoresMilli})
}

func (w *gangWorld) put(b *testing.B, t *supply.Table, p *model.Profile, cluster, group string, number int) {
	err := t.Put(&model.Machine{
		ID: fmt.Sprintf("m-%06d", number), State: model.Configured, Host: fmt.Sprintf("h-%06d", number), Cluster: cluster, Zone: "zone-a",
		Labels: map[string]string{gangRackKey: fmt.Sprintf("rack-%d", number%gangRacks)}, Resources: gangCores(1),
		Assigned: model.Assignment{Priority: p.Priority(), Fingerprint: p.Fingerprint(), Group: group},
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (w *gangWorld) replace(b *testing.B, t *demand.Table, cluster string, needs []model.Need) {
	if err := t.Replace(cluster, needs); err != nil {
		b.Fatal(err)
	}
}
