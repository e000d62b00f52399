package packing

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// machines makes empty machines of two dimensions.
func machines(capacities ...[2]int64) []Machine {
	out := make([]Machine, len(capacities))
	for i, c := range capacities {
		out[i] = Machine{Capacity: []int64{c[0], c[1]}, Used: make([]int64, 2)}
	}
	return out
}

func TestAligned(t *testing.T) {
	for name, c := range map[string]struct {
		machines []Machine
		pods     []Pods
		want     [][]int
	}{
		"nothing":                      {nil, nil, [][]int{}},
		"no machine":                   {nil, []Pods{{Size: []int64{1, 1}, Count: 2}}, [][]int{nil}},
		"the first of two alike":       {machines([2]int64{4, 4}, [2]int64{4, 4}), []Pods{{Size: []int64{1, 1}, Count: 1}}, [][]int{{0}}},
		"each where its shape belongs": {machines([2]int64{8, 2}, [2]int64{2, 8}), []Pods{{Size: []int64{2, 8}, Count: 1}, {Size: []int64{8, 2}, Count: 1}}, [][]int{{1}, {0}}},
		"the biggest first":            {machines([2]int64{4, 4}), []Pods{{Size: []int64{1, 1}, Count: 2}, {Size: []int64{4, 4}, Count: 1}}, [][]int{nil, {0}}},
		"as many as there is room for": {machines([2]int64{3, 9}), []Pods{{Size: []int64{1, 1}, Count: 5}}, [][]int{{0, 0, 0}}},
		"only where it may":            {machines([2]int64{4, 4}, [2]int64{4, 4}), []Pods{{Size: []int64{1, 1}, Count: 1, On: func(i int) bool { return i == 1 }}}, [][]int{{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Aligned(c.machines, c.pods)
			if !slices.EqualFunc(got, c.want, slices.Equal) {
				t.Errorf("placed on %v, want %v", got, c.want)
			}
		})
	}
}

// TestNothingIsOverfull: both ways count what they place, and place what has room.
func TestNothingIsOverfull(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var fleet, same []Machine
		for range r.IntN(8) {
			c := [2]int64{r.Int64N(20), r.Int64N(20)}
			fleet, same = append(fleet, machines(c)...), append(same, machines(c)...)
		}
		var pods []Pods
		var one [][]int64
		for range 1 + r.IntN(6) {
			p := Pods{Size: []int64{r.Int64N(8), r.Int64N(8)}, Count: r.IntN(10)}
			pods = append(pods, p)
			for range p.Count {
				one = append(one, p.Size)
			}
		}
		used := make([][2]int64, len(fleet))
		for i, on := range Aligned(fleet, pods) {
			for _, m := range on {
				used[m][0] += pods[i].Size[0]
				used[m][1] += pods[i].Size[1]
			}
			if len(on) < pods[i].Count && slices.ContainsFunc(fleet, func(m Machine) bool { return m.fits(pods[i].Size) }) {
				t.Fatalf("seed %d: %v is left, and there is room in the end", seed, pods[i].Size)
			}
		}
		check(t, seed, fleet, used)
		for _, score := range []Score{Default, LeastAllocated, MostAllocated, BalancedAllocation} {
			used = make([][2]int64, len(same))
			for i := range same {
				same[i].Used = make([]int64, 2)
			}
			for i, m := range Scheduled(same, one, score, []int{0, 1}) {
				if m >= 0 {
					used[m][0] += one[i][0]
					used[m][1] += one[i][1]
				}
			}
			check(t, seed, same, used)
		}
	}
}

func check(t *testing.T, seed uint64, fleet []Machine, used [][2]int64) {
	t.Helper()
	for i, m := range fleet {
		if m.Used[0] != used[i][0] || m.Used[1] != used[i][1] || m.Used[0] > m.Capacity[0] || m.Used[1] > m.Capacity[1] {
			t.Fatalf("seed %d: machine %d of %v has %v on it, counted as %v", seed, i, m.Capacity, used[i], m.Used)
		}
	}
}

func TestScores(t *testing.T) {
	m := Machine{Capacity: []int64{10, 100}, Used: []int64{2, 40}}
	pod := []int64{3, 10}
	for name, c := range map[string]struct {
		score Score
		want  float64
	}{
		"least":    {LeastAllocated, 50},      // the mean of 50 % and 50 % that are free
		"most":     {MostAllocated, 50},       //
		"balanced": {BalancedAllocation, 100}, // both are half full
		"default":  {Default, 150},
	} {
		if got := c.score(&m, pod, []int{0, 1}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := BalancedAllocation(&m, []int64{8, 10}, []int{0, 1}); got != 75 { // 100 % and 50 %
		t.Errorf("unbalanced: %v, want 75", got)
	}
}
