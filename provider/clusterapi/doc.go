// Package clusterapi drives machines through Cluster API: each making of a machine is a Machine object
// (cluster.x-k8s.io/v1beta2, Cluster API 1.11 or later) in a management cluster, without a MachineDeployment.
//
// # Objects
//
// Configure writes, in this order, under one name that is a function of machine id and generation:
//
//	Machine            whose it is stands in its annotations; labels select it
//	Secret or config   bootstrap data, or a clone of a bootstrap template; owned by the Machine
//	infrastructure     a clone of the pool's template; owned by the Machine
//
// The Machine is first, since both others are to end with it: a Secret without an owner outlives the machine whose
// join token it holds. The infrastructure is last, so that what has it is complete. What lacks it
// is reported as Incomplete, and Configure is called again.
//
// # Labels and taints
//
// Cluster API propagates only labels of its own domains to a Node. The driver sets all labels and
// taints of the pool through the fleet cluster's API as soon as there is a Node, in one write.
//
// # Draining
//
// Cluster API drains a node when its Machine is deleted, and spec.deletion.nodeDrainTimeoutSeconds is for how long. The
// driver sets it to the grace that is left, then deletes. Where Cluster API knows no control plane
// of a cluster, it deletes machines without a drain and leaves their Nodes; machines for such a cluster are refused.
//
// # Truth
//
// Nothing is kept in the process but tables that watches fill (package kube). Observe
// reads tables, after they have seen all writes of verbs that have returned.
package clusterapi
