// Package modelshard is the shard's side of domains and hand-overs, in its
// smallest form: what a shard must keep on its disk, in which order, and what it
// answers. Tests of the coordinator run against it; nothing of it goes into the
// binary.
//
// A shard keeps three sets durable beside the machines that its domains give it:
//
//   - what it gave away, by machine, so that a full listing does not adopt it again;
//   - what it received, by machine, although its domains do not cover it;
//   - hand-overs that it released and has not been told are settled.
//
// Release writes the first and the last in one step, before anything is said
// about it. Adopt writes the second before the machine is used. Both are
// idempotent: a repeat gets the first answer.
package modelshard
