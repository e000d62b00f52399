package bitmap

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// slowIndex is the index as maps.
type slowIndex map[Bucket]twin

func (s slowIndex) domains(state uint8, profile uint32) []uint32 {
	var out []uint32
	for b, rows := range s {
		if b.State == state && b.Profile == profile && b.Domain != 0 && len(rows) > 0 {
			out = append(out, b.Domain)
		}
	}
	slices.Sort(out)
	return out
}

// compare fails unless both forms agree on everything that can be asked.
func compare(t *testing.T, x *Index, s slowIndex) {
	t.Helper()
	members := 0
	for b, rows := range s {
		want := rows.sorted()
		if len(want) > 0 {
			members++
		}
		if got := x.Bitmap(b).ToArray(); !slices.Equal(got, want) {
			t.Fatalf("%+v: %v, want %v", b, got, want)
		}
		if got := x.Cardinality(b); got != len(want) {
			t.Fatalf("%+v: cardinality %d, want %d", b, got, len(want))
		}
		if (x.Sequence(b) == 0) != (len(want) == 0) {
			t.Fatalf("%+v: sequence %d with %d members", b, x.Sequence(b), len(want))
		}
		if got, want := x.Domains(b.State, b.Profile), s.domains(b.State, b.Profile); !slices.Equal(got, want) {
			t.Fatalf("domains of (%d, %d): %v, want %v", b.State, b.Profile, got, want)
		}
	}
	if x.Buckets() != members {
		t.Fatalf("%d buckets, want %d: empty ones must be removed", x.Buckets(), members)
	}
}

// decodeBucket spreads a number over a small space of buckets, so that
// histories meet.
func decodeBucket(n int) Bucket {
	b := Bucket{State: uint8(n % 3), Profile: uint32(n / 3 % 3)}
	if b.Profile != 0 {
		b.Domain = uint32(n / 9 % 4)
	}
	return b
}

// step does one operation on both forms and checks what it returned.
func step(t *testing.T, x *Index, s slowIndex, op, where int, rows []uint32) {
	t.Helper()
	b := decodeBucket(where)
	before := x.Sequence(b)
	if s[b] == nil {
		s[b] = twin{}
	}
	size := len(s[b])
	touched := false
	switch op % 8 {
	case 0, 1, 2:
		touched = !s[b][rows[0]]
		s[b][rows[0]] = true
		if got := x.Add(b, rows[0]); got != touched {
			t.Fatalf("Add(%+v, %d) = %v", b, rows[0], got)
		}
	case 3, 4, 5:
		touched = s[b][rows[0]]
		delete(s[b], rows[0])
		if got := x.Remove(b, rows[0]); got != touched {
			t.Fatalf("Remove(%+v, %d) = %v", b, rows[0], got)
		}
	case 6:
		for _, r := range rows {
			s[b][r] = true
		}
		touched = len(s[b]) > size
		if got := x.AddMany(b, rows); got != len(s[b])-size {
			t.Fatalf("AddMany(%+v, %v) = %d, want %d", b, rows, got, len(s[b])-size)
		}
	case 7:
		maps.DeleteFunc(s, func(k Bucket, _ twin) bool { return k.Profile == b.Profile && b.Profile != 0 })
		x.DropProfile(b.Profile)
		return
	}
	after := x.Sequence(b)
	if touched && len(s[b]) > 0 && after <= before {
		t.Fatalf("%+v changed, but its sequence went from %d to %d", b, before, after)
	}
	if !touched && after != before {
		t.Fatalf("%+v did not change, but its sequence went from %d to %d", b, before, after)
	}
}

func TestIndexAgainstMaps(t *testing.T) {
	rng := random(t)
	for range 20 {
		x, s := NewIndex(), slowIndex{}
		for range 600 {
			rows := make([]uint32, rng.IntN(6)+1)
			for i := range rows {
				rows[i] = uint32(1 + rng.IntN(12)*40_000) // over several containers
			}
			op := rng.IntN(8)
			if op == 7 && rng.IntN(10) != 0 {
				op = 0
			}
			step(t, x, s, op, rng.IntN(36), rows)
			a, b := decodeBucket(rng.IntN(36)), decodeBucket(rng.IntN(36))
			want := 0
			for r := range s[a] {
				if s[b][r] {
					want++
				}
			}
			if got := x.AndCardinality(a, b); got != want {
				t.Fatalf("AndCardinality(%+v, %+v) = %d, want %d", a, b, got, want)
			}
		}
		compare(t, x, s)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte{0, 10, 1, 6, 10, 2, 3, 10, 1, 7, 10, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		x, s := NewIndex(), slowIndex{}
		for ; len(script) >= 3; script = script[3:] {
			r := uint32(script[2])*600 + 1
			step(t, x, s, int(script[0]), int(script[1]), []uint32{r, r + 1, r + 70_000})
		}
		compare(t, x, s)
	})
}

