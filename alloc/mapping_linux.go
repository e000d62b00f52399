//go:build linux && (amd64 || arm64) && !purego && !race && !msan && !asan

package alloc

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/internal/invariants"
)

const (
	// populateBytes is what one goroutine faults in at least: below it the
	// start of another costs more than it saves.
	populateBytes = 8 << 20
	// populateWorkersMax bounds the goroutines that fault in one chunk; the
	// memory of a socket is saturated by fewer.
	populateWorkersMax = 8
	// nodesMax is the most NUMA nodes that Linux can be built for.
	nodesMax = 1024
)

var pageBytes = unix.Getpagesize()

// guardBytes is the size of what lies behind each chunk and faults when it is
// touched.
func guardBytes() int {
	if invariants.Enabled {
		return pageBytes
	}
	return 0
}

// mapMemory maps a multiple of ChunkBytes, aligned to ChunkBytes, asks for huge
// pages and for the node, and faults everything in: the first touch of a page
// costs a hundred times any later one, and a cycle shall not pay for it.
func mapMemory(bytes, node int) ([]byte, bool) {
	base, ok := mapAligned(bytes + guardBytes())
	if !ok {
		return nil, false
	}
	memory := unsafe.Slice((*byte)(base), bytes)
	if guard := guardBytes(); guard > 0 {
		// Refused, the page stays readable and guards nothing; nothing else depends on it.
		_ = unix.Mprotect(unsafe.Slice((*byte)(unsafe.Add(base, bytes)), guard), unix.PROT_NONE)
	}
	if err := unix.Madvise(memory, unix.MADV_HUGEPAGE); err != nil {
		mapping.smallPages.Add(1)
	}
	if node != AnyNode && !prefer(memory, node) {
		mapping.misplaced.Add(1)
	}
	populate(memory)
	return memory, true
}

// mapAligned maps that many bytes, beginning at a multiple of ChunkBytes. The
// system aligns to small pages only, so it maps more and gives back what lies
// before and behind.
func mapAligned(bytes int) (unsafe.Pointer, bool) {
	whole := bytes + ChunkBytes
	from, err := unix.MmapPtr(-1, 0, nil, uintptr(whole), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, false
	}
	before := int(-uintptr(from) & (ChunkBytes - 1))
	base := unsafe.Add(from, before)
	trim(from, before)
	trim(unsafe.Add(base, bytes), whole-before-bytes)
	return base, true
}

// trim gives back what nobody uses. A refusal leaks addresses, no memory: they
// were never touched.
func trim(from unsafe.Pointer, bytes int) {
	if bytes > 0 {
		_ = unix.MunmapPtr(from, uintptr(bytes))
	}
}

// prefer asks for the memory of one node before any of it is touched. Another
// node serves when that one is full: far memory is slow, none is the end.
func prefer(memory []byte, node int) bool {
	var mask [nodesMax / 64]uint64
	if node < 0 || node >= nodesMax {
		return false
	}
	mask[node/64] |= 1 << (node % 64)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND,
		uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(len(memory)),
		unix.MPOL_PREFERRED, uintptr(unsafe.Pointer(&mask)), nodesMax+1, 0)
	return errno == 0
}

// populate faults the memory in, by several goroutines when it is large.
func populate(memory []byte) {
	workers := min(len(memory)/populateBytes, runtime.GOMAXPROCS(0), populateWorkersMax)
	if workers <= 1 {
		populatePart(memory)
		return
	}
	var wg sync.WaitGroup
	for i := range workers {
		from, to := part(len(memory), i, workers), part(len(memory), i+1, workers)
		wg.Go(func() { populatePart(memory[from:to]) })
	}
	wg.Wait()
}

// part returns where the i-th of n equal parts begins, at a chunk's border, so
// that no huge page is faulted in by two.
func part(bytes, i, n int) int { return bytes / ChunkBytes * i / n * ChunkBytes }

func populatePart(memory []byte) {
	err := unix.Madvise(memory, unix.MADV_POPULATE_WRITE)
	if !errors.Is(err, unix.EINVAL) {
		return // done; or memory is short, and the first touch will show it
	}
	for i := 0; i < len(memory); i += pageBytes { // before Linux 5.14
		memory[i] = 0
	}
}

// unmapMemory gives back what mapMemory returned. Any access from now on
// faults.
func unmapMemory(memory []byte) {
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(memory)), uintptr(len(memory)+guardBytes())); err != nil {
		panic("alloc: unmap of a chunk: " + err.Error())
	}
}
