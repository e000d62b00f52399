// Package epoch numbers the processes of a shard, and their calls, so that a
// provider can tell the newest from those it replaced.
//
// A data folder holds the file "epoch": a decimal number, the epoch of the
// process that opened it last. Opening reads it, adds one, and has the new
// number on disk before it returns: written beside, synced, renamed over the
// old one, and the folder synced. So no two openings of one folder ever give the
// same epoch, whenever power fails. A lock beside it keeps a second process of
// the same machine out.
//
// The file "epoch.copy" has the same number. A flipped bit can turn a number into a
// lower one; the higher of both counts. One that is too high does no harm: epochs go
// on from there.
//
// A call carries the epoch and a sequence number, which is new for every
// attempt. The provider refuses what is not newer than the newest it has seen of
// the machine: calls of a process that was replaced, and attempts that arrive
// late.
//
// # When a folder is lost
//
// A shard that starts with an empty folder has epoch 1, which the provider
// refuses once it has seen a higher one. The epoch never rises by itself until
// it is accepted, since a replaced process could then do the same. An operator
// who knows that the old process is gone writes a number at least as high as the
// old epoch into the file; Reread, or the next start, goes on from there.
package epoch
