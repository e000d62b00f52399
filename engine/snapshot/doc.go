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
// Keep order comes from a counting sort: the rows are dealt in id order into
// one pile per (price, penalty), and there are few of those.
package snapshot
