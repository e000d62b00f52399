// Package columnar holds fixed-width columns over row numbers, dictionaries,
// resource vectors and order-keeping permutations: the storage of the engine's
// tables. Elements hold no pointers, so that the collector has nothing to scan.
package columnar
