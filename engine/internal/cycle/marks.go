package cycle

import (
	"encoding/binary"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/engine/internal/reuse"
)

// RankWords returns the number of words of a bitmap by rank.
func (nt *NeedTable) RankWords() int { return (len(nt.Order) + 63) / 64 }

// RanksOf returns the range of ranks that a range of bitmap words stands for.
func (nt *NeedTable) RanksOf(fromWord, toWord int) (from, to int) {
	return fromWord * 64, min(toWord*64, len(nt.Order))
}

// ranksPerChunk is how many ranks a worker takes at a time; RankWordsPerChunk is the same in
// words of a bitmap. The inputs are columns of bytes, of which all are read and about a third
// are set.
const (
	ranksPerChunk     = 1 << 12
	RankWordsPerChunk = ranksPerChunk / 64
)

// SetOf returns a column as a bitmap, valid until the next call.
func (l *Worker) SetOf(column []bool) []uint64 {
	l.places = reuse.Resize(l.places, (len(column)+63)/64)
	bitmap.FilterTrue(l.places, column)
	return l.places
}

// NextMark returns the first index, from at on, that is marked; len(marks) when none is. It
// skips eight unmarked entries per load.
func NextMark(marks []uint8, at int) int {
	for at+8 <= len(marks) && binary.LittleEndian.Uint64(marks[at:]) == 0 {
		at += 8
	}
	for at < len(marks) && marks[at] == 0 {
		at++
	}
	return at
}

// Meet reports whether two sets, as bitmaps of equal length, intersect.
func Meet(a, b []uint64) bool {
	for i, w := range a {
		if w&b[i] != 0 {
			return true
		}
	}
	return false
}
