package fleetview

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard"
)

const rackKey = "topology.kubernetes.io/rack"

// machineOf is the n-th machine of a made-up fleet; what it is follows from round, too.
func machineOf(n, round int) model.Machine {
	m := model.Machine{
		ID: fmt.Sprintf("m-%06d", n), State: model.Idle, Zone: string(rune('a' + n%3)), InstanceType: fmt.Sprintf("type-%d", (n+round)%7), CapacityType: model.OnDemand,
		PricePerHour: float64(1 + (n+round)%7), Resources: model.NewResources(model.Amount{Name: "cpu", Value: 8000}),
		Labels: map[string]string{rackKey: fmt.Sprintf("r%d", n/16), "row": fmt.Sprintf("w%d", n/256)}, IdleSince: int64(n + round + 1),
	}
	if (n+round)%3 == 0 {
		m.State, m.Cluster, m.IdleSince = model.Configured, fmt.Sprintf("c%d", (n+round)%11), 0
		m.Assigned = model.Assignment{Priority: int32(n % 5), Fingerprint: uint64(n%9 + 1), Group: fmt.Sprintf("g%d", (n+round)%13)}
	}
	return m
}

// tables is a fleet that is copied.
type tables struct {
	supply *supply.Table
	demand *demand.Table
	looks  int
	before func(look int) // is called before each look
}

func newTables(tb testing.TB, machines int) *tables {
	tb.Helper()
	x := &tables{supply: supply.New(), demand: demand.New(), before: func(int) {}}
	for n := range machines {
		x.put(tb, machineOf(n, 0))
	}
	same, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{{Key: rackKey, Operator: model.Same}}})
	if err != nil {
		tb.Fatal(err)
	}
	need := model.Need{Cluster: "c1", Profile: same, Aggregate: model.NewResources(model.Amount{Name: "cpu", Value: 16000})}
	for _, cluster := range []string{"c1", "c2"} {
		need.Cluster = cluster
		if err := x.demand.Load(cluster, []model.Need{need, need}); err != nil {
			tb.Fatal(err)
		}
	}
	return x
}

func (x *tables) put(tb testing.TB, m model.Machine) {
	tb.Helper()
	if err := x.supply.Put(&m); err != nil {
		tb.Fatal(err)
	}
}

// Inspect is a shard's.
func (x *tables) Inspect(visit func(engine.Input, engine.Options, *shard.HeldBack) error) error {
	x.looks++
	x.before(x.looks)
	return visit(engine.Input{Supply: x.supply, Demand: x.demand, Now: 1}, engine.Options{Nested: []string{"row"}}, nil)
}

// copyOf copies a fleet; each part goes on until then, and for a step at least.
func copyOf(x *tables, until time.Time) *fleet {
	c := shardCopier{fleetBuilder: newFleetBuilder()}
	_ = x.Inspect(func(in engine.Input, opts engine.Options, _ *shard.HeldBack) error {
		c.begin(in, &opts)
		return nil
	})
	for c.makeRoom(); !c.done; {
		_ = x.Inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
			c.add(in, until)
			return nil
		})
	}
	return c.complete()
}

// says is what a copy knows of a machine, with texts in place of numbers.
func (f *fleet) says(i int) string {
	x := &f.classes[f.class[i]]
	out := fmt.Sprint(f.ids[i], f.state[i], f.capacity[i], f.names[f.cluster[i]], f.names[f.group[i]], f.priority[i], f.fingerprint[i], f.idleSince[i], x.instanceType, x.price, x.offers)
	for _, key := range []string{rackKey, "row", model.KeyZone} {
		out += " " + f.values[f.domains[key][i]]
	}
	return out
}

// saysOf is what a copy is to say of a machine.
func saysOf(m *model.Machine) string {
	a := &m.Assigned
	return fmt.Sprint(m.ID, m.State, m.CapacityType, m.Cluster, a.Group, a.Priority, a.Fingerprint, m.IdleSince, m.InstanceType, m.PricePerHour, m.Resources) +
		" " + m.Labels[rackKey] + " " + m.Labels["row"] + " " + m.Zone
}

