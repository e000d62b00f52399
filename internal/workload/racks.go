package workload

// gangRacks are the free machines of an archetype by rack, and the racks by
// how many machines they have free.
type gangRacks struct {
	free  map[int32][]int32
	order []int32 // of the racks
	room  [rackMachines + 1][]int32
}

// newGangRacks returns the racks of slots of which the first has the number
// base.
func newGangRacks(slots []slot, base int) gangRacks {
	g := gangRacks{free: map[int32][]int32{}}
	for i := range slots {
		rack := slots[i].rack
		if len(g.free[rack]) == 0 {
			g.order = append(g.order, rack)
		}
		g.free[rack] = append(g.free[rack], int32(base+i))
	}
	for _, rack := range g.order {
		n := len(g.free[rack])
		g.room[n] = append(g.room[n], rack)
	}
	return g
}

// take takes n machines from the rack with least room that has them; nil when
// there is none.
func (g *gangRacks) take(n int) []int32 {
	for m := n; m < len(g.room); m++ {
		if len(g.room[m]) > 0 {
			return g.takeFrom(m, n)
		}
	}
	return nil
}

// takeRoomiest takes n machines from the rack with most room.
func (g *gangRacks) takeRoomiest(n int) []int32 {
	for m := rackMachines; m >= n; m-- {
		if len(g.room[m]) > 0 {
			return g.takeFrom(m, n)
		}
	}
	return nil
}

// takeFrom takes n machines from the first rack with m free.
func (g *gangRacks) takeFrom(m, n int) []int32 {
	rack := g.room[m][0]
	g.room[m] = g.room[m][1:]
	taken := g.free[rack][:n]
	g.free[rack] = g.free[rack][n:]
	g.room[m-n] = append(g.room[m-n], rack)
	return taken
}
