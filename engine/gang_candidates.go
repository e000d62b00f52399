package engine

// Whether there was anybody to preempt is told of each need that stays short. For
// gangs it is asked often, and remembered.

// candidateMemo remembers for needs of a kind where there is somebody to preempt,
// or that there is nobody.
type candidateMemo struct {
	hint *unitScope // where somebody was found last
	// Whoever is a candidate is so for all but its own cluster. So when nobody
	// was found for needs of two clusters, there is nobody for any.
	for1, for2 int32 // the clusters, −1 = none
	since      uint64
}

// findCandidates notes whether there is anybody to preempt in a pool's domains,
// for a need that chooses freely.
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

// findInScopes notes whether there is anybody to preempt in a pool's domains, and
// returns one where there is.
func (l *worker) findInScopes(need int32, k *kind, pool *unitPool) *unitScope {
	for _, x := range pool.list {
		if l.selectFor(need, k, x, l.aggregate(need)).any() {
			l.lines[need].status |= hasCandidates
			return x
		}
	}
	return nil
}
