package engine_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// keyRack divides zones in fleets of any size.
const keyRack = "rack"

// sameIn is a profile whose machines lie in one value of a key.
func sameIn(priority int32, key string) model.ProfileSpec {
	return model.ProfileSpec{Priority: priority, Requirements: []model.Requirement{{Key: key, Operator: model.Same}}}
}

// squares are fleets in which whoever preempts meets what many others meet too: Needs
// times domains, or Needs times what gangs could give.
var squares = []struct {
	name  string
	build func(*scaled)
}{
	{"gangs in racks of zones", func(x *scaled) {
		x.opts.Nested = []string{model.KeyZone, keyRack}
		for i := range x.n {
			low := fmt.Sprint("low", i%10)
			m := x.machine(low, map[string]string{keyRack: fmt.Sprint("r", i/8)})
			m.Zone = fmt.Sprint("z", i*3/x.n)
			x.need(low, model.ProfileSpec{Priority: int32(i % 7)}, 1, "")
		}
		for i := range x.n / 8 {
			x.need(fmt.Sprint("high", i%10), sameIn(1000, model.KeyZone), 2, fmt.Sprint("g", i))
		}
	}},
	{"one gang of all machines", func(x *scaled) {
		for range x.n {
			x.machine("low", nil).Zone = "z"
		}
		x.need("low", sameIn(1, model.KeyZone), x.n, "g")
		for i := range x.n / 2 {
			x.need(fmt.Sprint("high", i%10), model.ProfileSpec{Priority: 1000}, 1, "")
		}
	}},
	{"tenants with gangs of two", func(x *scaled) {
		const tenants = 200
		for i := range tenants {
			c := fmt.Sprint("t", i)
			x.opts.Tenancy.Tenants = append(x.opts.Tenancy.Tenants, tenantOf(c, x.n/tenants))
		}
		for i := range x.n {
			x.machine(fmt.Sprint("t", i/2%(tenants/2)*2), nil).Zone = "z"
		}
		for i := range x.n / 2 {
			x.need(fmt.Sprint("t", i%(tenants/2)*2), sameIn(5, model.KeyZone), 2, fmt.Sprint("g", i))
			x.need(fmt.Sprint("t", i%(tenants/2)*2+1), sameIn(5, model.KeyZone), 2, fmt.Sprint("g", i))
		}
	}},
	{"gangs of thousands of roles", func(x *scaled) {
		for range x.n {
			x.machine("low", nil).Zone = "z"
		}
		for i := range x.n / 2 {
			spec := model.ProfileSpec{Priority: int32(i % 7)}
			if i < 4 { // one role makes the others a gang, and what one machine holds would fold
				spec = sameIn(spec.Priority, model.KeyZone)
			}
			x.need("low", spec, 2, fmt.Sprint("g", i%4))
		}
		for i := range x.n / 2 {
			x.need(fmt.Sprint("high", i%10), model.ProfileSpec{Priority: 1000}, 1, "")
		}
	}},
	{"gangs of two for gangs of two in zones", func(x *scaled) {
		pairsOfMachines(x)
		for i := range x.n / 4 {
			x.need(fmt.Sprint("high", i%10), sameIn(1000, model.KeyZone), 2, fmt.Sprint("g", i))
		}
	}},
	{"single machines for gangs of two", func(x *scaled) {
		pairsOfMachines(x)
		for i := range x.n / 2 {
			x.need(fmt.Sprint("high", i%10), model.ProfileSpec{Priority: 1000}, 1, "")
		}
	}},
}

