// Package server serves a store of machines as bigfleet.v1alpha1's
// CapacityProvider.
//
// A call is checked in this order: who calls, the names of machine and shard, then what
// the store checks (token, machine, the other arguments, repeat, position). So a
// replaced process does not learn what there is. The codes are those of the protocol;
// FailedPrecondition says that the caller is fenced off, and nothing else.
//
//	InvalidArgument     an argument that no machine could accept
//	PermissionDenied    the certificate shown is not of the shard named
//	FailedPrecondition  a newer token of this shard was seen for the machine
//	NotFound            no such machine
//	ResourceExhausted   tokens of too many machines
//	Unavailable         the store has ended, or trouble that was asked for
//	Internal            the machine's state does not allow the call, or it failed
//
// Answers are put together by the store from bytes that are ready, and go out as
// they are: the messages' fields stay empty, and the bytes stand where a
// message keeps fields that it does not know.
//
// # Trouble
//
// On demand calls are refused, answered late, or carried out without an answer,
// so that callers can be tried. What breaks machines is the store's: see
// provider.Fault.
package server
