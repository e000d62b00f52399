// Package e2e tries the binary as a fleet would run it: a provider and a shard
// as processes of their own, and many operators, on loopback. Processes are
// killed, sessions are cut, and what the provider's own store says afterwards is
// what counts.
//
// Operators are played here: each opens a session, reports, hands out bootstrap
// data, acknowledges reclaims, and notes what it is told of its machines.
package e2e
