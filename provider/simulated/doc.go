// Package simulated is the provider that comes with Tonnage: a fleet of machines
// in memory, for first trials, tests and the simulator.
//
// It keeps to the machine's state machine, takes time over transitions and
// fails on demand, as real ones do. It has no clock: the owner calls Advance
// with the time, and what is due by then is done. Every random draw comes from
// the seed it was given; the same calls in the same order have the same
// outcome.
//
// # Revisions
//
// Entries are linked in the order of their last change, so that a List since a
// revision reads only the entries that changed since: a steady cycle costs as
// much as changed, whatever the size of the fleet. Removals leave a tombstone;
// when a cursor is older than the oldest tombstone that is kept, or is not one
// of this fleet, the answer is the full list.
package simulated
