// Package handover holds tests of machines that change their shard, with the
// real parts on both sides: shards with their memory and reports, and the
// coordinator's service over its core. Only the network, the disks and the
// clock are simulated, so that each process can be crashed at every step and
// restarted with every state that a crash may leave on its disk.
package handover
