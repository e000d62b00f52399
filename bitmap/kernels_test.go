package bitmap

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/internal/cpu"
	"github.com/tonnage/tonnage/internal/guard"
)

// useLevel makes an implementation run, and returns how to go back.
func useLevel(l cpu.Level) (restore func()) {
	before := level
	level = l
	return func() { level = before }
}

// eachLevel runs a test under every implementation that this machine has.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	for _, l := range cpu.Available() {
		t.Run("impl="+l.String(), func(t *testing.T) {
			defer useLevel(l)()
			f(t)
		})
	}
}

// tailMax is the longest of the lengths that are all tried: two blocks and more
// of every kernel.
const tailMax = 130

// canary is what lies around a destination.
const canary = 0xC0FFEE0DDF00D5AA

// fenced returns n words with canaries on both sides, at an offset of 0…7
// words from where the allocator puts large memory, and a check of them.
func fenced(t testing.TB, n, offset int) (words []uint64, intact func(what string)) {
	const fence = 16
	all := make([]uint64, fence+offset+n+fence)
	for i := range all {
		all[i] = canary
	}
	from := fence + offset
	return all[from : from+n : from+n], func(what string) {
		t.Helper()
		for i, w := range all {
			if (i < from || i >= from+n) && w != canary {
				t.Fatalf("%s: word %d of %d was written", what, i-from, n)
			}
		}
	}
}

// plainFilter is the obvious form of FilterEqual.
func plainFilter(words int, column []uint8, v uint8) []uint64 {
	w := make([]uint64, words)
	for i, x := range column {
		if x == v {
			w[i/64] |= 1 << (i % 64)
		}
	}
	return w
}

func checkFilter(t testing.TB, column []uint8, v uint8, offset, spare int) {
	t.Helper()
	need := (len(column) + 63) / 64
	dst, intact := fenced(t, need+spare, offset)
	FilterEqual(dst, column, v)
	intact("FilterEqual")
	if want := plainFilter(len(dst), column, v); !slices.Equal(dst, want) {
		t.Fatalf("FilterEqual of %d elements == %d: %x, want %x", len(column), v, dst, want)
	}
}

// fillColumn draws values of few kinds, the kinds being close to v in every
// bit.
func fillColumn(rng *rand.Rand, column []uint8, v uint8) {
	for i := range column {
		switch rng.IntN(3) {
		case 0:
			column[i] = v
		case 1:
			column[i] = v ^ 1<<rng.IntN(8)
		default:
			column[i] = uint8(rng.Uint32())
		}
	}
}

func fillWords(rng *rand.Rand, w []uint64) {
	for i := range w {
		switch rng.IntN(5) {
		case 0:
			w[i] = 0
		case 1:
			w[i] = ^uint64(0)
		default:
			w[i] = rng.Uint64()
		}
	}
}

func TestFilterEqual(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for n := range tailMax + 1 {
			v := uint8(rng.Uint32())
			ending, beginning := guard.Before[uint8](t, n), guard.After[uint8](t, n)
			fillColumn(rng, ending, v)
			copy(beginning, ending)
			checkFilter(t, ending, v, n%8, rng.IntN(2))
			checkFilter(t, beginning, v, n%8, 0)
		}
		for start := range 64 {
			column := make([]uint8, 1000)[start:]
			v := []uint8{0, 0x7f, 0x80, 0xff, 3}[start%5]
			fillColumn(rng, column, v)
			checkFilter(t, column, v, start%8, 1)
		}
	})
}

// TestFilterEqualOfAnyByte: every pair of bytes, in every place of a word.
func TestFilterEqualOfAnyByte(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		column, dst := make([]uint8, 256), make([]uint64, 4)
		for i := range column {
			column[i] = uint8(i)
		}
		for turn := range 8 {
			for v := range 256 {
				FilterEqual(dst, column, uint8(v))
				if want := plainFilter(4, column, uint8(v)); !slices.Equal(dst, want) {
					t.Fatalf("turn %d, value %d: %x, want %x", turn, v, dst, want)
				}
			}
			column = append(column[1:], column[0])
		}
	})
}

