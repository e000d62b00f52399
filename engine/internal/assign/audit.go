package assign

import (
	"github.com/tonnage/tonnage/engine/internal/state"
)

// An audit computes the credit of a cluster twice in one cycle: incrementally, by the worklist, and then from nothing. Both results
// must have the same claims, satisfied Needs, domains and owners of stamps. The engine keeps the second result.
//
// The audit does not compare Needs that wait for their turns. The incremental credit lets more Needs wait than the credit from
// nothing, since its test is coarser, and the plan does not depend on that.

// audited is the result of the incremental credit.
type audited struct {
	lines    []state.Line
	machines []auditedMachine // by place in the cluster's list
}

type auditedMachine struct{ claimant, owner int32 }

// audit computes the credit of a cluster from nothing and compares it with the incremental one.
func audit(l *Worker, c int) {
	p, x, a := l.p, &l.p.st.Clusters[c], &l.audited
	src, bound := &p.Sources[c], p.Snap.BoundOf(c)
	lines := p.Lines[src.Base:][:src.Rows]
	a.lines, a.machines = append(a.lines[:0], lines...), a.machines[:0]
	for i := range bound {
		a.machines = append(a.machines, auditedMachine{p.Claims.Of(bound[i].Row), p.st.Owner[bound[i].Row]})
	}
	figures, stamps := l.Figures, len(l.Crediting.ForeignStamps)

	for i := range lines {
		lines[i].BeginAnew()
	}
	p.spares[c] = spares{}
	x.Dirty = true
	creditChanged(l, c)
	x.Dirty = false

	l.Figures = figures // an audit is no work of the cycle
	equal := a.equals(l, c)
	if equal { // the incremental credit has noted the same machines
		l.Crediting.ForeignStamps = l.Crediting.ForeignStamps[:stamps]
	}
	p.Audit.Clusters.Add(1)
	p.Audit.Note(equal)
}

// equals reports whether the credit of a cluster, as it is now, equals the recorded one.
func (a *audited) equals(l *Worker, c int) bool {
	p, base := l.p, l.p.Sources[c].Base
	waits := func(need int32) bool {
		at := int(need - base)
		return at >= 0 && at < len(a.lines) && (a.lines[at].Status|p.Lines[need].Status)&state.IsUncredited != 0
	}
	for i := range a.lines {
		was, is := &a.lines[i], &p.Lines[base+int32(i)]
		if is.Is(state.IsMember) || waits(base+int32(i)) {
			continue
		}
		if (was.Status^is.Status)&state.IsSatisfied != 0 || was.Domain != is.Domain {
			return false
		}
	}
	for i, b := range p.Snap.BoundOf(c) {
		was, is := a.machines[i], auditedMachine{p.Claims.Of(b.Row), p.st.Owner[b.Row]}
		if was.owner != is.owner {
			return false
		}
		if was.claimant != is.claimant && (was.claimant >= 0 && !waits(was.claimant) || is.claimant >= 0 && !waits(is.claimant)) {
			return false
		}
	}
	return true
}
