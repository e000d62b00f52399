// Package store keeps the coordinator's state in etcd: in a member that runs in
// this process, or in a cluster that somebody else runs.
//
// # Who may write
//
// One key names the leader, one key (head) is written by every commit. A commit
// is a transaction that compares both with what this writer last saw:
//
//	leader unchanged   nobody else has claimed leadership since
//	head unchanged     exactly the commits that this writer knows of have happened
//
// So a deposed leader changes nothing. A commit that timed out may have
// happened or not, but never after the next one: if it happened before, the
// next one is refused; if the next one came first, it is refused itself. After
// a commit of unknown fate the leadership must be claimed anew, and everything
// read again.
//
// # Who leads
//
// With a member of its own, a coordinator leads when that member leads the Raft
// group. The term that shards see is the group's term; it is written down with
// the claim, and raised by an offset for good when a cluster was restored from a
// snapshot and counts from the beginning again. With an external etcd the
// leader's key has a lease, and the term counts claims.
//
// # Limits of etcd
//
// A transaction has 128 operations and a request 1.5 MB, so a commit is cut into
// batches of OpsMax writes and BytesMax bytes; every prefix of a commit is a
// valid state. The history of keys is compacted to the last revisions. The
// quota is 2 GiB; the state of 200 shards and 100,000 domains takes some tens
// of megabytes. Files of a member are defragmented at its start.
package store