// TestACopyIsTheFleet: a copy in parts is what a copy at once is, whether the table keeps the values of a key or not.
func TestACopyIsTheFleet(t *testing.T) {
	x := newTables(t, 5*fleetStep+3)
	want := copyOf(x, time.Now().Add(time.Hour))
	if x.looks != 2 {
		t.Fatalf("a copy at once took %d looks", x.looks)
	}
	if got := len(want.ids); got != x.supply.Len() || !reflect.DeepEqual(want.keys, []string{rackKey, "row", model.KeyZone}) || want.rowCount != 4 || len(want.demand) != 2 {
		t.Fatalf("%d machines, keys %v, %d rows of %d clusters", got, want.keys, want.rowCount, len(want.demand))
	}
	for used := range 2 {
		looks := x.looks
		got := copyOf(x, time.Time{}) // a step at a time
		if x.looks < looks+6 {
			t.Errorf("%d looks, want one for each step", x.looks-looks)
		}
		for i := range want.ids {
			if m := machineOf(i, 0); want.says(i) != saysOf(&m) {
				t.Fatalf("machine %d is %s, want %s", i, want.says(i), saysOf(&m))
			}
			if got.says(i) != want.says(i) {
				t.Fatalf("machine %d is %s, want %s (table keeps keys: %v)", i, got.says(i), want.says(i), used == 1)
			}
		}
		if err := x.supply.Use([]*model.Profile{x.demand.Profile(0)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestACopyWhileMachinesComeAndGo: between two parts machines change, leave, and others take their rows, names and classes. What was
// there all the time is copied once; everything is as it was in the round in which it was copied.
func TestACopyWhileMachinesComeAndGo(t *testing.T) {
	const machines = 6 * fleetStep
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		x := newTables(t, machines)
		if err := x.supply.Use([]*model.Profile{x.demand.Profile(0)}); err != nil {
			t.Fatal(err)
		}
		ever := map[string][]string{} // what was ever to be said of a machine, by its id
		note := func(m model.Machine) { ever[m.ID] = append(ever[m.ID], saysOf(&m)) }
		for n := range machines {
			note(machineOf(n, 0))
		}
		gone := map[string]bool{}
		x.before = func(look int) {
			for range 40 {
				n := rnd.IntN(2 * machines) // half of them are new
				m := machineOf(n, look)
				if rnd.IntN(2) == 0 {
					x.supply.Remove(m.ID)
					gone[m.ID] = true
					continue
				}
				x.put(t, m)
				note(m)
			}
		}
		f := copyOf(x, time.Time{})
		if !slices.IsSorted(f.ids) || len(slices.Compact(slices.Clone(f.ids))) != len(f.ids) {
			t.Fatalf("seed %d: ids are not in order, or one is there twice", seed)
		}
		have := map[string]bool{}
		for i, id := range f.ids {
			have[id] = true
			if !slices.Contains(ever[id], f.says(i)) {
				t.Fatalf("seed %d: a machine is said to be %s, which it never was: %v", seed, f.says(i), ever[id])
			}
		}
		for n := range machines {
			if id := machineOf(n, 0).ID; !gone[id] && !have[id] {
				t.Fatalf("seed %d: machine %s was there all the time and is not in the copy", seed, id)
			}
		}
	}
}

// BenchmarkCopyFleet is what a copy of 500,000 machines takes, and for how long the shard is locked at most.
func BenchmarkCopyFleet(b *testing.B) {
	x := newTables(b, 500_000)
	x.supply.Order() // the cycles of a shard ask for it
	var locked []time.Duration
	p := Part{Inspect: func(visit func(engine.Input, engine.Options, *shard.HeldBack) error) error {
		began := time.Now()
		err := x.Inspect(visit)
		locked = append(locked, time.Since(began))
		return err
	}}
	for b.Loop() {
		if _, err := copyFleet([]Part{p}); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(locked)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	b.ReportMetric(ms(locked[len(locked)-1]), "longest-lock-ms")
	b.ReportMetric(ms(locked[len(locked)*99/100]), "p99-lock-ms")
	b.ReportMetric(float64(len(locked))/float64(b.N), "looks")
}
