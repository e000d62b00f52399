// Package stuck looks for pods that the scheduler finds no node for although the
// machines of their row add up to what its pods ask for, and asks for more.
//
// A shard compares sums: a row is satisfied when its machines together have what its
// requests together ask for. Sums do not see that the room that is left is in pieces, so
// a few pods of a row may stay pending for ever.
//
// A pod that has been unschedulable for [Config.After], whose request the shard has
// acknowledged, and for which no machine is on its way, is stuck. Its row then gets packing
// overhead: a CapacityRequest that adds the room which the row's nodes have left, and which
// its pods cannot use, to the row's sum. With it, the row asks for its nodes and the pods that
// are pending, and a machine is bought. When pods are still stuck after twice that time, and no machine
// came, what they ask for is added again, each time twice as much, up to what all nodes have that
// they may run on. When machines came and did not help, it is added again, five times at most: others may have been first on them.
//
// Nothing is asked for a pod that would not run on an empty machine either. An event on the
// pod says why.
//
// Overhead is taken back when nothing has been stuck for [Config.Keep]: down to the room that the
// row's nodes have left, and below that by the largest node if the row's pods, packed anew, fit
// without it. So it does not go to and fro.
package stuck
