// Package shard is one process around one engine: it keeps the machine table
// in step with the provider, takes in what clusters need, lets the engine
// decide, and carries out what the rails allow.
//
// # Rooms
//
// Shard has one room for each subject, each with its own state:
//
//	intake      roll-ups on their way, and the demand that the next decision looks at
//	inventory   the machines, and all that goes with a change of one
//	reconciler  takes over what the provider lists
//	ownership   which machines are this shard's; domains, and machines that change their shard
//	ledgers     counts over cycles: Needs that wait, machines that rest, owners whose plans failed
//	rails       what of a plan may be carried out, and whether anything may
//	executor    carries it out: changes the record, calls the provider, notes the end of the call
//	inFlight    calls that a listing may not show yet; inventory, reconciler, ownership and executor share it
//
// Rooms that do not know the provider's calls are packages below internal; reconciler and
// executor are here.
//
// Shard.cycle calls them in order. A room knows those below it (see Shard.furnish), and no
// room knows Shard. The observer has everything that leaves the process.
//
// # Who may touch what
//
// One mutex guards the rooms. A cycle holds it while it merges, decides and enqueues; it
// lets go of it while the provider lists. Calls that change machines are made by workers
// without the mutex, which they take for a moment to note how a call ended. So
// neither a slow provider nor a slow cluster holds up a cycle. A roll-up waits for no
// cycle at all: its mailbox has a lock of its own. The methods of Shard take the mutex;
// those of rooms expect that it is held.
//
// # What is in flight
//
// An action changes the local record before the provider is called: the state
// moves on, stamps and reservations are set. The next decision then counts the
// machine for the Need that the action serves. While the call lasts the
// machine is in flight: no second action starts on it, and its record in a
// listing is ignored, since it may be older than the call.
//
// The package does not know the coordinator, not even through another package.
package shard
