// Package played is an infrastructure provider of Cluster API for tests. It follows the contract of InfraMachines: it
// waits for the bootstrap data, makes a machine, says its providerID and that it is provisioned, and removes it when the
// object is deleted. A machine is a Node that it creates in the cluster that the bootstrap data name, as a kubelet
// would with these. There is no kubelet; kwok is one, or Kubelet plays its report that the Node is Ready.
package played
