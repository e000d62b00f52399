package buying

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// Stages of a loop: nothing happens; bound machines are lost; a Need comes that ranks above all pods; it goes.
var Stages = [...]string{"settle", "lose", "add", "remove"}

const (
	// stageRounds is how long a stage is at the most, and quietRounds after how many rounds without an action it ends:
	// overhead is kept for ten minutes and reservations end within twenty.
	stageRounds = 240
	quietRounds = 45
	top         = "top" // the cluster of the Need that comes and goes
	topPriority = 1000
)

// LoopResult is how a closed loop went.
type LoopResult struct {
	// Rested says of how many stages the end came without an action for quietRounds rounds.
	Rested int
	// Undone counts the actions that the engine undid, by stage.
	Undone [len(Stages)]int
	// Back counts the machines that a cluster got after one was reclaimed from it in the same stage, by stage: its operator had asked
	// for less than its pods need.
	Back [len(Stages)]int
	// Twice counts the machines that were reclaimed after that in the same stage, by stage.
	Twice [len(Stages)]int
	// Acts counts actions, Lost the machines that were lost, Pending the pods without a node at the end of each stage.
	Acts    [len(Stages)]int
	Lost    int
	Pending [len(Stages)]int
	// Stranded counts those of them that would have room on a machine that nobody has.
	Stranded [len(Stages)]int
}

// loop is a shard and clusters that buy of it what their pods need, all of which are there from the start.
type loop struct {
	types []Type
	zones []string // that machines are in
	fleet *simulated.Fleet
	shard *shard.Shard
	told  *news
	sites map[string]*site
	names []string // of sites, in their order
	now   time.Time
	out   LoopResult
	// gave are the clusters from which a machine was reclaimed in this stage, took those that got one after that.
	gave, took map[string]bool
}

// Loop plays the closed loop of a seed: a small random world of machines and of pods in two clusters, whose operators pack
// them, if asked for with groups of pods with GPUs and with nominations, through all stages. The rounds are as far apart as those of [Run].
func Loop(ctx context.Context, seed uint64, rule engine.AcquireRule, groups bool) (*LoopResult, error) {
	r := rand.New(rand.NewPCG(seed, 5))
	l := &loop{sites: map[string]*site{}}
	if err := l.build(r, rule, groups); err != nil {
		return nil, err
	}
	defer l.shard.Close()
	lose := 1 + r.IntN(3)
	need, err := l.drawNeed(r)
	if err != nil {
		return nil, err
	}
	for stage, name := range Stages {
		switch name {
		case "lose":
			l.lose(r, lose)
		case "add":
			err = l.reports(top, need)
		case "remove":
			err = l.reports(top, nil)
		}
		if err == nil {
			err = l.stage(ctx, stage)
		}
		if err != nil {
			return nil, fmt.Errorf("seed %d, %s: %w", seed, name, err)
		}
	}
	return &l.out, nil
}

// drawNeed draws the Need that comes and goes: one to three machines of a type.
func (l *loop) drawNeed(r *rand.Rand) ([]model.Need, error) {
	profile, err := model.NewProfile(model.ProfileSpec{Priority: topPriority})
	unit := l.types[r.IntN(len(l.types))].Capacity
	sum, units := unit, 1+r.Int64N(3)
	for d := range sum {
		sum[d] *= units
	}
	return []model.Need{{Cluster: top, Profile: profile, Aggregate: resources(&sum), MinUnit: resources(&unit)}}, err
}