func FuzzDense(f *testing.F) {
	f.Add([]byte{1, 64, 130, 65})
	f.Fuzz(func(t *testing.T, script []byte) {
		d, w := NewDense(255), twin{}
		for i := 0; i+1 < len(script); i += 2 {
			row := uint32(script[i+1])
			switch script[i] % 3 {
			case 0:
				d.Set(row)
				w[row] = true
			case 1:
				d.Clear(row)
				delete(w, row)
			case 2:
				d.SetAll(row, min(row+70, 255))
				for r := row; r <= min(row+70, 255); r++ {
					w[r] = true
				}
			}
		}
		checkDense(t, "script", d, w)
	})
}

func TestSequenceNeverReturns(t *testing.T) {
	x := NewIndex()
	b := Bucket{State: 1, Profile: 2, Domain: 3}
	seen := map[uint64]bool{}
	for i := range 10 {
		x.Add(b, 7)
		if n := x.Sequence(b); seen[n] || n == 0 {
			t.Fatalf("round %d: sequence %d was used before", i, n)
		} else {
			seen[n] = true
		}
		if i%2 == 0 {
			x.Remove(b, 7)
		} else {
			x.DropProfile(2)
		}
		if x.Sequence(b) != 0 || x.Buckets() != 0 || len(x.Domains(1, 2)) != 0 {
			t.Fatalf("round %d: something is left of the bucket", i)
		}
	}
}

func TestAnAbsentBucketIsEmptyAndStaysSo(t *testing.T) {
	x := NewIndex()
	b := Bucket{State: 4}
	if x.Has(b, 1) || x.Remove(b, 1) || x.AddMany(b, nil) != 0 || !x.Bitmap(b).IsEmpty() || x.AndCardinality(b, b) != 0 {
		t.Error("an absent bucket has something in it")
	}
	if x.Buckets() != 0 || x.Bytes() != 0 {
		t.Errorf("asking made %d buckets of %d bytes", x.Buckets(), x.Bytes())
	}
	x.DropProfile(0)
	x.Add(b, 1)
	x.DropProfile(0)
	if !x.Has(b, 1) {
		t.Error("dropping profile 0 dropped the set of a state")
	}
	mustPanic(t, "a domain without a profile", func() { x.Add(Bucket{State: 1, Domain: 1}, 1) })
}

func TestBytesFollowContent(t *testing.T) {
	x := NewIndex()
	for d := range uint32(100) {
		for r := range uint32(25) {
			x.Add(Bucket{State: 1, Profile: 1, Domain: d + 1}, d*25+r+1)
		}
	}
	if got := x.Bytes() / 100; got < 25*2 || got > 400 {
		t.Errorf("%d bytes per bucket of 25 neighbours, want between 50 and 400", got)
	}
}

func BenchmarkIndex(b *testing.B) {
	const rows = 500_000
	x := NewIndex()
	all := make([]uint32, rows)
	for i := range all {
		all[i] = uint32(i + 1)
	}
	idle := Bucket{State: 1}
	x.AddMany(idle, all[:100_000])
	for _, n := range []int{10, 500, 5_000, 100_000} {
		bucket := Bucket{State: 1, Profile: uint32(n)}
		for i := range n {
			x.Add(bucket, uint32(i*(100_000/n)+1))
		}
		b.Run(fmt.Sprintf("AndCardinality/%d", n), func(b *testing.B) {
			for b.Loop() {
				x.AndCardinality(idle, bucket)
			}
		})
	}
	b.Run("MoveBetweenStates", func(b *testing.B) {
		i := uint32(0)
		for b.Loop() {
			row := i%100_000 + 1
			from, to := Bucket{State: uint8(1 + i/100_000%2)}, Bucket{State: uint8(2 - i/100_000%2)}
			x.Remove(from, row)
			x.Add(to, row)
			i++
		}
	})
	b.Run("BuildDomains", func(b *testing.B) {
		for b.Loop() {
			y := NewIndex()
			for d := range uint32(20_000) {
				y.AddMany(Bucket{State: 1, Profile: 1, Domain: d + 1}, all[d*25:d*25+25])
			}
		}
	})
}
