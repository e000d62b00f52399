// Package journal keeps a small map on disk, so that a process that is killed
// at any moment finds it again: what the shard remembers of machines that no
// provider gives back. It knows nothing of what the keys and values mean.
//
// # The file
//
// One file, a header and frames one after the other:
//
//	"tonnage journal 1\n"
//	┌────────────┬──────────────┬─────────┬─────┬───────────┐
//	│ length u32 │ CRC-32C u32  │ key len │ key │ value     │ …
//	└────────────┴──────────────┴─────────┴─────┴───────────┘
//	 little endian, of what follows the sum       no value = the key is forgotten
//
// A frame sets one key. Reading goes on until the file ends or a frame does not
// fit its sum: what follows is the tail of a write that the crash tore, and is
// cut off.
//
// # Who writes
//
// Set changes the map in memory and appends to a buffer; it never waits for the
// disk. One goroutine writes what has gathered and syncs it, so that any number
// of changes share one sync. Durable waits for that, for those to whom it
// matters.
//
// When the file has grown to several times what the map takes, the goroutine
// writes the map to a new file, syncs it, and puts it in the place of the old
// one. Values are read meanwhile in small portions, and what is set during that
// time follows the map in the new file, so that nobody waits.
//
// # When the disk fails
//
// Writes that fail are logged and counted, and Durable says so at once: it is
// for the caller to go on or not. The map in memory stays right, and the
// goroutine tries again to write all of it to a new file.
package journal
