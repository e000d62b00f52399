package workload

import (
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// layOut makes the machines of one archetype. Machines go to the zones in
// turn, and inside a zone to racks of 16, so that any run of consecutive
// machines is balanced over the zones and a rack holds one archetype.
func (f *Fleet) layOut(a, configured, idle, speculative int) {
	t := &f.catalog[a]
	if t.isGang() && t.share > 0 {
		// Every zone must be able to hold the largest gang.
		speculative = max(speculative, int(t.gang[1])*len(zones)-configured-idle)
	}
	base := len(f.slots)
	f.slotStart = append(f.slotStart, base)
	total := configured + idle + speculative
	shapes := f.addShapes(a)
	rackBase := len(f.racks)
	for i := range total {
		tier := tierSpeculative
		switch {
		case i < configured:
			tier = tierConfigured
		case i < configured+idle:
			tier = tierIdle
		}
		f.slots = append(f.slots, slot{
			rack:  int32(rackBase + i/len(zones)/rackMachines*len(zones) + i%len(zones)),
			zone:  uint8(i % len(zones)),
			tier:  tier,
			shape: shapes.at(i),
		})
	}
	f.addRacks(rackBase, total)
	if t.isGang() && !t.foldable() && f.rung.kind == kindCatalog {
		f.placeGangs(a, base, idle)
	}
	f.setCapacity(base)
}

// addRacks makes the labels of the racks that total machines stand in; rack k
// of an archetype lies in zone k mod 3.
func (f *Fleet) addRacks(base, total int) {
	n := len(zones)
	for k := 0; k/n*n*rackMachines+k%n < total; k++ {
		zone := zones[k%n]
		f.racks = append(f.racks, map[string]string{
			keyRack: fmt.Sprintf("%s-rack-%d", zone, (base+k)/n),
		})
	}
	// The next archetype starts at a multiple of the zones, so that the rack's
	// number and zone stay functions of its position.
	for len(f.racks)%n != 0 {
		f.racks = append(f.racks, nil)
	}
}

// setCapacity sets how the machines from base on are paid for: hosts are bare
// metal and on-demand, slots on-demand and spot, in turn inside each tier.
func (f *Fleet) setCapacity(base int) {
	var n [3]int
	for i := base; i < len(f.slots); i++ {
		s := &f.slots[i]
		k := n[s.tier]
		n[s.tier]++
		// The tens digit keeps the halves independent of sizes, zones and types,
		// which repeat with 10, 3 and 2.
		first := (k+k/10)%2 == 0
		switch {
		case s.tier == tierSpeculative && first:
			s.capacity = model.OnDemand
		case s.tier == tierSpeculative:
			s.capacity = model.Spot
		case first:
			s.capacity = model.BareMetal
		default:
			s.capacity = model.OnDemand
		}
	}
}

// shapeCycle picks the shape of an archetype's i-th machine.
type shapeCycle struct {
	larger float64 // share of machines of the larger pod size
	types  [2][]uint16
}

// addShapes makes the archetype's shapes.
func (f *Fleet) addShapes(a int) shapeCycle {
	t := &f.catalog[a]
	var c shapeCycle
	weight := 0
	for _, s := range t.sizes {
		weight += s.weight
	}
	for i := range t.sizes {
		s := &t.sizes[i]
		if i == 1 {
			c.larger = float64(s.weight) / float64(weight)
		}
		for _, it := range s.types {
			res := s.pods(int64(t.perMachine))
			if it.devices > 0 {
				res = model.NewResources(
					model.Amount{Name: dimCPU, Value: res.Get(dimCPU)},
					model.Amount{Name: dimMemory, Value: res.Get(dimMemory)},
					model.Amount{Name: dimGPU, Value: it.devices},
				)
			}
			c.types[i] = append(c.types[i], uint16(len(f.shapes)))
			f.shapes = append(f.shapes, shape{instanceType: it.name, price: it.price, resources: res, size: uint8(i)})
		}
	}
	return c
}

func (c *shapeCycle) at(i int) uint16 {
	size := 0
	if len(c.types[1]) > 0 && everyNth(i, c.larger) {
		size = 1
	}
	of := c.types[size]
	return of[i/2%len(of)]
}

// placeGangs lets every gang of an archetype stand in one rack: larger gangs
// first, each in the rack with most room. What the gangs leave free in the
// racks is Idle first, then Speculative, so that a rack can be topped up.
func (f *Fleet) placeGangs(a, base, idle int) {
	for i := base; i < len(f.slots); i++ {
		f.slots[i].tier = tierSpeculative
	}
	racks := newGangRacks(f.slots[base:], base)
	var gangs []int
	for i := range f.rows {
		if int(f.rows[i].archetype) == a {
			gangs = append(gangs, i)
		}
	}
	slices.SortStableFunc(gangs, func(x, y int) int { return int(f.rows[y].machines - f.rows[x].machines) })
	for _, g := range gangs {
		// A gang for which no rack has room starts unbound.
		for _, s := range racks.takeRoomiest(int(f.rows[g].machines)) {
			f.slots[s].tier, f.slots[s].owner = tierConfigured, int32(g)+1
		}
	}
	for _, rack := range racks.order {
		for _, s := range racks.free[rack] {
			if idle > 0 {
				f.slots[s].tier = tierIdle
				idle--
			}
		}
	}
}
