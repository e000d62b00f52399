// Package snapshot freezes what one cycle looks at: the supply in the orders
// in which the phases walk it.
//
// Everything is a flat array over row, class or list numbers. The orders are:
//
//   - id order, given by the supply table;
//   - keep order (price ascending, reclamation penalty descending, id);
//   - a list per class of Idle machines in keep order and of Speculative ones
//     in id order (their effective cost is the class's);
//   - per cluster a list of what counts for it: Configured (but for those that
//     depart, see model.Machine.Departs), Configuring, then
//     Creating machines, keep order within each, with those of one class
//     chained.
//
// A place in keep order is a number made of what is compared (see KeepKey), so
// no list of all machines is sorted, and a machine's number stays when others
// change.
//
// # Built anew
//
// Three walks. A row out of turn is a cache miss per column, so two of them are
// over the columns as they lie in memory:
//
//	rows in row order    count: classes, clusters; lists are laid out
//	rows in id order     deal to the lists of classes and clusters
//	rows in row order    describe: places in keep order, Bound
//
// Lists are in id order then. Each cluster's is sorted by itself, stably, by
// state, price and penalty, which is a matter of a few bits; those of Idle
// machines only where penalties differ.
//
// # Brought up to date
//
// When the tables say which rows have changed, and dimensions and clusters are
// what they were, each of these rows leaves the list that it was in (was) and
// enters the one where it belongs now:
//
//	clusters     one array with room behind each list, which is changed in
//	             place; when one is full, it and those beside it are spread anew
//	classes      packed, so written anew beside the old ones, in turns:
//	             copied where nothing changed, merged where something did
//	groups       the same; they are few
//	id ranks     counted again if machines came or went
//
// What may differ is told by cluster (Dirty) and class (FreeDirty). Updated and
// built anew, a snapshot is the same, but for where its lists lie; the
// invariants build compares now and then.
//
// # Memory
//
// Bytes at 500,000 machines, of which half are bound:
//
//	by machine              12   rank of the id, keep, and list
//	                         1   room for more machines
//	by bound machine        28   row and Bound
//	                         5   room for more in each cluster
//	by free machine          8   row, in two generations
//	----
//	by machine, all in      35   39 with what pages leave over
package snapshot
