// Package node is one coordinator process from start to end: its member of
// the Raft group, its services, and its HTTP endpoints.
//
// # How a group comes about
//
// All replicas are started alike, with --bootstrap and --join-addr. What one
// does at its start depends on its disk:
//
//   - With state it takes its place in the group again, wherever it is now.
//   - Without state, it asks the others. If any of them has state it joins, as a
//     learner, and votes once it has caught up. Thus a replica that lost its
//     disk never forms a second group.
//   - Without state, when no other has any either, the replica whose name ends in
//     -0 (or any, when it has nobody to ask) starts the group, and the others wait
//     for it.
//
// The services listen before all this, so that replicas can ask each other.
package node
