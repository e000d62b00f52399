package workload

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// The rhythm of a live source.
const (
	// liveInterval is how often each cluster reports.
	liveInterval = 10 * time.Second
	// ticksAheadMax is how many roll-ups of a cluster may be skipped and still
	// be lived through; beyond it the demand goes on from where it was.
	ticksAheadMax = 360
	// batchTicks is the life of a batch object in roll-ups.
	batchTicks = 60
	// visitTicks is the range of a visiting gang's life, in roll-ups.
	visitTicksMin, visitTicksMax = 30, 90
	visitorsMax                  = 3 // at a time in one cluster
	// surgeTicks is how long a surge lasts, and surgeTimes how much more it
	// asks for.
	surgeTicks, surgeTimes = 12, 4
)

// The chances, per cluster and roll-up, of what may happen to its demand.
const (
	chanceResize  = 0.35 // a plain row grows or shrinks a little
	chanceComeGo  = 0.15 // a gang comes; a gang goes
	chanceVisitor = 1.0 / 60
	chanceSurge   = 1.0 / 240
	// Small fleets see an event of the rare kinds every so many roll-ups all the
	// same.
	visitorEvery, surgeEvery = 3, 12
	// resizeRange is by how much of its size a row moves either way.
	resizeRange = 0.1
)

// Live is a rung's demand over time. What happens to a cluster at its n-th
// roll-up is drawn from the seed, the cluster and n alone, so two runs see the
// same demand whatever the times of their calls.
type Live struct {
	fleet    *Fleet
	regime   Regime
	start    int64
	started  bool
	clusters []liveCluster
	visitor  *row // what a visiting gang is like; nil = none comes
}

// liveCluster is the state of one cluster's demand.
type liveCluster struct {
	offset int64 // of its roll-ups inside the interval
	tick   int   // roll-ups lived through, −1 = none
	plain  []liveRow
	gangs  []liveGang
	number []int32 // next gang number, by archetype
	gone   int     // gangs that have left less those that have come
	surge  int     // tick at which the surge ends
}

// liveRow is one plain row. Its size is a fraction of what the fleet's row asks
// for, 1 at the start.
type liveRow struct {
	row
	size  float64
	batch []float64 // for mortal objects: the size that ends at tick mod batchTicks
}

// liveGang is one gang; until is the tick at which it ends, 0 = open.
type liveGang struct {
	row
	until int
}

// NewLive returns the demand of a fleet over time; its machines start in the
// regime, Cold or Steady.
func NewLive(f *Fleet, regime Regime) *Live {
	l := &Live{fleet: f, regime: regime, clusters: make([]liveCluster, len(f.clusters))}
	offsets := newRNG(f.seed, drawLive)
	for c := range l.clusters {
		s := &l.clusters[c]
		s.offset = int64(offsets.float() * float64(liveInterval))
		s.tick = -1
		s.number = make([]int32, len(f.catalog))
		for i := f.rowStart[c]; i < f.rowStart[c+1]; i++ {
			s.add(&f.catalog[f.rows[i].archetype], f.rows[i])
		}
	}
	for i := range f.rows {
		if f.catalog[f.rows[i].archetype].visits {
			l.visitor = &f.rows[i]
			break
		}
	}
	return l
}

// add takes over one row of the fleet.
func (s *liveCluster) add(t *archetype, r row) {
	if t.isGang() {
		s.gangs = append(s.gangs, liveGang{row: r})
		s.number[r.archetype] = max(s.number[r.archetype], r.number+1)
		return
	}
	lr := liveRow{row: r, size: 1}
	if t.lifeSeconds > 0 {
		lr.batch = make([]float64, batchTicks)
		for i := range lr.batch {
			lr.batch[i] = 1.0 / batchTicks
		}
	}
	s.plain = append(s.plain, lr)
}

// Describe says in one line what the source is.
func (l *Live) Describe() string {
	r := l.fleet.rung
	return fmt.Sprintf("rung %s (%s): %d clusters, %d machines, %d rows, seed %d; each cluster reports every %s",
		r.Name, r.About, r.Clusters, r.Machines(), l.fleet.Rows(), l.fleet.seed, liveInterval)
}

// Clusters returns the ids of the clusters, sorted.
func (l *Live) Clusters() []string { return l.fleet.Clusters() }

// Machines yields the fleet as it is at the start.
func (l *Live) Machines(now int64) iter.Seq[*model.Machine] { return l.fleet.Machines(l.regime, now) }

// Done reports false: clusters report for ever.
func (l *Live) Done() bool { return false }

// dueAt returns when a cluster's n-th roll-up is due. The first comes early, so
// that the fleet is complete after half an interval.
func (l *Live) dueAt(s *liveCluster, n int) int64 {
	if n == 0 {
		return l.start + s.offset/2
	}
	return l.start + int64(n)*int64(liveInterval) + s.offset
}

// Due returns the roll-ups that are due.
func (l *Live) Due(now int64) []Rollup {
	if !l.started {
		l.start, l.started = now, true
	}
	type due struct {
		at            int64
		cluster, tick int
	}
	var list []due
	for c := range l.clusters {
		s := &l.clusters[c]
		n := max(int((now-l.start-s.offset)/int64(liveInterval)), 0)
		if at := l.dueAt(s, n); n > s.tick && at <= now {
			list = append(list, due{at, c, n})
		}
	}
	slices.SortFunc(list, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.cluster, b.cluster))
	})
	if len(list) > RollupsPerCallMax {
		list = list[:RollupsPerCallMax]
	}
	out := make([]Rollup, len(list))
	for i, d := range list {
		l.advance(d.cluster, d.tick)
		out[i] = Rollup{Cluster: l.fleet.clusters[d.cluster], At: d.at, Needs: l.needs(d.cluster)}
	}
	return out
}

