// Package karpenter drives machines through Karpenter: each making of a machine is a NodeClaim
// (karpenter.sh/v1) in its fleet cluster, without a NodePool.
//
// # Claims
//
// The requirements of a claim name one instance type, one zone and one capacity type, so that Karpenter has nothing
// to choose. expireAfter is Never: the default of the resource deletes machines after thirty days. Karpenter copies
// labels and taints of the claim to the Node. A claim has the label karpenter.sh/nodepool with the name of a pool that
// does not exist, and karpenter.sh/do-not-disrupt: Karpenter's repair and consolidation leave it alone.
// The spec of a claim cannot be changed.
//
// # Claims that vanish
//
// Karpenter deletes a claim that cannot be launched: at once when capacity is missing, which an Event says, and
// after five minutes otherwise; one whose Node does not register after fifteen. So a claim that is gone before
// it was launched is Failed, with the Event's text as the reason, and out of stock if that is what it says.
// The driver knows such claims from Configure and from what it has observed. One that has lost this memory
// reports nothing, and the provider finds the machine lost. A claim that is gone after it was launched is a
// machine that is gone.
//
// # Draining
//
// Karpenter drains a Node when its claim is deleted, until the time in the annotation
// karpenter.sh/nodeclaim-termination-timestamp, without limit if there is none. The driver sets it, then deletes.
//
// # Truth
//
// Nothing is kept in the process but tables that watches fill (package kube), and what became of
// claims that Karpenter deleted.
package karpenter
