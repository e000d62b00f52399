package engine

import (
	"testing"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

// TestMemoryOfAPlanIsThatOfItsLists: what they are long, and what they have room for.
func TestMemoryOfAPlanIsThatOfItsLists(t *testing.T) {
	var none Plan
	if got := none.Memory(); got != (alloc.Usage{}) {
		t.Errorf("a plan without lists holds %+v", got)
	}
	// An Action has 32 bytes, a number of a row 4, an Adopted 8.
	p := Plan{Actions: make([]Action, 2, 5), Ended: make([]columnar.Row, 3, 4), Adopted: make([]Adopted, 0, 10)}
	if got, want := p.Memory(), (alloc.Usage{Used: 2*32 + 3*4, Reserved: 5*32 + 4*4 + 10*8}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
