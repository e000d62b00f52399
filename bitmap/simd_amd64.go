//go:build amd64 && !purego

package bitmap

import "github.com/tonnage/tonnage/internal/cpu"

// level is the implementation that runs. Tests change it.
var level = cpu.Chosen()

// wordsBlock is how many words a round of the twin over words takes.
const wordsBlock = 8

// filterEqualBlocks: dst has as many words as the column has whole ones.
func filterEqualBlocks(dst []uint64, column []uint8, v uint8) int {
	n := len(dst)
	if n == 0 || level == cpu.Generic {
		return 0
	}
	_ = column[n*wordBits-1]
	if level == cpu.AVX512 {
		filterEqualAVX512(&dst[0], &column[0], v, n)
	} else {
		filterEqualAVX2(&dst[0], &column[0], v, n)
	}
	return n
}

// andNotBlocks: a and b have as many words as dst.
func andNotBlocks(dst, a, b []uint64) (done int) {
	blocks := len(dst) / wordsBlock
	if blocks == 0 || level == cpu.Generic {
		return 0
	}
	_, _ = a[len(dst)-1], b[len(dst)-1]
	if level == cpu.AVX512 {
		andNotAVX512(&dst[0], &a[0], &b[0], blocks)
	} else {
		andNotAVX2(&dst[0], &a[0], &b[0], blocks)
	}
	return blocks * wordsBlock
}
