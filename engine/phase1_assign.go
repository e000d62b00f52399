package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// assign is phase 1: one pass over the needs in rank order. Each is credited
// with what is bound to its cluster, then acquires what it still lacks.
func (p *pass) assign() {
	for i := range p.needs {
		p.blockUpTo(i)
		p.assignOne(i)
	}
}

func (p *pass) assignOne(need int) {
	n := &p.needs[need]
	copy(p.missing, p.aggregate(need))
	n.claimFrom = len(p.claims)
	n.acquireFrom = n.claimFrom
	if n.profile.Same() == nil || p.chooseDomain(need) {
		p.credit(need)
		n.acquireFrom = len(p.claims)
		if !n.parked {
			p.acquire(need)
		}
	}
	n.claimTo = len(p.claims)
	copy(p.deficit(need), p.missing)
	n.satisfied = columnar.IsZero(p.missing)
	n.couldCover = n.couldCover || n.satisfied
}

// inDomain reports whether a machine lies in the domain that the need has
// chosen; true when it needs none.
func (p *pass) inDomain(r columnar.Row, n *ranked) bool {
	if n.profile.Same() == nil {
		return true
	}
	v, ok := p.s.Supply.Domain(n.matcher, r)
	return ok && v == n.domain
}

// credit claims what counts for the need: its own machines over the whole
// walk first, then the others of the cluster.
func (p *pass) credit(need int) {
	n := &p.needs[need]
	for r := p.firstOpenOwn(need); r != spent && !columnar.IsZero(p.missing); r = p.own.next[r] {
		p.probes++
		if !p.claimed.Has(uint32(r)) && p.accepts(r, need) && p.inDomain(r, n) && columnar.Helps(p.vec(r), p.missing) {
			p.claim(r, need)
		}
	}
	if columnar.IsZero(p.missing) {
		return
	}
	p.boundSources(need)
	p.walk(need)
}

// boundSources makes what is bound to the need's cluster the sources of its
// next walk.
func (p *pass) boundSources(need int) {
	n := &p.needs[need]
	p.sources = p.sources[:0]
	first := p.s.GroupOff[n.cluster]
	for i, g := range p.s.GroupsOf(int(n.cluster)) {
		if !p.matches(g.Class, n.matcher) || !p.suitsClass(g.Class, need) {
			continue
		}
		src := source{rows: g.Rows, class: g.Class, vec: p.s.Vector(g.Class), order: orderBound}
		if n.profile.Same() != nil {
			src.domainOf, src.domain = n.matcher, n.domain
		} else {
			src.follow(&p.groupAt[first+uint32(i)])
		}
		p.sources = append(p.sources, src)
	}
}

// acquire claims free machines: Idle before Speculative, always.
func (p *pass) acquire(need int) {
	if columnar.IsZero(p.missing) {
		return
	}
	n := &p.needs[need]
	if len(n.hardSpread()) > 0 {
		p.acquireSpread(need)
		return
	}
	for _, r := range p.reserved.rows[int32(need)] {
		if p.freeReserved(r, need) && p.inDomain(r, n) && columnar.Helps(p.vec(r), p.missing) {
			p.claim(r, need)
		}
	}
	for _, state := range [...]model.State{model.Idle, model.Speculative} {
		if columnar.IsZero(p.missing) {
			return
		}
		if n.profile.Same() != nil {
			p.domainSources(need, state)
		} else {
			p.classSources(need, state)
		}
		p.walk(need)
	}
}

// freeReserved reports whether a machine that is held for the need can be
// acquired by it now.
func (p *pass) freeReserved(r columnar.Row, need int) bool {
	return p.s.View.State[r] == model.Idle && !p.claimed.Has(uint32(r)) && p.accepts(r, need)
}

// classSources makes the lists of every class that suits the need the sources
// of its next walk, or one flat list where the classes are many.
func (p *pass) classSources(need int, state model.State) {
	n := &p.needs[need]
	p.sources = p.sources[:0]
	classes := p.f.classes[n.matcher]
	if len(classes) > flatClassesMin {
		l := p.flatFor(n, state)
		src := source{rows: l.rows, order: orderIdle}
		src.follow(&l.at)
		p.sources = append(p.sources, src)
		return
	}
	live := p.liveClasses(n.matcher, state)
	for i := 0; i < len(live); {
		c := live[i]
		src := p.classSource(n, c, state)
		if src.at == len(src.rows) {
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		if p.suitsClass(c, need) {
			p.sources = append(p.sources, src)
		}
		i++
	}
	p.live[liveKey{n.matcher, state}] = live
}

// classSource is the list of a class's machines in a state.
func (p *pass) classSource(n *ranked, c uint32, state model.State) source {
	if state == model.Idle {
		src := source{rows: p.s.Idle.At(int(c)), class: c, vec: p.s.Vector(c), order: orderIdle}
		src.follow(&p.idleAt[c])
		return src
	}
	src := source{rows: p.s.Speculative.At(int(c)), class: c, vec: p.s.Vector(c), order: orderSpeculative, rank: p.speculativeRank(n, c)}
	src.follow(&p.speculativeAt[c])
	return src
}

// liveKey names the classes of a matcher that have free machines in a state.
type liveKey struct {
	matcher uint32
	state   model.State
}

// liveClasses returns the classes that a matcher accepts and that may yet have
// free machines in a state. Those found empty are dropped for good, until
// rewind: needs that are short because supply is should not look at each again.
func (p *pass) liveClasses(matcher uint32, state model.State) []uint32 {
	key := liveKey{matcher, state}
	live, ok := p.live[key]
	if !ok {
		live = slices.Clone(p.f.classes[matcher])
		p.live[key] = live
	}
	return live
}
