// Package stuck looks for pods that the scheduler finds no node for although the
// machines of their row add up to what its pods ask for, and asks for more.
//
// A shard compares sums: a row is satisfied when its machines together have what its
// requests together ask for. Sums do not see that the room that is left is in pieces, so
// a few pods of a row may stay pending for ever, and a machine may be given back whose pods fit
// nowhere else.
//
// Rows that are alike but for the sizes of their pods are a family. For one family of the cluster there is a plan, in one
// CapacityRequest: its rows ask for the machines that it has and is promised, whole, and for the pods that find no room, with
// a smallest unit of theirs. Each machine is in one row, and no other row can take it. A machine is given back when
// its pods would have found room on the others for [Config.Keep].
//
// Other rows have packing overhead: a CapacityRequest that says what the row asks for at the least.
//
// A pod that has been unschedulable for [Config.After], and for which no machine is on its way, is stuck; where there is no plan,
// the shard must have acknowledged its request as long ago. What is pending then comes on top of what the row's
// pods and the room on its nodes are, and a machine is bought. When pods are still stuck after twice that time, and no machine
// came although the shard does not answer that it is short of machines for them, what they ask for is added again, each time
// twice as much, up to what all nodes have that they may run on; in a plan up to four times as much. When machines came and did not help, it is added again, five times at most: others may have been first on them.
//
// Nothing is asked for a pod that would not run on an empty machine either. An event on the
// pod says why.
//
// Overhead is taken back when it was spare for [Config.Keep]: what is more than the machines in use, and machines whose
// pods find room on the row's other nodes. So it does not go to and fro.
package stuck
