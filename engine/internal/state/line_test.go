package state

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

// TestClaimsAreChains: after any calls the chain of each Need is the list that it stands for.
func TestClaimsAreChains(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const machines, needs = 30, 4
	type list struct {
		rows     []columnar.Row
		credited int // how many of them
	}
	c := NewClaims(alloc.NewArena(alloc.Pass), machines+1)
	var lines [needs]Line
	var want [needs]list
	for step := range 20_000 {
		need := rng.IntN(needs)
		n, w := &lines[need], &want[need]
		switch rng.IntN(8) {
		case 0, 1, 2:
			r := columnar.Row(1 + rng.IntN(machines))
			if c.Of(r) != Unclaimed {
				continue
			}
			if len(w.rows) == w.credited && rng.IntN(2) == 0 {
				c.Claim(r, int32(need), n)
				w.credited++
			} else {
				c.Acquire(r, int32(need), n)
			}
			w.rows = append(w.rows, r)
		case 3, 4:
			if len(w.rows) == 0 {
				continue
			}
			at := rng.IntN(len(w.rows))
			if n.Acquired == w.rows[at] {
				continue // Unlink is for a machine that is not the first acquired one
			}
			c.Unlink(w.rows[at], n)
			if w.rows = slices.Delete(w.rows, at, at+1); at < w.credited {
				w.credited--
			}
		case 5:
			kept, credited := w.rows[:0:0], 0
			for i, r := range w.rows {
				if rng.IntN(3) == 0 {
					c.Release(r)
					continue
				}
				if kept = append(kept, r); i < w.credited {
					credited++
				}
			}
			c.Filter(int32(need), n)
			w.rows, w.credited = kept, credited
		case 6:
			left := rng.IntN(w.credited + 1)
			last := columnar.None
			if left > 0 {
				last = w.rows[left-1]
			}
			for _, r := range w.rows[left:] {
				c.Release(r)
			}
			c.Truncate(n, last)
			w.rows, w.credited = w.rows[:left], left
		case 7:
			for _, r := range w.rows {
				c.Release(r)
			}
			n.Empty()
			w.rows, w.credited = nil, 0
		}
		for i := range lines {
			var got, acquired []columnar.Row
			for n, r := c.Walk(&lines[i]); r != columnar.None; r = c.Next(r, n) {
				if got = append(got, r); c.Of(r) != int32(i) {
					t.Fatalf("step %d: machine %d in the chain of Need %d is claimed by %d", step, r, i, c.Of(r))
				}
			}
			for n, r := c.WalkAcquired(&lines[i]); r != columnar.None; r = c.Next(r, n) {
				acquired = append(acquired, r)
			}
			if !slices.Equal(got, want[i].rows) || !slices.Equal(acquired, want[i].rows[want[i].credited:]) {
				t.Fatalf("step %d: the chain of Need %d is %v, acquired %v; want %v, of these %d credited", step, i, got, acquired, want[i].rows, want[i].credited)
			}
		}
	}
}

// TestUnlinkRefusesAnotherNeedsMachine: it does not walk round for ever.
func TestUnlinkRefusesAnotherNeedsMachine(t *testing.T) {
	c := NewClaims(alloc.NewArena(alloc.Pass), 3)
	var n, other Line
	c.Claim(1, 0, &n)
	c.Claim(2, 1, &other)
	defer func() {
		if recover() == nil {
			t.Error("a machine of another Need was taken off a chain")
		}
	}()
	c.Unlink(2, &n)
}

// TestAtlasKnowsClusters: for every line, also where many small clusters begin in one stretch.
func TestAtlasKnowsClusters(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var sources []Source
	lines := 0
	for range 200 {
		rows := 0
		if rng.IntN(3) == 0 {
			rows = rng.IntN(1000)
		}
		sources = append(sources, Source{Base: int32(lines), Room: RoomFor(rows)})
		lines += RoomFor(rows)
	}
	x := NewAtlas(alloc.NewArena(alloc.Pass), sources, lines)
	for c, src := range sources {
		for line := src.Base; line < src.Base+int32(src.Room); line++ {
			if got := x.ClusterOf(line); int(got) != c {
				t.Fatalf("line %d is of cluster %d, want %d", line, got, c)
			}
		}
	}
}
