// Package shard is one process around one engine: it keeps the machine table
// in step with the provider, takes in what clusters need, lets the engine
// decide, and carries out what the rails allow.
//
// # Who may touch what
//
// One mutex guards the tables, the ledgers and everything else that a cycle
// reads. A cycle holds it while it merges, decides and enqueues; it lets go of
// it while the provider lists. Calls that change machines are made by workers
// without the mutex, which they take for a moment to note how a call ended. So
// neither a slow provider nor a slow cluster holds up a cycle, and nothing but
// a running cycle holds up a roll-up.
//
// # What is in flight
//
// An action changes the local record before the provider is called: the state
// moves on, stamps and reservations are set. The next decision then counts the
// machine for whom it is meant. While the call lasts the machine is in flight:
// no second action starts on it, and what the provider lists of it is put
// aside, since it may be older than the call.
//
// The package does not know the coordinator, not even through another package.
package shard
