package bitmap

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// The loops over words. Each has its plain form here and, where measurement
// says that it pays, vector twins behind a function named …Blocks, which does
// as many leading words as the twin of this process can and returns how many;
// the plain loop does the rest. Lengths are checked here and nowhere else.

// FilterEqual makes dst the set of the places at which column is v: bit i%64
// of dst[i/64] tells of column[i]. Bits behind the column's end become zero.
// It panics when dst has fewer words than the column takes. O(len(column)).
func FilterEqual[T ~uint8](dst []uint64, column []T, v T) {
	filterEqual(dst, unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(column))), len(column)), uint8(v))
}

func filterEqual(dst []uint64, column []uint8, v uint8) {
	need := (len(column) + wordBits - 1) / wordBits
	if len(dst) < need {
		panic(fmt.Sprintf("bitmap: %d words for %d elements, which take %d", len(dst), len(column), need))
	}
	clear(dst[need:])
	whole := len(column) / wordBits
	for i := filterEqualBlocks(dst[:whole], column, v); i < whole; i++ {
		dst[i] = equalWord((*[wordBits]uint8)(column[i*wordBits:]), v)
	}
	if whole < need {
		var last uint64
		for i, x := range column[whole*wordBits:] {
			if x == v {
				last |= 1 << i
			}
		}
		dst[whole] = last
	}
}

const (
	eachByte = 0x0101010101010101
	lowSeven = 0x7f7f7f7f7f7f7f7f
	// gather times a word of bytes that are 0 or 1 has byte i's bit at 56+i.
	gather = 0x0102040810204080
)

// equalWord returns which of 64 elements are v, eight at a time: the difference
// of a byte is 0 where it is v, and a carry out of its low seven bits, or its
// top bit, says that it is not.
func equalWord(column *[wordBits]uint8, v uint8) uint64 {
	var w uint64
	pattern := uint64(v) * eachByte
	for i := 0; i < wordBits; i += 8 {
		x := binary.LittleEndian.Uint64(column[i:]) ^ pattern
		equal := ^(x&lowSeven + lowSeven | x) >> 7 & eachByte
		w |= equal * gather >> 56 << i
	}
	return w
}

// FilterTrue makes dst the set of the places at which column is true, as FilterEqual
// does. O(len(column)).
func FilterTrue(dst []uint64, column []bool) {
	// A bool is a byte of 0 or 1.
	filterEqual(dst, unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(column))), len(column)), 1)
}

// AndNot stores a ∧ ¬b in dst, which may be one of them. It panics when a or b has fewer
// words than dst; longer ones are cut. O(len(dst)).
func AndNot(dst, a, b []uint64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := andNotBlocks(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] &^ b[i]
	}
}