// build draws the world.
func (l *loop) build(r *rand.Rand, rule engine.AcquireRule, groups bool) error {
	l.zones = []string{"a"}
	l.drawTypes(r)
	feeds := []string{"plain", "tiny", "memory-heavy", "giants"}
	largest := Pod{} // plain pods fit machines without GPUs
	for _, t := range l.types {
		for d, n := range t.Capacity {
			largest[d] = max(largest[d], n)
		}
	}
	if groups {
		l.zones = []string{"a", "b", "c"}
		for _, gpus := range []int64{4, 8} {
			l.types = append(l.types, l.drawType(r, 8*gpus, gpus))
		}
	}
	var sum [dims]int64
	for i, name := range []string{"blue", "green"} {
		feed, err := Feed(feeds[r.IntN(len(feeds))], 10+r.IntN(60), r.Uint64())
		if err != nil {
			return err
		}
		s := newSite(Packed)
		if r.IntN(2) == 0 {
			s.place = Scheduled(Tonnage)
		}
		s.priority = int32(i * r.IntN(2) * 100)
		for _, p := range feed {
			for d := range p {
				p[d] = min(p[d], largest[d])
			}
			s.come(p)
		}
		if groups {
			for range 1 + r.IntN(3) {
				s.comeGang(r)
			}
		}
		for _, p := range s.pods {
			for d, n := range p {
				sum[d] += n
			}
		}
		s.limit(l.types)
		s.nominates = groups
		l.sites[name], l.names = &s, append(l.names, name)
		l.now = s.now
	}
	return l.boot(r, rule, sum)
}

// drawTypes draws machine types.
func (l *loop) drawTypes(r *rand.Rand) {
	for range 4 + r.IntN(6) {
		l.types = append(l.types, l.drawType(r, 4<<r.IntN(4), 0))
	}
}

// drawType draws a machine type of so many cores and GPUs: its memory, and its price, which is a fifth off the mean at the most.
func (l *loop) drawType(r *rand.Rand, cores, gpus int64) Type {
	memory := cores * int64(2<<r.IntN(3)) << 10
	mean := float64(cores)*0.03 + float64(memory>>10)*0.004 + float64(gpus)
	return Type{
		Name: fmt.Sprintf("t%d-%d-%d", len(l.types), cores, gpus), Capacity: Pod{1000 * cores, memory, gpus, 110}, Price: mean * (0.8 + 0.4*r.Float64()),
	}
}

// boot starts a shard with machines for 1.2 to 2.2 times what pods ask for, for each zone, most of them on offer and some Idle.
func (l *loop) boot(r *rand.Rand, rule engine.AcquireRule, sum [dims]int64) error {
	cfg := simulated.Config{Seed: r.Uint64(), Now: l.now.UnixNano()}
	latency := func() simulated.Latency {
		return simulated.Latency{Max: time.Duration(r.IntN(3)) * roundTime, Step: roundTime}
	}
	cfg.Latencies = simulated.Latencies{Create: latency(), Configure: latency(), Drain: latency(), Delete: latency()}
	enough := (1.2 + r.Float64()) * float64(len(l.zones)) // a group runs in one zone
	var has [dims]int64
	suffices := func(d int) bool { return float64(has[d]) >= enough*float64(sum[d]) }
	for n := 0; !suffices(dimCPU) || !suffices(dimMemory) || !suffices(dimGPU); n++ {
		t := &l.types[r.IntN(len(l.types))]
		m := model.Machine{
			ID: fmt.Sprintf("%s-%04d", t.Name, n), State: model.Speculative, InstanceType: t.Name, Zone: l.zones[r.IntN(len(l.zones))],
			CapacityType: model.OnDemand, PricePerHour: t.Price, Resources: resources(&t.Capacity),
		}
		if r.IntN(5) == 0 {
			m.State, m.CapacityType, m.PricePerHour = model.Idle, model.BareMetal, 0
		}
		cfg.Machines = append(cfg.Machines, m)
		for d, c := range t.Capacity {
			has[d] += c
		}
	}
	var err error
	if l.fleet, err = simulated.New(cfg); err != nil {
		return err
	}
	c := shard.DefaultConfig()
	c.Engine.Acquire = rule
	c.Unbounded()
	c.DoubtListings, c.Concurrency, c.ObserveDrains = false, 0, false
	l.told = &news{labels: map[string]map[string]string{}}
	l.shard, err = shard.New(c, shard.Deps{Provider: l.fleet, Operators: l.told})
	return err
}

