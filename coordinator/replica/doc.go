// Package replica runs the coordinator's core on one of its replicas: it waits
// for leadership, reads the state, and then takes one event after the other
// until somebody else leads.
//
// # Order
//
// One mutex guards the core. An event takes effect in memory while it is held, at
// once; its writes join a queue, and one goroutine commits the queue in order, as
// many events in a transaction as fit. So the mutex is never held during a wait
// for a disk or another replica, and commands that come together share a commit.
//
// Memory may therefore be ahead of the durable state. That is never visible: an
// answer waits until everything that it has read is committed, its own writes and
// those of others. If a commit fails, the answer is an error. Only an answer
// without content does not wait; most answers to reports are such.
//
// An answer without writes of its own is then confirmed: a quorum read checks
// that this replica still leads. What was read under the mutex was the newest
// state at some moment during the call. A command needs no such read, since its
// transaction was begun after it came in, and compares the leader. That is what
// makes each command and each list linearizable, across leaders that are
// stopped, cut off, or wake up late.
//
// # Failed commits
//
// A commit whose fate is not known ends the claim, and so does one that another
// leader has overtaken. The replica claims anew and reads everything again, before
// it answers anybody. One that the store has refused has changed nothing: what is
// durable is read again, and the claim goes on. In each case the commits queued
// behind it fail with it.
package replica
