// Package server serves a store of machines as bigfleet.v1alpha1's
// CapacityProvider.
//
// A call is checked in this order: who calls, the names of machine and shard, then what
// the store checks (token, machine, the other arguments, repeat, position). So a
// replaced process does not learn which machines exist. The codes are those of the
// protocol; FailedPrecondition means only that the caller is fenced off.
//
//	InvalidArgument     an argument that no machine could accept
//	PermissionDenied    the certificate shown is not of the shard named
//	FailedPrecondition  a newer token of this shard was seen for the machine
//	NotFound            no such machine
//	ResourceExhausted   tokens of too many machines
//	Unavailable         the store has ended, or a fault is injected
//	Internal            the machine's state does not allow the call, or it failed
//
// The store assembles answers from encoded records, and the server sends them as
// they are: the fields of the message stay empty, and the bytes are in its
// unknown fields.
//
// # Injected faults
//
// On demand calls are refused, answered late, or carried out without an answer,
// to test callers. Faults of machines are injected in the store: see
// provider.Fault.
package server
