package measure

import (
	"math/rand/v2"
	"testing"
)

func TestPercentilesAreByNearestRank(t *testing.T) {
	for _, c := range []struct {
		n, p50, p99 int64
	}{{1, 1, 1}, {2, 1, 2}, {3, 2, 3}, {60, 30, 60}, {99, 50, 99}, {100, 50, 99}, {101, 51, 100}, {200, 100, 198}, {10_000, 5_000, 9_900}} {
		values := make([]int64, c.n)
		for i, v := range rand.New(rand.NewPCG(1, uint64(c.n))).Perm(int(c.n)) {
			values[i] = int64(v + 1)
		}
		want := Spread{Min: 1, P50: float64(c.p50), P99: float64(c.p99), Max: float64(c.n)}
		if got := spreadOf(values, 1); got != want {
			t.Errorf("of 1 … %d: %+v, want %+v", c.n, got, want)
		}
	}
}

func TestSpreadIsInItsUnit(t *testing.T) {
	if got := spreadOf([]int64{1_500_000}, nanosPerMilli); got.Min != 1.5 || got.P99 != 1.5 {
		t.Errorf("1.5 ms are %+v", got)
	}
}