// news is what a shard tells operators.
type news struct {
	labels map[string]map[string]string // by machine
}

// Connected is true.
func (*news) Connected(string) bool { return true }

// Count counts the clusters with pods.
func (*news) Count() int { return 2 }

// Bootstrap says that a machine needs nothing.
func (*news) Bootstrap(context.Context, string, *model.Profile) (shard.Blob, error) {
	return shard.Blob{}, nil
}

// Cordon does nothing: a machine's pods are pending once it is gone.
func (*news) Cordon(context.Context, shard.Cordon) error { return nil }

// NodeState notes the labels of a machine.
func (n *news) NodeState(u shard.NodeState) { n.labels[u.Machine] = u.Labels }

// Capacity does nothing.
func (*news) Capacity(shard.CapacityHint) {}

func (l *loop) reports(cluster string, rows []model.Need) error {
	_, err := l.shard.ApplyRollup(cluster, rows, l.now.UnixNano())
	return err
}

// lose loses so many bound machines, fewer where there are fewer.
func (l *loop) lose(r *rand.Rand, count int) {
	var bound []string
	l.shard.Machines(func(m model.Machine) bool {
		if m.State == model.Configured {
			bound = append(bound, m.ID)
		}
		return true
	})
	r.Shuffle(len(bound), func(i, j int) { bound[i], bound[j] = bound[j], bound[i] })
	bound = bound[:min(count, len(bound))]
	l.fleet.Lose(bound...)
	l.out.Lost = len(bound)
}

// stage runs rounds until nothing has been done for quietRounds of them.
func (l *loop) stage(ctx context.Context, stage int) error {
	l.gave, l.took = map[string]bool{}, map[string]bool{}
	quiet := 0
	for range stageRounds {
		acts, err := l.round(ctx, stage)
		if err != nil {
			return err
		}
		l.out.Acts[stage] += acts
		if quiet++; acts > 0 {
			quiet = 0
		}
		if quiet == quietRounds {
			l.out.Rested++
			break
		}
	}
	free := map[*Type]bool{}
	l.shard.Machines(func(m model.Machine) bool {
		if m.State == model.Idle || m.State == model.Speculative {
			free[l.typeOf(m.InstanceType)] = true
		}
		return true
	})
	for _, s := range l.sites {
		l.out.Pending[stage] += s.pending()
		l.out.Stranded[stage] += s.stranded(free)
	}
	return nil
}

// stranded counts the pending pods that have room on an empty machine of some types.
func (s *site) stranded(types map[*Type]bool) (n int) {
	for i, p := range s.pods {
		for t := range types {
			if s.on[i] < 0 && holds(t, &p) > 0 {
				n++
				break
			}
		}
	}
	return n
}

// round has every operator report, the shard decide, machines come and go, schedulers place pods and operators look for
// stuck ones. It returns how many actions there were, of the engine and of operators.
func (l *loop) round(ctx context.Context, stage int) (acts int, err error) {
	l.now = l.now.Add(roundTime)
	l.fleet.Advance(l.now.UnixNano())
	for _, name := range l.names {
		s := l.sites[name]
		s.now = l.now
		rows, err := s.rows()
		if err != nil {
			return 0, err
		}
		if err := l.reports(name, rows); err != nil {
			return 0, err
		}
	}
	c, err := l.shard.Step(ctx, l.now.UnixNano())
	if err != nil {
		return 0, err
	}
	for _, n := range c.Wasted.Undone {
		l.out.Undone[stage] += n
	}
	l.count(stage, c.Started)
	l.follow(c.Started)
	return len(c.Started) + l.operate(c.Plan), nil
}

// count notes from which clusters a shard takes machines, and which get some after that.
func (l *loop) count(stage int, all []shard.Started) {
	for i := range all {
		a := &all[i]
		switch a.Kind {
		case engine.Reclaim:
			if l.gave[a.Cluster] = true; l.took[a.Cluster] {
				l.out.Twice[stage]++
			}
		case engine.Provision, engine.Bootstrap:
			if l.gave[a.Cluster] {
				l.out.Back[stage]++
				l.took[a.Cluster] = true
			}
		}
	}
}

