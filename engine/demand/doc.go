// Package demand is the NeedsTable: per cluster the complete demand that its
// operator last reported.
//
// A roll-up replaces a cluster's rows as a whole, never merges; an empty one
// clears them. Profiles are interned over all clusters by their canonical form,
// not by fingerprint alone: a hash collision cannot merge two profiles.
//
// # The way in
//
// A Builder collects a roll-up's rows as columns, with numbers of its own for
// profiles, dimensions and minimum units. It knows no table, so sessions read
// side by side, and no lock is held meanwhile. Table.Report and Table.Install
// then take the rows over as a whole:
//
//	Builder                     Table
//	 rows ── checked one by one
//	 dimensions used      ─────▶ numbers found, limits of all clusters checked
//	                             ---- from here on nothing is refused ----
//	 profiles, vectors, groups ▶ numbers found or given, holders counted
//	 columns              ─────▶ compared with the cluster's block, row by row,
//	                             and written over it where they differ
//
// So a refused roll-up leaves the last good one untouched, a report of the same
// size takes no new memory, and what differs is known row by row.
//
// # Layout
//
// A block is columns without pointers: a row takes 20 bytes and a bit, and 4 more
// if any row of the cluster has a group. Aggregates, minimum units and groups
// repeat, so rows have numbers, and the things they number are kept once for all
// clusters: a walk in rank order finds what each wants in a table that fits the
// cache. Numbers are counted by the rows that have them and given to others when
// none has; 0 is no group, and the vector of nothing.
//
// The engine reads whole columns (Block.Profiles, AggregateIDs and so on) and
// compares groups, vectors and profiles by number.
//
// # What changed
//
// Table.Version moves exactly when something that decisions depend on does, and
// Table.Changes names the rows that may differ from an earlier version, from a
// log of bounded length. Equal demand that is reported again changes nothing;
// Report sees to it that a roll-up's new time stamp alone does not either.
package demand
