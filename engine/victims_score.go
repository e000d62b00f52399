package engine

import (
	"math"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// The grace of a victim in seconds, by how far the preemptor's priority is above its own. A
// reclaimed machine always gets graceFull.
const (
	graceExtreme  = 10
	graceLarge    = 30
	graceModerate = 120
	graceFull     = 600
)

// graceFor returns the grace in seconds for a gap in priority.
func graceFor(gap int64) int32 {
	switch {
	case gap > 900_000:
		return graceExtreme
	case gap > 500_000:
		return graceLarge
	case gap > 100_000:
		return graceModerate
	}
	return graceFull
}

// Floors of the victim score's denominators.
const (
	drainSecondsMin   = 1
	penaltyDollarsMin = 0.01
)

// priorityOf returns what a bound machine is worth now: the priority of the need that claims
// it, or of its stamp if none does.
func (p *pass) priorityOf(r columnar.Row) int32 {
	if h := p.claims.Of(r); h != state.Unclaimed {
		return p.kindOf(h).Priority
	}
	return p.s.View.Priority[r]
}

// isExcess reports whether phase 3 would reclaim the machine: no need claims it, and its
// cluster has reported.
func (p *pass) isExcess(r columnar.Row) bool {
	return p.claims.Of(r) == state.Unclaimed && p.s.Demand.Reported(p.s.Supply.Cluster(r))
}

// score is the victim score; the higher, the better as a victim. Each w is the term's weight:
//
//	gap·w + (1/drain seconds)·w + (1/interruption dollars)·w + (1/reclamation dollars)·w
func (p *pass) score(r columnar.Row, preemptor, own int32) float64 {
	t := p.scoreTerms(r, preemptor, own)
	return t[0] + t[1] + t[2] + t[3]
}

// scoreOf returns the score of machines that are alike. Draining machines that are reserved for
// no need go before all other excess; reserved ones go after it.
func (p *pass) scoreOf(a *units.Alike, preemptor int32) float64 {
	switch {
	case a.Promised:
		return math.Inf(-1)
	case a.IsFreeSoon():
		return math.Inf(1)
	}
	return p.score(a.Rows[0], preemptor, a.Level)
}

// scoreTerms returns the terms of the score in that order. The conversions to float64 forbid
// fused multiply-add: every processor must compute the same number.
func (p *pass) scoreTerms(r columnar.Row, preemptor, own int32) [4]float64 {
	w := &p.e.opts.Weights
	gap := max(int64(preemptor)-int64(own), 0)
	drain := float64(DrainSecondsDefault)
	if d, ok := p.in.DrainSeconds[p.s.Classes[p.s.View.Class[r]].InstanceType]; ok {
		drain = d
	}
	if !(drain >= drainSecondsMin) { // NaN too
		drain = drainSecondsMin
	}
	return [4]float64{
		float64(float64(gap) * w.Priority),
		float64(1 / drain * w.DrainSpeed),
		float64(1 / math.Max(p.s.View.Interruption[r].Dollars(), penaltyDollarsMin) * w.Interruption),
		float64(1 / math.Max(p.s.View.Reclamation[r].Dollars(), penaltyDollarsMin) * w.Reclamation),
	}
}