func TestFilterEqualMisuse(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		mustPanic(t, "too few words", func() { FilterEqual(make([]uint64, 1), make([]uint8, 65), 0) })
		dst := []uint64{1, 2}
		FilterEqual[uint8](dst, nil, 0)
		if !slices.Equal(dst, []uint64{0, 0}) {
			t.Errorf("a column of nothing leaves %x", dst)
		}
		type state uint8
		FilterEqual(dst[:1], []state{3, 1, 3}, 3)
		if dst[0] != 0b101 {
			t.Errorf("a named type: %b", dst[0])
		}
	})
}

func checkAndNot(t testing.TB, a, b []uint64, offset int) {
	t.Helper()
	want := make([]uint64, len(a))
	for i := range a {
		want[i] = a[i] &^ b[i]
	}
	dst, intact := fenced(t, len(a), offset)
	AndNot(dst, a, b)
	intact("a new set")
	if !slices.Equal(dst, want) {
		t.Fatalf("%d words: %x, want %x", len(a), dst, want)
	}
	copy(dst, a)
	AndNot(dst, dst, b)
	intact("the first operand")
	if !slices.Equal(dst, want) {
		t.Fatalf("%d words, into the first: %x, want %x", len(a), dst, want)
	}
	copy(dst, b)
	AndNot(dst, a, dst)
	intact("the second operand")
	if !slices.Equal(dst, want) {
		t.Fatalf("%d words, into the second: %x, want %x", len(a), dst, want)
	}
}

func TestAndNot(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for n := 1; n <= tailMax; n++ {
			a, b := guard.Before[uint64](t, n), guard.After[uint64](t, n)
			fillWords(rng, a)
			fillWords(rng, b)
			checkAndNot(t, a, b, n%8)
			checkAndNot(t, b, a, n%8)
			// Longer operands are cut.
			checkAndNot(t, slices.Clone(a), append(slices.Clone(b), canary), n%8)
		}
		AndNot(nil, nil, nil)
		for start := range 8 {
			a, b := make([]uint64, 200)[start:], make([]uint64, 207)[7-start:]
			fillWords(rng, a)
			fillWords(rng, b)
			checkAndNot(t, a, b, start)
		}
		short, long := make([]uint64, 15), make([]uint64, 16)
		mustPanic(t, "a short first operand", func() { AndNot(long, short[:15:15], long) })
		mustPanic(t, "a short second operand", func() { AndNot(long, long, short[:15:15]) })
	})
}

func TestFilterTrue(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for n := range 200 {
			column := make([]bool, n)
			for i := range column {
				column[i] = rng.IntN(3) == 0
			}
			dst, intact := fenced(t, (n+63)/64, n%8)
			FilterTrue(dst, column)
			intact("filter")
			for i, is := range column {
				if got := dst[i/64]>>(i%64)&1 == 1; got != is {
					t.Fatalf("%d of %d: %v, want %v", i, n, got, is)
				}
			}
			if n%64 != 0 && dst[n/64]>>(n%64) != 0 {
				t.Fatalf("%d elements: bits behind the end: %x", n, dst[n/64])
			}
		}
	})
}

// FuzzFilterEqual holds every implementation to the obvious form.
func FuzzFilterEqual(f *testing.F) {
	f.Add([]byte("abacadabra"), uint8('a'), uint8(0))
	f.Add(make([]byte, 200), uint8(0), uint8(3))
	f.Fuzz(func(t *testing.T, column []byte, v, start uint8) {
		column = column[min(int(start), len(column)):]
		for _, l := range cpu.Available() {
			restore := useLevel(l)
			checkFilter(t, column, v, int(start%8), int(start/8%2))
			restore()
		}
	})
}

// FuzzAndNot holds every implementation to the obvious form.
func FuzzAndNot(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef"), uint8(1))
	f.Add(make([]byte, 1000), uint8(7))
	f.Fuzz(func(t *testing.T, raw []byte, offset uint8) {
		words := make([]uint64, len(raw)/8)
		for i := range words {
			words[i] = binary.LittleEndian.Uint64(raw[8*i:])
		}
		n := len(words) / 2
		if n == 0 {
			return
		}
		for _, l := range cpu.Available() {
			restore := useLevel(l)
			checkAndNot(t, words[:n:n], words[n:2*n], int(offset%8))
			restore()
		}
	})
}
