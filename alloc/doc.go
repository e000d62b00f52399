// Package alloc gives the engine its memory: by purpose, by generation and
// without pointers.
//
// # Arena
//
// A cycle makes hundreds of thousands of short lists that all die together at
// its end. An Arena hands them out by moving one offset, and takes them all
// back by setting the offset to zero:
//
//	chunk 0  |aaaa|b|               64 KiB, heap; the next request did not fit
//	chunk 1  |cccccc|dd|···|        128 KiB, heap
//	  ⋮                             doubling up to 512 KiB
//	chunk 4  |eeeeeee|ff|········|  2 MiB, mapped; current, offset after ff
//	chunk 5  |···················|  2 MiB, kept from an earlier, larger generation
//	huge     |gggggggggggggggggg··| one request of HugeBytes or more
//
// Reset begins the next generation: the chunks stay, what they held is lost.
// From the second generation of a steady load on, nothing is allocated any more.
// A slice of the arena must not be used after Reset: it then shows another
// generation's numbers. Nor may it outlive the arena: the collector does not
// know that it points there, and gives mapped memory back once nobody refers to
// the arena (or at Close), after which a use faults. A holder of a slice must
// keep the arena, or its owner, alive as well.
//
// The build tag "invariants" fills memory at Reset, counts epochs for holders
// of a Stamp, and puts a page that faults behind each mapped chunk and a canary
// behind each other one.
//
// Elements must hold no pointers, at any depth: chunks are byte memory to the
// collector, which would neither scan nor keep alive what is referenced only
// from there. It also means that the collector has nothing to do for them.
// Make checks this for every type and panics: it can only be wrong in code.
//
// # Where the memory lies
//
// Small chunks come from the Go heap. Those of ChunkBytes and more are mapped:
// aligned to huge pages and asking for them (dependent random reads are then
// two to three times as fast), bound to a NUMA node where SetNode names one,
// and faulted in by several goroutines before anybody uses them. The collector
// neither scans nor counts them: GOMEMLIMIT must leave room, see Mapped.
//
// Reserve maps what a generation will need in one piece, at the start instead
// of on the way.
//
// Everything comes from the heap under the race detector, which does not see
// mapped memory, with the tag "purego", and on systems other than Linux on
// amd64 and arm64. A mapping, huge pages or a node that the system refuses is
// counted and done without.
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
