// Package reference is the slow, obvious twin of the engine: the same contract
// (docs/explanation/contract.md) written with maps, sorts and loops, in one sequential pass, so that a reader
// can hold each function against the rule that it states. Tests and the
// simulator compare the engine's plans with it; production never imports it,
// and it imports nothing of the engine but the vocabulary in model.
//
// # The pass
//
//	normalise   rows → Needs in rank order; gangs that fit one machine fold
//	phase 1     for each Need: credit what is bound, acquire Idle, then Speculative
//	phase 2     for each unsatisfied Need: victims of strictly lower priority
//	phase 3     reclaim what nobody claims, delete what nobody needs
//
// All of it is a function of Input: no clock, no randomness, and no order of
// the input matters except that of the rows inside a cluster.
//
// # What is exact
//
// Coverage of a domain is compared with rationals. Effective cost and victim
// score are float64, computed in the order in which their formulas are
// written; each product is rounded before it is added, so a fused
// multiply-add cannot change a comparison.
//
// # Words
//
// A machine is usable for a Need when it matches the profile, covers the
// minimum unit by itself and has something of a dimension that the Need asks
// for. It is useful when it has something of a dimension still missing; a walk
// passes over machines that are not, and leaves them to others. A Need's own
// machines carry its stamp; its own reservations name it as their owner.
package reference
