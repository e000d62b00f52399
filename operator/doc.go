// Package operator is one cluster's side of the fleet. It reports the cluster's
// demand, records the machines that the cluster gets, and drains the nodes of
// machines that leave.
//
//	CapacityRequests ── report ──▶ session ──▶ shard
//	UpcomingNodes    ◀── mirror ── session ◀── shard
//	nodes, pods      ◀── drain ───┘
//
// It only ever dials out. One of several replicas leads and holds the session;
// the others wait. Everything that must survive is in the cluster's objects, so a
// replica that takes over reads them and goes on.
//
// The packages below depend on each other only as drawn: rollup sums requests,
// report sends roll-ups and marks requests, session speaks the protocol, mirror
// writes objects, drain empties nodes, bootstrap renders bootstrap data, pods
// makes requests of pods, telemetry counts.
package operator
