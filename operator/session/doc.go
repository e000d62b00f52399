// Package session holds one cluster's session with its shard: the operator
// dials, says who it is, reports what the cluster needs, and carries out what it
// is told.
//
// # Ends and begins
//
// A session that fails in any way is ended as a whole and another one is begun,
// after a pause that doubles from half a second to thirty, each with a random
// part left off. A session that lasted sets the pause back. Several addresses are
// tried in turn; after a session that lasted the same one is tried first. The
// shard tells the state of every machine anew at the beginning, so nothing that
// was under way needs to be kept.
//
// # Reports
//
// One roll-up is under way at a time: the next one is made when it is due and the
// last one was acknowledged, or was not for too long. It is made in the moment in
// which it is sent, so it is always the newest. A shard does not say that it
// refuses a roll-up, it only does not acknowledge it; after a few without an
// answer the session is ended.
//
// Between those of the period, one is made when the demand has grown and then
// nothing was added for a while. The reporter may withhold it.
//
// # Replies
//
// Replies wait in a bounded outbox; a reply to the same question replaces the
// older one, and when it is full the newest is dropped and counted.
//
// # What is told
//
// Messages about one machine are carried out in their order, different machines
// at the same time, but never more than a fixed number of them. A newer state of
// a machine replaces one that still waits. What fails is tried again until it is
// replaced or the session ends. Requests for bootstrap data do not wait behind
// any of that.
package session
