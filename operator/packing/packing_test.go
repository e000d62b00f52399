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

// TestNothingIsOverfull: what is placed is counted, fits, and nothing that has room is left.
func TestNothingIsOverfull(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var fleet []Machine
		for range r.IntN(8) {
			c := [2]int64{r.Int64N(20), r.Int64N(20)}
			fleet = append(fleet, machines(c)...)
		}
		var pods []Pods
		for range 1 + r.IntN(6) {
			p := Pods{Size: []int64{r.Int64N(8), r.Int64N(8)}, Count: r.IntN(10)}
			pods = append(pods, p)
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
