package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wordsBlock is a round of the loops over words: one line of cache.
const wordsBlock = 8

// wordKernels: intersection and difference of two sets, stored or counted.
func wordKernels(a *asm) {
	nibbles := nibbleCounts(a)
	for _, avx512 := range []bool{false, true} {
		for _, not := range []bool{false, true} {
			storeKernel(a, avx512, not)
			countKernel(a, avx512, not, nibbles)
		}
	}
}

// nibbleCounts is a table of how many bits a number below 16 has, twice.
func nibbleCounts(a *asm) operand.Mem {
	table := a.StaticGlobal("nibbleCounts")
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	for range 2 {
		a.AppendDatum(operand.U64(0x0302020102010100))
		a.AppendDatum(operand.U64(0x0403030203020201))
	}
	return table
}

// combine stores a ∧ b, or a ∧ ¬b, of one register's width in dst.
func (a *asm) combine(x, y operand.Mem, dst reg.VecVirtual, avx512, not bool) {
	switch {
	case not && avx512:
		a.VMOVDQU64(y, dst)
		a.VPANDNQ(x, dst, dst)
	case not:
		a.VMOVDQU(y, dst)
		a.VPANDN(x, dst, dst)
	case avx512:
		a.VMOVDQU64(x, dst)
		a.VPANDQ(y, dst, dst)
	default:
		a.VMOVDQU(x, dst)
		a.VPAND(y, dst, dst)
	}
}

func operation(not bool) (name, sign string) {
	if not {
		return "andNot", "a ∧ ¬b"
	}
	return "and", "a ∧ b"
}

func storeKernel(a *asm, avx512, not bool) {
	op, sign := operation(not)
	name := op + suffix(avx512)
	a.kernel(name, "func(dst, a, b *uint64, blocks int)", name+" stores "+sign+" of 8×blocks words.")
	dst, x, y, blocks := a.arg("dst"), a.arg("a"), a.arg("b"), a.arg("blocks")
	a.Label("next")
	if avx512 {
		both := a.ZMM()
		a.combine(at(x, 0), at(y, 0), both, true, not)
		a.VMOVDQU64(both, at(dst, 0))
	} else {
		low, high := a.YMM(), a.YMM()
		a.combine(at(x, 0), at(y, 0), low, false, not)
		a.combine(at(x, 32), at(y, 32), high, false, not)
		a.VMOVDQU(low, at(dst, 0))
		a.VMOVDQU(high, at(dst, 32))
	}
	for _, p := range []reg.GPVirtual{x, y, dst} {
		a.ADDQ(operand.U8(8*wordsBlock), p)
	}
	a.repeat(blocks, "next")
	a.end()
}

func countKernel(a *asm, avx512, not bool, nibbles operand.Mem) {
	op, sign := operation(not)
	name := op + "Count" + suffix(avx512)
	a.kernel(name, "func(a, b *uint64, blocks int) int", name+" returns how many bits "+sign+" has in 8×blocks words.")
	x, y, blocks := a.arg("a"), a.arg("b"), a.arg("blocks")
	var sum reg.VecVirtual
	if avx512 {
		sum = a.countLoop512(x, y, blocks, not)
	} else {
		sum = a.countLoop256(x, y, blocks, not, nibbles)
	}
	total, upper := sum.AsX(), a.XMM()
	a.VEXTRACTI128(operand.U8(1), sum.AsY(), upper)
	a.VPADDQ(upper, total, total)
	a.VPSHUFD(operand.U8(0x4e), total, upper) // the halves swapped
	a.VPADDQ(upper, total, total)
	n := a.GP64()
	a.VMOVQ(total, n)
	a.Store(n, a.ReturnIndex(0))
	a.end()
}

// countLoop512 counts with VPOPCNTQ; the counts are in the lower half.
func (a *asm) countLoop512(x, y, blocks reg.GPVirtual, not bool) reg.VecVirtual {
	sum, bits := a.ZMM(), a.ZMM()
	a.zero(sum, true)
	a.Label("next")
	a.combine(at(x, 0), at(y, 0), bits, true, not)
	a.VPOPCNTQ(bits, bits)
	a.VPADDQ(bits, sum, sum)
	a.ADDQ(operand.U8(8*wordsBlock), x)
	a.ADDQ(operand.U8(8*wordsBlock), y)
	a.repeat(blocks, "next")
	upper := a.YMM()
	a.VEXTRACTI64X4(operand.U8(1), sum, upper)
	a.VPADDQ(upper, sum.AsY(), sum.AsY())
	return sum
}

// countLoop256 looks the nibbles up in a table with VPSHUFB (Muła, "Faster
// population counts using AVX2 instructions"). A byte gathers at most 16 from
// a block before VPSADBW adds the bytes up.
func (a *asm) countLoop256(x, y, blocks reg.GPVirtual, not bool, nibbles operand.Mem) reg.VecVirtual {
	sum, zero, table, low := a.YMM(), a.YMM(), a.YMM(), a.YMM()
	a.zero(sum, false)
	a.zero(zero, false)
	a.VMOVDQU(nibbles, table)
	fifteen := a.GP32()
	a.MOVL(operand.U32(0x0f0f0f0f), fifteen)
	a.VMOVD(fifteen, low.AsX())
	a.VPBROADCASTD(low.AsX(), low)

	a.Label("next")
	counts := a.YMM()
	for half := range 2 {
		bits, upper := a.YMM(), a.YMM()
		a.combine(at(x, 32*half), at(y, 32*half), bits, false, not)
		a.VPSRLW(operand.U8(4), bits, upper)
		a.VPAND(low, bits, bits)
		a.VPAND(low, upper, upper)
		a.VPSHUFB(bits, table, bits)
		a.VPSHUFB(upper, table, upper)
		a.VPADDB(bits, upper, upper)
		if half == 0 {
			counts = upper
			continue
		}
		a.VPADDB(upper, counts, counts)
	}
	a.VPSADBW(zero, counts, counts)
	a.VPADDQ(counts, sum, sum)
	a.ADDQ(operand.U8(8*wordsBlock), x)
	a.ADDQ(operand.U8(8*wordsBlock), y)
	a.repeat(blocks, "next")
	return sum
}
