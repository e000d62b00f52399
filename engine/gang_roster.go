package engine

import (
	"cmp"
	"math"
	"slices"
)

// Fleets with many priorities have many pools, each of which could list many victim groups. To
// list all in every pool would cost O(priorities²). But a need of a few machines looks only at
// the first victim groups, and these have nearly the lowest priorities: the other terms of the
// score are bounded. So the pools of a matcher share one roster, sorted by priority, and read
// it lazily.

// roster is the victims of all classes of a matcher: excess first, then the rest, the lowest
// priority first.
type roster struct {
	alikes []*alike
	at     int    // alikes before at are all taken
	serial uint64 // sum of the serials of its classVictims; another sum = stale
}

// unread is the victim groups that a scope has not listed yet.
type unread struct {
	roster   *roster // nil = all are listed
	priority int32   // of the pool's needs
	next     int     // index in roster.alikes: those before are read
	// pending is read but not listed, since unread groups may go before; see settle.
	pending []victimGroup
}

// rosterOf returns the roster of a matcher, complete for needs of a priority.
func (l *worker) rosterOf(key victimPoolKey) *roster {
	t := &l.e.store.gangs.victims
	serial := uint64(0)
	for _, class := range l.classesOf[key.matcher] {
		serial += l.victimsOf(class, key.priority).serial
	}
	x := t.roster[key.matcher]
	if x != nil && x.serial == serial {
		return x
	}
	x = t.rosters.lend()
	x.alikes, x.at, x.serial = x.alikes[:0], 0, serial
	for _, class := range l.classesOf[key.matcher] {
		x.alikes = append(x.alikes, l.victimsOf(class, key.priority).alikes...)
	}
	slices.SortFunc(x.alikes, func(a, b *alike) int {
		if a.excess != b.excess {
			if a.excess {
				return -1
			}
			return 1
		}
		if first := a.isFreeSoon(); first != b.isFreeSoon() { // its score is +Inf
			if first {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.level, b.level)
	})
	if t.roster == nil {
		t.roster = map[uint32]*roster{}
	}
	t.roster[key.matcher] = x
	return x
}

// liveOrMore is unitScope.live, which also reads further from the roster.
func (l *worker) liveOrMore(x *unitScope, from int) int {
	at := x.live(from)
	for at == len(x.victimGroups) && l.extend(x) {
		at = x.live(at)
	}
	return at
}

// complete lists all victim groups of a scope.
func (l *worker) complete(x *unitScope) {
	for l.extend(x) {
	}
}

// extend lists more victim groups of a scope, in order; false when there are no more.
func (l *worker) extend(x *unitScope) bool {
	had := len(x.victimGroups)
	for x.more.roster != nil && len(x.victimGroups) == had {
		l.read(x)
		l.settle(x)
	}
	return len(x.victimGroups) > had
}

// first returns the first unread entry of the roster that needs of the priority may take; nil
// when there is none.
func (m *unread) first() *alike {
	m.next = max(m.next, m.roster.at)
	for ; m.next < len(m.roster.alikes); m.next++ {
		switch a := m.roster.alikes[m.next]; {
		case a.promised && a.level >= m.priority:
		case a.excess || a.level < m.priority:
			return a
		default:
			return nil
		}
	}
	return nil
}

// readMin is the least number of victim groups that are read at a time. Tests lower it.
var readMin = victimGroupsRoom

// read reads about as many victim groups as were read before, so the batches double.
func (l *worker) read(x *unitScope) {
	m := &x.more
	for t := m.roster; t.at < len(t.alikes) && !l.someLeft(t.alikes[t.at]); t.at++ {
	}
	for range max(readMin, len(x.victimGroups)+len(m.pending)) {
		a := m.first()
		if a == nil {
			break
		}
		if m.next++; l.someLeft(a) {
			score := l.scoreOf(a, m.priority)
			m.pending = append(m.pending, victimGroup{alike: a, score: score, band: l.band(score), first: l.s.IDRank[a.rows[a.at]]})
		}
	}
	slices.SortFunc(m.pending, func(a, b victimGroup) int { return compareVictimGroups(&a, &b) })
}

// settle lists the pending victim groups that certainly go before all unread ones: their band
// is below the lowest band that an unread one may have.
func (l *worker) settle(x *unitScope) {
	m := &x.more
	n, next := len(m.pending), m.first()
	if next != nil {
		limit := l.band(l.mostScore(m.priority, next.level))
		if next.isFreeSoon() {
			limit = math.Inf(-1)
		}
		n = 0
		for n < len(m.pending) && (m.pending[n].excess && !next.excess || m.pending[n].excess == next.excess && m.pending[n].band < limit) {
			n++
		}
	}
	from := len(x.victimGroups)
	x.victimGroups = append(x.victimGroups, m.pending[:n]...)
	x.numberTiers(from)
	if m.pending = slices.Delete(m.pending, 0, n); next == nil {
		x.more = unread{pending: m.pending}
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
