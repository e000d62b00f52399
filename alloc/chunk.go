package alloc

import "unsafe"

// The sizes of chunks.
const (
	// ChunkBytes is the size of an ordinary chunk.
	ChunkBytes = 1 << 20
	// HugeBytes is the size from which a request gets a chunk of its own. Half
	// a chunk, so that a request that does not fit wastes at most the half of
	// one.
	HugeBytes = ChunkBytes / 2
	// lineBytes is the size of a cache line. Chunks, and slices of at least a
	// line, begin at one: vector loads then never straddle two.
	lineBytes = 64
)

// The arithmetic below needs both to hold; neither compiles otherwise.
const (
	_ = uint(ChunkBytes - 2*HugeBytes)
	_ = uint(-(ChunkBytes % lineBytes))
)

// chunkSource is where arenas get their chunks. get returns zeroed memory of
// exactly that many bytes that begins at a cache line; put takes it back.
type chunkSource interface {
	get(bytes int) []byte
	put(chunk []byte)
}

// heapSource takes chunks from the Go heap. They are noscan objects, freed by
// the collector once neither the arena nor a straggling slice refers to them.
// The race detector sees this memory.
type heapSource struct{}

func (heapSource) get(bytes int) []byte {
	b := make([]byte, bytes+lineBytes)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (lineBytes - 1))
	return b[skip : skip+bytes : skip+bytes]
}

func (heapSource) put([]byte) {}
