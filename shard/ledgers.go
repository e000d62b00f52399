package shard

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// The bounds of the ledgers.
const (
	ShortfallsReportedMax = 100
	DrainTypesMax         = 4096
	WaitingMax            = 1 << 20
)

// drainWeight is the weight of a new observation in the moving average.
const drainWeight = 0.2

// Shortfall is demand of one profile that this shard could not meet and could
// not preempt for, all Needs of the profile together.
type Shortfall struct {
	Profile   *model.Profile
	Deficit   model.Resources
	AgeCycles int
	Needs     int
}

// shortfalls is the ledger of unresolved demand by fingerprint.
type shortfalls struct {
	open  map[uint64]*shortfall
	cycle uint64
}

type shortfall struct {
	profile *model.Profile
	deficit []model.Amount // unsorted, changed in place
	age     int
	needs   int
	seen    uint64
}

func newShortfalls() shortfalls { return shortfalls{open: map[uint64]*shortfall{}} }

// record takes over what a plan left unresolved: unsatisfied Needs for which
// not enough is draining either. Members of a fold count once.
func (l *shortfalls) record(plan *engine.Plan) {
	l.cycle++
	for i := range plan.Needs {
		n := &plan.Needs[i]
		if n.Satisfied || int(n.Fold) != i || n.Unmet == engine.UnmetAwaitingDrain {
			continue
		}
		p := n.Profile
		x := l.open[p.Fingerprint()]
		if x == nil {
			x = &shortfall{profile: p}
			l.open[p.Fingerprint()] = x
		}
		if x.seen != l.cycle {
			x.seen = l.cycle
			x.age++
			x.needs = 0
			x.deficit = x.deficit[:0]
		}
		x.needs++
		x.add(n.Deficit)
	}
	for k, x := range l.open {
		if x.seen != l.cycle {
			delete(l.open, k)
		}
	}
}

// add sums in place: a cycle may leave hundreds of thousands of Needs short.
func (x *shortfall) add(r model.Resources) {
next:
	for _, a := range r {
		for i := range x.deficit {
			if x.deficit[i].Name == a.Name {
				x.deficit[i].Value = model.SatAdd(x.deficit[i].Value, a.Value)
				continue next
			}
		}
		x.deficit = append(x.deficit, a)
	}
}

// report returns the worst: priority descending, older first, at most
// ShortfallsReportedMax.
func (l *shortfalls) report() []Shortfall {
	all := make([]*shortfall, 0, len(l.open))
	for _, x := range l.open {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *shortfall) int {
		return cmp.Or(cmp.Compare(b.profile.Priority(), a.profile.Priority()), cmp.Compare(b.age, a.age),
			cmp.Compare(a.profile.Fingerprint(), b.profile.Fingerprint()))
	})
	out := make([]Shortfall, 0, min(len(all), ShortfallsReportedMax))
	for _, x := range all[:cap(out)] {
		out = append(out, Shortfall{x.profile, model.NewResources(x.deficit...), x.age, x.needs})
	}
	return out
}

// Shortfalls returns the unresolved demand, worst first, at most
// ShortfallsReportedMax.
func (s *Shard) Shortfalls() []Shortfall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shortfalls.report()
}

// drainTimes is the observed drain time in seconds by instance type, an
// exponentially weighted moving average.
type drainTimes struct{ seconds map[string]float64 }

// observe adds one drain; nanos is how long it took.
func (d *drainTimes) observe(instanceType string, nanos int64) {
	seconds := float64(max(nanos, 0)) / 1e9
	old, known := d.seconds[instanceType]
	switch {
	case known:
		d.seconds[instanceType] = old + drainWeight*(seconds-old)
	case len(d.seconds) < DrainTypesMax:
		if d.seconds == nil {
			d.seconds = map[string]float64{}
		}
		d.seconds[instanceType] = seconds
	}
}

// latencies is the ledger behind the provisioning latency: since when demand
// waits, by cluster and fingerprint. An entry is observed once, by the first
// machine that is bound for it, and lives no longer than the demand is short.
type latencies struct {
	since map[demandKey]*since
	cycle uint64
}

type demandKey struct {
	cluster     string
	fingerprint uint64
}

type since struct {
	at   int64
	seen uint64
}

func newLatencies() latencies { return latencies{since: map[demandKey]*since{}} }

// record notes the Needs that wait for machines: short, or with machines on
// their way. They wait since the roll-up that brought them.
func (l *latencies) record(s *Shard, plan *engine.Plan) {
	l.cycle++
	for i := range plan.Needs {
		n := &plan.Needs[i]
		if int(n.Fold) != i || n.Satisfied && n.Bootstrap+n.Provision == 0 {
			continue
		}
		k := demandKey{n.Cluster, n.Profile.Fingerprint()}
		x := l.since[k]
		if x == nil {
			if len(l.since) >= WaitingMax {
				continue
			}
			at := s.now
			if t, ok := s.reportedAt[n.Cluster]; ok && t > s.lastCycle {
				at = min(at, t)
			}
			x = &since{at: at}
			l.since[k] = x
		}
		x.seen = l.cycle
	}
	if l.cycle%latencyPruneCycles == 0 {
		l.prune()
	}
}

// prune forgets demand that stopped waiting a while ago. What is being created
// or configured takes cycles in which its Need is satisfied.
func (l *latencies) prune() {
	for k, x := range l.since {
		if l.cycle-x.seen > latencyForgottenCycles {
			delete(l.since, k)
		}
	}
}

const (
	latencyPruneCycles     = 64
	latencyForgottenCycles = 360
)

// bound observes that a machine was bound.
func (l *latencies) bound(cluster string, fingerprint uint64, now int64, m *metrics) {
	k := demandKey{cluster, fingerprint}
	if x := l.since[k]; x != nil {
		delete(l.since, k)
		m.provisioned(now - x.at)
	}
}
