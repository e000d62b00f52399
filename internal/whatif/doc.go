// Package whatif answers what a change would do: the engine decides about a
// world as it is, about the world with the change, and about that world once
// more when nothing can be bought. Each is the same pure call that a shard makes
// every cycle, so the answer is what the shard would do, and asking changes
// nothing.
//
// The third decision compares prices: it shows, beside the cost of buying per
// hour, which Needs preemption would take machines from instead.
package whatif
