package engine_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// scaled is a fleet of any size.
type scaled struct {
	t        testing.TB
	n        int
	machines []model.Machine
	needs    map[string][]model.Need
	opts     engine.Options
}

// whole is what so many machines have.
func whole(machines int) model.Resources {
	return model.NewResources(model.Amount{Name: "cpu", Value: int64(4000 * machines)})
}

// machine adds a machine; one without a cluster is Idle.
func (x *scaled) machine(cluster string, labels map[string]string) *model.Machine {
	id := fmt.Sprintf("m%06d", len(x.machines))
	m := model.Machine{ID: id, Host: id, State: model.Idle, Cluster: cluster, Resources: whole(1), Labels: labels, PricePerHour: 1}
	if cluster != "" {
		m.State = model.Configured
	}
	x.machines = append(x.machines, m)
	return &x.machines[len(x.machines)-1]
}

// need adds a row that wants so many whole machines.
func (x *scaled) need(cluster string, spec model.ProfileSpec, machines int, group string) {
	x.t.Helper()
	p, err := model.NewProfile(spec)
	if err != nil {
		x.t.Fatal(err)
	}
	x.needs[cluster] = append(x.needs[cluster], model.Need{Cluster: cluster, Profile: p, Aggregate: whole(machines), MinUnit: whole(1), Group: group})
}

// scale builds a fleet and returns an engine to decide it with.
func scale(t testing.TB, n int, build func(*scaled)) (*engine.Engine, engine.Input) {
	t.Helper()
	x := &scaled{t: t, n: n, needs: map[string][]model.Need{}, opts: engine.DefaultOptions()}
	build(x)
	return x.load()
}

// load returns an engine to decide the fleet with.
func (x *scaled) load() (*engine.Engine, engine.Input) {
	t := x.t
	t.Helper()
	in := engine.Input{Supply: supply.New(), Demand: demand.New(), Now: 1}
	for i := range x.machines {
		if err := in.Supply.Put(&x.machines[i]); err != nil {
			t.Fatal(err)
		}
	}
	for cluster, rows := range x.needs {
		if err := in.Demand.Replace(cluster, rows); err != nil {
			t.Fatal(err)
		}
	}
	x.opts.Workers, x.opts.Full = 1, true
	e, err := engine.New(x.opts)
	if err != nil {
		t.Fatal(err)
	}
	return e, in
}

// work decides a fleet from nothing and returns how many machines were looked at, and
// how many bytes allocated.
func work(t *testing.T, n int, build func(*scaled)) (probes, bytes int64) {
	t.Helper()
	e, in := scale(t, n, build)
	defer e.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	plan, err := e.Cycle(in)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Stats.Probes, int64(after.TotalAlloc - before.TotalAlloc)
}

