package shard

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// The bounds of the ledgers.
const (
	ShortfallsReportedMax = 100
	DrainTypesMax         = 4096
	WaitingMax            = 1 << 20
)

// recentSlots is how many entries a ledger finds without looking into its map,
// by the low bits of their fingerprints: hundreds of thousands of rows may share
// some dozens of profiles.
const recentSlots = 256

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
	dims  []string // of the deficits
	cycle uint64
	// recent are entries that the running cycle has seen.
	recent [recentSlots]*shortfall
}

type shortfall struct {
	profile *model.Profile
	deficit []int64         // over dims
	beyond  model.Resources // what no machine offers
	age     int
	needs   int
	seen    uint64
}

func newShortfalls() shortfalls { return shortfalls{open: map[uint64]*shortfall{}} }

// lacking is what the ledger reads of a plan.
type lacking interface {
	Len() int
	Satisfied(i int) bool
	Fold(i int) int32
	AwaitsDrain(i int) bool
	Profile(i int) *model.Profile
	Dims() []string
	AddDeficit(sum []int64, i int)
	Unoffered(i int) model.Resources
}

// record takes over what a plan left unresolved: unsatisfied Needs for which
// not enough is draining either. Members of a fold count once. A cycle may
// leave hundreds of thousands of Needs short: sums are made in place, and
// memory is taken per profile, not per Need.
func (l *shortfalls) record(plan lacking) {
	l.cycle++
	l.dims = append(l.dims[:0], plan.Dims()...)
	for i := range plan.Len() {
		if plan.Satisfied(i) || int(plan.Fold(i)) != i || plan.AwaitsDrain(i) {
			continue
		}
		x := l.entry(plan.Profile(i))
		x.needs++
		plan.AddDeficit(x.deficit, i)
		if beyond := plan.Unoffered(i); len(beyond) > 0 {
			x.addBeyond(beyond)
		}
	}
	clear(l.recent[:])
	for k, x := range l.open {
		if x.seen != l.cycle {
			delete(l.open, k)
		}
	}
}

// shortfallNamesMax is the most names of resources that no machine offers in one
// shortfall; further ones, which only rows of several clusters can bring, are not
// reported.
const shortfallNamesMax = 4 * model.UnofferedNamesMax

// addBeyond adds what a row lacks under names that no machine offers.
func (x *shortfall) addBeyond(lacks model.Resources) {
	if x.beyond = x.beyond.Add(lacks); len(x.beyond) > shortfallNamesMax {
		x.beyond = x.beyond[:shortfallNamesMax]
	}
}

// entry returns the entry of a profile, empty when it is the first of the
// cycle.
func (l *shortfalls) entry(p *model.Profile) *shortfall {
	fingerprint := p.Fingerprint()
	slot := &l.recent[fingerprint%recentSlots]
	if x := *slot; x != nil && x.profile.Fingerprint() == fingerprint {
		return x
	}
	x := l.open[fingerprint]
	if x == nil {
		x = &shortfall{profile: p}
		l.open[fingerprint] = x
	}
	*slot = x
	if x.seen != l.cycle {
		x.seen = l.cycle
		x.age++
		x.needs, x.beyond = 0, nil
		x.deficit = slices.Grow(x.deficit[:0], len(l.dims))[:len(l.dims)]
		clear(x.deficit)
	}
	return x
}

// resources names the dimensions of a sum.
func (l *shortfalls) resources(sum []int64) model.Resources {
	amounts := make([]model.Amount, 0, len(sum))
	for d, v := range sum {
		if v > 0 {
			amounts = append(amounts, model.Amount{Name: l.dims[d], Value: v})
		}
	}
	return model.NewResources(amounts...)
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
		out = append(out, Shortfall{x.profile, l.resources(x.deficit).Add(x.beyond), x.age, x.needs})
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
	short map[demandKey]*short
	cycle uint64
}

// short is demand that was not met in the cycles from first to last.
type short struct{ first, last uint64 }

type demandKey struct {
	cluster     string
	fingerprint uint64
}

type since struct {
	at       int64
	seen     uint64
	recalled bool // from an earlier process
}

func newLatencies() latencies {
	return latencies{since: map[demandKey]*since{}, short: map[demandKey]*short{}}
}

