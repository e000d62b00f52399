package victims

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Fleets with many priorities have many pools, each of which could list many victim groups. To
// list all in every pool would cost O(priorities²). But a need of a few machines looks only at
// the first victim groups, and these have nearly the lowest priorities: the other terms of the
// score are bounded. So the pools of a matcher share one roster, sorted by priority, and read
// it lazily.

// rosterOf returns the roster of a matcher, complete for needs of a priority.
func (l *Worker) rosterOf(key victimPoolKey) *units.Roster {
	t := &l.p.st.Gangs.Victims
	serial := uint64(0)
	for _, class := range l.p.ClassesOf[key.matcher] {
		serial += l.victimsOf(class, key.priority).Serial
	}
	x := t.Roster[key.matcher]
	if x != nil && x.Serial == serial {
		return x
	}
	x = t.Rosters.Lend()
	x.Alikes, x.At, x.Serial = x.Alikes[:0], 0, serial
	for _, class := range l.p.ClassesOf[key.matcher] {
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

// Extend lists more victim groups of a scope, in order; false when there are no more.
func (x *UnitScope) Extend(p *Pass) bool {
	had := len(x.VictimGroups)
	for x.more.Roster != nil && len(x.VictimGroups) == had {
		x.read(p)
		x.settle(p)
	}
	return len(x.VictimGroups) > had
}

// read reads about as many victim groups as were read before, so the batches double.
func (x *UnitScope) read(p *Pass) {
	m := &x.more
	for t := m.Roster; t.At < len(t.Alikes) && !p.someLeft(t.Alikes[t.At]); t.At++ {
	}
	for range max(units.ReadMin, len(x.VictimGroups)+len(m.Pending)) {
		a := m.First()
		if a == nil {
			break
		}
		if m.Next++; p.someLeft(a) {
			score := p.scoreOf(a, m.Priority)
			f := units.GroupOf(a, score, p.Band(score))
			f.First = p.Snap.IDRank(a.Rows[a.At])
			m.Pending = append(m.Pending, f)
		}
	}
	slices.SortFunc(m.Pending, func(a, b units.VictimGroup) int { return units.CompareVictimGroups(&a, &b) })
}

// settle lists the pending victim groups that certainly go before all unread ones: their band
// is below the lowest band that an unread one may have.
func (x *UnitScope) settle(p *Pass) {
	m := &x.more
	n, next := len(m.Pending), m.First()
	if next != nil {
		limit := p.Band(p.mostScore(m.Priority, next.Level))
		if next.IsFreeSoon() {
			limit = math.Inf(-1)
		}
		n = 0
		for n < len(m.Pending) && (m.Pending[n].Excess && !next.Excess || m.Pending[n].Excess == next.Excess && m.Pending[n].Band < limit) {
			n++
		}
	}
	from := len(x.VictimGroups)
	x.VictimGroups = append(x.VictimGroups, m.Pending[:n]...)
	x.numberTiers(from)
	if m.Pending = slices.Delete(m.Pending, 0, n); next == nil {
		x.more = units.Unread{Pending: m.Pending}
	}
}

// mostScore returns an upper bound of the score of machines whose priority is at least level.
// It sums the largest value of each term in the same order as score, so rounding cannot exceed
// it.
func (p *Pass) mostScore(preemptor, level int32) float64 {
	w := &p.Opts.Weights
	score := float64(float64(max(int64(preemptor)-int64(level), 0)) * w.Priority)
	score += float64(1 / float64(drainSecondsMin) * w.DrainSpeed)
	score += float64(1 / penaltyDollarsMin * w.Interruption)
	return score + float64(1/penaltyDollarsMin*w.Reclamation)
}
