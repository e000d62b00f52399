// Package mirror keeps the objects in which a cluster can read what the shard
// told: an UpcomingNode for each of its machines, an AvailableCapacity for each
// hint.
//
// The operator is their only writer, so a book in memory says what they are: it
// is read from the API server when a session begins, and takes over the answer to
// every write. What is equal already is not written. Writes are server-side
// applies of everything that the operator means, so that a field that is no
// longer meant goes away.
//
// At the beginning of a session the shard tells every machine anew. What no
// update has mentioned once the session has settled is removed.
package mirror
