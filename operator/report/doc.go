// Package report tells the shard what the cluster asks for, and the requests
// that the shard has heard them.
//
// # What an acknowledgement means
//
// A shard acknowledges a roll-up without saying which, and leaves one that it
// refuses without an answer. Within a session both directions keep their order, so
// the k-th acknowledgement answers the k-th roll-up or a later one. A request is
// therefore heard when every roll-up from the k-th to the newest contained it,
// unchanged. Nothing is marked too early; after a refusal it is marked one
// roll-up later.
//
// The mark is written on condition that the object is still the one that was
// reported; else the next roll-up contains it anew.
package report
