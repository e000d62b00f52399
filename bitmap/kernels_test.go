package bitmap

import (
	"encoding/binary"
	"math/bits"
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

// wordKernel is a loop over words and its obvious form.
var wordKernels = []struct {
	name  string
	store func(dst, a, b []uint64) // nil where only the count is asked for
	count func(a, b []uint64) int
	plain func(a, b uint64) uint64
}{
	{"and", and, andCount, func(a, b uint64) uint64 { return a & b }},
	{"and not", andNot, andNotCount, func(a, b uint64) uint64 { return a &^ b }},
	{"or", or, nil, func(a, b uint64) uint64 { return a | b }},
	{"count", nil, func(a, _ []uint64) int { return count(a) }, func(a, _ uint64) uint64 { return a }},
}

func checkWords(t testing.TB, a, b []uint64, offset int) {
	t.Helper()
	for _, k := range wordKernels {
		want, ones := make([]uint64, len(a)), 0
		for i := range a {
			want[i] = k.plain(a[i], b[i])
			ones += bits.OnesCount64(want[i])
		}
		if k.count != nil {
			if got := k.count(a, b); got != ones {
				t.Fatalf("%s of %d words: %d bits, want %d", k.name, len(a), got, ones)
			}
		}
		if k.store == nil {
			continue
		}
		dst, intact := fenced(t, len(a), offset)
		k.store(dst, a, b)
		intact(k.name)
		if !slices.Equal(dst, want) {
			t.Fatalf("%s of %d words: %x, want %x", k.name, len(a), dst, want)
		}
		for _, operand := range [][]uint64{a, b} { // into an operand
			copy(dst, operand)
			if &operand[:1:1][0] == &a[:1:1][0] {
				k.store(dst, dst, b)
			} else {
				k.store(dst, a, dst)
			}
			intact(k.name + " in place")
			if !slices.Equal(dst, want) {
				t.Fatalf("%s in place of %d words: %x, want %x", k.name, len(a), dst, want)
			}
		}
	}
}

func TestWordKernels(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for n := 1; n <= tailMax; n++ {
			a, b := guard.Before[uint64](t, n), guard.After[uint64](t, n)
			fillWords(rng, a)
			fillWords(rng, b)
			checkWords(t, a, b, n%8)
			checkWords(t, b, a, n%8)
			// Longer operands are cut.
			checkWords(t, slices.Clone(a), append(slices.Clone(b), canary), n%8)
		}
		for _, k := range wordKernels {
			if k.count != nil && k.count(nil, nil) != 0 {
				t.Errorf("%s of nothing is not 0", k.name)
			}
			if k.store != nil {
				k.store(nil, nil, nil)
			}
		}
		for start := range 8 {
			a, b := make([]uint64, 200)[start:], make([]uint64, 207)[7-start:]
			fillWords(rng, a)
			fillWords(rng, b)
			checkWords(t, a, b, start)
		}
	})
}

// TestCountsOfAllBits: more bits than a byte of a counter can hold.
func TestCountsOfAllBits(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		a := make([]uint64, 5000)
		for i := range a {
			a[i] = ^uint64(0)
		}
		if got := count(a); got != 5000*64 {
			t.Errorf("count = %d, want %d", got, 5000*64)
		}
		if got := andNotCount(a, make([]uint64, 5000)); got != 5000*64 {
			t.Errorf("andNotCount = %d, want %d", got, 5000*64)
		}
	})
}

func TestWordKernelsMisuse(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		short, long := make([]uint64, 15), make([]uint64, 16)
		for _, k := range wordKernels {
			if k.store != nil {
				mustPanic(t, k.name+" with a short first operand", func() { k.store(long, short, long) })
				mustPanic(t, k.name+" with a short second operand", func() { k.store(long, long, short) })
			}
			if k.count != nil && k.name != "count" {
				mustPanic(t, k.name+" counted with a short second operand", func() { k.count(long, short[:15:15]) })
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

// FuzzWordKernels holds every implementation to the obvious form.
func FuzzWordKernels(f *testing.F) {
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
			checkWords(t, words[:n:n], words[n:2*n], int(offset%8))
			restore()
		}
	})
}
