package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Fleets with many priorities have many pools, each of which could list many victim groups. To
// list all in every pool would cost O(priorities²). But a need of a few machines looks only at
// the first victim groups, and these have nearly the lowest priorities: the other terms of the
// score are bounded. So the pools of a matcher share one roster, sorted by priority, and read
// it lazily.

// rosterOf returns the roster of a matcher, complete for needs of a priority.
func (l *worker) rosterOf(key victimPoolKey) *units.Roster {
	t := &l.p.e.store.gangs.victims
	serial := uint64(0)
	for _, class := range l.p.classesOf[key.matcher] {
		serial += l.victimsOf(class, key.priority).Serial
	}
	x := t.Roster[key.matcher]
	if x != nil && x.Serial == serial {
		return x
	}
	x = t.Rosters.Lend()
	x.Alikes, x.At, x.Serial = x.Alikes[:0], 0, serial
	for _, class := range l.p.classesOf[key.matcher] {
		for _, a := range l.victimsOf(class, key.priority).Alikes {
			if !a.Acquired { // these are for Needs with Same, whose matchers have no roster
				x.Alikes = append(x.Alikes, a)
			}
		}
	}
	slices.SortFunc(x.Alikes, func(a, b *units.Alike) int {
		if a.Excess != b.Excess {
			return exact.TrueFirst(a.Excess, b.Excess)
		}
		if first := a.IsFreeSoon(); first != b.IsFreeSoon() { // its score is +Inf
			if first {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Level, b.Level)
	})
	if t.Roster == nil {
		t.Roster = map[uint32]*units.Roster{}
	}
	t.Roster[key.matcher] = x
	return x
}

// liveOrMore is unitScope.live, which also reads further from the roster.
func (p *pass) liveOrMore(x *unitScope, from int) int {
	at := x.live(from)
	for at == len(x.victimGroups) && p.extend(x) {
		at = x.live(at)
	}
	return at
}

// complete lists all victim groups of a scope.
func (p *pass) complete(x *unitScope) {
	for p.extend(x) {
	}
}

// extend lists more victim groups of a scope, in order; false when there are no more.
func (p *pass) extend(x *unitScope) bool {
	had := len(x.victimGroups)
	for x.more.Roster != nil && len(x.victimGroups) == had {
		p.read(x)
		p.settle(x)
	}
	return len(x.victimGroups) > had
}

// read reads about as many victim groups as were read before, so the batches double.
func (p *pass) read(x *unitScope) {
	m := &x.more
	for t := m.Roster; t.At < len(t.Alikes) && !p.someLeft(t.Alikes[t.At]); t.At++ {
	}
	for range max(units.ReadMin, len(x.victimGroups)+len(m.Pending)) {
		a := m.First()
		if a == nil {
			break
		}
		if m.Next++; p.someLeft(a) {
			score := p.scoreOf(a, m.Priority)
			m.Pending = append(m.Pending, units.VictimGroup{Alike: a, Score: score, Band: p.band(score), First: p.s.IDRank[a.Rows[a.At]]})
		}
	}
	slices.SortFunc(m.Pending, func(a, b units.VictimGroup) int { return units.CompareVictimGroups(&a, &b) })
}

// settle lists the pending victim groups that certainly go before all unread ones: their band
// is below the lowest band that an unread one may have.
func (p *pass) settle(x *unitScope) {
	m := &x.more
	n, next := len(m.Pending), m.First()
	if next != nil {
		limit := p.band(p.mostScore(m.Priority, next.Level))
		if next.IsFreeSoon() {
			limit = math.Inf(-1)
		}
		n = 0
		for n < len(m.Pending) && (m.Pending[n].Excess && !next.Excess || m.Pending[n].Excess == next.Excess && m.Pending[n].Band < limit) {
			n++
		}
	}
	from := len(x.victimGroups)
	x.victimGroups = append(x.victimGroups, m.Pending[:n]...)
	x.numberTiers(from)
	if m.Pending = slices.Delete(m.Pending, 0, n); next == nil {
		x.more = units.Unread{Pending: m.Pending}
	}
}

// mostScore returns an upper bound of the score of machines whose priority is at least level.
// It sums the largest value of each term in the same order as score, so rounding cannot exceed
// it.
func (p *pass) mostScore(preemptor, level int32) float64 {
	w := &p.e.opts.Weights
	score := float64(float64(max(int64(preemptor)-int64(level), 0)) * w.Priority)
	score += float64(1 / float64(drainSecondsMin) * w.DrainSpeed)
	score += float64(1 / penaltyDollarsMin * w.Interruption)
	return score + float64(1/penaltyDollarsMin*w.Reclamation)
}

// prospect is a gang with a lower bound of the bands of its units: no unit of the gang goes
// before band, and none of a gentler class within that band.
type prospect struct {
	band float64
	gang int32
}

// leastOfGangs returns a band with this property: a unit of one machine whose band is no larger
// goes before every unit of the scope's gangs. It lets most choices skip gangs altogether.
func (s *selection) leastOfGangs() float64 {
	x, list := s.scope, s.worker.p.e.store.gangs.list
	if len(x.prospects) < len(x.gangs) {
		s.listProspects()
	}
	for ; x.prospectAt < len(x.prospects); x.prospectAt++ {
		p := &x.prospects[x.prospectAt]
		if slices.ContainsFunc(list[p.gang].Members, func(r columnar.Row) bool { return !s.worker.p.preempted.victimOf.Has(uint32(r)) }) {
			return p.band
		}
	}
	return math.Inf(1)
}

// listProspects sorts the scope's gangs by the best unit that can be had of each. A gang with
// nothing above its minimum is taken as a whole or not at all. Its score is the least of its
// members'. Once a surplus machine leaves a gang, the rest may be without the member that
// bounded the score; so a gang with a surplus counts with the best of its members.
func (s *selection) listProspects() {
	x, t := s.scope, &s.worker.p.e.store.gangs
	for _, at := range x.gangs {
		g := &t.list[at]
		best, least := math.Inf(-1), math.Inf(1)
		for _, r := range g.Members {
			score := s.worker.p.score(r, s.k.Priority, s.worker.p.e.store.priority[r])
			best, least = max(best, score), min(least, score)
		}
		band := s.worker.p.band(least)
		if slices.ContainsFunc(g.Roles, func(role units.GangRole) bool { return role.Surplus }) {
			band = math.Nextafter(s.worker.p.band(best), math.Inf(-1)) // surplus is of a gentler class
		}
		x.prospects = append(x.prospects, prospect{band, at})
	}
	slices.SortFunc(x.prospects, func(a, b prospect) int { return cmp.Or(cmp.Compare(a.band, b.band), cmp.Compare(a.gang, b.gang)) })
}
