package acquire

import (
	"math/rand/v2"
	"testing"
)

// TestMemoFinds: what was remembered last for a key and what is missing is found, and nothing else; nothing is after
// the memo was cleared.
func TestMemoFinds(t *testing.T) {
	const seed, passes, steps, keys = 1, 4, 20_000, 9_000
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	var m fitMemo
	for pass := range passes {
		m.clear()
		want := map[int64]int32{}
		for step := range steps {
			x := r.Int64N(keys)
			key, missing := fitKey{kind: uint32(x % 7), stage: int8(x % 2)}, []int64{x, x / 3}
			e := m.find(key, missing)
			if ample, known := want[x]; known != (e != nil) || known && e.ample != ample {
				t.Fatalf("pass %d, step %d: found %+v for %d, remembered: %v, %d", pass, step, e, x, known, ample)
			}
			if e == nil || r.IntN(4) == 0 {
				want[x] = int32(step)
				m.end(m.add(key, missing, step))
			}
		}
		if len(m.entries) < keys {
			t.Errorf("pass %d: %d choices, too few to fill the slots", pass, len(m.entries))
		}
		m.reopened++
		if e := m.find(fitKey{}, []int64{0, 0}); e != nil {
			t.Errorf("pass %d: %+v is found although a class has machines again", pass, e)
		}
	}
}

// TestMemoIsBounded: a full memo takes no more, and still finds what it has.
func TestMemoIsBounded(t *testing.T) {
	var m fitMemo
	for x := range int64(fitMemoMax) {
		m.end(m.add(fitKey{}, []int64{x}, int(x)))
	}
	if e := m.add(fitKey{}, []int64{fitMemoMax}, 0); e != nil {
		t.Errorf("a full memo takes another choice")
	}
	for x := range int64(fitMemoMax) {
		if e := m.find(fitKey{}, []int64{x}); e == nil || int64(e.ample) != x {
			t.Fatalf("found %+v for %d", e, x)
		}
	}
}
