// Package columnar holds row numbers, dictionaries, resource vectors and
// order-keeping permutations: what the columns of the engine's tables are made of. Elements hold no pointers, so that the collector has nothing to scan.
//
// # Layout
//
// A table is a set of columns, plain slices with one row number, given by Rows:
//
//	row        0      1      2      3      4      5
//	state   [  ·   | Idle | Idle | Conf |  ·   | Idle ]   []uint8
//	price   [  ·   | 0.10 | 0.10 | 0.48 |  ·   | 0.10 ]   []float64
//	type    [  ·   |   1  |   1  |   2  |  ·   |   1  ]   []uint32 of a Dict
//	vector  [  ·   |   1  |   1  |   2  |  ·   |   1  ]   []uint32 of a Vectors
//	                                       └ free: the next row given out
//
// Row 0 exists in every column and stays zero, so that "none" can be read like
// any row and a loop needs no test for it. Everything of variable width is
// interned and referred to by number: strings in a Dict, resource vectors in a
// Vectors. Both number from 1 in the order of first occurrence and reserve 0
// for "nothing", so equal histories give equal numbers, whatever the hash.
//
// # Hashing
//
// Dict and Vectors find by open addressing over 64-bit slots: the upper half
// of the xxhash64 beside the place of the key. The home of an entry is given by
// that half, so a table grows without looking at a key again,
// and a key is compared only where 32 bits agree already: a look-up touches one
// line of slots and one key. LookupAll does this for 64 keys at a time, stage
// by stage, so that the cache misses of different keys overlap.
//
// # Kernels
//
// The arithmetic of resource vectors has no vector twins: a vector has 2 to 8
// values, fewer than a call of assembly costs.
//
// # Order
//
// Perm keeps rows in an order that is expensive to establish and rarely
// changes, such as machines by id. A bulk build sorts by 8-byte pieces of the
// strings with a radix sort; a change costs a few comparisons per row that
// changes and one pass over the ranks behind it; no change costs nothing.
package columnar
