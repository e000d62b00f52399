// Package web serves the live page of one process: what the shard did in its
// last cycle and in the hours before, for a person who watches it.
//
// The way of a figure:
//
//	shard loop ── Frame ──▶ Feed ──▶ history (three tiers of points)
//	                          │──▶ window  (cycle times, for p50 and p99)
//	                          │──▶ recent  (the last actions)
//	                          ▼
//	              one encoded event per frame, shared by all clients
//	                          │
//	       /api/state (once, with history)   /events (one per cycle)
//
// Three properties hold whatever the fleet's size and whoever watches:
//
//   - The loop never waits for a client. Publish stores the frame and rings a
//     bell of one slot per client; a client that is slow finds only the newest
//     frame when it comes back, so there is no queue to grow.
//   - An event is bounded: a Frame is an aggregate, its lists are cut to the
//     Max constants below and its strings to their limits, so that an event
//     stays under EventBytesMax for 225,000 machines as for 300.
//   - Nobody watching costs nothing but the history: an event is encoded when
//     the first client asks for it.
//
// The package imports nothing of the shard: whoever owns the loop fills a Frame.
// The page itself is plain HTML, CSS and JavaScript modules under assets,
// embedded as they are: no build step and nothing from the internet.
package web
