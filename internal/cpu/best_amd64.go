//go:build amd64 && !purego

package cpu

import "github.com/klauspost/cpuid/v2"

// best returns the highest level that the processor has and the system keeps
// the registers of.
func best() Level {
	switch c := &cpuid.CPU; {
	case !c.Supports(cpuid.AVX2, cpuid.POPCNT):
		return Generic
	case !c.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL, cpuid.AVX512VPOPCNTDQ):
		return AVX2
	default:
		return AVX512
	}
}
