package preempt

import (
	"math"

	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// Preempt is phase 2, done by the worker that sees all classes; then it sums up the workers' counters.
func (p *Pass) Preempt() {
	p.Forget()
	p.Walker.preempt()
	for _, l := range p.st.Workers {
		p.Probes += l.Figures.Probes
		p.Credited += l.Figures.Credited
		p.CreditCounts.Add(&l.Figures.CreditCounts)
		p.ClustersCredited += l.Figures.ClustersCredited
		p.Counts.Add(&l.Figures.Counts)
	}
}

// preempt is phase 2. For each unsatisfied need, in rank order, it looks for machines of lower
// priority in other clusters that would cover the rest. It binds nothing: a victim drains, and
// the need acquires it in a later cycle.
func (l *Worker) preempt() {
	l.FindLeaving()
	l.FindVictims()
	l.PutBackBlocked()
	if l.p.Opts.Victims == plan.VictimsGang {
		l.preemptByGangs()
	} else {
		l.preemptSingly()
	}
	l.p.Preempted.SettleVictims()
	l.ReclaimBetweenTenants()
}

// preemptByGangs is phase 2 over units, where a gang is one unit (Options.Victims = gang).
func (l *Worker) preemptByGangs() {
	l.p.BeginGangs()
	if l.p.NobodyHasTurn() {
		return
	}
	l.SpareDrains(holds.NoRank)
	t := l.FindTurns()
	l.excess.begin(l.Arena, len(l.p.Snap.Clusters))
	since, priority := l.EventsVersion(), int64(math.MaxInt64) // no int32: none yet
	for rank := t.Next(0); rank < len(l.p.Order); rank = t.Next(rank + 1) {
		if at := int64(l.p.Kinds[l.p.KindAt[rank]].Priority); at != priority {
			l.p.ForgetDomains()
			priority = at
		}
		if t.Marks[rank]&victims.HasTurn != 0 {
			had := len(l.p.Preempted.Victims)
			since = l.turnAt(t, rank, since)
			l.p.noteLosers(t, had)
		}
		if t.Marks[rank]&victims.HasLost != 0 {
			l.replaceLost(l.p.Order[rank])
		}
	}
}

// turnAt is the turn in phase 2 of the need at a rank. since is EventsVersion() after the turn before; it returns
// that after this one.
func (l *Worker) turnAt(t *victims.Turns, rank int, since uint64) uint64 {
	kind, need := l.p.KindAt[rank], l.p.Order[rank]
	if at := l.Finding.ExhaustedSince[kind]; (at == since || at == victims.ExhaustedForever) && !l.p.Shortage.Special.Has(uint32(rank)) && l.p.Stock.Skewed[kind] == 0 && !victims.LooksFor(&l.p.Pass.Pass, need) {
		return since // the common case: supply of the kind is exhausted
	}
	passed := t.Marks[rank]&victims.IsOutlined != 0 && !l.p.SearchEnded() && l.IsRefused(t, rank) || l.isPassedOver(rank, need, kind)
	if !passed {
		l.BlockUpTo(int32(rank))
		had := l.p.Lines[need].Is(state.HasPlan)
		if l.PlanFor(need, &l.p.Kinds[kind]); !had && l.p.Lines[need].Is(state.HasPlan) {
			l.Finding.Lost = append(l.Finding.Lost, victims.MembersWith(&l.p.Pass.Pass, need)...) // nothing of its gang may be taken any more
		}
	}
	if l.SpareDrains(int32(rank)) || !passed {
		l.Watch(t, rank+1)
		return l.EventsVersion()
	}
	return since
}

// preemptSingly is phase 2 over single machines (Options.Victims = machine).
func (l *Worker) preemptSingly() {
	for rank, lacks := range l.p.Lacking[:len(l.p.Order)] {
		if !lacks {
			continue
		}
		if need, kind := l.p.Order[rank], l.p.KindAt[rank]; !l.isPassedOver(rank, need, kind) {
			l.BlockUpTo(int32(rank))
			l.preemptFor(need, kind)
		}
	}
}

// isPassedOver reports whether phase 2 can do nothing for a need that lacked something after
// credit. rank and kind are the need's.
func (l *Worker) isPassedOver(rank int, need int32, kind uint32) bool {
	gangs := l.p.Opts.Victims == plan.VictimsGang
	exhausted := !l.p.Shortage.Special.Has(uint32(rank)) && !(gangs && (l.mayEvenOut(rank, kind) || victims.LooksFor(&l.p.Pass.Pass, need)))
	if exhausted && l.IsKnownExhausted(kind) {
		return true // the common case: supply of the kind is exhausted
	}
	return l.p.Lines[need].Status&(state.IsSatisfied|state.IsParked) != 0 || !l.p.IsShort(rank) || exhausted && gangs && l.IsExhausted(kind)
}

// preemptFor takes victims for a need machine by machine.
func (l *Worker) preemptFor(need int32, kind uint32) {
	k := &l.p.Kinds[kind]
	if l.nothingToPreempt(need, k) {
		if !k.Same && l.p.SpentVictims(&l.p.Candidates.PoolOf[k.Number].VictimList) {
			l.Finding.ExhaustedSince[kind] = victims.ExhaustedForever
		}
		return
	}
	l.Visit(need)
	switch {
	case k.Same:
		l.preemptSame(need, k)
	case len(k.Spread) > 0:
		l.preemptSpread(need, k)
	default:
		l.preemptPlain(need, k)
	}
}

// mayEvenOut reports whether the need at a rank may find a free machine in phase 2 that hard
// spread did not allow in phase 1: later claims may have evened out the counts. GoneSince
// memoizes that nothing is free for the kind.
func (l *Worker) mayEvenOut(rank int, kind uint32) bool {
	if l.p.Stock.Skewed[kind] == 0 || l.Finding.GoneSince[kind] == l.EventsVersion() {
		return false
	}
	if !l.p.AnyFree(&l.p.Kinds[kind]) {
		l.Finding.GoneSince[kind] = l.EventsVersion()
		return false
	}
	return l.p.Lines[l.p.Order[rank]].Is(state.IsSkewBlocked)
}

// nothingToPreempt reports whether phase 2 can change nothing for a need: no victim is left for
// it, nothing is held for it, and it is not reconsidered. Exception: a Same-Need may find a domain complete once plans
// of this cycle have put back machines that phase 1 did not see free.
func (l *Worker) nothingToPreempt(need int32, k *state.Kind) bool {
	if l.p.Candidates.PoolOf[k.Number] == nil {
		l.p.Candidates.PoolOf[k.Number] = l.VictimPool(k)
	}
	return l.p.SpentVictims(&l.p.Candidates.PoolOf[k.Number].VictimList) && !l.p.Shortage.Special.Has(uint32(l.p.RankOf[need])) && !(k.Same && l.p.WasPutBack(k))
}

// preemptPlain takes victims for whatever is missing. A partial cover is of use too.
func (l *Worker) preemptPlain(need int32, k *state.Kind) {
	l.Resume(need)
	l.p.CountInFlight(need, k, 0, l.Missing)
	if l.Lacks = cycle.PositiveDims(l.Missing); l.Lacks == 0 {
		l.p.Lines[need].Status |= state.IsAwaiting
		return
	}
	l.Finding.Wanted = append(l.Finding.Wanted[:0], l.Missing...)
	missing := l.Finding.Wanted
	chosen, found := l.SelectVictims(&l.p.Candidates.PoolOf[k.Number].VictimList, need, k)
	if found {
		l.p.Lines[need].Status |= state.HasCandidates
	}
	if l.Lacks == 0 {
		l.p.Lines[need].Status |= state.IsAwaiting
	}
	l.MakeVictims(l.p.DropUnneeded(chosen, missing), need, k)
}
