package reuse

import "testing"

func TestCursorsForget(t *testing.T) {
	var c Cursors
	for _, lists := range []int{3, 2, 9} {
		c.Rewind(lists)
		for i := range lists {
			if c.IsSet(i) || c.At(i) != 0 {
				t.Fatalf("list %d of %d: at %d after a rewind", i, lists, c.At(i))
			}
			c.Set(i, i+5)
			if !c.IsSet(i) || c.At(i) != i+5 {
				t.Fatalf("list %d of %d: at %d, set to %d", i, lists, c.At(i), i+5)
			}
		}
	}
	c.round = ^uint32(0)
	c.Set(0, 7)
	if c.Rewind(9); c.IsSet(0) || c.At(0) != 0 {
		t.Errorf("at %d after the rounds began anew", c.At(0))
	}
}
