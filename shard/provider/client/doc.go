// Package client drives a provider in another process: it is the shard's side of
// bigfleet.v1alpha1's CapacityProvider.
//
// # Calls that change machines
//
// A repeated call has the effect of one, so a call without an answer is retried:
// a few attempts with growing pauses, within the caller's deadline. Each attempt
// has a token of its own (package epoch), newer than those before. The provider
// refuses an attempt that arrives after a newer one; the client does not report
// that. Two calls for one machine wait for each other, so that tokens arrive in
// order.
//
// Errors say what the shard may believe:
//
//	shard.ErrUnsent     no attempt left this process, or the provider turned the
//	                    caller away: nothing was done
//	shard.ErrUncertain  an attempt left, and no answer that can be read came
//	shard.ErrFenced     FailedPrecondition: a newer process of this shard is known
//	shard.ErrNoMachine  NotFound
//	none of these       the provider refused, or failed
//
// After a fenced answer no call leaves any more until Renew finds a newer epoch.
//
// When an attempt may have been carried out and the next one is refused, the
// client reads the machine: if it is in the state that the call leads to, the
// call has succeeded. The same goes for AlreadyExists, and for answers without a
// machine. So providers that do not know repeats are served as well.
//
// # Listings
//
// A listing's bytes are handed on as they came (package wire). With cursors on,
// a cursor is used over the connection that it came over and no other: another
// connection may lead to another process, for which the cursor means something
// else, and not every provider detects that. A provider without cursors answers
// without one, and is always asked for everything. Changes do not list removed
// machines, so the shard asks for a full listing now and then.
//
// # Metadata
//
// Only Configure has a field for it. What the shard notes about Create and Drain
// stays in its own memory.
package client
