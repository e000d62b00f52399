package alloc

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/tonnage/tonnage/internal/invariants"
)

// MaxBytes is the most that one arena reserves unless SetLimit says less: a
// hundred times what a cycle over 500,000 machines needs, so only a runaway
// loop gets there.
const MaxBytes = 8 << 30

// LimitError is what Make and MakeDirty panic with when a request would bring
// the arena above its limit. It says that a computation has run away, which is
// no fault of the caller's caller: whoever runs the computation recovers it,
// abandons the whole cycle and resets the arena, which is still sound.
type LimitError struct {
	Purpose  Purpose
	Request  int64 // bytes asked for
	Reserved int64 // bytes held already
	Limit    int64 // bytes allowed
}

// Error names the purpose and the three sizes.
func (e *LimitError) Error() string {
	return fmt.Sprintf("alloc: arena %s is full: %d bytes more on top of %d would pass its limit of %d",
		e.Purpose, e.Request, e.Reserved, e.Limit)
}

// Arena is a bump allocator for slices of one purpose that all die at once, and
// with the arena at the latest. The zero value is not ready; use NewArena or
// Accounts.NewArena.
type Arena struct {
	purpose    Purpose
	source     source
	mappings   *mappings
	chunks     []chunk // ordinary and reserved ones
	current    []byte  // chunks[next-1].memory, nil before the first
	offset     int     // first free byte of current
	next       int     // the chunk to go on with when current is full
	huge       []hugeChunk
	used       int64
	reserved   int64
	limit      int64
	generation uint32
	checked    unsafe.Pointer // identity of the type that passed the pointer check last
	epoch      invariants.Epoch
}

// hugeChunk holds one request. It is free when the generation that took it is
// over.
type hugeChunk struct {
	chunk
	taken bool
}

// NewArena returns an empty arena. It reserves nothing before its first use.
func NewArena(p Purpose) *Arena {
	return &Arena{purpose: p, source: source{node: AnyNode, mapMemory: mapMemory}, mappings: new(mappings), limit: MaxBytes}
}

// Purpose returns what the arena's memory is for.
func (a *Arena) Purpose() Purpose { return a.purpose }

// Generation returns how often the arena was reset. It wraps around.
func (a *Arena) Generation() uint32 { return a.generation }

// Used returns the bytes handed out in this generation, alignment included.
func (a *Arena) Used() int64 { return a.used }

// Reserved returns the bytes that the arena holds, used or not.
func (a *Arena) Reserved() int64 { return a.reserved }

// SetLimit bounds the bytes reserved from now on, at most MaxBytes; what is
// held already stays.
func (a *Arena) SetLimit(bytes int64) { a.limit = min(bytes, MaxBytes) }

// SetNode says on which NUMA node memory reserved from now on shall lie, or
// AnyNode, which is what a new arena does: memory then comes from the nodes of
// whichever threads fault it in, which for large chunks are several. It is a
// wish: Mapped counts those refused. Small chunks come from the heap and lie
// anywhere.
func (a *Arena) SetNode(node int) { a.source.node = max(node, AnyNode) }

// Stamp marks a loan: what is kept beside slices of the arena can hold it and
// check it before use. It costs nothing without the build tag "invariants".
func (a *Arena) Stamp() invariants.Stamp { return a.epoch.Stamp() }

// Reset begins a new generation. Every slice that the arena has handed out is
// dead; its memory will be handed out again.
func (a *Arena) Reset() {
	if invariants.Enabled {
		for _, c := range a.chunks[:a.next] {
			c.retire()
		}
		for _, h := range a.huge {
			h.retire()
		}
	}
	for i := range a.huge {
		a.huge[i].taken = false
	}
	a.current, a.offset, a.next, a.used = nil, 0, 0, 0
	a.generation++
	a.epoch.Advance()
}

