package alloc

import (
	"fmt"
	"unsafe"

	"github.com/tonnage/tonnage/internal/invariants"
)

// The sizes of chunks.
const (
	// FirstChunkBytes is the size of an arena's first chunk. The following ones
	// double until they reach HugeBytes, so that a small world pays for a small
	// arena; then come chunks of ChunkBytes.
	FirstChunkBytes = 64 << 10
	// ChunkBytes is the size of an ordinary chunk once the arena has grown, and
	// that of a huge page: such chunks are mapped where the build maps at all.
	ChunkBytes = 2 << 20
	// HugeBytes is the size from which a request gets a chunk of its own. Half
	// a chunk, so that a request that does not fit wastes at most the half of
	// one.
	HugeBytes = ChunkBytes / 2
	// lineBytes is the size of a cache line. Chunks, and slices of at least a
	// line, begin at one: vector loads then never straddle two.
	lineBytes = 64
)

// The arithmetic below needs these to hold; none compiles otherwise.
const (
	_ = uint(ChunkBytes - 2*HugeBytes)
	_ = uint(HugeBytes - FirstChunkBytes)
	_ = uint(-(FirstChunkBytes % lineBytes))
	_ = uint(-(ChunkBytes % FirstChunkBytes))
	_ = uint(-(ChunkBytes & (ChunkBytes - 1)))
)

// chunk is one piece of an arena's memory.
type chunk struct {
	// memory begins at a cache line. Under the build tag "invariants" the line
	// behind a chunk of the heap, memory[len:cap], is a canary.
	memory []byte
	mapped bool // by mapMemory; otherwise on the heap
	whole  bool // by Reserve: for whatever comes, huge requests too
}

// chunkRoom returns the size of a chunk that holds a request of that many
// bytes (≥ HugeBytes). Mappings do not share huge pages.
func chunkRoom(bytes int) int { return (bytes + ChunkBytes - 1) &^ (ChunkBytes - 1) }

// source is where an arena gets its chunks: large ones are mapped when the
// build, the system and the arena's owner want it, all others come from the
// heap.
type source struct {
	node int // NUMA node that mapped memory shall lie on, or AnyNode
	// mapMemory returns zeroed memory for that many bytes, a multiple of
	// ChunkBytes, or false when there is none to be had.
	mapMemory func(bytes, node int) ([]byte, bool)
}

// get returns zeroed memory of that many bytes.
func (s *source) get(bytes int) chunk {
	if bytes >= ChunkBytes && s.mapMemory != nil {
		if memory, ok := s.mapMemory(bytes, s.node); ok {
			return chunk{memory: memory, mapped: true}
		}
		mapping.refused.Add(1)
	}
	return chunk{memory: heapMemory(bytes)}
}

// heapMemory is a noscan object, freed by the collector once neither the arena
// nor a straggling slice refers to it. The race detector sees it.
func heapMemory(bytes int) []byte {
	room := bytes
	if invariants.Enabled {
		room += lineBytes
	}
	b := make([]byte, room+lineBytes)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (lineBytes - 1))
	invariants.Poison(b[skip+bytes : skip+room])
	return b[skip : skip+bytes : skip+room]
}

// retire fills a chunk whose loans have ended with poison, and panics when
// somebody wrote behind its end. It is called under the tag "invariants" only.
func (c chunk) retire() {
	for i, b := range c.memory[len(c.memory):cap(c.memory)] {
		if b != invariants.PoisonByte {
			panic(fmt.Sprintf("invariants: the byte %d behind a chunk of %d bytes was overwritten", i, len(c.memory)))
		}
	}
	invariants.Poison(c.memory)
}
