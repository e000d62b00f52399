package supply

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// resourceNames returns n names of resources, sorted.
func resourceNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("example.com/r%04d", i))
	}
	return names
}

// TestOfferedIsTheFirstByName: of more names than are supported the first by name
// count, in whichever order machines bring them, and the others do once there is
// room.
func TestOfferedIsTheFirstByName(t *testing.T) {
	const extra = 7
	all := resourceNames(model.OfferedNamesMax + extra)
	for seed := range uint64(20) {
		x := New()
		use(t, x)
		order := slices.Clone(all)
		rng := rand.New(rand.NewPCG(seed, 1))
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		id := map[string]string{}
		for i, name := range order {
			m := machine(i)
			m.Resources = model.NewResources(model.Amount{Name: "cpu", Value: 4}, model.Amount{Name: "pods", Value: 9}, model.Amount{Name: name, Value: 3})
			put(t, x, m)
			id[name] = m.ID
			if rng.IntN(8) == 0 {
				use(t, x)
			}
		}
		use(t, x)
		want := append([]string{"cpu"}, all[:model.OfferedNamesMax]...)
		if !slices.Equal(x.Offered(), append(want, "pods")) || !slices.Equal(x.Ignored(), all[model.OfferedNamesMax:]) {
			t.Fatalf("seed %d: offered %q, ignored %q", seed, x.Offered(), x.Ignored())
		}
		if len(x.Dims()) != model.OfferedNamesMax+2 {
			t.Fatalf("seed %d: %d dimensions", seed, len(x.Dims()))
		}
		if v := named(x, id[all[0]]); !reflect.DeepEqual(v, map[string]int64{"cpu": 4, "pods": 9, all[0]: 3}) {
			t.Errorf("seed %d: a machine offers %v", seed, v)
		}
		last := all[len(all)-1]
		if v := named(x, id[last]); !reflect.DeepEqual(v, map[string]int64{"cpu": 4, "pods": 9}) {
			t.Errorf("seed %d: a machine with an ignored name offers %v", seed, v)
		}
		if m := x.Get(rowOf(t, x, id[last])); m.Resources.Get(last) != 3 {
			t.Errorf("seed %d: the record has lost the name: %v", seed, m.Resources)
		}
		for _, name := range all[:extra] {
			x.Remove(id[name])
		}
		use(t, x)
		if len(x.Ignored()) != 0 || !slices.Contains(x.Offered(), last) || slices.Contains(x.Offered(), all[0]) {
			t.Errorf("seed %d: after %d are gone, offered %q, ignored %q", seed, extra, x.Offered(), x.Ignored())
		}
		if v := named(x, id[last]); v[last] != 3 {
			t.Errorf("seed %d: a machine whose name has got room offers %v", seed, v)
		}
	}
}

// TestLargest: of each resource, over the machines that there are.
func TestLargest(t *testing.T) {
	x := New()
	use(t, x)
	is := func(want ...model.Amount) {
		t.Helper()
		use(t, x)
		if got := x.Largest(); !slices.Equal(got, want) {
			t.Errorf("the largest amounts are %v, want %v", got, want)
		}
	}
	is()
	with := func(i int, resources ...model.Amount) model.Machine {
		m := machine(i)
		m.Resources, m.Allocatable = model.NewResources(resources...), nil
		return m
	}
	small := with(0, model.Amount{Name: "cpu", Value: 4}, model.Amount{Name: "gpu", Value: 8})
	large := with(1, model.Amount{Name: "cpu", Value: 64})
	put(t, x, small)
	at := x.ShapeSequence()
	put(t, x, large)
	if x.ShapeSequence() == at {
		t.Error("another shape came, and the sequence says nothing")
	}
	is(model.Amount{Name: "cpu", Value: 64}, model.Amount{Name: "gpu", Value: 8})
	at = x.ShapeSequence()
	put(t, x, with(2, model.Amount{Name: "cpu", Value: 64}))
	if x.ShapeSequence() != at {
		t.Error("a machine like another changes the sequence")
	}
	x.Remove(small.ID)
	is(model.Amount{Name: "cpu", Value: 64})
	large.Allocatable = model.NewResources(model.Amount{Name: "cpu", Value: 63})
	put(t, x, large)
	x.Remove(with(2).ID)
	is(model.Amount{Name: "cpu", Value: 63})
}

func rowOf(t *testing.T, x *Table, id string) columnar.Row {
	t.Helper()
	row, ok := x.Lookup(id)
	if !ok {
		t.Fatalf("no machine %s", id)
	}
	return row
}

// named returns what a machine's class offers, by name.
func named(x *Table, id string) map[string]int64 {
	r, _ := x.Lookup(id)
	out := map[string]int64{}
	for d, v := range x.ClassInfo(x.Class(r)).Vector {
		if v > 0 {
			out[x.Dims()[d]] = v
		}
	}
	return out
}
