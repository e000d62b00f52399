package preempt

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/victims"
	"github.com/tonnage/tonnage/engine/model"
)

// preemptSame looks for a domain that can be freed whole, with victims one by one: phase 1's
// domain first, then those with the largest potential, at most TopDomains. A partial cover is
// of no use, so either all victims of a plan are taken or none.
func (l *Worker) preemptSame(need int32, k *state.Kind) {
	n := &l.p.Lines[need]
	l.Finding.Vecs.Empty()
	if l.hopeless(need, k) {
		return
	}
	l.SumDomainTotals(need, k)
	for range l.p.Opts.TopDomains {
		d := l.nextCell(need)
		if d == nil {
			break
		}
		candidates := l.p.VictimsIn(k, d.Value)
		lacking := l.LackingIn(need, d)
		copy(l.Missing, lacking)
		l.p.SubInFlight(need, k, d.Value, l.Missing)
		l.Finding.Wanted = append(l.Finding.Wanted[:0], l.Missing...)
		missing := l.Finding.Wanted
		l.Lacks = cycle.PositiveDims(missing)
		chosen, _ := l.SelectVictims(candidates, need, k)
		l.p.noteTried(need, d, len(candidates.List), l.Lacks == 0, missing)
		if l.Lacks != 0 {
			continue
		}
		n.Status |= state.IsAwaiting
		l.p.CountInFlight(need, k, d.Value, lacking)
		if d.Value != n.Domain {
			l.Withhold(need, d.Value)
		}
		l.MakeVictims(l.p.DropUnneeded(chosen, missing), need, k)
		return
	}
	if d := l.Finding.DomainTotals.Find(n.Domain); d != nil {
		l.p.CountInFlight(need, k, d.Value, l.LackingIn(need, d))
	}
}

// hopeless reports whether the memoized bounds show that no domain can be freed whole. That is
// so for most gangs that are short.
func (l *Worker) hopeless(need int32, k *state.Kind) bool {
	n := &l.p.Lines[need]
	if l.p.Told.Explains(need) || n.Is(state.IsPinned) || l.p.Reserved.Has(need) {
		return false
	}
	if l.p.Candidates.TotalBounds[k.Number].Epoch != l.p.Stock.Epoch {
		l.boundDomainTotals(k)
	}
	if l.p.Candidates.TotalBounds[k.Number].Covers(l.p.Aggregate(need)) || l.ownHelps(need, k) {
		return false
	}
	list := l.p.Candidates.PoolOf[k.Number].List[l.p.Candidates.PoolOf[k.Number].At:]
	for i := range list {
		l.Figures.Probes++
		if l.p.Eligible(&list[i], need, k) && l.p.InAnyDomain(k.Matcher, list[i].Row) {
			n.Status |= state.HasCandidates
			break
		}
	}
	return true
}