// advance lives through a cluster's roll-ups up to the tick.
func (l *Live) advance(c, tick int) {
	s := &l.clusters[c]
	from := max(s.tick+1, tick-ticksAheadMax)
	s.tick = tick
	for n := max(from, 1); n <= tick; n++ { // the first roll-up is the fleet's own
		l.step(s, newRNG(l.fleet.seed^uint64(c)<<32^uint64(n), drawLive+1), n)
	}
}

// step is what happens to a cluster between two roll-ups.
func (l *Live) step(s *liveCluster, r *rng, n int) {
	clusters := float64(len(l.clusters))
	for i := range s.plain {
		if p := &s.plain[i]; p.batch != nil {
			p.batch[n%batchTicks] = drawBatch(r)
			p.size = 0
			for _, part := range p.batch {
				p.size += part
			}
		}
	}
	if len(s.plain) > 0 && r.float() < chanceResize {
		p := &s.plain[r.below(len(s.plain))]
		if size := 1 + resizeRange*(2*r.float()-1); p.batch == nil {
			p.size = size
		}
	}
	s.gangs = slices.DeleteFunc(s.gangs, func(g liveGang) bool { return g.until > 0 && g.until <= n })
	if r.float() < chanceComeGo {
		l.leave(s, r)
	}
	if r.float() < chanceComeGo {
		l.come(s, r, n)
	}
	if r.float() < max(chanceVisitor, 1/(visitorEvery*clusters)) {
		l.visit(s, r, n)
	}
	if n >= s.surge && r.float() < max(chanceSurge, 1/(surgeEvery*clusters)) {
		s.surge = n + surgeTicks
	}
}

// drawBatch draws what arrives of a batch row in one interval, as a fraction
// of the row; a few arrivals are large. The mean is 1/batchTicks.
func drawBatch(r *rng) float64 {
	switch u := r.float(); {
	case u < 0.5:
		return 0.25 / batchTicks
	case u < 0.8:
		return 1.0 / batchTicks
	}
	return 2.875 / batchTicks
}

// leave lets a small gang go, unless too many more have gone than come.
func (l *Live) leave(s *liveCluster, r *rng) {
	if len(s.gangs) == 0 || s.gone >= len(s.gangs)/10 {
		return
	}
	i := r.below(len(s.gangs))
	if !l.fleet.catalog[s.gangs[i].archetype].foldable() {
		return
	}
	s.gangs = slices.Delete(s.gangs, i, i+1)
	s.gone++
}

// come lets a small gang come in the place of one that went, or of the kind of
// some gang that is there.
func (l *Live) come(s *liveCluster, r *rng, n int) {
	if len(s.gangs) == 0 || -s.gone >= len(s.gangs)/10 {
		return
	}
	like := s.gangs[r.below(len(s.gangs))].row
	if !l.fleet.catalog[like.archetype].foldable() {
		return
	}
	s.gone--
	l.addGang(s, r, like.archetype, like.profile, n, 0)
}

// visit lets a training gang come for a while.
func (l *Live) visit(s *liveCluster, r *rng, n int) {
	if l.visitor == nil {
		return
	}
	visitors := 0
	for i := range s.gangs {
		if s.gangs[i].until > 0 {
			visitors++
		}
	}
	if visitors >= visitorsMax {
		return
	}
	until := n + visitTicksMin + r.below(visitTicksMax-visitTicksMin+1)
	l.addGang(s, r, l.visitor.archetype, l.visitor.profile, n, until)
}

// addGang adds a gang of an archetype that arrives at tick n.
func (l *Live) addGang(s *liveCluster, r *rng, a uint8, profile uint16, n, until int) {
	t := &l.fleet.catalog[a]
	g := liveGang{until: until, row: row{
		archetype: a, profile: profile, number: s.number[a], arrival: l.dueAt(s, n),
		pods: [2]int32{t.gang[0] + int32(r.below(int(t.gang[1]-t.gang[0])+1))},
	}}
	s.number[a]++
	at := 0 // rows stand in the order of archetypes, then of numbers
	for at < len(s.gangs) && s.gangs[at].archetype <= a {
		at++
	}
	s.gangs = slices.Insert(s.gangs, at, g)
}

// needs returns a cluster's whole demand as it is now.
func (l *Live) needs(c int) []model.Need {
	f, s := l.fleet, &l.clusters[c]
	out := make([]model.Need, 0, len(s.plain)+len(s.gangs))
	for i := range s.plain {
		p := &s.plain[i]
		size := p.size
		if s.tick < s.surge && f.catalog[p.archetype].surges {
			size *= surgeTimes
		}
		r := p.row
		for k, n := range r.pods {
			if n > 0 {
				r.pods[k] = max(1, int32(float64(n)*size+0.5))
			}
		}
		out = append(out, f.need(c, &r, f.profiles[r.profile]))
	}
	for i := range s.gangs {
		g := &s.gangs[i].row
		out = append(out, f.need(c, g, f.profiles[g.profile]))
	}
	return out
}
