package engine

import "slices"

// stock lends things of one kind to a cycle and has them back after it. The
// first to be lent is the one that was the first in the cycle before: it has room
// for what is likely to come, and what a cycle allocates is not up to chance.
type stock[T any] struct {
	free []*T // the next to be lent last
	lent []*T // in this cycle
}

// lend returns a thing, as it was left or new.
func (s *stock[T]) lend() *T {
	n := len(s.free)
	if n == 0 {
		s.free, n = append(s.free, new(T)), 1
	}
	x := s.free[n-1]
	s.free, s.lent = s.free[:n-1], append(s.lent, x)
	return x
}

// takeBack ends the cycle for all that was lent.
func (s *stock[T]) takeBack() {
	for _, x := range slices.Backward(s.lent) {
		s.free = append(s.free, x)
	}
	s.lent = s.lent[:0]
}
