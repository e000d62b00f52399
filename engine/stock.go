package engine

import "slices"

// madeAtOnce is how many things are made when there are none left to lend: how
// many are wanted at most creeps up for many cycles.
const madeAtOnce = 64

// stock lends things of one kind to a cycle and has them back after it. The
// first to be lent is the one that was the first in the cycle before: it has room
// for what is likely to come, and what a cycle allocates is not up to chance.
type stock[T any] struct {
	free []*T // the next to be lent last
	lent []*T // in this cycle
}

// lend returns a thing, as it was left or new.
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

// takeBack ends the cycle for all that was lent.
func (s *stock[T]) takeBack() {
	for _, x := range slices.Backward(s.lent) {
		s.free = append(s.free, x)
	}
	s.lent = s.lent[:0]
}