// Trim gives back the chunks that this generation has not used. Called before
// Reset, it cuts the arena down to what the generation needed.
func (a *Arena) Trim() {
	for i := a.next; i < len(a.chunks); i++ {
		a.release(a.chunks[i])
		a.chunks[i] = chunk{}
	}
	a.chunks = a.chunks[:a.next]
	kept := a.huge[:0]
	for _, h := range a.huge {
		if h.taken {
			kept = append(kept, h)
		} else {
			a.release(h.chunk)
		}
	}
	clear(a.huge[len(kept):])
	a.huge = kept
}

// Close gives all memory back at once and leaves the arena as a new one. Every
// slice of it is dead: what was mapped faults when it is touched. An arena that
// is dropped without Close gives its memory back when the collector finds it.
func (a *Arena) Close() {
	a.Reset()
	a.mappings.unmapAll()
	a.chunks, a.huge, a.reserved = nil, nil, 0
}

// Reserve makes room for that many bytes in one chunk, which the generation
// takes next: called before its first Make, with what it will need, it brings
// every page in beforehand and lays everything side by side. What was reserved before
// and is too small by now is given back. It panics with a *LimitError when the arena is
// full.
func (a *Arena) Reserve(bytes int) {
	if bytes <= 0 {
		return
	}
	at := a.next
	for at < len(a.chunks) && len(a.chunks[at].memory) < bytes {
		at++
	}
	if at == len(a.chunks) {
		a.dropWhole()
		at = len(a.chunks)
		room := chunkRoom(bytes)
		if bytes < HugeBytes {
			room = ordinaryRoom(0, bytes)
		}
		a.chunks = append(a.chunks, a.reserve(room))
	}
	found := a.chunks[at]
	found.whole = true
	copy(a.chunks[a.next+1:at+1], a.chunks[a.next:at])
	a.chunks[a.next] = found
}

// dropWhole gives back what Reserve has made and this generation does not use: it is
// too small, and would be left behind by every request that grows.
func (a *Arena) dropWhole() {
	kept := a.chunks[:a.next]
	for _, c := range a.chunks[a.next:] {
		if c.whole {
			a.release(c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(a.chunks[len(kept):])
	a.chunks = kept
}

// Make returns a zeroed slice of n elements with no room behind them: append
// moves it to the heap. T must hold no pointers; Make panics if it does, if n
// is negative, and with a *LimitError when the arena is full.
func Make[T any](a *Arena, n int) []T {
	s := take[T](a, n)
	clear(s)
	return s
}

// MakeDirty is Make without the zeroing: the elements are whatever was there
// and must be written before they are read.
func MakeDirty[T any](a *Arena, n int) []T {
	s := take[T](a, n)
	if invariants.Enabled && len(s) > 0 {
		invariants.Poison(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0]))))
	}
	return s
}

// Append appends to a slice of the arena, or to nil. Where there is no room it is
// moved to twice as much, in the arena: amortized, O(1).
func Append[T any](a *Arena, s []T, v T) []T {
	if n := len(s); n == cap(s) {
		wide := MakeDirty[T](a, max(4, 2*n))[:n]
		copy(wide, s)
		s = wide
	}
	return append(s, v)
}

func take[T any](a *Arena, n int) []T {
	if t := identity[T](); t != a.checked {
		MustPointerFree[T]()
		a.checked = t
	}
	var zero T
	size := unsafe.Sizeof(zero)
	if n <= 0 || size == 0 {
		if n < 0 {
			panic(fmt.Sprintf("alloc: Make of %d elements", n))
		}
		return make([]T, n) // needs no memory
	}
	over, bytes := bits.Mul64(uint64(n), uint64(size))
	if over != 0 || bytes > MaxBytes {
		panic(&LimitError{a.purpose, int64(min(bytes, 1<<62)), a.reserved, a.limit})
	}
	return unsafe.Slice((*T)(a.bump(int(bytes), int(unsafe.Alignof(zero)))), n)
}

// identity returns the type word of an interface that holds a *T: one per type,
// and cheaper to get and to compare than the reflect.Type.
func identity[T any]() unsafe.Pointer {
	var of any = (*T)(nil)
	return (*[2]unsafe.Pointer)(unsafe.Pointer(&of))[0]
}

