// Package cpu says which implementation of the vector kernels this process
// runs. It is the only package that looks at the processor's features.
//
// # One choice
//
// Every kernel has three twins: plain Go, AVX2 and AVX-512. The choice is made
// once, when the process starts, and is the same for all kernels:
//
//	AVX512   AVX-512 F, BW, DQ, VL and VPOPCNTDQ (Ice Lake, Zen 4 and later)
//	AVX2     AVX2 and POPCNT (Haswell, Zen and later)
//	Generic  everything else: other architectures, older processors, and
//	         binaries built with the tag purego
//
// The first AVX-512 processors, which lack VPOPCNTDQ, are left with AVX2: they
// lower their clock when they run 512-bit instructions.
//
// The environment variable TONNAGE_SIMD takes the place of the processor's
// answer: generic, avx2 or avx512. It can ask for less than the processor has,
// never for more. An unknown value, or more than the processor has, does not
// change the choice, and Warning says so; commands print it.
//
// The twins give the same answers bit for bit, so the choice changes the time
// of a cycle and nothing else.
package cpu
