package demand

import (
	"slices"
	"testing"
)

// TestVectorsAreTheSameInAnyOrder: maps on the wire have none, so a vector comes in
// many, and counts once.
func TestVectorsAreTheSameInAnyOrder(t *testing.T) {
	var s vectorSet
	v := []Amount{{0, 4}, {2, 5}, {7, 6}}
	first := s.put(v)
	for _, order := range [][3]int{{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		given := []Amount{v[order[0]], v[order[1]], v[order[2]]}
		was := slices.Clone(given)
		if got := s.put(given); got != first || s.len() != 1 {
			t.Errorf("%v has number %d, want %d; %d are known", given, got, first, s.len())
		}
		if !slices.Equal(given, was) {
			t.Errorf("what was given, %v, became %v", was, given)
		}
	}
	if other := s.put([]Amount{{2, 5}, {0, 4}}); other == first || s.len() != 2 {
		t.Errorf("another vector has number %d; %d are known", other, s.len())
	}
}
