package engine

import (
	"cmp"
	"math"
	"slices"
)

// Where priorities are many, so are pools, and what can be preempted is of many
// victim groups: to list all of them in each pool would cost priorities squared. But
// who wants a few machines looks at the first victim groups alone, and these are of the
// lowest priorities, nearly: what else a score hangs on is bounded. So the pools of
// a matcher read one roster, by priority, and list no more of it than is asked for.

// roster is what is alike of all classes of a matcher: excess, then the rest, the
// lowest priority first.
type roster struct {
	alikes []*alike
	at     int    // nothing is left of those before
	serial uint64 // the sum of those of its victims
}

// unread is the victim groups that a scope has not listed.
type unread struct {
	roster   *roster // nil = all are listed
	priority int32   // of who asks
	next     int     // those before have been read
	pending  []victimGroup
}

// rosterOf returns the roster of a matcher for needs of a priority.
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
		if first := a.isFreeSoon(); first != b.isFreeSoon() { // it has the best score
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

// liveOrMore is live, among those that are not listed yet too.
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

// extend lists more victim groups of a scope, in their order; false when there are no
// more.
func (l *worker) extend(x *unitScope) bool {
	had := len(x.victimGroups)
	for x.more.roster != nil && len(x.victimGroups) == had {
		l.read(x)
		l.settle(x)
	}
	return len(x.victimGroups) > had
}

// first returns the first of the roster that has not been read and may be had by who
// asks; nil when there is none.
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

// readMin is how many victim groups are read at a time at least. Tests lower it.
var readMin = victimGroupsRoom

// read reads about as many victim groups as have been read before.
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

// settle lists those that have been read and that go before all that have not.
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

// mostScore is the most that a machine can score whose priority is not below one:
// sums of the same terms, each the largest there is, in the same order.
func (p *pass) mostScore(preemptor, level int32) float64 {
	w := &p.e.opts.Weights
	score := float64(float64(max(int64(preemptor)-int64(level), 0)) * w.Priority)
	score += float64(1 / float64(drainSecondsMin) * w.DrainSpeed)
	score += float64(1 / penaltyDollarsMin * w.Interruption)
	return score + float64(1/penaltyDollarsMin*w.Reclamation)
}
