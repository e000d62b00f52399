// Package e2e tests the binary as a fleet runs it: a provider and a shard as
// separate processes, and many operators, on loopback. Tests kill processes and
// cut sessions, and check the provider's own store afterwards.
//
// Operators are simulated: each opens a session, reports, hands out bootstrap
// data, acknowledges reclaims, and notes what it is told of its machines.
package e2e
