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

func TestPlace(t *testing.T) {
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
			got := Place(c.machines, c.pods)
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
		for i, on := range Place(fleet, pods) {
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

// TestShapesGetTheirPods: the leanest pods are on the lean machines, though bigger ones are leaner than the rest, too.
func TestShapesGetTheirPods(t *testing.T) {
	fleet := machines([2]int64{32, 32}, [2]int64{32, 128}, [2]int64{32, 128})
	pods := []Pods{
		{Size: []int64{4, 10}, Count: 4}, // leaner than the rest, and the biggest
		{Size: []int64{2, 8}, Count: 24},
		{Size: []int64{1, 1}, Count: 32},
	}
	placed := Place(fleet, pods)
	for i, p := range pods {
		if len(placed[i]) != p.Count {
			t.Errorf("%d of %d pods of %v are placed", len(placed[i]), p.Count, p.Size)
		}
	}
	empty := machines([2]int64{32, 32}, [2]int64{32, 128}, [2]int64{32, 128})
	if first := aligned(empty, pods, weigh(empty, pods)); len(first[2]) == pods[2].Count {
		t.Error("the first try alone places all of them: this shows nothing")
	}
}

// TestFullAndOverfull: machines without room, or with more on them than they have, take nothing.
func TestFullAndOverfull(t *testing.T) {
	full := []Machine{
		{Capacity: []int64{4, 4}, Used: []int64{4, 4}},
		{Capacity: []int64{4, 8}, Used: []int64{6, 1}},
		{Capacity: []int64{0, 0}, Used: []int64{0, 0}},
	}
	for n := range len(full) + 1 {
		if placed := Place(slices.Clone(full[:n]), []Pods{{Size: []int64{1, 1}, Count: 3}, {Size: []int64{0, 2}, Count: 1}}); len(placed[0]) > 0 {
			t.Errorf("%d machines: placed on %v", n, placed[0])
		}
	}
}

// TestDivide: a count is divided whole, and nothing goes where the part is 0.
func TestDivide(t *testing.T) {
	for _, c := range []struct {
		count int
		parts []int
		want  []int
	}{{10, []int{1, 1}, []int{5, 5}}, {3, []int{2, 1, 3}, []int{1, 1, 1}}, {5, []int{0, 7}, []int{0, 5}}, {4, []int{0, 0}, []int{0, 0}}, {0, []int{1}, []int{0}}} {
		if got := divide(c.count, c.parts); !slices.Equal(got, c.want) {
			t.Errorf("%d pods by %v: %v, want %v", c.count, c.parts, got, c.want)
		}
	}
}

// TestSecondTryIsNoWorse: what is placed is at least what the first try places, by the largest share of a dimension.
func TestSecondTryIsNoWorse(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	better := 0
	for range 300 {
		var shapes [][2]int64
		for range 2 + r.IntN(12) {
			shapes = append(shapes, [2]int64{8 + r.Int64N(24), 8 + r.Int64N(120)})
		}
		var pods []Pods
		for range 2 + r.IntN(8) {
			pods = append(pods, Pods{Size: []int64{1 + r.Int64N(6), 1 + r.Int64N(24)}, Count: r.IntN(20)})
		}
		weights := weigh(machines(shapes...), pods)
		first := leftOver(pods, aligned(machines(shapes...), pods, weights), weights)
		placed := leftOver(pods, Place(machines(shapes...), pods), weights)
		if placed > first {
			t.Fatalf("seed %d: %v is left over, %v by the first try alone", seed, placed, first)
		}
		if placed < first {
			better++
		}
	}
	t.Logf("the second try helped in %d of 300", better)
	if better < 10 {
		t.Errorf("seed %d: the second try helped in %d of 300", seed, better)
	}
}

// BenchmarkPlace packs pods of many sizes on machines of many shapes that do not hold them all, so that it deals for as long as it may.
func BenchmarkPlace(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var fleet []Machine
	for range 1000 {
		fleet = append(fleet, machines([2]int64{8000 + r.Int64N(56000), 8000 << r.IntN(6)})...)
	}
	var pods []Pods
	for range 5000 {
		pods = append(pods, Pods{Size: []int64{100 + r.Int64N(16000), 100 + r.Int64N(64000)}, Count: 1})
	}
	for _, of := range []struct {
		name string
		try  func([]Machine, []Pods, []float64) [][]int
	}{{"first", aligned}, {"second", dealt}} {
		b.Run(of.name, func(b *testing.B) {
			for b.Loop() {
				on := withUsed(fleet)
				if leftOver(pods, of.try(on, pods, weigh(on, pods)), weigh(on, pods)) == 0 {
					b.Fatal("all pods are placed: there is nothing to deal for")
				}
			}
		})
	}
}
