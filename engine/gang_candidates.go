package engine

// Phase 2 reports for each need that stays short whether it had any candidate to preempt. For
// gangs the question is frequent, so the answer is memoized per kind.

// candidateMemo remembers for needs of a kind one scope with a candidate, or that there is
// none.
type candidateMemo struct {
	hint *unitScope // the scope in which a candidate was found last
	// for1 and for2 are clusters for which no candidate was found, −1 = none. A candidate is
	// one for every cluster but its own. So when needs of two clusters find none, no need does.
	for1, for2 int32  // the clusters, −1 = none
	since      uint64 // mayHaveMore when for1 and for2 were reset; another value makes them stale
}

// findCandidates sets hasCandidates on a need that chooses freely if a pool's domains hold
// anything to preempt for it.
func (l *worker) findCandidates(need int32, k *kind, pool *unitPool) {
	n := &l.lines[need]
	m := &k.candidateDomains.candidates
	if since := l.mayHaveMore(); m.since != since {
		m.since, m.for1, m.for2 = since, -1, -1
	}
	switch {
	case l.noneToTake(k) || l.backsOff(need) || m.for2 >= 0 || m.for1 == n.cluster:
		return
	case m.hint != nil && l.selectFor(need, k, m.hint, l.aggregate(need)).any():
		n.status |= hasCandidates
		return
	}
	if m.hint = l.findInScopes(need, k, pool); m.hint != nil {
		return
	}
	if m.for1 < 0 {
		m.for1 = n.cluster
	} else {
		m.for2 = n.cluster
	}
}

// findInScopes returns the first of a pool's scopes with anything to preempt for the need, and
// sets hasCandidates; nil if there is none.
func (l *worker) findInScopes(need int32, k *kind, pool *unitPool) *unitScope {
	for _, x := range pool.list {
		if l.selectFor(need, k, x, l.aggregate(need)).any() {
			l.lines[need].status |= hasCandidates
			return x
		}
	}
	return nil
}
