// Package store is the built-in provider with a file behind it: what it has
// answered survives any end of its process.
//
// # One writer
//
// One goroutine carries out calls. It takes what is waiting, up to BatchMax
// calls, lets the fleet do them, writes what changed in one transaction of the
// file, and answers when that is on disk. So calls share the wait for the disk,
// and each sees the effect of the one before.
//
// It holds the store's lock from the first change in memory to the end of the
// transaction, and listings take the same lock: nothing is ever seen that a
// crash could undo. When the file cannot be written, memory is ahead of it; the
// store then answers nothing any more, and its owner has to end.
//
// Transitions end by the clock, in the same goroutine and the same way. One
// that was under way when the process died ends when it would have.
//
// # What the file holds
//
// For each machine, the record in its wire format with the state of the
// simulation; for each shard and machine, the newest token. Tokens that passed
// are written even if the call then fails, so that a replaced process cannot
// come back after a restart of the provider. See decode for the format.
//
// The whole file is read before it is written: a file that is truncated, empty, or
// lacks pages is refused with ErrDamaged. bbolt would end the process with a trace, or
// fill the empty file with the seed's machines for the second time.
//
// # Order of checks
//
// Token, machine, repeat, position. A process that is fenced off learns
// neither whether the machine exists nor how earlier calls ended.
package store
