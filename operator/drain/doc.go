// Package drain empties the nodes of machines that leave the cluster.
//
// A drain is written down first, with its deadline, in the machine's UpcomingNode;
// then the node is cordoned, and only then it counts as begun. Pods are evicted
// through the API, so that disruption budgets hold: a refused eviction is asked
// for again until the deadline. Pods of DaemonSets, mirror pods and finished pods
// are not evicted; they end with the machine.
//
// A drain ends when no pod is left (Drained) or at its deadline (Failed; the object
// names the pods that were left). A process that starts continues the drains that
// are recorded. If the machine stays after all, the cordon is removed, but not one
// that another writer has set: each cordon is a field with an owner.
package drain
