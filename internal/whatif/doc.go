// Package whatif answers what a change would do: the engine decides about a
// world as it is, about the world with the change, and about that world once
// more when nothing can be bought. Each is the same pure call that a shard makes
// every cycle, so the answer is what the shard would do, and asking changes
// nothing.
//
// The third decision is there for the price: beside what buying costs per hour
// stands what preempting would cost instead, and whom.
package whatif
