package victims

import (
	"math"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// The grace of a victim in seconds, by how far the preemptor's priority is above its own. A
// reclaimed machine always gets GraceFull.
const (
	graceExtreme  = 10
	graceLarge    = 30
	graceModerate = 120
	GraceFull     = 600
)

// GraceFor returns the grace in seconds for a gap in priority.
func GraceFor(gap int64) int32 {
	switch {
	case gap > 900_000:
		return graceExtreme
	case gap > 500_000:
		return graceLarge
	case gap > 100_000:
		return graceModerate
	}
	return GraceFull
}

// Floors of the victim score's denominators.
const (
	drainSecondsMin   = 1
	penaltyDollarsMin = 0.01
)

// IsExcess reports whether phase 3 would reclaim the machine: no need claims it, and its
// cluster has reported.
func (p *Pass) IsExcess(r columnar.Row) bool {
	return p.Claims.Of(r) == state.Unclaimed && p.Snap.Demand.Reported(p.Snap.Supply.Cluster(r))
}

// Score is the victim score; the higher, the better as a victim. Each w is the term's weight:
//
//	gap·w + (1/drain seconds)·w + (1/interruption dollars)·w + (1/reclamation dollars)·w
func (p *Pass) Score(r columnar.Row, preemptor, own int32) float64 {
	t := p.ScoreTerms(r, preemptor, own)
	return t[0] + t[1] + t[2] + t[3]
}

// scoreOf returns the score of machines that are alike. Draining machines that are reserved for
// no need go before all other excess; reserved ones go after it.
func (p *Pass) scoreOf(a *units.Alike, preemptor int32) float64 {
	switch {
	case a.Promised:
		return math.Inf(-1)
	case a.IsFreeSoon():
		return math.Inf(1)
	}
	return p.Score(a.Rows[0], preemptor, a.Level)
}

// ScoreTerms returns the terms of the score in that order. The conversions to float64 forbid
// fused multiply-add: every processor must compute the same number.
func (p *Pass) ScoreTerms(r columnar.Row, preemptor, own int32) [4]float64 {
	w := &p.Opts.Weights
	gap := max(int64(preemptor)-int64(own), 0)
	drain := float64(plan.DrainSecondsDefault)
	if d, ok := p.Input.DrainSeconds[p.Snap.Classes[p.Snap.View.Class[r]].InstanceType]; ok {
		drain = d
	}
	if !(drain >= drainSecondsMin) { // NaN too
		drain = drainSecondsMin
	}
	return [4]float64{
		float64(float64(gap) * w.Priority),
		float64(1 / drain * w.DrainSpeed),
		float64(1 / math.Max(p.Snap.View.Interruption[r].Dollars(), penaltyDollarsMin) * w.Interruption),
		float64(1 / math.Max(p.Snap.View.Reclamation[r].Dollars(), penaltyDollarsMin) * w.Reclamation),
	}
}

// ExcessClasses returns the set of classes of which a cluster may have unclaimed Configured machines;
// nil if there are none. With gangs the lowest priorities by class say so; with single victims any
// class may have some.
func (l *Worker) ExcessClasses(c int) []uint64 {
	gangs, some := l.p.Opts.Victims == plan.VictimsGang, false
	l.Finding.excess = reuse.Resize(l.Finding.excess, (len(l.p.Snap.Classes)+63)/64)
	for _, x := range l.p.st.Clusters[c].Cheapest {
		if !gangs || x.Priority == math.MinInt32 {
			l.Finding.excess[x.Class>>6] |= 1 << (x.Class & 63)
			some = true
		}
	}
	if !some {
		return nil
	}
	return l.Finding.excess
}
