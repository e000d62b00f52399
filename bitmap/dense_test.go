package bitmap

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/tonnage/tonnage/alloc"
)

// random returns a generator whose seed is printed when the test fails and can
// be repeated with TONNAGE_SEED.
func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("TONNAGE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TONNAGE_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("TONNAGE_SEED=%d repeats this run", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}

// twin is the slow form of a set.
type twin map[uint32]bool

func (w twin) sorted() []uint32 { return slices.Sorted(maps.Keys(w)) }

func randomSet(rng *rand.Rand, top int) (*Dense, twin) {
	d, w := NewDense(top), twin{}
	for range rng.IntN(2*top + 2) {
		row := uint32(rng.IntN(top + 1))
		if rng.IntN(3) == 0 {
			d.Clear(row)
			delete(w, row)
		} else {
			d.Set(row)
			w[row] = true
		}
	}
	return d, w
}

func checkDense(t *testing.T, what string, d *Dense, w twin) {
	t.Helper()
	want := w.sorted()
	if got := slices.Collect(d.All()); !slices.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
	var walked []uint32
	for row, ok := d.Next(0); ok; row, ok = d.Next(row + 1) {
		walked = append(walked, row)
	}
	if !slices.Equal(walked, want) {
		t.Fatalf("%s: Next walks %v, want %v", what, walked, want)
	}
	for row := uint32(0); int(row) <= d.Top()+130; row++ {
		if d.Has(row) != w[row] {
			t.Fatalf("%s: Has(%d) = %v", what, row, d.Has(row))
		}
	}
	free := uint32(0)
	for row := uint32(0); int(row) <= d.Top(); row++ {
		if w[row] {
			continue
		}
		got, ok := d.NextClear(free)
		if !ok || got != row {
			t.Fatalf("%s: NextClear(%d) = %d, %v, want %d", what, free, got, ok, row)
		}
		free = row + 1
	}
	if got, ok := d.NextClear(free); ok {
		t.Fatalf("%s: NextClear(%d) = %d, want none", what, free, got)
	}
}

func TestDenseAgainstMap(t *testing.T) {
	rng := random(t)
	for round := range 300 {
		top := []int{0, 1, 62, 63, 64, 65, 127, 128, 200}[round%9]
		a, wa := randomSet(rng, top)
		checkDense(t, "a", a, wa)
		a.Grow(top + rng.IntN(200))
		checkDense(t, "grown", a, wa)
		a.Reset()
		checkDense(t, "reset", a, twin{})
	}
}

func TestSetAll(t *testing.T) {
	rng := random(t)
	for range 500 {
		d, w := randomSet(rng, 200)
		from, to := uint32(rng.IntN(201)), uint32(rng.IntN(201))
		d.SetAll(from, to)
		for row := from; row <= to; row++ {
			w[row] = true
		}
		checkDense(t, "range", d, w)
	}
}

// TestAssignReplaces uses every form of roaring container: array, bitmap, run.
func TestAssignReplaces(t *testing.T) {
	rng := random(t)
	const top = 200_000
	for name, fill := range map[string]func(b *roaring.Bitmap){
		"empty": func(*roaring.Bitmap) {},
		"array": func(b *roaring.Bitmap) {
			for range 100 {
				b.Add(uint32(rng.IntN(top + 1)))
			}
		},
		"bitmap": func(b *roaring.Bitmap) {
			for range 60_000 {
				b.Add(uint32(rng.IntN(top + 1)))
			}
			b.Add(top)
		},
		"run": func(b *roaring.Bitmap) { b.AddRange(100, 150_000); b.RunOptimize() },
	} {
		d := NewDense(top)
		d.SetAll(0, top)
		b := roaring.New()
		fill(b)
		d.Assign(b)
		if got := slices.Collect(d.All()); !slices.Equal(got, b.ToArray()) {
			t.Errorf("%s: %d rows, want %d", name, len(got), b.GetCardinality())
		}
	}
	mustPanic(t, "Assign of a row above the top", func() { NewDense(9).Assign(roaring.BitmapOf(10)) })
}

func TestDenseMisuse(t *testing.T) {
	d := NewDense(70)
	mustPanic(t, "Set above the top", func() { d.Set(71) })
	mustPanic(t, "SetAll above the top", func() { d.SetAll(3, 71) })
	d.Clear(1 << 30)
	if _, found := d.Next(0); found {
		t.Error("a refused row is in the set")
	}
}

func TestDenseAllocatesNothing(t *testing.T) {
	a := NewDense(10_000)
	for i := uint32(0); i < 10_000; i += 7 {
		a.Set(i)
	}
	sum := uint32(0)
	if n := testing.AllocsPerRun(20, func() {
		for row := range a.All() {
			sum += row
		}
	}); n != 0 {
		t.Errorf("%v allocations in reading a set, want 0", n)
	}
	arena := alloc.NewArena(alloc.Pass)
	if n := testing.AllocsPerRun(20, func() {
		d := DenseIn(arena, 10_000)
		d.Set(10_000)
		arena.Reset()
	}); n != 0 {
		t.Errorf("%v allocations for a set in an arena, want 0", n)
	}
}
