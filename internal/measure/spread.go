package measure

import (
	"slices"

	"github.com/tonnage/tonnage/engine"
)

// Spread are exact percentiles of what was measured, by nearest rank.
type Spread struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// nanosPerMilli turns nanoseconds into milliseconds.
const nanosPerMilli = 1e6

// spreadOf returns the spread of values in units of unit; it sorts them. There
// must be at least one.
func spreadOf(values []int64, unit float64) Spread {
	slices.Sort(values)
	at := func(percent int) float64 { return float64(values[nearestRank(len(values), percent)]) / unit }
	return Spread{Min: float64(values[0]) / unit, P50: at(50), P99: at(99), Max: float64(values[len(values)-1]) / unit}
}

// nearestRank returns the index of a percentile among n sorted values.
func nearestRank(n, percent int) int { return max(1, (n*percent+99)/100) - 1 }

// Phases are the spreads of a cycle's parts.
type Phases struct {
	Snapshot  Spread `json:"snapshot"`
	Normalise Spread `json:"normalise"`
	Rank      Spread `json:"rank"`
	Phase1    Spread `json:"phase1"`
	Phase2    Spread `json:"phase2"`
	Phase3    Spread `json:"phase3"`
}

// samples holds one number per measured cycle and sort of figure.
type samples struct {
	cycle, cpu                                        []int64 // nanoseconds
	snapshot, normalise, rank, phase1, phase2, phase3 []int64
	allocs, allocBytes                                []int64
	floor                                             []int64 // nanoseconds, between cycles
}

func (s *samples) take(c *cost, st *engine.Stats) {
	s.cycle = append(s.cycle, c.nanos)
	s.cpu = append(s.cpu, c.cpuNanos)
	s.allocs = append(s.allocs, c.allocs)
	s.allocBytes = append(s.allocBytes, c.allocBytes)
	s.snapshot = append(s.snapshot, st.SnapshotNanos)
	s.normalise = append(s.normalise, st.NormaliseNanos)
	s.rank = append(s.rank, st.RankNanos)
	s.phase1 = append(s.phase1, st.Phase1Nanos)
	s.phase2 = append(s.phase2, st.Phase2Nanos)
	s.phase3 = append(s.phase3, st.Phase3Nanos)
}

func (s *samples) phases() Phases {
	return Phases{
		Snapshot: spreadOf(s.snapshot, nanosPerMilli), Normalise: spreadOf(s.normalise, nanosPerMilli), Rank: spreadOf(s.rank, nanosPerMilli),
		Phase1: spreadOf(s.phase1, nanosPerMilli), Phase2: spreadOf(s.phase2, nanosPerMilli), Phase3: spreadOf(s.phase3, nanosPerMilli),
	}
}
