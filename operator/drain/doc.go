// Package drain empties the nodes of machines that leave the cluster.
//
// A drain is written down first, with its deadline, in the machine's UpcomingNode;
// then the node is cordoned, and only then it counts as begun. Pods are evicted
// through the API, so that disruption budgets hold: a refused eviction is asked
// for again until the deadline. Pods of DaemonSets, mirror pods and finished ones
// stay; they leave with the machine.
//
// A drain ends when nothing is left (Drained) or at its deadline (Failed, and the
// object says who was left). A process that starts goes on with the drains that it
// finds written down. When the machine turns out to stay, the cordon is taken back,
// but not one that somebody else had put there: both are fields with owners.
package drain
