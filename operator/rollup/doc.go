// Package rollup adds up what a cluster asks for. Thousands of CapacityRequests
// become a few rows: requests that ask for the same kind of machine, at the same
// priority and penalties, in the same group, are one row with the sum of their
// resources and, per resource, the largest single amount.
//
// It is a function of the requests alone. The same set gives the same rows in
// the same order, whatever order it was listed in.
//
// A shard accepts a roll-up as a whole or not at all, so one request that it
// would not understand could silence a cluster. Such requests are left out here
// and returned with the reason.
//
// # How
//
// The canonical form of what makes a row (requirements sorted, values sorted and
// unique, spread, priority, buckets, group) is written into one buffer, and the
// row is looked up by those bytes. Nothing is allocated for a request whose row is
// there. Amounts are counted in the units of the engine: thousandths of a core,
// bytes, pieces; each request is rounded up to them.
//
// What was read in a request is remembered with its row, by the object: of those
// that have not changed only the sums are made anew.
package rollup
