package search

import (
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Pass is what the search for victims adds to the state of a cycle.
type Pass struct {
	victims.Pass
	st       *Store
	boundsOf []*domainBounds // by kind: bounds of what it finds in each domain; nil = not computed in this cycle
	Searched searchCount     // how much of the search budget is used
}

// Store is memory that the next cycle uses again.
type Store struct {
	victims.Store
	boundsOf     []*domainBounds
	domainBounds reuse.Stock[domainBounds]
	// Until ForgetDomains: the kinds with bounds, and the machines that these list.
	bounded    []uint32
	boundUnits reuse.Block[units.BoundUnit]
}

// Begin begins the pass of a cycle.
func (p *Pass) Begin(st *Store, s *snapshot.Snapshot, in *plan.Input) {
	p.Pass.Begin(&st.Store, s, in)
	p.st = st
}

// Lay allocates what phases 1 and 2 need, once the order is known. One worker searches.
func (p *Pass) Lay(l *Worker) {
	p.Pass.Lay()
	l.p = p
}

// Forget forgets what the last cycle found for kinds.
func (p *Pass) Forget() {
	p.Pass.Forget()
	p.st.boundsOf = reuse.Resize(p.st.boundsOf, len(p.Kinds))
	p.boundsOf, p.st.bounded = p.st.boundsOf, p.st.bounded[:0]
}

// ForgetDomains forgets what the turns of one priority have found in domains: those of the next read none of it.
func (p *Pass) ForgetDomains() {
	p.st.TakeBackDomains()
	for _, kind := range p.st.bounded {
		p.boundsOf[kind] = nil
	}
	p.st.bounded = p.st.bounded[:0]
	p.st.domainBounds.TakeBack()
	p.st.boundUnits.Empty()
}

// LeaveBehind gives back what was lent for the cycle, and saves what the next one builds on.
func (p *Pass) LeaveBehind() {
	p.Pass.LeaveBehind()
	p.st.domainBounds.TakeBack()
}
