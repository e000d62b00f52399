package bitmap

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/internal/cpu"
)

// benchLevels runs a benchmark under every implementation of this machine, for
// tables of so many rows.
func benchLevels(b *testing.B, rows []int, bytesPerRow float64, f func(b *testing.B, rows int)) {
	for _, l := range cpu.Available() {
		for _, n := range rows {
			b.Run(fmt.Sprintf("impl=%s/n=%d", l, n), func(b *testing.B) {
				defer useLevel(l)()
				b.SetBytes(int64(float64(n) * bytesPerRow))
				f(b, n)
			})
		}
	}
}

// benchRows: a rack's worth, a small fleet, a large one.
var benchRows = []int{1_000, 5_000, 500_000}

func benchWords(rows int) []uint64 {
	rng := rand.New(rand.NewPCG(1, uint64(rows)))
	w := make([]uint64, wordsFor(rows))
	for i := range w {
		w[i] = rng.Uint64()
	}
	return w
}

func benchColumn(rows int) []uint8 {
	rng := rand.New(rand.NewPCG(2, uint64(rows)))
	c := make([]uint8, rows+1)
	for i := range c {
		c[i] = uint8(rng.IntN(6))
	}
	return c
}

func BenchmarkFilterEqual(b *testing.B) {
	benchLevels(b, benchRows, 1, func(b *testing.B, rows int) {
		column, dst := benchColumn(rows), make([]uint64, wordsFor(rows))
		for b.Loop() {
			FilterEqual(dst, column, 3)
		}
	})
}

func BenchmarkAndNot(b *testing.B) {
	benchLevels(b, benchRows, 3./8, func(b *testing.B, rows int) {
		x, y, dst := benchWords(rows), benchWords(rows+1), make([]uint64, wordsFor(rows))
		for b.Loop() {
			AndNot(dst, x, y)
		}
	})
}
