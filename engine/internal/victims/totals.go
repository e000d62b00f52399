package victims

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// SameDomain is one domain (or cell) as phase 2 sees it for one need.
type SameDomain struct {
	Value uint32
	// Tried: it was examined, or is no choice.
	Tried     bool
	Available []int64 // what the need has there, and what is free
	Potential []int64 // Available, plus what drains for the need and what is preemptable
}

// domainTotalsBound holds, for needs of one kind, an upper bound per domain: what is free plus
// what could be preempted, whichever cluster has it. What a need already has there is not part
// of it. Most is the largest of the bounds, per dimension. It is valid until machines are put
// back.
type domainTotalsBound struct {
	Domains []int64 // the bounds, vector after vector
	Most    []int64
	At      map[uint32]int // by value: index in Domains at which its vector begins
	// Epoch is Stock.Epoch when the bounds were formed, 0 = not formed.
	Epoch uint64
}

// Covers reports whether the bound of some domain covers a vector.
func (x *domainTotalsBound) Covers(want []int64) bool {
	if !columnar.Covers(x.Most, want) {
		return false
	}
	n := len(x.Most)
	for at := 0; at < len(x.Domains); at += n {
		if columnar.Covers(x.Domains[at:at+n], want) {
			return true
		}
	}
	return false
}

// domainTotalsTable holds the domains of the need at work.
type domainTotalsTable struct {
	List []SameDomain
	at   []int32 // by value: 1 + index in list
	reuse.VectorBlock
}

func (x *domainTotalsTable) Reset(values int) {
	for i := range x.List {
		x.at[x.List[i].Value] = 0
	}
	if len(x.at) < values {
		x.at = make([]int32, values)
	}
	x.List = x.List[:0]
	x.Empty()
}

// Find returns a domain, nil when it has no entry. The pointer is valid until the next call of
// of.
func (x *domainTotalsTable) Find(value uint32) *SameDomain {
	if value == 0 || x.at[value] == 0 {
		return nil
	}
	return &x.List[x.at[value]-1]
}

// Of returns the entry of a domain, and adds it if there is none.
func (x *domainTotalsTable) Of(value uint32, dims int) *SameDomain {
	if d := x.Find(value); d != nil {
		return d
	}
	x.List = append(x.List, SameDomain{Value: value, Available: x.Take(dims), Potential: x.Take(dims)})
	x.at[value] = int32(len(x.List))
	return &x.List[len(x.List)-1]
}

// LackingIn returns what the need would lack in a domain before any victim.
func (l *Worker) LackingIn(need int32, d *SameDomain) []int64 {
	v := l.CopyForPlan(l.p.Aggregate(need))
	columnar.SubClamp(v, d.Available)
	return v
}

// SumAvailable adds up, by domain, what the need would have without preemption: its own, other
// machines of its cluster that serve no need ranked above it and are no victims, and what is
// free. What drains for it is added to the potential.
func (l *Worker) SumAvailable(need int32, k *state.Kind) {
	n := &l.p.Lines[need]
	domainTotals := &l.Finding.DomainTotals
	add := func(r columnar.Row) {
		if v, ok := l.p.Cell(k.Matcher, r); ok && k.AcceptsClass(l.p.Snap.View.Class[r]) {
			columnar.SatAdd(domainTotals.Of(v, l.p.Dims).Available, l.p.Vec(r))
		}
	}
	l.EachOwn(need, k, add)
	for r := n.Acquired; r != columnar.None; r = l.p.Claims.Next(r, n) {
		add(r)
	}
	if l.p.Candidates.Cut != nil || l.p.Reserved.Has(need) {
		l.eachFree(need, k, add)
	} else {
		l.addFreeTotals(k)
	}
	for _, r := range l.p.HeldFor(need) {
		if v, ok := l.p.Cell(k.Matcher, r); ok && l.p.Arrives(r, need, k) {
			columnar.SatAdd(domainTotals.Of(v, l.p.Dims).Potential, l.p.Vec(r))
		}
	}
}

