package buying

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestBound(t *testing.T) {
	small := Type{Name: "small", Capacity: [dims]int64{4000, 16 << 10, 1, 58}, Price: 2}
	large := Type{Name: "large", Capacity: [dims]int64{16000, 64 << 10, 4, 58}, Price: 4}
	lean := Type{Name: "lean", Capacity: [dims]int64{4000, 16 << 10, 0, 58}, Price: 1}
	for name, c := range map[string]struct {
		types []Type
		pods  []Pod
		want  float64
	}{
		"nothing":                          {[]Type{lean}, nil, 0},
		"half a machine":                   {[]Type{lean}, []Pod{{2000, 1 << 10, 0, 1}}, 0.5},
		"memory decides":                   {[]Type{lean}, []Pod{{1000, 16 << 10, 0, 1}}, 1},
		"a device is on a machine":         {[]Type{small, lean}, []Pod{{1000, 1 << 10, 1, 1}}, 2},
		"its cores are of that machine":    {[]Type{small, large, lean}, []Pod{{8000, 1 << 10, 1, 1}}, 2}, // two such pods on one large
		"the rest of the machine is free":  {[]Type{small, lean}, []Pod{{1000, 1 << 10, 1, 1}, {3000, 1 << 10, 0, 1}}, 2},
		"three devices are not on four":    {[]Type{large}, []Pod{{3000, 3 << 10, 3, 1}}, 4},
		"three and one are":                {[]Type{large}, []Pod{{3000, 3 << 10, 3, 1}, {1000, 1 << 10, 1, 1}}, 4},
		"seven are on seven quarters":      {[]Type{large}, []Pod{{3000, 3 << 10, 3, 1}, {2000, 2 << 10, 2, 1}, {2000, 2 << 10, 2, 1}}, 7},
		"nobody's cores without a machine": {[]Type{large, lean}, []Pod{{4000, 1 << 10, 4, 1}, {16000, 1 << 10, 0, 1}}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Bound(c.types, c.pods)
			if err != nil || math.Abs(got-c.want) > 1e-6 {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
	if _, err := Bound([]Type{lean}, []Pod{{1000, 1 << 10, 1, 1}}); err == nil {
		t.Error("there is a bound for a device that no machine has")
	}
}

// TestBoundIsOne: no fleet that is put together at random, with as many pods as fit on each machine,
// costs less. The known seeds are of programs in which the simplex meets a singular basis or goes
// round for ever while rows are bound to be exactly 0.
func TestBoundIsOne(t *testing.T) {
	known := []uint64{1795852624903730489, 1795852624903730499, 1795852624903730500, 1795852624903730536, 7056}
	for _, seed := range append(known, uint64(time.Now().UnixNano())) {
		randomBounds(t, seed)
	}
}

// randomBounds compares the bounds of 200 random fleets with what each costs.
func randomBounds(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var types []Type
		for range 2 + r.IntN(5) {
			g := int64(0)
			if r.IntN(2) == 0 {
				g = 1 + r.Int64N(8)
			}
			types = append(types, Type{Capacity: [dims]int64{1000 * (1 + r.Int64N(32)), 1 << 10 * (1 + r.Int64N(64)), g, 10}, Price: 0.1 + r.Float64()})
		}
		var pods []Pod
		spend := 0.0
		for range 1 + r.IntN(6) {
			t := &types[r.IntN(len(types))]
			spend += t.Price
			left := t.Capacity
			for range 20 {
				p := Pod{r.Int64N(t.Capacity[dimCPU]) + 1, r.Int64N(t.Capacity[dimMemory]) + 1, 0, 1}
				if t.Capacity[dimGPU] > 0 && r.IntN(2) == 0 {
					p[dimGPU] = 1 + r.Int64N(t.Capacity[dimGPU])
				}
				fit := true
				for d := range p {
					fit = fit && p[d] <= left[d]
				}
				if !fit {
					continue
				}
				for d := range p {
					left[d] -= p[d]
				}
				pods = append(pods, p)
			}
		}
		least, err := Bound(types, pods)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if least > spend*(1+1e-9) {
			t.Fatalf("seed %d: the bound is %v, and a fleet costs %v", seed, least, spend)
		}
	}
}
