package columnar

import (
	"fmt"
	"strings"
	"testing"
)

// TestTexts: whatever is put and removed, every string that is left is at its
// position, and copying what is left gets the memory of the rest back.
func TestTexts(t *testing.T) {
	rng := random(t)
	var x Texts
	at := map[uint32]string{}
	for i := range 20_000 {
		s := strings.Repeat("h", rng.IntN(200)) + fmt.Sprint(i)
		if i%5000 == 77 {
			s = strings.Repeat("long", textChunkBytes/4+rng.IntN(9))
		}
		p := x.Put(s)
		if p == 0 || at[p] != "" {
			t.Fatalf("position %d is given twice, or is 0", p)
		}
		at[p] = s
	}
	for p := range at {
		if rng.IntN(10) > 0 {
			x.Remove(p)
			delete(at, p)
		}
	}
	if !x.Loose() || x.Len() != len(at) {
		t.Fatalf("nine tenths removed: loose %v, %d strings, want %d", x.Loose(), x.Len(), len(at))
	}
	var fresh Texts
	moved := map[uint32]string{}
	for p, s := range at {
		if x.At(p) != s {
			t.Fatalf("position %d holds %.20q, want %.20q", p, x.At(p), s)
		}
		moved[fresh.Put(x.At(p))] = s
	}
	for p, s := range moved {
		if fresh.At(p) != s {
			t.Fatalf("after copying, position %d holds %.20q, want %.20q", p, fresh.At(p), s)
		}
	}
	if fresh.Loose() || fresh.Stored() != x.Stored() || fresh.Bytes() > x.Bytes()/2 {
		t.Errorf("after copying: loose %v, %d bytes stored of %d before, %d held of %d", fresh.Loose(), fresh.Stored(), x.Stored(), fresh.Bytes(), x.Bytes())
	}
}
