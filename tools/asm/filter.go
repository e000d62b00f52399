package main

import "github.com/mmcloughlin/avo/operand"

// filterKernels: which elements of a column of bytes have a value. A round is
// 64 elements and one word.
func filterKernels(a *asm) {
	for _, avx512 := range []bool{false, true} {
		filterKernel(a, avx512)
	}
}

func filterKernel(a *asm, avx512 bool) {
	name := "filterEqual" + suffix(avx512)
	a.kernel(name, "func(dst *uint64, column *uint8, v uint8, words int)", name+" stores which of 64×words elements are v.")
	dst, column, words := a.arg("dst"), a.arg("column"), a.arg("words")
	v, err := a.Param("v").Resolve()
	if err != nil {
		panic(err) // the parameter is in the signature above
	}
	wanted := a.YMM()
	if avx512 {
		wanted = a.ZMM()
	}
	a.VPBROADCASTB(v.Addr, wanted)

	a.Label("next")
	word := a.GP64()
	if avx512 {
		equal := a.K()
		a.VPCMPEQB(at(column, 0), wanted, equal)
		a.KMOVQ(equal, word)
	} else {
		low, high := a.YMM(), a.YMM()
		upper := a.GP64()
		a.VPCMPEQB(at(column, 0), wanted, low)
		a.VPCMPEQB(at(column, 32), wanted, high)
		a.VPMOVMSKB(low, word.As32())
		a.VPMOVMSKB(high, upper.As32())
		a.SHLQ(operand.U8(32), upper)
		a.ORQ(upper, word)
	}
	a.MOVQ(word, at(dst, 0))
	a.ADDQ(operand.U8(64), column)
	a.ADDQ(operand.U8(8), dst)
	a.repeat(words, "next")
	a.end()
}
