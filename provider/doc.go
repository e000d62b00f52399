// Package provider keeps records of real machines and drives them: it answers the calls of
// shards (calls.Backend) and has drivers carry them out.
//
// # What is where
//
//	shard ═ gRPC ═ server ── Provider ── records.db      what each machine shall become
//	                            │
//	                         reconcile ── driver ── objects   what exists
//
// A call changes a record and is answered when that is on disk. In rounds, a driver's Observe is
// compared with the records; a machine that differs has a verb called. Nothing is
// believed that was not observed: a machine is Idle, Configured, drained or gone when Observe
// has shown it. So it does not matter when the process dies: the records say what was asked for, the
// objects say what became of it, and the next round goes on. Without the file, records are made
// of the objects.
//
// # Slots
//
// A pool lists machines that are bound, and free slots of each offer, FreeSlotsMax at most and
// no more than its limits leave. A slot becomes a machine with Create, and a slot again with
// Delete. A slot that its offer or its limits do not allow at present is listed as Failed, with the
// reason, rather than removed: that something is gone costs each reader a full listing. Ids are
// a pool's name, a text that is drawn when the file is made, and a number that rises; none is used again.
//
// # One writer
//
// Everything that changes is changed by one goroutine, in batches, each one transaction (see write). It
// holds the lock from the first change to the end of the transaction, so that nothing is seen that a crash
// could take back.
package provider
