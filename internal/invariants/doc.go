// Package invariants holds the checks that are too dear for production: they
// are compiled in by the build tag "invariants" and vanish without it.
//
// Memory here is lent, not given: a view of a table, a slice of an arena is good until its lender moves on, and nothing in the type
// system says so. Under the tag the lender counts its epochs, what it lends
// carries the epoch of the loan, and a use after the end of the epoch panics
// where it happens instead of returning another cycle's numbers. Released
// memory is filled with a pattern, so that reads the checks can not see return
// something that no table ever holds.
//
//	go test -tags invariants ./...
//
// Without the tag Epoch and Stamp have no size and their methods no body.
package invariants

// PoisonByte fills memory that was released or must not be read before it is
// written. Every integer made of it is odd, and negative when signed.
const PoisonByte = 0xDB

// Poison fills the bytes with PoisonByte.
func Poison(b []byte) {
	if len(b) == 0 {
		return
	}
	b[0] = PoisonByte
	for n := 1; n < len(b); n *= 2 { // copies, for the race detector looks at each store of a loop
		copy(b[n:], b[:n])
	}
}