// record notes the Needs that wait for machines: short, or with machines on
// their way. They wait since the roll-up that brought them. It comes
// after the actions: what they bind at once ends an earlier wait, not this one.
// Of the plan it reads nothing that changes as machines move.
func (l *latencies) record(s *Shard, plan *engine.Plan) {
	l.cycle++
	type seen struct {
		demandKey
		short bool
	}
	var recent [recentSlots]seen // those of a cluster stand together
	for i := range plan.Len() {
		satisfied := plan.Satisfied(i)
		if satisfied && s.deeds[i]&acquires == 0 || int(plan.Fold(i)) != i {
			continue
		}
		cluster, _ := plan.Identity(i)
		k := demandKey{cluster, plan.Profile(i).Fingerprint()}
		slot := &recent[k.fingerprint%recentSlots]
		known := slot.demandKey == k
		if known && (satisfied || slot.short) {
			continue
		}
		*slot = seen{k, !satisfied}
		if !satisfied {
			l.noteShort(k)
		}
		if known {
			continue
		}
		x := l.since[k]
		if x == nil {
			if len(l.since) >= WaitingMax {
				continue
			}
			at := s.now
			if t, ok := s.reportedAt[cluster]; ok {
				at = min(at, t)
			}
			x = &since{at: at}
			l.since[k] = x
			s.rememberWaiting(k, at)
		}
		x.seen = l.cycle
	}
	clear(s.reportedAt)
	if l.cycle%latencyPruneCycles == 0 {
		l.prune(s)
	}
}

// prune forgets demand that stopped waiting a while ago. What is being created
// or configured takes cycles in which its Need is satisfied.
func (l *latencies) prune(s *Shard) {
	for k, x := range l.since {
		if l.cycle-x.seen > latencyForgottenCycles {
			delete(l.since, k)
			s.rememberWaiting(k, 0)
		}
	}
	for k, x := range l.short {
		if x.last != l.cycle {
			delete(l.short, k)
		}
	}
}

// noteShort notes that demand is not met in this cycle.
func (l *latencies) noteShort(k demandKey) {
	x := l.short[k]
	switch {
	case x == nil && len(l.short) >= WaitingMax:
		return
	case x == nil:
		x = &short{first: l.cycle}
		l.short[k] = x
	case x.last+1 < l.cycle:
		x.first = l.cycle // it was met in between
	}
	x.last = l.cycle
}

// shortFor returns for how many cycles in a row demand is short that the cycle
// after the last one recorded leaves short.
func (l *latencies) shortFor(k demandKey) int {
	if x := l.short[k]; x != nil && x.last == l.cycle {
		return int(l.cycle-x.first) + 2
	}
	return 1
}

const (
	latencyPruneCycles     = 64
	latencyForgottenCycles = 360
)

// bound observes that a machine was bound.
func (s *Shard) bound(cluster string, fingerprint uint64) {
	k := demandKey{cluster, fingerprint}
	if x := s.latency.since[k]; x != nil {
		delete(s.latency.since, k)
		s.rememberWaiting(k, 0)
		s.metrics.provisioned(s.now - x.at)
	}
}

// waitsSince returns since when demand waits that an earlier process has heard
// of, 0 when it does not.
func (l *latencies) waitsSince(cluster string, p *model.Profile) int64 {
	if x := l.since[demandKey{cluster, p.Fingerprint()}]; x != nil && x.recalled {
		return x.at
	}
	return 0
}

// rememberWaiting keeps since when demand waits; 0 = it does not.
func (s *Shard) rememberWaiting(k demandKey, at int64) {
	if s.memory == nil {
		return
	}
	var value []byte
	if at != 0 {
		value = strconv.AppendInt(nil, at, 10)
	}
	s.memory.Set(memoryWaiting+k.cluster+"\x00"+formatFingerprint(k.fingerprint), value)
}

// recall takes over since when demand waits from an earlier process; false says
// that it cannot be read.
func (l *latencies) recall(key string, value []byte) bool {
	cluster, text, _ := strings.Cut(key, "\x00")
	fingerprint, err := strconv.ParseUint(text, 16, 64)
	at, err2 := strconv.ParseInt(string(value), 10, 64)
	if err != nil || err2 != nil {
		return false
	}
	l.since[demandKey{cluster, fingerprint}] = &since{at: at, recalled: true}
	return true
}
