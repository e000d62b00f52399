// Package mirror keeps the objects that show a cluster the shard's messages: an
// UpcomingNode for each of its machines, an AvailableCapacity for each hint.
//
// The operator is their only writer, so it keeps a copy in memory: it reads the
// objects from the API server when a session begins, and updates the copy from
// the answer to every write. Equal objects are not written again. A write is a
// server-side apply of all fields that the operator sets, so that a field that it
// no longer sets is removed.
//
// At the beginning of a session the shard tells every machine anew. What no
// update has mentioned once the session has settled is removed.
package mirror