// scales are fleets of which twice as many are about twice the work.
var scales = []struct {
	name  string
	build func(*scaled)
}{
	{"rows of ten machines, each on a host of its own", func(x *scaled) {
		for i := range x.n {
			x.machine("", map[string]string{keyHost: fmt.Sprint("h", i)})
		}
		for i := range x.n / 30 {
			x.need(fmt.Sprint("c", i%10), spreadOver(int32(i%7), keyHost), 10, "")
		}
	}},
	{"rows of ten machines over hosts and zones", func(x *scaled) {
		for i := range x.n {
			zone := i * 3 / x.n // the first is the cheapest
			m := x.machine("", map[string]string{keyHost: fmt.Sprint("h", i)})
			m.Zone, m.PricePerHour = fmt.Sprint("z", zone), float64(1+zone)
		}
		for i := range x.n / 30 {
			x.need(fmt.Sprint("c", i%10), spreadOver(int32(i%7), keyHost, model.KeyZone), 10, "")
		}
	}},
	{"rows over zones that take one of two machines held for a row", func(x *scaled) {
		for i := range x.n / 2 {
			group := fmt.Sprint("g", i)
			x.need("held", model.ProfileSpec{Priority: 5}, 2, group)
			own := model.Owner{Cluster: "held", Fingerprint: x.needs["held"][i].Profile.Fingerprint(), Group: group}
			for range 2 {
				m := x.machine("", nil)
				m.Zone, m.Reservation = fmt.Sprint("z", i%3), model.Reservation{Owner: own, Priority: 5, Deadline: 1 << 62}
			}
			if i%2 == 0 { // then the other one is free
				x.need(fmt.Sprint("c", i%10), spreadOver(int32(100+i%7), model.KeyZone), 1, "")
			}
		}
	}},
	{"rows over zones that preempt, machine by machine", func(x *scaled) {
		x.opts.Victims = engine.VictimsMachine
		for i := range x.n {
			low := fmt.Sprint("low", i%10)
			x.machine(low, nil).Zone = fmt.Sprint("z", i%3)
			x.need(low, model.ProfileSpec{Priority: 1}, 1, "")
			if i%2 == 0 {
				x.need(fmt.Sprint("c", i%10), spreadOver(int32(100+i%7), model.KeyZone), 1, "")
			}
		}
	}},
	{"rows over zones that preempt, with a priority for each row", func(x *scaled) {
		for i := range x.n {
			low := fmt.Sprint("low", i%10)
			x.machine(low, nil).Zone = fmt.Sprint("z", i%3)
			x.need(low, model.ProfileSpec{Priority: int32(100 * i)}, 1, "")
			if i%2 == 0 {
				x.need(fmt.Sprint("c", i%10), spreadOver(int32(100*(x.n+i)), model.KeyZone), 1, "")
			}
		}
	}},
	{"gangs that preempt in racks, with a priority for each gang", func(x *scaled) {
		for i := range x.n {
			low := fmt.Sprint("low", i%10)
			x.machine(low, map[string]string{keyRack: fmt.Sprint("r", i/4)})
			x.need(low, model.ProfileSpec{Priority: 1}, 1, "")
			if i%8 == 0 {
				x.need(fmt.Sprint("c", i%10), sameRack(int32(100+i)), 2, "")
			}
		}
	}},
	{"chains of preemption with a priority for each row", func(x *scaled) {
		for i := range x.n {
			low, high := fmt.Sprint("low", i%10), fmt.Sprint("high", i%10)
			x.machine(low, nil)
			x.need(low, model.ProfileSpec{Priority: int32(i)}, 1, "")
			x.need(high, model.ProfileSpec{Priority: int32(i)}, 1, "")
		}
	}},
	{"victims of a size of their own each", func(x *scaled) {
		for i := range x.n {
			low, high := fmt.Sprint("low", i/20), fmt.Sprint("high", i%10) // credit goes through classes cluster by cluster
			x.machine(low, nil).Resources = model.NewResources(model.Amount{Name: "cpu", Value: 4000}, model.Amount{Name: "memory", Value: int64(1<<30 + i)})
			x.need(low, model.ProfileSpec{Priority: 1}, 1, "")
			x.need(high, model.ProfileSpec{Priority: 1000}, 1, "")
		}
	}},
	{"rows with a value of their own each", func(x *scaled) {
		for i := range x.n {
			x.machine("", map[string]string{"app": fmt.Sprint("a", i)})
			own := model.Requirement{Key: "app", Operator: model.In, Values: []string{fmt.Sprint("a", i)}}
			x.need(fmt.Sprint("c", i%10), model.ProfileSpec{Requirements: []model.Requirement{own}}, 1, "")
		}
	}},
	{"machines that drain for a Need of a priority of its own each", func(x *scaled) {
		for i := range x.n {
			cluster, spec := fmt.Sprint("c", i%10), model.ProfileSpec{Priority: int32(i)}
			x.need(cluster, spec, 1, "")
			own := x.needs[cluster][i/10].Profile
			m := x.machine("low", nil)
			m.State = model.Draining
			m.Reservation = model.Reservation{Owner: model.Owner{Cluster: cluster, Fingerprint: own.Fingerprint()}, Priority: own.Priority(), Plan: uint64(i + 1)}
		}
	}},
	{"machines of one owner that Needs of a priority of their own each take", func(x *scaled) {
		x.need("c", model.ProfileSpec{Priority: 1}, x.n, "")
		own := x.needs["c"][0].Profile
		for i := range x.n {
			x.machine("", nil).Reservation = model.Reservation{Owner: model.Owner{Cluster: "c", Fingerprint: own.Fingerprint()}, Priority: 1, Deadline: 1 << 62}
			x.need(fmt.Sprint("high", i%10), model.ProfileSpec{Priority: int32(1000 + i)}, 1, "")
		}
	}},
	{"machines that drain in the cluster of Needs that preempt", func(x *scaled) {
		for i := range x.n {
			cluster := "own"
			if i >= x.n/2 {
				cluster = "other"
			}
			x.machine(cluster, nil).State = model.Draining
		}
		for i := range x.n / 2 {
			x.need("own", model.ProfileSpec{Priority: int32(i % 7)}, 1, fmt.Sprint("g", i))
		}
		x.needs["other"] = nil
	}},
	{"Needs of one cluster that lose a machine, and nobody claims one", func(x *scaled) { losers(x, 1) }},
	{"Needs of one cluster that lose a machine, and as many that nobody claims", func(x *scaled) { losers(x, x.n/2) }},
}

