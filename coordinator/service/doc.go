// Package service is the coordinator on the wire: bigfleet.v1alpha1.Coordinator,
// tonnage.v1alpha1.Fleet and the health service.
//
// Each call is looked at in the same order: does this replica lead, may the
// caller do this, do the arguments make sense. A follower says
// FailedPrecondition to everybody, with the leader's address as a detail
// (google.rpc.ErrorInfo, reason NOT_LEADER, metadata "leader").
//
// Wire types end here: what comes in is turned into the core's values, bounded
// and checked, before the core sees it.
package service
