package columnar

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
)

func TestDimsAreBounded(t *testing.T) {
	var d Dims
	for i := range MaxDims {
		if at, err := d.Index(fmt.Sprintf("dim-%d", i)); err != nil || at != i {
			t.Fatalf("dimension %d: place %d, %v", i, at, err)
		}
	}
	if at, err := d.Index("dim-5"); err != nil || at != 5 || d.Name(5) != "dim-5" || d.Len() != MaxDims {
		t.Errorf("a known dimension: %d, %v, %q", at, err, d.Name(5))
	}
	if _, err := d.Index("one-more"); err == nil || !strings.Contains(err.Error(), `"one-more"`) || !strings.Contains(err.Error(), "64") {
		t.Errorf("dimension 65: %v, want an error that names it and the limit", err)
	}
	if _, ok := d.Lookup("one-more"); ok {
		t.Error("a refused dimension is known")
	}
	if _, err := new(Dims).Index(""); err == nil {
		t.Error("a dimension without a name was accepted")
	}
}

func trimmed(v []int64) string {
	for len(v) > 0 && v[len(v)-1] == 0 {
		v = v[:len(v)-1]
	}
	return fmt.Sprint(v)
}

func TestVectorsAgainstMap(t *testing.T) {
	rng := random(t)
	var dims Dims
	v := NewVectors(&dims)
	twin := map[string]VecID{"[]": 0}
	values := [][]int64{nil}
	for step := range 5000 {
		if dims.Len() == 0 || (dims.Len() < 20 && rng.IntN(200) == 0) {
			if _, err := dims.Index(fmt.Sprint("d", dims.Len())); err != nil {
				t.Fatal(err)
			}
		}
		vec := make([]int64, rng.IntN(dims.Len()+1))
		for i := range vec {
			vec[i] = int64(rng.IntN(3)) * math.MaxInt32
		}
		want, known := twin[trimmed(vec)]
		if !known {
			want = VecID(len(values))
			twin[trimmed(vec)] = want
			values = append(values, slices.Clone(vec))
		}
		got := v.Intern(vec)
		if got != want {
			t.Fatalf("step %d: Intern(%v) = %d, want %d", step, vec, got, want)
		}
		clear(vec) // the values were copied
	}
	if v.Len() != len(values)-1 {
		t.Fatalf("%d vectors, want %d", v.Len(), len(values)-1)
	}
	for id, want := range values {
		if got := v.At(VecID(id)); trimmed(got) != trimmed(want) {
			t.Fatalf("vector %d is %v, want %v", id, got, want)
		}
	}
}

func TestVectorsStayGoodWhenDimensionsAreAdded(t *testing.T) {
	var dims Dims
	mustIndex(t, &dims, "cpu")
	v := NewVectors(&dims)
	if at := v.At(0); !IsZero(at) {
		t.Errorf("the zero vector before any other: %v", at)
	}
	one := v.Intern([]int64{4})
	old := v.At(one)
	mustIndex(t, &dims, "memory")
	two := v.Intern([]int64{4, 8})
	if again := v.Intern([]int64{4, 0}); again != one {
		t.Errorf("the vector with a trailing zero has number %d, want %d", again, one)
	}
	if !slices.Equal(old, []int64{4}) || !slices.Equal(v.At(one), []int64{4, 0}) || !slices.Equal(v.At(two), []int64{4, 8}) {
		t.Errorf("vectors %v (read before), %v, %v", old, v.At(one), v.At(two))
	}
	if v.Dims() != &dims || v.Bytes() < 6*8 {
		t.Errorf("%d bytes", v.Bytes())
	}
	mustPanic(t, "a vector of more values than dimensions", func() { v.Intern([]int64{1, 2, 3}) })
}

func TestVectorsCompact(t *testing.T) {
	var dims Dims
	mustIndex(t, &dims, "cpu")
	v := NewVectors(&dims)
	for i := range int64(1000) {
		v.Intern([]int64{i + 1})
	}
	a, b := []VecID{0, 900, 7}, []VecID{7, 0, 3}
	v.Compact(a, b)
	if v.Len() != 3 || !slices.Equal(a, []VecID{0, 1, 2}) || !slices.Equal(b, []VecID{2, 0, 3}) {
		t.Fatalf("%d vectors, lists %v and %v", v.Len(), a, b)
	}
	if v.At(1)[0] != 900 || v.At(2)[0] != 7 || v.At(3)[0] != 3 || v.Intern([]int64{7}) != 2 || v.Intern([]int64{5}) != 4 {
		t.Error("the vectors kept are not those that were named")
	}
}

func TestInterningKnownVectorsAllocatesNothing(t *testing.T) {
	var dims Dims
	mustIndex(t, &dims, "cpu")
	v := NewVectors(&dims)
	vec := []int64{5}
	v.Intern(vec)
	if n := testing.AllocsPerRun(20, func() { v.Intern(vec) }); n != 0 {
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

func mustIndex(t *testing.T, dims *Dims, name string) {
	t.Helper()
	if _, err := dims.Index(name); err != nil {
		t.Fatal(err)
	}
}