// bump returns room for that many bytes (> 0), aligned to align or, from one
// line on, to a cache line.
func (a *Arena) bump(bytes, align int) unsafe.Pointer {
	if bytes >= lineBytes {
		align = lineBytes
	}
	from := (a.offset + align - 1) &^ (align - 1)
	if from+bytes > len(a.current) {
		if bytes >= HugeBytes && !a.reservedNext(bytes) {
			return a.bumpHuge(bytes)
		}
		a.advance(bytes)
		from = 0
	}
	a.used += int64(from - a.offset + bytes)
	a.offset = from + bytes
	return unsafe.Pointer(&a.current[from])
}

// reservedNext reports whether the next chunk was made by Reserve and has the
// room for a huge request.
func (a *Arena) reservedNext(bytes int) bool {
	return a.next < len(a.chunks) && a.chunks[a.next].whole && len(a.chunks[a.next].memory) >= bytes
}

// advance makes the next ordinary chunk that holds so many bytes the current
// one. Those too small for it are passed over until the next generation; only
// an arena's first chunks can be, so what is lost is less than HugeBytes.
func (a *Arena) advance(bytes int) {
	for a.next < len(a.chunks) && len(a.chunks[a.next].memory) < bytes {
		a.next++
	}
	if a.next == len(a.chunks) {
		a.chunks = append(a.chunks, a.reserve(ordinaryRoom(len(a.chunks), bytes)))
	}
	a.current, a.offset = a.chunks[a.next].memory, 0
	a.next++
}

// ordinaryRoom returns the size of the i-th ordinary chunk, which must hold so
// many bytes (< HugeBytes).
func ordinaryRoom(i, bytes int) int {
	room := FirstChunkBytes
	for ; i > 0 && room < ChunkBytes; i-- {
		room *= 2
	}
	for room < bytes {
		room *= 2
	}
	if room >= HugeBytes {
		return ChunkBytes
	}
	return room
}

// bumpHuge returns the smallest free huge chunk that is large enough. If there
// is none, a new one takes the place of the largest free one, which has become
// too small: a request that grows from cycle to cycle does not leave a trail.
func (a *Arena) bumpHuge(bytes int) unsafe.Pointer {
	best, small := -1, -1
	for i := range a.huge {
		switch h := &a.huge[i]; {
		case h.taken:
		case len(h.memory) >= bytes:
			if best < 0 || len(h.memory) < len(a.huge[best].memory) {
				best = i
			}
		case small < 0 || len(h.memory) > len(a.huge[small].memory):
			small = i
		}
	}
	if best < 0 {
		best = a.replaceHuge(small, bytes)
	}
	a.huge[best].taken = true
	a.used += int64(bytes)
	return unsafe.Pointer(unsafe.SliceData(a.huge[best].memory))
}

// replaceHuge puts a new chunk at the place of old, or at the end when old is
// negative. Where whole pages leave it less than a 32nd of headroom, it gets an
// eighth: that spares a slowly growing request most moves.
func (a *Arena) replaceHuge(old, bytes int) int {
	room := chunkRoom(bytes)
	if room-bytes < bytes/32 {
		room = chunkRoom(bytes + bytes/8)
	}
	if old < 0 {
		a.huge = append(a.huge, hugeChunk{chunk: a.reserve(room)})
		return len(a.huge) - 1
	}
	a.release(a.huge[old].chunk)
	a.huge[old].chunk = chunk{} // if the new one is refused
	a.huge[old].chunk = a.reserve(room)
	return old
}

func (a *Arena) reserve(bytes int) chunk {
	if a.reserved+int64(bytes) > a.limit {
		panic(&LimitError{a.purpose, int64(bytes), a.reserved, a.limit})
	}
	c := a.source.get(bytes)
	a.reserved += int64(bytes)
	if c.mapped {
		a.mappings.enter(a, c.memory)
	}
	return c
}

func (a *Arena) release(c chunk) {
	a.reserved -= int64(len(c.memory))
	if c.mapped {
		a.mappings.unmap(c.memory)
	}
}
