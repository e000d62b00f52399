package alloc

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/invariants"
)

// random returns a generator whose seed is printed when the test fails and can
// be repeated with TONNAGE_SEED.
func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("TONNAGE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TONNAGE_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("TONNAGE_SEED=%d repeats this run", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}

func TestSlabAgainstMap(t *testing.T) {
	rng := random(t)
	var s Slab[triple]
	twin := map[Handle]triple{}
	var live []Handle
	for step := range 50_000 {
		switch op := rng.IntN(100); {
		case op < 55 || len(live) == 0:
			h := s.New()
			if _, used := twin[h]; used || h == 0 {
				t.Fatalf("step %d: handle %d is in use already or none", step, h)
			}
			if *s.At(h) != (triple{}) {
				t.Fatalf("step %d: a new slot holds %+v", step, *s.At(h))
			}
			v := triple{uint8(step), rng.Uint64(), uint16(step)}
			*s.At(h), twin[h] = v, v
			live = append(live, h)
		case op < 99:
			i := rng.IntN(len(live))
			h := live[i]
			if *s.At(h) != twin[h] {
				t.Fatalf("step %d: handle %d holds %+v, want %+v", step, h, *s.At(h), twin[h])
			}
			s.Free(h)
			delete(twin, h)
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
		case rng.IntN(200) == 0:
			s.Reset()
			clear(twin)
			live = live[:0]
		}
		if s.Len() != len(twin) {
			t.Fatalf("step %d: %d in use, want %d", step, s.Len(), len(twin))
		}
	}
	if u := s.Usage(); u.Used != int64(len(twin))*24 || u.Reserved < u.Used {
		t.Errorf("usage %+v with %d slots of 24 bytes", u, len(twin))
	}
}

func TestSlabReusesTheLatestSlot(t *testing.T) {
	var s Slab[uint64]
	a, b := s.New(), s.New()
	s.Free(a)
	s.Free(b)
	if got := s.New() & slotMask; got != b&slotMask {
		t.Errorf("slot %d, want the one given back last, %d", got, b&slotMask)
	}
	if got := s.New() & slotMask; got != a&slotMask {
		t.Errorf("slot %d, want %d", got, a&slotMask)
	}
}

func TestSlabAddressesStay(t *testing.T) {
	var s Slab[uint64]
	first := s.New()
	p := s.At(first)
	for range 5000 {
		s.New()
	}
	if s.At(first) != p {
		t.Error("the address of a slot moved when the slab grew")
	}
}

func TestSlabMisuse(t *testing.T) {
	var s Slab[uint64]
	mustPanic(t, "At(0) of an empty slab", func() { s.At(0) })
	h := s.New()
	mustPanic(t, "At of a handle never given out", func() { s.At(h + 1) })
	mustPanic(t, "a slab of strings", func() { new(Slab[string]).New() })
	s.Free(h)
	if invariants.Enabled {
		mustPanic(t, "use after Free", func() { s.At(h) })
		mustPanic(t, "double Free", func() { s.Free(h) })
		s.New()
		mustPanic(t, "use of a handle whose slot serves another", func() { s.At(h) })
	}
}

func TestSlabSteadyAllocatesNothing(t *testing.T) {
	var s Slab[triple]
	var hs [100]Handle
	if n := testing.AllocsPerRun(100, func() {
		for i := range hs {
			hs[i] = s.New()
		}
		for _, h := range hs {
			s.Free(h)
		}
	}); n != 0 {
		t.Errorf("%v allocations in a steady round, want 0", n)
	}
}

// FuzzArena makes slices of the sizes that the bytes spell, with resets in
// between, and checks that none lies on another of its generation.
func FuzzArena(f *testing.F) {
	f.Add([]byte{1, 2, 0, 250, 255, 3, 0, 252})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			return
		}
		a := NewArena(Pass)
		defer a.Close()
		var live [][]uint16
		for i, op := range script {
			if op == 0 {
				a.Reset()
				live = live[:0]
				continue
			}
			n := int(op)
			if op > 240 {
				n = int(op-240) * (ChunkBytes / 16)
			}
			s := Make[uint16](a, n)
			for j := range s {
				if s[j] != 0 {
					t.Fatalf("request %d: element %d is not zero", i, j)
				}
				s[j] = uint16(len(live) + 1)
			}
			live = append(live, s)
		}
		for i, s := range live {
			if s[0] != uint16(i+1) || s[len(s)/2] != uint16(i+1) || s[len(s)-1] != uint16(i+1) {
				t.Fatalf("slice %d of %d elements was overwritten", i, len(s))
			}
		}
	})
}
