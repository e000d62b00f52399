package engine

// cursors are places in many lists, all 0 until set. To forget them takes the
// same however many there are: a choice looks at few of the lists that it could.
type cursors struct {
	list  []cursor
	round uint32
}

// cursor is a place that was set in some round.
type cursor struct{ round, at uint32 }

// rewind forgets what was set, and makes room for a number of lists.
func (c *cursors) rewind(lists int) {
	if c.round++; c.round == 0 || len(c.list) < lists {
		c.list, c.round = make([]cursor, max(lists, 2*len(c.list))), 1
	}
}

// grow makes room for more lists.
func (c *cursors) grow(lists int) {
	if more := lists - len(c.list); more > 0 {
		c.list = append(c.list, make([]cursor, more)...)
	}
}

// at returns the place in a list.
func (c *cursors) at(list int) int {
	if x := &c.list[list]; x.round == c.round {
		return int(x.at)
	}
	return 0
}

// isSet reports whether the place in a list was set.
func (c *cursors) isSet(list int) bool { return c.list[list].round == c.round }

func (c *cursors) set(list, at int) { c.list[list] = cursor{c.round, uint32(at)} }
