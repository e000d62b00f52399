package alloc

import (
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"
)

// AnyNode says that it does not matter on which NUMA node memory lies.
const AnyNode = -1

// mapping counts, for the whole process, what becomes of mappings.
var mapping struct {
	bytes, refused, smallPages, misplaced atomic.Int64
}

// Mapping is what the process holds outside the Go heap, over all arenas. The
// counters say how often the system refused a wish; each refusal has a sound
// answer, which is slower at worst.
type Mapping struct {
	Bytes      int64 // mapped now; part of the Reserved of some arena
	Refused    int64 // chunks that could not be mapped and came from the heap
	SmallPages int64 // mapped chunks that were refused huge pages
	Misplaced  int64 // mapped chunks that were refused the node asked for
}

// Mapped returns what is mapped now and how often the system refused. It may
// be called from any goroutine.
func Mapped() Mapping {
	return Mapping{
		Bytes:      mapping.bytes.Load(),
		Refused:    mapping.refused.Load(),
		SmallPages: mapping.smallPages.Load(),
		Misplaced:  mapping.misplaced.Load(),
	}
}

// mappings lists the mapped chunks of one arena. It is an object of its own,
// and knows nothing of the arena: when the arena is found unreachable, it is
// what is left to say what must be unmapped.
type mappings struct{ chunks [][]byte }

// enter notes a chunk that was mapped for the arena. The first one arms the
// backstop, so that an arena that never maps costs nothing.
func (m *mappings) enter(a *Arena, memory []byte) {
	if m.chunks == nil {
		runtime.AddCleanup(a, (*mappings).unmapAll, m)
	}
	m.chunks = append(m.chunks, memory)
	mapping.bytes.Add(int64(len(memory)))
}

// unmap gives one chunk back.
func (m *mappings) unmap(memory []byte) {
	i := slices.IndexFunc(m.chunks, func(c []byte) bool { return unsafe.SliceData(c) == unsafe.SliceData(memory) })
	m.chunks = slices.Delete(m.chunks, i, i+1)
	mapping.bytes.Add(-int64(len(memory)))
	unmapMemory(memory)
}

// unmapAll gives every chunk back: at Close, or when the arena was dropped
// without one.
func (m *mappings) unmapAll() {
	for _, c := range m.chunks {
		mapping.bytes.Add(-int64(len(c)))
		unmapMemory(c)
	}
	clear(m.chunks)
	m.chunks = m.chunks[:0]
}