// ownHelps reports whether a domain could cover a need once what the need has there, which the
// bound leaves out, is added.
func (l *Worker) ownHelps(need int32, k *state.Kind) bool {
	domainTotals := &l.Finding.DomainTotals
	domainTotals.Reset(l.p.Snap.Supply.ValueIDMax())
	add := func(r columnar.Row) {
		if v, ok := l.p.Snap.Supply.Domain(k.Matcher, r); ok {
			columnar.SatAdd(domainTotals.Of(v, l.p.Dims).Available, l.p.Vec(r))
		}
	}
	l.EachOwn(need, k, func(r columnar.Row) {
		if l.p.Snap.View.State[r] != model.Configured || l.p.st.Priority[r] >= k.Priority || l.p.Reserved.Live(r) {
			add(r) // the others are candidates, so the bound counts them
		}
	})
	for n, r := l.p.Claims.WalkAcquired(&l.p.Lines[need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
		add(r)
	}
	for i := range domainTotals.List {
		d := &domainTotals.List[i]
		if at, ok := l.p.Candidates.TotalBounds[k.Number].At[d.Value]; ok {
			columnar.SatAdd(d.Available, l.p.Candidates.TotalBounds[k.Number].Domains[at:at+l.p.Dims])
		}
		if columnar.Covers(d.Available, l.p.Aggregate(need)) {
			return true
		}
	}
	return false
}

// boundDomainTotals forms the bounds of a kind.
func (l *Worker) boundDomainTotals(k *state.Kind) {
	domainTotals := &l.Finding.DomainTotals
	domainTotals.Reset(l.p.Snap.Supply.ValueIDMax())
	d := l.DomainsFor(k.Matcher)
	for _, ds := range d.Of(k.Matcher).List {
		for _, i := range ds.Shelves {
			if sh := &d.Shelves[i]; sh.Left > 0 && k.AcceptsClass(sh.Class) {
				columnar.SatAddScaled(domainTotals.Of(ds.Value, l.p.Dims).Potential, l.p.Vector(sh.Class), int64(sh.Left))
			}
		}
	}
	for value, v := range l.p.VictimsByDomain(k) {
		for i := range v.List {
			if r := v.List[i].Row; k.AcceptsClass(l.p.Snap.View.Class[r]) && !l.p.IsTaken(&v.List[i]) {
				columnar.SatAdd(domainTotals.Of(value, l.p.Dims).Potential, l.p.Vec(r))
			}
		}
	}
	l.keepBound(k)
}

// keepBound stores the sums in l.Finding.DomainTotals as the bounds of a kind.
func (l *Worker) keepBound(k *state.Kind) {
	domainTotals := &l.Finding.DomainTotals
	l.p.Candidates.TotalBounds[k.Number].Most, l.p.Candidates.TotalBounds[k.Number].Epoch = reuse.Resize(l.p.Candidates.TotalBounds[k.Number].Most, l.p.Dims), l.p.Stock.Epoch
	l.p.Candidates.TotalBounds[k.Number].Domains = l.p.Candidates.TotalBounds[k.Number].Domains[:0]
	if l.p.Candidates.TotalBounds[k.Number].At == nil {
		l.p.Candidates.TotalBounds[k.Number].At = map[uint32]int{}
	}
	clear(l.p.Candidates.TotalBounds[k.Number].At)
	for i := range domainTotals.List {
		l.p.Candidates.TotalBounds[k.Number].At[domainTotals.List[i].Value] = len(l.p.Candidates.TotalBounds[k.Number].Domains)
		l.p.Candidates.TotalBounds[k.Number].Domains = append(l.p.Candidates.TotalBounds[k.Number].Domains, domainTotals.List[i].Potential...)
		for dim, x := range domainTotals.List[i].Potential {
			l.p.Candidates.TotalBounds[k.Number].Most[dim] = max(l.p.Candidates.TotalBounds[k.Number].Most[dim], x)
		}
	}
}

// nextCell returns the best domain that was not tried: phase 1's, then by the capped score of
// its potential, then by value as text. It returns nil when no further domain can cover the
// need. The first usually succeeds, so the domains are scanned and not sorted.
func (l *Worker) nextCell(need int32) *victims.SameDomain {
	n := &l.p.Lines[need]
	want := l.p.Aggregate(need)
	var best *victims.SameDomain
	for i := range l.Finding.DomainTotals.List {
		d := &l.Finding.DomainTotals.List[i]
		switch {
		case d.Tried:
		case d.Value == n.Domain:
			d.Tried = true
			return d
		case best == nil || l.p.betterCell(d, best, want):
			best = d
		}
	}
	// Domains that could cover have the largest possible score, so if the best does not, none
	// does.
	if best == nil || !l.p.Told.Explains(need) && !columnar.Covers(best.Potential, want) {
		return nil
	}
	best.Tried = true
	return best
}

func (p *Pass) betterCell(a, b *victims.SameDomain, want []int64) bool {
	if c := exact.CompareScores(a.Potential, b.Potential, want, true); c != 0 {
		return c > 0
	}
	return domains.Less(p.Snap.Supply, a.Value, b.Value)
}

// noteTried records what phase 2 found in a domain, if Explain asks about the Need.
func (p *Pass) noteTried(need int32, d *victims.SameDomain, candidates int, covered bool, missing []int64) {
	if !p.Told.Explains(need) {
		return
	}
	p.Told.Tried = append(p.Told.Tried, records.Tried{PreemptionExplanation: records.PreemptionExplanation{
		Domain: p.Snap.Supply.ValueString(d.Value), Covered: covered, Candidates: candidates,
	}, Need: need, Missing: p.CopyForCycle(missing)})
}
