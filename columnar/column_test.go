package columnar

import (
	"maps"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/internal/invariants"
)

func TestColumnAgainstSlice(t *testing.T) {
	rng := random(t)
	var c Column[uint32]
	twin := []uint32{0}
	for step := range 5000 {
		switch op := rng.IntN(100); {
		case op < 20:
			n := rng.IntN(len(twin) + 10)
			c.Grow(n)
			for len(twin) <= n {
				twin = append(twin, 0)
			}
		case op < 99 && len(twin) > 1:
			r := 1 + rng.IntN(len(twin)-1)
			c.Set(Row(r), uint32(step))
			twin[r] = uint32(step)
		case op == 99 && rng.IntN(5) == 0:
			c.Reset()
			c.Grow(0)
			twin = twin[:1]
		}
		if c.Len() != len(twin)-1 {
			t.Fatalf("step %d: %d rows, want %d", step, c.Len(), len(twin)-1)
		}
	}
	c.Grow(0)
	if got := c.View().Slice(); !slices.Equal(got, twin) {
		t.Fatalf("column %v, want %v", got, twin)
	}
	for r, want := range twin {
		if c.At(Row(r)) != want || c.View().At(Row(r)) != want {
			t.Fatalf("row %d reads %d, want %d", r, c.At(Row(r)), want)
		}
	}
	if c.Bytes() < int64(len(twin))*4 || c.View().Len() != c.Len() {
		t.Errorf("%d bytes for %d rows, view of %d", c.Bytes(), len(twin), c.View().Len())
	}
}

func TestColumnReusedRowsAreZero(t *testing.T) {
	var c Column[uint64]
	c.Grow(100)
	c.Set(50, 7)
	c.Reset()
	c.Grow(60)
	if got := c.At(50); got != 0 {
		t.Errorf("after Reset and Grow row 50 reads %d, want 0", got)
	}
}

func TestColumnMisuse(t *testing.T) {
	var c Column[uint32]
	mustPanic(t, "At on a column of no rows", func() { c.At(1) })
	c.Grow(3)
	mustPanic(t, "At beyond the rows", func() { c.At(4) })
	mustPanic(t, "Set of row 0", func() { c.Set(None, 1) })
	mustPanic(t, "a column of strings", func() { new(Column[string]).Grow(1) })
	view := c.View()
	c.Set(1, 9)
	if invariants.Enabled {
		mustPanic(t, "a view after a change", func() { view.At(1) })
	}
}

func TestRowsAreTheSmallestFree(t *testing.T) {
	rng := random(t)
	var rows Rows
	live := map[Row]bool{}
	for step := range 20_000 {
		if rng.IntN(100) < 52 || len(live) == 0 {
			want := Row(1)
			for live[want] {
				want++
			}
			if got := rows.Alloc(); got != want {
				t.Fatalf("step %d: row %d, want %d", step, got, want)
			}
			live[want] = true
		} else {
			all := slices.Sorted(maps.Keys(live))
			r := all[rng.IntN(len(all))]
			rows.Free(r)
			delete(live, r)
		}
		if rows.Len() != len(live) {
			t.Fatalf("step %d: %d live, want %d", step, rows.Len(), len(live))
		}
	}
	var walked []Row
	for r := rows.Next(1); r != None; r = rows.Next(r + 1) {
		walked = append(walked, r)
	}
	want := slices.Sorted(maps.Keys(live))
	if !slices.Equal(walked, want) {
		t.Fatalf("walked %v, want %v", walked, want)
	}
	if rows.Top() < want[len(want)-1] {
		t.Errorf("top %d below a live row", rows.Top())
	}
	rows.Reset()
	if r := rows.Alloc(); r != 1 || rows.Len() != 1 || rows.Live(2) {
		t.Errorf("after Reset the first row is %d, %d live", r, rows.Len())
	}
}

// TestRowsDoNotDependOnTheOrderOfFree is what lets a caller free rows while
// walking a map.
func TestRowsDoNotDependOnTheOrderOfFree(t *testing.T) {
	rng := random(t)
	freed := []Row{3, 99, 64, 17, 65, 1, 100}
	var want []Row
	for round := range 20 {
		var rows Rows
		for range 100 {
			rows.Alloc()
		}
		for _, r := range freed {
			rows.Free(r)
		}
		var got []Row
		for range len(freed) + 2 {
			got = append(got, rows.Alloc())
		}
		if round == 0 {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Fatalf("freed in the order %v: %v, want %v", freed, got, want)
		}
		rng.Shuffle(len(freed), func(i, j int) { freed[i], freed[j] = freed[j], freed[i] })
	}
}

func TestRowsMisuse(t *testing.T) {
	var rows Rows
	mustPanic(t, "Free of row 0", func() { rows.Free(None) })
	r := rows.Alloc()
	rows.Free(r)
	mustPanic(t, "double Free", func() { rows.Free(r) })
	mustPanic(t, "Free of a row never given out", func() { rows.Free(1000) })
}
