//go:build !linux || !(amd64 || arm64) || purego || race || msan || asan

package alloc

// mapMemory is absent in this build: all chunks come from the heap, which the
// race detector and its kin see, and which every system has.
var mapMemory func(bytes, node int) ([]byte, bool)

// unmapMemory has nothing to give back.
func unmapMemory([]byte) {}