// EachOwn calls f for every machine bound to the need's cluster, or created for it, that suits
// it, serves no need ranked above it, and is neither a victim nor counted on by a plan. With
// victims by gangs, the recorded lowest priority of a class prunes most classes.
func (l *Worker) EachOwn(need int32, k *state.Kind, f func(columnar.Row)) {
	c := int(l.p.ClusterOf(need))
	rank := l.p.RankOf[need]
	mine := func(r columnar.Row) bool {
		h := l.p.Claims.Of(r)
		return (h == state.Unclaimed || l.p.RankOf[h] >= rank) && !l.p.Preempted.VictimOf.Has(uint32(r)) && l.p.Promised.TakenBy(r) == ranks.None
	}
	bound, cheapest := l.p.Snap.BoundOf(c), l.p.st.Clusters[c].Cheapest
	noted, configured := l.p.Opts.Victims == plan.VictimsGang, l.p.Snap.Configured(c)
	l.Finding.passed = reuse.Resize(l.Finding.passed, len(k.Accepts))
	for i, g := range l.p.Snap.GroupsOf(c) {
		if !k.AcceptsClass(g.Class) {
			continue
		}
		if noted && cheapest[i].Priority > k.Priority {
			l.Finding.passed[g.Class>>6] |= 1 << (g.Class & 63)
			continue
		}
		for at := g.First + 1; at != 0; at = bound[at-1].Next {
			if r := bound[at-1].Row; mine(r) {
				f(r)
			}
		}
	}
	// The recorded priorities cover Configured machines only.
	for _, b := range bound[configured:l.p.Snap.CreatingFrom(c)] {
		if l.Finding.passed[b.Class>>6]>>(b.Class&63)&1 != 0 && mine(b.Row) {
			f(b.Row)
		}
	}
	for _, b := range bound[l.p.Snap.CreatingFrom(c):] {
		if l.p.IsOwn(b.Row, need) && mine(b.Row) && k.AcceptsClass(b.Class) {
			f(b.Row)
		}
	}
}

// addFreeTotals adds what is free to the domains, shelf by shelf.
func (l *Worker) addFreeTotals(k *state.Kind) {
	d := l.DomainsFor(k.Matcher)
	for _, ds := range d.Of(k.Matcher).List {
		for _, i := range ds.Shelves {
			l.Figures.Probes++
			if sh := &d.Shelves[i]; sh.Left > 0 && k.AcceptsClass(sh.Class) {
				columnar.SatAddScaled(l.Finding.DomainTotals.Of(ds.Value, l.p.Dims).Available, l.p.Vector(sh.Class), int64(sh.Left))
			}
		}
	}
}

// eachFree calls f for every machine that the need's matcher accepts, that no need claims, and
// that is not held for an owner ranked above the need.
func (l *Worker) eachFree(need int32, k *state.Kind, f func(columnar.Row)) {
	d := l.DomainsFor(k.Matcher)
	for _, ds := range d.Of(k.Matcher).List {
		for _, i := range ds.Shelves {
			for _, r := range d.Shelves[i].Rows {
				l.Figures.Probes++
				if l.IsFreeFor(r, need) {
					f(r)
				}
			}
		}
	}
}

// SumDomainTotals sums up what the need could have in each domain, and sets HasCandidates if
// any holds something to preempt. A pinned need has only its own domain.
func (l *Worker) SumDomainTotals(need int32, k *state.Kind) {
	n := &l.p.Lines[need]
	domainTotals := &l.Finding.DomainTotals
	domainTotals.Reset(l.p.Snap.Supply.ValueIDMax())
	l.SumAvailable(need, k)
	for value, list := range l.p.VictimsByDomain(k) {
		if n.Is(state.IsPinned) && value != n.Domain {
			continue
		}
		for i := range list.List {
			l.Figures.Probes++
			if l.p.Eligible(&list.List[i], need, k) {
				n.Status |= state.HasCandidates
				columnar.SatAdd(domainTotals.Of(value, l.p.Dims).Potential, l.p.Vec(list.List[i].Row))
			}
		}
	}
	for i := range domainTotals.List {
		d := &domainTotals.List[i]
		columnar.SatAdd(d.Potential, d.Available)
		d.Tried = n.Is(state.IsPinned) && d.Value != n.Domain
	}
}
