// Package journal keeps a small map on disk, so that it survives a process
// that is killed at any moment: what the shard knows of machines and no
// provider stores. It does not interpret keys and values.
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
// A frame sets one key. Keys that begin with a NUL are the journal's own:
//
//	NUL "guard" sequence u64             the batch that follows has guarded keys
//	NUL "commit" length u64 CRC-32C u32  the batch before, of this length, is synced
//
// Their frames have no value, so that version 0.1.0, which does not know them,
// forgets a key that it does not have.
//
// # Torn or damaged
//
// A batch is written and synced, and its commit frame is appended after that. A crash
// leaves at most a batch without a commit frame, cut off anywhere. So:
//
//	a bad frame, and no whole one behind it     torn: cut off, logged at info
//	a bad frame, and any whole one behind it    damaged
//	a commit frame whose batch does not check   damaged
//
// A damaged file is kept aside under another name, and what is in order in it is
// written to a new one. Reading goes on behind a bad frame where its length leads to a
// whole one; otherwise it ends there. The commit frame itself is synced with the next
// batch, or when the journal is closed. When power fails before the system has
// written it by itself, the last batch can be damaged without being told from torn.
//
// # Guarded keys
//
// Keys with one prefix, the shard's domains, have a file of their own too, in two copies
// that are replaced one after the other:
//
//	"tonnage domains 1\n" sequence u64 knowledge u8 number of keys u32 frames CRC-32C u32
//
// The copy with the higher sequence number counts, and mends the other one. That no
// key was ever set (Unset), that there are none left (Known) and that they are not known
// any more (Lost) are three values of knowledge. The journal's file has the keys as
// well, for version 0.1.0. They count when there is no copy, when the guard frame
// of the last batch announces a later file than there is (the process was killed
// between both), or when keys were set without a guard frame since the last commit:
// version 0.1.0 was here.
//
// # Who writes
//
// Set changes the map in memory and appends to a buffer; it never waits for the
// disk. One goroutine writes the buffer and syncs it, so that any number of
// changes share one sync. A caller that needs the change on disk calls Durable,
// which waits for the sync.
//
// When the file has grown to several times what the map takes, the goroutine
// writes the map to a new file, syncs it, and puts it in the place of the old
// one. Meanwhile values are read in small portions, and changes are appended
// behind the map in the new file, so that no caller waits.
//
// # When the disk fails
//
// Failed writes are logged and counted, and Durable returns the error at
// once; the caller decides whether to go on. The map in memory stays right,
// and the goroutine tries again to write all of it to a new file.
package journal
