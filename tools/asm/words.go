package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wordsBlock is a round of the loop over words: one line of cache.
const wordsBlock = 8

// wordKernels: the difference of two sets.
func wordKernels(a *asm) {
	for _, avx512 := range []bool{false, true} {
		andNotKernel(a, avx512)
	}
}

func andNotKernel(a *asm, avx512 bool) {
	name := "andNot" + suffix(avx512)
	a.kernel(name, "func(dst, a, b *uint64, blocks int)", name+" stores a ∧ ¬b of 8×blocks words.")
	dst, x, y, blocks := a.arg("dst"), a.arg("a"), a.arg("b"), a.arg("blocks")
	a.Label("next")
	if avx512 {
		rest := a.ZMM()
		a.VMOVDQU64(at(y, 0), rest)
		a.VPANDNQ(at(x, 0), rest, rest)
		a.VMOVDQU64(rest, at(dst, 0))
	} else {
		low, high := a.YMM(), a.YMM()
		a.VMOVDQU(at(y, 0), low)
		a.VPANDN(at(x, 0), low, low)
		a.VMOVDQU(at(y, 32), high)
		a.VPANDN(at(x, 32), high, high)
		a.VMOVDQU(low, at(dst, 0))
		a.VMOVDQU(high, at(dst, 32))
	}
	for _, p := range []reg.GPVirtual{x, y, dst} {
		a.ADDQ(operand.U8(8*wordsBlock), p)
	}
	a.repeat(blocks, "next")
	a.end()
}
