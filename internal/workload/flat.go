package workload

import "github.com/tonnage/tonnage/engine/model"

// The figures of the flat rung.
const (
	flatRowsPerCluster = 1_000
	// flatUnmetOneIn is how many rows there are to one that cannot be met.
	flatUnmetOneIn = 10
	// flatMachines is the range of machines that a row needs; the mean times the
	// rows that are met is the Configured tier.
	flatMachinesMin, flatMachinesMax = 5, 15
	flatUnmetPriority                = 100
	flatPriority                     = 1_000
)

// flatCatalog is the one archetype of the flat rung.
var flatCatalog = []archetype{{
	name: "flat", priority: flatPriority, interrupt: 32, reclaim: 64, share: 1, perMachine: 4,
	sizes: []podSize{{1, 1000, 4 * gib, 0, []instanceType{m6iXlarge}}},
}}

// buildFlat makes a fleet of one instance type. Nine tenths of the rows need
// exactly the Configured tier. The last tenth has a lower priority and accepts
// two zones, while the Idle tier, which is reserved capacity at list price,
// stands in the third: those rows stay unmet and the Idle tier idle, cold and
// steady.
func buildFlat(f *Fleet) {
	f.catalog = flatCatalog
	f.profiles = []*model.Profile{flatCatalog[0].profile(false), flatUnmet().profile(false)}
	f.layOut(0, f.rung.Configured, f.rung.Idle, f.rung.Speculative)
	f.slotStart = append(f.slotStart, len(f.slots))
	last := len(zones) - 1
	for i := range f.slots {
		s := &f.slots[i]
		s.capacity = model.BareMetal
		if s.tier == tierIdle {
			s.capacity, s.zone = model.Reserved, uint8(last)
			s.rack = s.rack/int32(len(zones))*int32(len(zones)) + int32(last)
		}
	}
	n := f.rung.Clusters * flatRowsPerCluster
	unmet := n / flatUnmetOneIn
	machines := drawUniform(newRNG(f.seed, drawSizes), n-unmet, flatMachinesMin, flatMachinesMax)
	level(machines, f.rung.Configured)
	lacking := drawUniform(newRNG(f.seed, drawSizes+1), unmet, flatMachinesMin, flatMachinesMax)
	arrivals := newRNG(f.seed, drawArrivals)
	for i := range n {
		if i%flatRowsPerCluster == 0 {
			f.rowStart = append(f.rowStart, i)
		}
		r := row{number: int32(i % flatRowsPerCluster), arrival: Epoch.UnixNano() - int64(1+arrivals.float()*float64(arrivalSpread))}
		if i%flatUnmetOneIn == flatUnmetOneIn-1 {
			r.profile = 1
			r.pods[0] = lacking[i/flatUnmetOneIn]*flatCatalog[0].perMachine - flatCatalog[0].perMachine/2
		} else {
			r.machines = machines[i-i/flatUnmetOneIn]
		}
		f.rows = append(f.rows, r)
	}
	f.rowStart = append(f.rowStart, len(f.rows))
	f.deal()
}

// flatUnmet is the archetype of the rows that cannot be met.
func flatUnmet() *archetype {
	t := flatCatalog[0]
	t.priority, t.zones = flatUnmetPriority, zones[:len(zones)-1]
	return &t
}

// level moves numbers by ones until they sum to total, evenly over the slice.
func level(numbers []int32, total int) {
	for _, n := range numbers {
		total -= int(n)
	}
	for i := 0; total != 0 && len(numbers) > 0; i = (i + 1) % len(numbers) {
		switch {
		case total > 0 && numbers[i] < flatMachinesMax:
			numbers[i]++
			total--
		case total < 0 && numbers[i] > flatMachinesMin:
			numbers[i]--
			total++
		}
	}
}