// operate has clusters hear what of their demand is satisfied, schedulers place pods, and operators look for stuck ones. It returns
// how many of these ask for something else then.
func (l *loop) operate(plan *engine.Plan) (acts int) {
	satisfied := map[string]map[int]bool{}
	for i := range plan.Len() {
		cluster, row := plan.Identity(i)
		if satisfied[cluster] == nil {
			satisfied[cluster] = map[int]bool{}
		}
		satisfied[cluster][row] = plan.Satisfied(i)
	}
	for _, name := range l.names {
		s := l.sites[name]
		s.hear(func(row int) bool { return satisfied[name][row] })
		s.schedule()
		s.takeBack()
		before := maps.Clone(s.overhead)
		s.lookForStuck()
		if !maps.Equal(before, s.overhead) {
			acts++
		}
	}
	return acts
}

// typeOf returns the type of a machine.
func (l *loop) typeOf(name string) *Type {
	return &l.types[slices.IndexFunc(l.types, func(t Type) bool { return t.Name == name })]
}

// follow brings the clusters' nodes in line with the machines, and tells clusters of those that are being made for them.
func (l *loop) follow(started []shard.Started) {
	at := map[string]model.Machine{}
	l.shard.Machines(func(m model.Machine) bool {
		at[m.ID] = m
		return true
	})
	for i := range started {
		if a := &started[i]; a.Kind == engine.Provision && l.sites[a.Cluster] != nil {
			m := at[a.Machine]
			l.sites[a.Cluster].expect(m.ID, m.Zone, l.typeOf(m.InstanceType), l.now)
		}
	}
	for _, name := range l.names {
		l.followIn(name, at)
	}
}

// followIn brings the nodes of one cluster in line.
func (l *loop) followIn(name string, at map[string]model.Machine) {
	s := l.sites[name]
	isHere := func(id string) bool {
		m, some := at[id]
		return some && m.Cluster == name && (m.State == model.Configuring || m.State == model.Configured)
	}
	for i, n := range s.nodes {
		if n.Status.Allocatable != nil && !isHere(n.Name) {
			s.empty(i)
		}
	}
	s.coming = slices.DeleteFunc(s.coming, func(x arrival) bool {
		m, some := at[x.node.Name]
		unbound := some && m.Cluster == "" && (m.State == model.Creating || m.State == model.Idle)
		return !isHere(x.node.Name) && (!unbound || l.now.Sub(x.at) > promiseMax)
	})
	for _, id := range slices.Sorted(maps.Keys(at)) {
		if !isHere(id) {
			continue
		}
		known := func(n *corev1.Node) bool { return n.Name == id }
		i := slices.IndexFunc(s.coming, func(x arrival) bool { return known(x.node) })
		m := at[id]
		if i < 0 && !slices.ContainsFunc(s.nodes, known) {
			i = len(s.coming)
			s.expect(id, m.Zone, l.typeOf(m.InstanceType), l.now)
		}
		if i >= 0 && m.State == model.Configured {
			s.landOne(i)
			if s.nominates {
				s.hold()
			}
		}
	}
	l.told.to(s)
	s.open()
}

// to tells an operator the labels of its machines.
func (n *news) to(s *site) {
	for i, node := range s.nodes {
		if labels := n.labels[node.Name]; labels != nil {
			s.upcoming[i].Spec.Labels = labels
		}
	}
}

// takeBack takes the nominations of pods back that found no room.
func (s *site) takeBack() {
	for i, p := range s.objects {
		if s.on[i] < 0 {
			p.Status.NominatedNodeName = ""
		}
	}
}

// promiseMax is how long a machine is promised at the most before it is bound.
const promiseMax = 4 * roundTime
