// Package rack is a driver of owned hosts whose far end is simulated: hosts that can be claimed, powered and assigned
// to a cluster, each by a request of its own. It serves as the example of a driver whose verbs take several writes, and
// of one whose hosts can be taken by somebody else.
//
// # A verb of several writes
//
// Each verb first writes into the host's claim what it is about to do, and then does it:
//
//	Create     claim "Creating", power on
//	Configure  claim "Configuring" with the cluster, assign, claim "Configured"
//	Drain      claim "Draining", unassign
//	Delete     claim "Deleting", unassign, power off, remove the claim
//
// A call that was cut off anywhere leaves the claim with the phase of the change, and Observe reports that phase. The
// provider calls the verb again until it answers without an error, and the repeat goes on where the call stopped:
// it reads the host and makes only the writes whose effect is not there.
//
// # Whose host it is
//
// A claim is written only over the claim that was read: the far end compares a revision. So two providers that both
// believe they are in charge do not both get a host. A host that is assigned to another cluster than its claim says, or that has a
// claim of somebody else, is in somebody else's use: Create refuses it with driver.ErrPermanent, Observe reports it as
// Taken, and Delete gives up the claim and leaves power and cluster as they are.
package rack
