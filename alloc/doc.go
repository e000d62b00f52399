// Package alloc gives the engine its memory: by purpose, by generation and
// without pointers.
//
// # Arena
//
// A cycle makes hundreds of thousands of short lists that all die together at
// its end. An Arena hands them out by moving one offset, and takes them all
// back by setting the offset to zero:
//
//	chunk 0  |aaaa|bb|cccccc|d|··|   full: the next request did not fit
//	chunk 1  |eeeeeee|ff|········|   current; offset after ff
//	chunk 2  |···················|   kept from an earlier, larger generation
//	huge     |gggggggggggggggggggggggg|   one request larger than HugeBytes
//
// Reset begins the next generation: the chunks stay, what they held is lost.
// From the second generation of a steady load on, nothing is allocated any
// more. A slice of the arena must not be used after Reset; it still points at
// living memory (the collector sees to that), but at another generation's
// numbers. The build tag "invariants" fills the memory at Reset, so that such
// a use shows.
//
// Elements must hold no pointers, at any depth: chunks are byte memory to the
// collector, which would neither scan nor keep alive what is referenced only
// from there. It also means that the collector has nothing to do for them.
// Make checks this for every type and panics: it can only be wrong in code.
//
// Chunks come from a source. It is the heap here; the seam is there so that
// mapped memory with huge pages and a NUMA placement can take its place.
//
// # Slab
//
// Things that come and go one by one, live long and are referred to are kept
// in a Slab and addressed by a Handle, a 32-bit number: half of a pointer, and
// nothing to the collector.
//
// # Accounts
//
// Every arena has a Purpose and belongs to an owner's Accounts; other holders
// of memory (columns, dictionaries) enter themselves there. Usage is then the
// owner's memory budget as a sum written out by purpose.
//
// Nothing here may be used by two goroutines at once: every worker has arenas
// of its own.
package alloc
