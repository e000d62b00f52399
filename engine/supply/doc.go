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
// The keys that a matcher looks at split classes, and the class has the value;
// so do keys of hard spread with few values (zones). Keys used only for Same, or
// spread over host names, do not. What domains are formed by has a column with
// the machines' values, whether it splits or not.
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
// # What is remembered
//
// Whether a requirement accepts a value is a pure function, and with a list of
// two hundred instance types a slow one. What long lists said is remembered for
// the process, by fingerprint and confirmed by content, so that classes and
// profiles that come back do not pay again (see verdicts). The cache may lose
// anything: a table that never remembers says the same.
//
// # Memory
//
// What a machine takes at 500,000 machines with ids of 18 bytes, 16 machines to
// a rack, and demand that forms gangs by rack and spreads over zones. A table
// that was told its size (GrowTo) has nothing to spare in the lines marked *,
// another one up to an eighth.
//
//	 4    state, capacity type and the buckets of two penalties
//	20  * cluster, group, host, zone and labels, class: numbers
//	20  * priority, fingerprint, idle clock
//	 8  * keys by which domains are formed: rack and zone, 4 each
//	23    id: the text, its length, its number
//	15  * id: where the text is, and a slot that is four fifths full
//	 5    the order of ids
//	 1    the rows of the latest changes
//	 6    racks: values, and sets of labels, shared by the machines of one
//	 2    sets of rows
//	----
//	104
//
// Price, probability, instance type and resources are the class's; a host whose
// name holds its machine's id is a number (see hosts). A host that does not
// takes the length of its name and a byte more; labels, or a domain, that no
// other machine shares take about 30 bytes and their text.
//
// # Indexes
//
// Roaring bitmaps per (state) and per (state, matcher) are kept with every
// change. Rows are also kept in id order, so that every order that ends in "then
// id" is a stable sort by what stands before it.
package supply
