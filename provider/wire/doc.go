// Package wire writes what a provider answers as the protocol has it, a
// bigfleet.v1alpha1.MachineList record by record, without making objects of it. A record
// is written once, when the machine changes, and goes into every listing as it is.
//
// It is the inverse of the reader below the shard: what is written here is read there.
package wire
