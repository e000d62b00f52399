package engine

import "testing"

func TestCursorsForget(t *testing.T) {
	var c cursors
	for _, lists := range []int{3, 2, 9} {
		c.rewind(lists)
		for i := range lists {
			if c.isSet(i) || c.at(i) != 0 {
				t.Fatalf("list %d of %d: at %d after a rewind", i, lists, c.at(i))
			}
			c.set(i, i+5)
			if !c.isSet(i) || c.at(i) != i+5 {
				t.Fatalf("list %d of %d: at %d, set to %d", i, lists, c.at(i), i+5)
			}
		}
	}
	c.round = ^uint32(0)
	c.set(0, 7)
	if c.rewind(9); c.isSet(0) || c.at(0) != 0 {
		t.Errorf("at %d after the rounds began anew", c.at(0))
	}
}
