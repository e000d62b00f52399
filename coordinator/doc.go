// Package coordinator decides for several shards: which shards are registered,
// which shard has which domain, which instructions each shard gets, and which
// machines change owner because another shard needs them more.
//
// It only decides. There is no I/O, clock or goroutine inside: an event comes
// in with the time it happened at, and effects go out. Whoever runs it (package
// replica) does three things in this order:
//
//  1. Core.Step(event) returns Effects. Soft state has changed already, durable
//     state has not.
//  2. Effects.Writes are committed, all or none, guarded against any other
//     writer.
//  3. Core.Apply(Effects.Writes) takes them over. Only now is the event
//     answered, and only now do instructions that follow from it go out.
//
// When it is not known whether a commit took place, nothing is applied: the
// durable state is read again and handed to Core.Load. Load and Apply share one
// way in, so what a replica holds in memory is what a successor would read.
//
// # Durable and soft
//
// Durable: shards, domains, bindings of clusters, domain instructions that wait
// to be acknowledged, and moves. Soft: heartbeats, reports, offers, cooldowns.
// A new leader has the soft state again within one report interval, since every
// shard reports; rebalancing, which depends on it, waits until then, and never
// moves more because something is unknown.
//
// # How a machine changes owner
//
// A move is a record with a phase, and the phase alone determines which shard
// gets which instruction:
//
//	Asked      → the donor: release these machines to the receiver
//	Released   → the receiver: adopt these machines
//	Adopted    → the donor: you need not mention this hand-over any more
//	Settled      over; machines have moved
//	Returning  → the donor: take these machines back
//	Returned     over; machines are where they were
//	Cancelled    over; the donor gave nothing
//
// Each shard keeps its own side durable before it says so: the donor writes down
// what it gave away and to whom, then stops using the machines, then mentions
// the hand-over in each offer until it is told not to. The receiver writes down
// what it adopts before it uses it, and it is asked only after the donor's
// release is durable here as well. So at every instant at most one shard uses a
// machine, and whatever crashes, the hand-over ends with exactly one:
//
//   - The donor's word decides. A hand-over that a donor mentions and that is
//     not known here (the move was given up, or the coordinator was restored from
//     an older snapshot) is taken up again where the donor stands: at Released.
//   - The way back is taken only when the receiver has said no, or is removed.
//     Silence is never a no.
package coordinator
