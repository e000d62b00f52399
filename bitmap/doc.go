// Package bitmap holds sets of row numbers.
//
// # Two forms
//
// Dense is one bit per row of the table, 62.5 KB for 500,000 rows: a set that
// most rows are tested against during a pass, such as "claimed" or "eligible".
//
// # Kernels
//
// Dense sets are made, combined and counted by loops over words, in
// kernels.go. Those that gain by it have vector twins:
//
//	FilterEqual                the rows of a column that have a value
//	And, AndNot and their      intersection and difference of two sets, stored
//	counts                     or counted; Count is a set with itself
//
// The plain loop is always there. It checks lengths, lets the twin of this
// process (internal/cpu says which) do the leading blocks, and does the rest,
// or everything where there is no twin. So assembly never sees a tail or a
// length that it could get wrong. The twins are written by tools/asm:
//
//	kernels.go → simd_amd64.go → simd_amd64.s
//	           → simd_other.go   other architectures, and the tag purego
//
// Or has no twin: nothing hot uses it.
//
// # Sparse sets
//
// A roaring bitmap is as large as what it holds. The Index keeps one for every
// question that demand asks of the supply.
//
// # The index
//
// A Bucket names a set by how much it says:
//
//	(state, 0, 0)               every machine in the state
//	(state, profile, 0)         … that meets the profile's requirements
//	(state, profile, domain)    … and has that value of the profile's Same key
//
// The three levels are kept side by side rather than computed by intersection,
// because a cycle reads them for every Need and a change touches few: a
// machine that moves from one state to another leaves and enters one bucket
// per level and matching profile. Only profiles and domains that demand uses
// are kept. The owner of the index enters a row at each level; the index does
// not infer one from another.
//
// Buckets are found by hashing. A (state, profile) also keeps its domains in
// ascending order, so that walks over them are the same in every run.
//
// Rows should be numbered so that the rows of one domain are neighbours: then
// a bucket of 25 members is one container; scattered over 500,000 rows it
// would be eight.
//
// # Sequence numbers
//
// A reader who decided something from a bucket can later ask whether the
// bucket is still the same: every change gives it a sequence number that no
// bucket had before. Numbers come from one counter of the whole index, so a
// bucket that was emptied, removed and filled again does not return to an old
// number, and nothing needs to be remembered about buckets that are gone.
//
// # Concurrency
//
// One owner changes the sets. Between changes any number of goroutines may
// read them. Cloning a roaring bitmap copy-on-write writes to its source, so
// clones are the owner's business too.
package bitmap
