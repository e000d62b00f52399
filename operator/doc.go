// Package operator is one cluster's side of the fleet. It reports what the cluster
// asks for, writes down what it gets, and empties the nodes that it has to give
// back.
//
//	CapacityRequests ── report ──▶ session ──▶ shard
//	UpcomingNodes    ◀── mirror ── session ◀── shard
//	nodes, pods      ◀── drain ───┘
//
// It only ever dials out. Of several replicas one leads and holds the session;
// the others wait. Everything that must survive is in the cluster's objects, so a
// replica that takes over reads them and goes on.
//
// The packages below know nothing of each other but what is drawn: rollup adds up,
// report tells and marks, session speaks, mirror writes, drain empties, bootstrap
// renders, pods makes requests of pods, telemetry counts.
package operator
