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
// Keys that demand uses only for Same or spread do not split classes; each has
// a column of its own with the machine's value.
//
// # Indexes
//
// Roaring bitmaps per (state), per (state, matcher) and, for matchers with a
// Same key, per (state, matcher, domain value) are kept with every change.
// Rows are also kept in id order, so that every order that ends in "then id"
// is a stable sort by what stands before it.
package supply
