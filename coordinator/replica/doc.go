// Package replica runs the coordinator's core on one of its replicas: it waits
// for leadership, reads the state, and then takes one event after the other
// until somebody else leads.
//
// # Order
//
// One mutex guards the core. An event takes effect in memory while it is held,
// at once; its writes join a queue, and one goroutine commits the queue in order,
// as many events in a transaction as fit. So nobody holds the mutex while a disk
// or another replica is waited for, and commands that come together share a
// commit.
//
// Memory may therefore be ahead of what is durable. Nobody is told of it: an
// answer waits until everything that it has seen is committed, its own writes
// and those of others. It is an error when they are not. Only an answer that asks
// for nothing, as most of those to reports are, tells nothing and waits for
// nothing.
//
// An answer without writes of its own is then confirmed: the leader is asked for
// once more, by a read that a majority stands behind. What was read under the
// mutex was the newest state at some moment during the call. A command needs no
// such read, since its transaction was begun after it came in, and compares who
// leads. That is what makes each command and each list linearizable, across
// leaders that are stopped, cut off, or wake up late.
//
// # Failed commits
//
// A commit whose fate is not known ends the claim, and so does one that another
// leader has overtaken. The replica claims anew and reads everything again, before
// it answers anybody. One that the store has refused has changed nothing: what is
// durable is read again, and the claim goes on. In each case whatever was queued
// behind it fails with it.
package replica
