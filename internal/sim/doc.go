// Package sim runs a shard in virtual time: the real cycle against the real
// built-in provider, with latencies, faults, losses, restarts and roll-ups
// taken from a scenario, and checks after every cycle what must hold whatever
// happens.
//
// Time is counted in cycles. An event at k happens before cycle k decides; a
// transition that cycle k starts and that takes d cycles is done in the
// snapshot of cycle k+d, with d = 0 within cycle k, after the decision. Every
// random draw comes from the scenario's seed, so a scenario has one trace.
package sim
