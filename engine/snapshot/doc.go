// Package snapshot freezes what one cycle looks at: the supply in the orders
// in which the phases walk it.
//
// Everything is a flat array over row, class or list numbers in the memory of
// one generation; the next Build reuses it. The orders are:
//
//   - id order, given by the supply table;
//   - keep order (price ascending, reclamation penalty descending, id), one
//     number per row, so that heads of different lists compare as integers;
//   - a list per class of Idle machines in keep order and of Speculative ones
//     in id order (their effective cost is the class's);
//   - per cluster a list per class of what is bound to it: Configured before
//     Configuring, keep order within each.
//
// # How it is built
//
// Three walks, of which only the first is over the columns as they lie in
// memory, because a row out of turn is a cache miss per column:
//
//	rows in row order    count: piles of the keep order, lists, clusters
//	rows in id order     deal into piles; Speculative ones into their lists
//	rows in keep order   deal Idle ones to classes, bound ones to clusters
//
// Keep order is a counting sort: the rows are dealt in id order into one pile
// per (price, penalty), numbered by what occurs. The number of a row's pile is
// noted in the first walk.
package snapshot
