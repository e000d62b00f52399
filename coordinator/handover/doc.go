// Package handover holds tests of machines that change their shard, with the
// real parts on both sides: shards with their memory and reports, and the
// coordinator's service over its core. Only the network, the disks and the
// clock are the tests' own, so that whoever is at work can be made to crash at
// every step, and come back with each state that a disk may be found in.
package handover
