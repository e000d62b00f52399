package measure

import (
	"slices"
	"testing"
)

// TestFloorDoesAllOfIt: every row is read twice and every machine is rewritten once, whatever the
// number of workers and however little there is to do.
func TestFloorDoesAllOfIt(t *testing.T) {
	for _, n := range []struct{ rows, machines, workers int }{{1, 1, 1}, {3, 2, 5}, {1000, 777, 3}, {0, 0, 2}} {
		f := newFloor(n.rows, n.machines, n.workers)
		before := slices.Clone(f.words)
		if took := f.run(); took <= 0 {
			t.Errorf("%+v took %v", n, took)
		}
		var sum uint64
		for w := range n.workers {
			sum += f.sums[w*lineWords]
		}
		if want := uint64(n.rows * (lineWords + 1)); sum != want {
			t.Errorf("%+v: the words that were read sum up to %d, want %d", n, sum, want)
		}
		for i, was := range before {
			if f.words[i] != was*3+1 {
				t.Fatalf("%+v: machine %d was rewritten from %d to %d", n, i, was, f.words[i])
			}
		}
		f.close()
	}
}
