package columnar

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
)

// slowVectors numbers vectors by what they print as.
type slowVectors struct {
	ids    map[string]uint32
	values map[uint32][]int64
}

func trimmed(v []int64) []int64 {
	for len(v) > 0 && v[len(v)-1] == 0 {
		v = v[:len(v)-1]
	}
	return v
}

func (s *slowVectors) ID(v []int64) uint32 {
	v = trimmed(v)
	if len(v) == 0 {
		return 0
	}
	if id := s.ids[fmt.Sprint(v)]; id != 0 {
		return id
	}
	id := uint32(1)
	for s.values[id] != nil {
		id++
	}
	s.ids[fmt.Sprint(v)], s.values[id] = id, slices.Clone(v)
	return id
}

func (s *slowVectors) Remove(id uint32) {
	delete(s.ids, fmt.Sprint(s.values[id]))
	delete(s.values, id)
}

func TestVectorsAgainstMap(t *testing.T) {
	rng := random(t)
	var v Vectors
	twin := slowVectors{map[string]uint32{}, map[uint32][]int64{}}
	for step := range 40_000 {
		// Most go in the second half, so that what is left is written anew.
		if id := uint32(1 + rng.IntN(int(v.Top())+1)); twin.values[id] != nil && rng.IntN(40_000) < step {
			v.Remove(id)
			twin.Remove(id)
			continue
		}
		vec := make([]int64, rng.IntN(12))
		for i := range vec {
			vec[i] = int64(rng.IntN(3)) * math.MaxInt32
		}
		want := twin.ID(vec)
		if got := v.ID(vec); got != want {
			t.Fatalf("step %d: ID(%v) = %d, want %d", step, vec, got, want)
		}
		for i := range vec {
			vec[i] = -1 // the values were copied
		}
		if step%1000 != 0 {
			continue
		}
		values := 0
		for id, want := range twin.values {
			if values += len(want); !slices.Equal(v.At(id), want) {
				t.Fatalf("step %d: vector %d is %v, want %v", step, id, v.At(id), want)
			}
		}
		if v.Len() != len(twin.values) || v.Values() != values {
			t.Fatalf("step %d: %d vectors of %d values, want %d of %d", step, v.Len(), v.Values(), len(twin.values), values)
		}
		if len(v.values) > 2*values+vectorSlack {
			t.Fatalf("step %d: %d values are held for %d: removed ones were not dropped", step, len(v.values), values)
		}
	}
}

func TestVectorsOfNothing(t *testing.T) {
	var v Vectors
	if v.ID(nil) != 0 || v.ID([]int64{0, 0}) != 0 || v.At(0) != nil || v.Len() != 0 || v.Top() != 0 || v.Bytes() != 0 {
		t.Error("no vectors, and the zero vector, are something")
	}
	mustPanic(t, "Remove(0)", func() { v.Remove(0) })
	one := v.ID([]int64{0, 4})
	if again := v.ID([]int64{0, 4, 0}); one != 1 || again != 1 || !slices.Equal(v.At(1), []int64{0, 4}) {
		t.Errorf("numbers %d and %d for %v", one, again, v.At(1))
	}
	v.Remove(1)
	mustPanic(t, "a second Remove", func() { v.Remove(1) })
	mustPanic(t, "a number never given", func() { v.At(9) })
	if got := v.ID([]int64{7}); got != 1 {
		t.Errorf("a new vector got %d, want the smallest free number", got)
	}
}

// TestVectorsWithEqualTags forces what chance never brings: vectors whose hashes
// agree in all bits that the table holds.
func TestVectorsWithEqualTags(t *testing.T) {
	var v Vectors
	const tag = 0xFFFFFFFF // its home is the last slot: probing wraps around
	for id := uint32(1); id <= 3; id++ {
		v.slots.reserve()
		v.numbers.Alloc()
		v.places = append(v.places, make([]place, int(id)+1-len(v.places))...)
		v.places[id] = place{uint32(len(v.values)), 1}
		v.values = append(v.values, int64(id))
		v.slots.insert(tag, id)
	}
	for id := uint32(1); id <= 3; id++ {
		if got := v.find(tag, []int64{int64(id)}); got != id {
			t.Errorf("vector %d found as %d", id, got)
		}
	}
	if got := v.find(tag, []int64{9}); got != 0 {
		t.Errorf("an unknown vector found as %d", got)
	}
}

func TestNumberingKnownVectorsAllocatesNothing(t *testing.T) {
	var v Vectors
	vec := []int64{5}
	v.ID(vec)
	if n := testing.AllocsPerRun(20, func() { v.ID(vec) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// clampBig brings a number into int64.
func clampBig(b *big.Int) int64 {
	switch {
	case b.IsInt64():
		return b.Int64()
	case b.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

func FuzzArithmetic(f *testing.F) {
	edges := []int64{0, 1, -1, 2, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1 << 32, -1 << 31}
	for _, a := range edges {
		for _, b := range edges {
			f.Add(a, b, int64(3))
			f.Add(int64(7), a, b)
		}
	}
	f.Fuzz(func(t *testing.T, a, b, n int64) {
		x, y, k := big.NewInt(a), big.NewInt(b), big.NewInt(n)
		dst := []int64{a, a}
		SatAdd(dst, []int64{b})
		if want := clampBig(new(big.Int).Add(x, y)); dst[0] != want || dst[1] != a {
			t.Errorf("%d + %d = %v, want %d and the second untouched", a, b, dst, want)
		}
		dst[0] = a
		SubClamp(dst, []int64{b})
		if want := max(clampBig(new(big.Int).Sub(x, y)), 0); dst[0] != want {
			t.Errorf("%d - %d = %d, want %d", a, b, dst[0], want)
		}
		dst[0] = a
		SatAddScaled(dst, []int64{b}, n)
		product := big.NewInt(clampBig(new(big.Int).Mul(y, k)))
		if want := clampBig(new(big.Int).Add(x, product)); dst[0] != want {
			t.Errorf("%d + %d×%d = %d, want %d", a, b, n, dst[0], want)
		}
	})
}

func TestCoversAndHelps(t *testing.T) {
	for _, c := range []struct {
		have, want    []int64
		covers, helps bool
	}{
		{nil, nil, true, false},
		{nil, []int64{0, 0}, true, false},
		{nil, []int64{0, 1}, false, false},
		{[]int64{4, 8}, []int64{4, 8}, true, true},
		{[]int64{4, 8}, []int64{4, 9}, false, true},
		{[]int64{4, 8}, []int64{4}, true, true},
		{[]int64{4}, []int64{4, 0, 0}, true, true},
		{[]int64{4}, []int64{4, 0, 1}, false, true},
		{[]int64{4, 0}, []int64{0, 2}, false, false},
		{[]int64{-5, 1}, []int64{-3, 1}, true, true},
		{[]int64{-5}, []int64{1}, false, false},
	} {
		if got := Covers(c.have, c.want); got != c.covers {
			t.Errorf("Covers(%v, %v) = %v", c.have, c.want, got)
		}
		if got := Helps(c.have, c.want); got != c.helps {
			t.Errorf("Helps(%v, %v) = %v", c.have, c.want, got)
		}
	}
	mustPanic(t, "a sum into a shorter vector", func() { SatAdd(make([]int64, 1), make([]int64, 2)) })
}
