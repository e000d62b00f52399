// Package client drives a provider in another process: it is the shard's side of
// bigfleet.v1alpha1's CapacityProvider.
//
// # Calls that change machines
//
// The provider takes a repeated call for one that is done already, so every call
// is tried again while nobody has answered it: a few attempts, further and
// further apart, within the caller's deadline. Each attempt has a token of its
// own (package epoch), newer than those before. An attempt that arrives late,
// after a newer one, is refused by the provider, and nobody hears of that here.
// Two calls for one machine wait for each other, so that tokens arrive in order.
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
// When an attempt may have been carried out and the next is refused, the machine
// itself is asked: if it is where the call leads, that is a success. The same
// goes for AlreadyExists, and for answers without a machine. So providers that
// do not know repeats are served as well.
//
// # Listings
//
// A listing's bytes are handed on as they came (package wire). With cursors on,
// a cursor is used over the connection that it came over and no other: behind
// another one there may be another process, to which it means something else,
// and not every provider finds that out. A provider without cursors answers
// without one, and is always asked for everything. Changes say nothing of
// machines that are gone; the shard asks for everything now and then.
//
// # Metadata
//
// Only Configure has a field for it. What the shard notes about Create and Drain
// stays in its own memory.
package client