// unbounded are fleets of which twice as many are four times the work, and that no budget bounds. What is looked at again and again is
// in docs/explanation/benchmarks.md.
var unbounded = []struct {
	name  string
	build func(*scaled)
}{
	{"gangs of four that may lose two, for single preemptors", func(x *scaled) {
		for i := range x.n {
			x.machine(fmt.Sprint("low", i%10), nil).Zone = fmt.Sprint("z", i/10%40)
		}
		for i := range x.n / 4 {
			low := fmt.Sprint("low", i%10)
			x.need(low, sameIn(int32(i%7), model.KeyZone), 4, fmt.Sprint("g", i))
			x.needs[low][len(x.needs[low])-1].MinAggregate = whole(2)
			x.need(fmt.Sprint("high", i%10), model.ProfileSpec{Priority: 1000}, 1, "")
		}
	}},
	{"a priority for each Need, and a resource that no victim has", func(x *scaled) {
		gpu := model.Amount{Name: "gpu", Value: 1}
		x.machine("other", nil).Resources = model.NewResources(model.Amount{Name: "cpu", Value: 4000}, gpu)
		for i := range x.n {
			x.machine("low", nil)
			x.need("low", model.ProfileSpec{Priority: int32(i)}, 1, "")
			x.need("high", model.ProfileSpec{Priority: int32(x.n + i)}, 1, "")
			x.needs["high"][i].Aggregate = model.NewResources(gpu)
			x.needs["high"][i].MinUnit = model.NewResources(model.Amount{Name: "cpu", Value: 1000})
		}
	}},
	{"a priority for each Need, and victims machine by machine", func(x *scaled) {
		x.opts.Victims = engine.VictimsMachine
		for i := range x.n {
			x.machine("low", nil)
			x.need("low", model.ProfileSpec{Priority: int32(i)}, 1, "")
			x.need(fmt.Sprint("high", i%10), model.ProfileSpec{Priority: int32(x.n + i)}, 1, "")
		}
	}},
	{"held machines of a class of their own each", func(x *scaled) {
		for i := range x.n {
			group := fmt.Sprint("g", i)
			x.need("c", model.ProfileSpec{Priority: 5}, 1, group)
			x.need("h", model.ProfileSpec{Priority: int32(1000 + i%7)}, 1, "")
			m := x.machine("", nil)
			m.PricePerHour = 1 + float64(i)/1000
			m.Reservation = model.Reservation{Owner: model.Owner{Cluster: "c", Fingerprint: x.needs["c"][i].Profile.Fingerprint(), Group: group}, Priority: 5, Deadline: 1 << 62}
		}
	}},
	{"rows of one stamp, and machines of a class of their own each", func(x *scaled) {
		for i := range x.n {
			if i%2 == 0 {
				x.need("c", model.ProfileSpec{Priority: 1}, 2, "")
			}
			m := x.machine("c", nil)
			m.Resources = model.NewResources(model.Amount{Name: "cpu", Value: 4000}, model.Amount{Name: "memory", Value: int64(1<<30 + i)})
			m.Assigned = model.Assignment{Priority: 1, Fingerprint: x.needs["c"][0].Profile.Fingerprint()}
		}
	}},
	{"equal rows of one owner that holds as many machines", func(x *scaled) {
		for range x.n / 2 {
			x.need("c", model.ProfileSpec{Priority: 5}, 2, "")
			own := x.needs["c"][0].Profile
			x.machine("", nil).Reservation = model.Reservation{Owner: model.Owner{Cluster: "c", Fingerprint: own.Fingerprint()}, Priority: 5, Deadline: 1 << 62, Plan: 7}
		}
	}},
	{"spread over as many hosts, by preemption", func(x *scaled) {
		for i := range x.n {
			low := fmt.Sprint("low", i%10)
			x.machine(low, map[string]string{keyHost: fmt.Sprint("h", i)})
			x.need(low, model.ProfileSpec{Priority: 1}, 1, "")
		}
		for i := range x.n / 20 {
			x.need(fmt.Sprint("c", i%10), spreadOver(100, keyHost), 10, "")
		}
	}},
}

// TestMemoryGrowsWithTheFleet: where time grows with the square of the fleet, memory does not.
func TestMemoryGrowsWithTheFleet(t *testing.T) {
	for _, x := range unbounded {
		t.Run(x.name, func(t *testing.T) {
			_, one := work(t, 1200, x.build)
			_, two := work(t, 2400, x.build)
			t.Logf("bytes: %d and %d", one, two)
			if two > 3*one {
				t.Errorf("%d bytes are allocated for the fleet, %d for one of twice its size", one, two)
			}
		})
	}
}

// BenchmarkUnbounded is the time of these.
func BenchmarkUnbounded(b *testing.B) {
	for _, x := range unbounded {
		benchSizes(b, x.name, x.build, 2000, 4000, 8000)
	}
}

// pairsOfMachines adds machines in three zones that all serve gangs of two.
func pairsOfMachines(x *scaled) {
	for i := range x.n {
		x.machine(fmt.Sprint("low", i/20), nil).Zone = fmt.Sprint("z", i/2%3)
	}
	for i := range x.n / 2 {
		x.need(fmt.Sprint("low", i/10), sameIn(int32(i%7), model.KeyZone), 2, fmt.Sprint("g", i))
	}
}

// tenantOf is a tenant of one cluster whose share is so many machines.
func tenantOf(cluster string, machines int) engine.Tenant {
	return engine.Tenant{Name: cluster, Clusters: []string{cluster}, Share: whole(machines)}
}

// BenchmarkSquares is the time of fleets of which twice as many were four times the work.
func BenchmarkSquares(b *testing.B) {
	for _, x := range squares {
		benchSizes(b, x.name, x.build, 2500, 5000, 10_000)
	}
}

// BenchmarkZones is the time of large fleets of few domains, where the budget of the search ends some.
func BenchmarkZones(b *testing.B) {
	for _, x := range []struct {
		name  string
		build func(*scaled)
	}{
		{"gangs of two for gangs of four", func(x *scaled) {
			pairsOfMachines(x)
			for i := range x.n / 40 {
				x.need(fmt.Sprint("high", i%10), sameIn(1000, model.KeyZone), 4, fmt.Sprint("g", i))
			}
		}},
		{"gangs of two for gangs of 64 and of 20 kinds", func(x *scaled) {
			pairsOfMachines(x)
			for i := range x.n / 320 {
				x.need(fmt.Sprint("high", i%10), sameIn(int32(1000+i%20), model.KeyZone), 64, fmt.Sprint("g", i))
			}
		}},
	} {
		benchSizes(b, x.name, x.build, 20_000, 40_000, 80_000)
	}
}
