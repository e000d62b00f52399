// Package kubee2e tries everything together: real clusters, each with etcd, API
// server, controller manager and scheduler, with both commands of the operator
// under the rights of deploy/rbac, and one shard with one provider, all as
// processes of their own on loopback. What came to pass is watched from outside,
// as somebody with kubectl would see it.
//
// Two things are played. kwok stands for the kubelet: nodes are ready and pods
// run because it says so. The maker of nodes stands for the boot of a machine:
// when the provider has a machine Configured for a cluster, it makes the Node
// there, and removes it when the machine has left.
//
// Machines of tonnage-provider are made by its drivers: processes and guests of
// QEMU by scripts, others by a real Karpenter, whose cloud is played, or by a real
// Cluster API, whose infrastructure is played or in its memory.
//
// The run takes minutes and programs that are built once on a machine, so that it
// has targets of its own: make e2e, make e2e-short.
package kubee2e
