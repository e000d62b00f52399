package reuse

// Cursors are positions in many lists, 0 until set. A reset is O(1), by a round number, since a choice
// visits few of the lists.
type Cursors struct {
	list  []cursor
	round uint32
}

// cursor is a position, and the round in which it was set.
type cursor struct{ round, at uint32 }

// Rewind resets all positions to 0 and makes room for a number of lists.
func (c *Cursors) Rewind(lists int) {
	if c.round++; c.round == 0 || len(c.list) < lists {
		c.list, c.round = make([]cursor, max(lists, 2*len(c.list))), 1
	}
}

// Grow makes room for more lists, and keeps the positions.
func (c *Cursors) Grow(lists int) {
	if more := lists - len(c.list); more > 0 {
		c.list = append(c.list, make([]cursor, more)...)
	}
}

// At returns the position in a list.
func (c *Cursors) At(list int) int {
	if x := &c.list[list]; x.round == c.round {
		return int(x.at)
	}
	return 0
}

// IsSet reports whether the position in a list was set since the last rewind.
func (c *Cursors) IsSet(list int) bool { return c.list[list].round == c.round }

// Set sets the position in a list.
func (c *Cursors) Set(list, at int) { c.list[list] = cursor{c.round, uint32(at)} }
