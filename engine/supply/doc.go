// Package supply is the machine table: up to 500,000 machines as columns over
// row numbers, with the indexes that the cycle walks.
//
// # Layout
//
// A machine is a row. What it is made of is interned: shapes (resource
// vectors), label sets, clusters, instance types and zones repeat thousands of
// times and are held once. Two derived columns carry the decision:
//
//   - A matcher is a set of requirements that some demand uses, the Same
//     requirement included as "has the attribute". Profiles that differ in
//     priority or penalties share a matcher.
//   - A class is a set of machines that no demand in use can tell apart except
//     by id, stamp and topology domain: equal shape, price, probability, drain
//     behaviour (instance type) and equal values of every attribute that a
//     matcher looks at. Whether a matcher accepts a machine is decided once
//     per (matcher, class).
//
// Every key that demand uses has a column with the machines' values. Keys that
// a matcher looks at split classes; so do keys of hard spread with few values
// (zones); keys used only for Same, or spread over host names, do not.
//
// # Lifetimes
//
// Machines, names, label sets and shapes are counted by who refers to them and
// go with the last one; their numbers, and rows, are given out again. What
// demand makes the table keep track of goes after an hour of cycles in which
// no demand used it: matchers with their sets, keys with their columns (the
// classes are then formed anew), all sooner when there are many. So neither
// KeysMax nor DimsMax counts what once was.
//
// A row costs 72 bytes of columns, 8 for the id order and 4 for each key, id
// and host name about as much again; see Memory.
//
// # Indexes
//
// Roaring bitmaps per (state), per (state, matcher) and, for matchers with a
// Same key, per (state, matcher, domain value) are kept with every change.
// Rows are also kept in id order, so that every order that ends in "then id"
// is a stable sort by what stands before it.
package supply
