// Package fleetview answers what people ask about the fleet of a running
// process: which Needs are short and why, what a machine serves, what a rack could
// hold, what changed in the last hour.
//
//	Shard ── Decided, Observe ──▶ Recorder ── Frame ─────▶ web.Feed
//	  │                            │  unmet Needs of the last cycle
//	  │                            │  History: events of the last cycles
//	  └───── Inspect ─────▶ fleet  │
//	                          │    ▼
//	                          └▶ View ── answers ─────────▶ /api/v1/…
//
// A Recorder belongs to one shard and sees every cycle. What it keeps is bounded
// and does not depend on who asks: the unmet Needs of the last cycle, at most
// UnmetKeptMax, and a History of events. It costs O(rows of the demand) and O(machines
// that changed) a cycle.
//
// A View joins the recorders of all shards of a process. Lists and the map come from
// a copy of the machines (fleet), which is made when somebody asks, with the shard
// locked, and used again for a while: the time for which the shards are locked stays below
// one in fleetRest. Answers about one object read the tables directly.
//
// Questions that need a decision (explain, what-if) decide again about a copy of the world,
// one at a time. Nothing here changes anything.
package fleetview
