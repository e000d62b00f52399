package reuse

import "slices"

// MadeAtOnce is how many things are allocated when none are left: the number in use creeps up over many
// cycles.
const MadeAtOnce = 64

// Stock is a free list of things that a cycle borrows, and returns at its end. Things are lent in the
// same order in every cycle, so that each finds the capacity it needed before, and what a cycle
// allocates is not left to chance.
type Stock[T any] struct {
	free []*T // the next to lend is the last
	Lent []*T // in the order of lending, in this cycle
}

// Lend returns a thing, new or as its last user left it.
func (s *Stock[T]) Lend() *T {
	if len(s.free) == 0 {
		made := make([]T, MadeAtOnce)
		for i := range slices.Backward(made) {
			s.free = append(s.free, &made[i])
		}
	}
	n := len(s.free) - 1
	x := s.free[n]
	s.free, s.Lent = s.free[:n], append(s.Lent, x)
	return x
}

// TakeBack ends the loan of all things.
func (s *Stock[T]) TakeBack() {
	for _, x := range slices.Backward(s.Lent) {
		s.free = append(s.free, x)
	}
	s.Lent = s.Lent[:0]
}
