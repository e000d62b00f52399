package engine

import "slices"

// madeAtOnce is how many things are allocated when none are left: the number in use creeps up over many
// cycles.
const madeAtOnce = 64

// stock is a free list of things that a cycle borrows, and returns at its end. Things are lent in the
// same order in every cycle, so that each finds the capacity it needed before, and what a cycle
// allocates is not left to chance.
type stock[T any] struct {
	free []*T // the next to lend is the last
	lent []*T // in the order of lending, in this cycle
}

// lend returns a thing, new or as its last user left it.
func (s *stock[T]) lend() *T {
	if len(s.free) == 0 {
		made := make([]T, madeAtOnce)
		for i := range slices.Backward(made) {
			s.free = append(s.free, &made[i])
		}
	}
	n := len(s.free) - 1
	x := s.free[n]
	s.free, s.lent = s.free[:n], append(s.lent, x)
	return x
}

// takeBack ends the loan of all things.
func (s *stock[T]) takeBack() {
	for _, x := range slices.Backward(s.lent) {
		s.free = append(s.free, x)
	}
	s.lent = s.lent[:0]
}
