package buying

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tonnage/tonnage/operator/packing"
)

func TestScores(t *testing.T) {
	m := packing.Machine{Capacity: []int64{10, 100}, Used: []int64{2, 40}}
	pod := []int64{3, 10}
	for name, c := range map[string]struct {
		score Score
		want  float64
	}{
		"least":    {LeastAllocated, 50},      // the mean of 50 % and 50 % that are free
		"most":     {MostAllocated, 50},       //
		"balanced": {BalancedAllocation, 100}, // both are half full
		"gained":   {BalanceGained, 80},       // from 90 to 100: half of 10, above 75
		"default":  {Default, 130},
		"older":    {OlderDefault, 150},
	} {
		if got := c.score(&m, pod, []int{0, 1}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := BalancedAllocation(&m, []int64{8, 10}, []int{0, 1}); got != 75 { // 100 % and 50 %
		t.Errorf("unbalanced: %v, want 75", got)
	}
}

// TestScheduleCounts: every pod that is placed fits and is counted, and none is left that has room.
func TestScheduleCounts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var fleet []packing.Machine
		for range r.IntN(8) {
			fleet = append(fleet, packing.Machine{Capacity: []int64{r.Int64N(20), r.Int64N(20)}, Used: make([]int64, 2)})
		}
		var pods [][]int64
		for range r.IntN(40) {
			pods = append(pods, []int64{r.Int64N(8), r.Int64N(8)})
		}
		used := make([][2]int64, len(fleet))
		for i, m := range schedule(fleet, pods, Default, []int{0, 1}) {
			if m >= 0 {
				used[m][0] += pods[i][0]
				used[m][1] += pods[i][1]
				continue
			}
			for j := range fleet {
				if fits(&fleet[j], pods[i]) {
					t.Fatalf("seed %d: %v is left, and machine %d has room in the end", seed, pods[i], j)
				}
			}
		}
		for i, m := range fleet {
			if m.Used[0] != used[i][0] || m.Used[1] != used[i][1] || m.Used[0] > m.Capacity[0] || m.Used[1] > m.Capacity[1] {
				t.Fatalf("seed %d: machine %d of %v has %v on it, counted as %v", seed, i, m.Capacity, used[i], m.Used)
			}
		}
	}
}
