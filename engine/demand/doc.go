// Package demand is the NeedsTable: per cluster the complete demand that its
// operator last reported.
//
// A roll-up replaces a cluster's rows as a whole, never merges; an empty one
// clears them. Each cluster's rows live in one block of columns that is built
// aside and swapped in, so that a refused roll-up leaves the last good one
// untouched. Profiles are interned over all clusters by their canonical form,
// not by fingerprint alone: a hash collision cannot merge two profiles.
//
// # Layout
//
// A block is columns without pointers, 21 bytes a row and 8 more per resource
// dimension. Aggregates differ from row to row and lie one after the other;
// minimum units repeat and are kept once per block; groups are pieces of one
// string. Vectors are as long as the table knew dimensions when the block was
// built; the table forgets dimensions only when there are too many.
package demand