// losers adds a cluster of as many Needs as machines, half of which others take, and machines in another zone that nobody claims.
func losers(x *scaled, unclaimed int) {
	for range x.n {
		x.machine("low", nil).Zone = "z"
	}
	for range unclaimed {
		m := x.machine("low", nil)
		m.Zone, m.PricePerHour = "spare", 2 // credit takes the others first
	}
	for i := range x.n {
		x.need("low", model.ProfileSpec{Priority: int32(i % 7)}, 1, "")
	}
	for i := range x.n / 2 {
		x.need(fmt.Sprint("high", i%10), inZone(1000, "z"), 1, "")
	}
}

// inZone is a profile of machines of one zone.
func inZone(priority int32, zone string) model.ProfileSpec {
	return model.ProfileSpec{Priority: priority, Requirements: []model.Requirement{{Key: model.KeyZone, Operator: model.In, Values: []string{zone}}}}
}

// sameRack is a profile of machines of one rack.
func sameRack(priority int32) model.ProfileSpec {
	return model.ProfileSpec{Priority: priority, Requirements: []model.Requirement{{Key: keyRack, Operator: model.Same}}}
}

// spreadOver is a profile whose machines differ by at most one in each key.
func spreadOver(priority int32, keys ...string) model.ProfileSpec {
	spec := model.ProfileSpec{Priority: priority}
	for _, key := range keys {
		spec.Spread = append(spec.Spread, model.Spread{Key: key, MaxSkew: 1, WhenUnsatisfiable: model.DoNotSchedule})
	}
	return spec
}

// TestWorkGrowsWithTheFleet: in fleets that once cost needs times machines, twice
// as many are at most three times the work.
func TestWorkGrowsWithTheFleet(t *testing.T) {
	for _, x := range scales {
		t.Run(x.name, func(t *testing.T) {
			var probes, bytes [2]int64
			for i, n := range []int{1200, 2400} {
				probes[i], bytes[i] = work(t, n, x.build)
			}
			t.Logf("probes: %d, bytes: %d", probes, bytes)
			if probes[0] == 0 || probes[1] > 3*probes[0] || bytes[1] > 3*bytes[0] {
				t.Errorf("%d machines are looked at and %d bytes allocated for the fleet, %d and %d for one of twice its size", probes[0], bytes[0], probes[1], bytes[1])
			}
		})
	}
}

// BenchmarkWorkGrowsWithTheFleet is the same in time: that of twice the machines ought
// to be about twice as long.
func BenchmarkWorkGrowsWithTheFleet(b *testing.B) {
	for _, x := range scales {
		benchSizes(b, x.name, x.build, 3000, 6000, 12_000)
	}
}

// benchSizes is the time of a cycle from nothing for fleets of some sizes, and what its search looked at.
func benchSizes(b *testing.B, name string, build func(*scaled), sizes ...int) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) {
			e, in := scale(b, n, build)
			defer e.Close()
			for b.Loop() {
				plan, err := e.Cycle(in)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(plan.Stats.SearchPairs), "pairs")
				b.ReportMetric(float64(plan.Stats.SearchUnits), "units")
				b.ReportMetric(float64(len(plan.Actions)), "actions")
			}
		})
	}
}
