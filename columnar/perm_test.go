package columnar

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// idShapes are ways in which fleets name machines.
var idShapes = map[string]func(rng *rand.Rand, i int) string{
	"serial":   func(_ *rand.Rand, i int) string { return fmt.Sprintf("m-%06d", i) },
	"cloud":    func(rng *rand.Rand, _ int) string { return fmt.Sprintf("i-%017x", rng.Uint64()>>1) },
	"nested":   func(_ *rand.Rand, i int) string { return fmt.Sprintf("zone-%d/rack-%03d/node-%d", i%3, i%500, i) },
	"unpadded": func(_ *rand.Rand, i int) string { return fmt.Sprint("openb-node-", i) },
	"few":      func(rng *rand.Rand, _ int) string { return strings.Repeat("a", rng.IntN(30)) },
	"zeros":    func(rng *rand.Rand, _ int) string { return strings.Repeat("\x00", rng.IntN(30)) },
	"long": func(rng *rand.Rand, _ int) string {
		return strings.Repeat("x", 8*rng.IntN(5)) + fmt.Sprint(rng.IntN(3000))
	},
}

func slowOrder(rows []Row, key func(Row) string) []Row {
	out := slices.Clone(rows)
	slices.SortFunc(out, func(a, b Row) int { return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a, b)) })
	return out
}

func TestSortByString(t *testing.T) {
	rng := random(t)
	for name, shape := range idShapes {
		for _, n := range []int{0, 1, 2, smallSort, smallSort + 1, 500, 5000} {
			ids := make([]string, n+1)
			rows := make([]Row, n)
			for i := range rows {
				ids[i+1] = shape(rng, i)
				rows[i] = Row(i + 1)
			}
			rng.Shuffle(n, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			key := func(r Row) string { return ids[r] }
			want := slowOrder(rows, key)
			SortByString(rows, key)
			if !slices.Equal(rows, want) {
				t.Errorf("%s, %d rows: order differs from that of comparisons", name, n)
			}
		}
	}
}

func FuzzSortByString(f *testing.F) {
	f.Add("a b a\x00 ab abc a\x00\x00 ", uint8(3))
	f.Fuzz(func(t *testing.T, text string, times uint8) {
		words := strings.Split(text, " ")
		for range times % 6 { // reach the sizes that are sorted by pieces
			words = append(words, words...)
			if len(words) > 3000 {
				break
			}
		}
		rows := make([]Row, len(words))
		for i := range rows {
			rows[i] = Row(i)
		}
		key := func(r Row) string { return words[r] }
		want := slowOrder(rows, key)
		SortByString(rows, key)
		if !slices.Equal(rows, want) {
			t.Errorf("order %v, want %v", rows, want)
		}
	})
}

// permTwin keeps the rows of an order as a set.
type permTwin map[Row]bool

func (w permTwin) check(t *testing.T, p *Perm, key func(Row) string) {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	want := slowOrder(slices.Collect(maps.Keys(w)), key)
	if !slices.Equal(p.Rows(), want) || p.Len() != len(want) {
		t.Fatalf("order %v, want %v", p.Rows(), want)
	}
	for i, r := range want {
		if rank, ok := p.Rank(r); !ok || rank != i || p.At(i) != r {
			t.Fatalf("row %d: rank %d, %v, want %d", r, rank, ok, i)
		}
	}
	for r := range Row(200) {
		if _, ok := p.Rank(r); ok != w[r] {
			t.Fatalf("row %d is in the order: %v, want %v", r, ok, w[r])
		}
	}
}

func TestPermAgainstSort(t *testing.T) {
	rng := random(t)
	for round := range 40 {
		ids := make([]string, 200)
		for i := range ids {
			ids[i] = fmt.Sprint("m", rng.IntN(150)) // some are equal
		}
		key := func(r Row) string { return ids[r] }
		p := NewStringPerm(key)
		if round%2 == 0 {
			p = NewPerm(func(a, b Row) int { return strings.Compare(ids[a], ids[b]) })
		}
		twin := permTwin{}
		for range 30 {
			batch := make([]Row, rng.IntN(60))
			for i := range batch {
				batch[i] = Row(1 + rng.IntN(199))
			}
			switch rng.IntN(5) {
			case 0, 1:
				p.Insert(batch)
				for _, r := range batch {
					twin[r] = true
				}
			case 2, 3:
				for _, r := range batch { // what was removed may be gone from the table
					ids[r] = fmt.Sprint("m", rng.IntN(150))
					if twin[r] && rng.IntN(2) == 0 {
						batch = append(batch, r)
					}
				}
				p.Remove(batch)
				for _, r := range batch {
					delete(twin, r)
				}
			case 4:
				p.Build(batch)
				clear(twin)
				for _, r := range batch {
					twin[r] = true
				}
			}
			twin.check(t, p, key)
		}
	}
}

func TestPermMovesARowWhoseKeyChanged(t *testing.T) {
	ids := []string{"", "a", "b", "c"}
	p := NewStringPerm(func(r Row) string { return ids[r] })
	p.Build([]Row{3, 1, 2})
	p.Remove([]Row{1, 1, 99})
	ids[1] = "z"
	p.Insert([]Row{1, 1})
	if want := []Row{2, 3, 1}; !slices.Equal(p.Rows(), want) {
		t.Errorf("order %v, want %v", p.Rows(), want)
	}
	p.Insert([]Row{3, 2})
	if err := p.Check(); err != nil || p.Len() != 3 {
		t.Errorf("rows inserted again: %v, %v", p.Rows(), err)
	}
	ids[2] = "zz"
	if p.Check() == nil {
		t.Error("Check does not see a key that changed under the order")
	}
	mustPanic(t, "Insert of row 0", func() { p.Insert([]Row{0}) })
}

func TestPermSteadyAllocatesNothing(t *testing.T) {
	key := func(r Row) string { return "abcdefghijklmnopqrstuvwxyz"[r%26 : r%26+1] }
	p := NewStringPerm(key)
	all := make([]Row, 1000)
	for i := range all {
		all[i] = Row(i + 1)
	}
	p.Build(all)
	some := all[500:540]
	if n := testing.AllocsPerRun(20, func() {
		p.Remove(some)
		p.Insert(some)
		p.Insert(nil)
		p.Remove(nil)
	}); n != 0 {
		t.Errorf("%v allocations to take rows out and in, want 0", n)
	}
}

func BenchmarkPerm225k(b *testing.B) {
	const n = 225_000
	for _, name := range []string{"serial", "cloud", "nested"} {
		rng := random(b)
		var dict Dict
		ids := make([]Row, n)
		shuffled := rng.Perm(n)
		for i := range ids {
			ids[i] = Row(dict.ID(idShapes[name](rng, shuffled[i])))
		}
		key := func(r Row) string { return dict.String(uint32(r)) }
		rows := make([]Row, n)
		b.Run("SortByString/"+name, func(b *testing.B) {
			for b.Loop() {
				copy(rows, ids)
				SortByString(rows, key)
			}
		})
		b.Run("SortFunc/"+name, func(b *testing.B) {
			for b.Loop() {
				copy(rows, ids)
				compareSort(rows, key)
			}
		})
		p := NewStringPerm(key)
		p.Build(ids)
		b.Run("OnePercentOutAndIn/"+name, func(b *testing.B) {
			for b.Loop() {
				p.Remove(ids[:n/100])
				p.Insert(ids[:n/100])
			}
		})
	}
}
