package supply

import (
	"fmt"
	"math"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// FuzzTable drives a table with calls made of arbitrary bytes, valid or not.
// Nothing panics, and what the table counts stays consistent.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 3, 0, 2, 1, 9, 9, 0, 1, 5, 3, 1, 4, 7, 7})
	f.Add([]byte{3, 0, 1, 2, 0, 1, 3, 0, 4, 1, 3, 4, 4, 1, 5, 0, 1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		x := New()
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b)
		}
		for len(data) > 0 {
			fuzzCall(x, next)
		}
		checkTable(t, x)
	})
}

// fuzzCall makes one call whose arguments are drawn from next.
func fuzzCall(x *Table, next func() int) {
	id := func() string { return []string{"", "a", "b", "c", "aa", "ab"}[next()%6] }
	row := func() columnar.Row { return columnar.Row(next() % 9) }
	number := func() float64 {
		return []float64{0, 1, 0.5, -1, math.NaN(), math.Inf(1), math.Copysign(0, -1)}[next()%7]
	}
	switch next() % 9 {
	case 0, 1:
		m := model.Machine{
			ID: id(), State: model.State(next() % 11), CapacityType: model.CapacityType(next() % 6), Cluster: id(), Zone: id(),
			PricePerHour: number(), InterruptionProbability: number(),
			Resources: model.Resources{{Name: id(), Value: int64(next()) - 8}},
			Labels:    map[string]string{id(): id(), "k": fmt.Sprint(next())},
		}
		if next()%2 == 0 {
			m.Cluster = ""
		}
		_ = x.Put(&m)
	case 2:
		x.Remove(id())
	case 3:
		var profiles []*model.Profile
		for range next() % 4 {
			p, err := model.NewProfile(model.ProfileSpec{
				Requirements: []model.Requirement{{Key: id(), Operator: model.Operator(next() % 9), Values: []string{id()}}},
				Spread:       []model.Spread{{Key: "k", MaxSkew: int32(next() % 3), WhenUnsatisfiable: model.DoNotSchedule}}[:next()%2],
			})
			if err == nil {
				profiles = append(profiles, p)
			}
		}
		_ = x.Use(profiles)
	case 4, 5:
		_ = x.Transition(row(), model.State(next()%11), id(), int64(next()))
	case 6:
		x.Stamp(row(), model.Assignment{Group: id(), Reclamation: model.Bucket(next())})
	case 7:
		x.Reserve(row(), model.Reservation{Owner: model.Owner{Cluster: id()}})
		x.SetHost(row(), id())
	case 8:
		_ = x.SetPrice(row(), number(), number())
		x.Order()
	}
}

// checkTable checks what must hold after any calls.
func checkTable(t *testing.T, x *Table) {
	t.Helper()
	n := 0
	for s := range model.State(model.NumStates) {
		if c := int(x.InState(s).GetCardinality()); c != x.Count(s) {
			t.Errorf("%s: %d counted, %d indexed", s, x.Count(s), c)
		}
		n += x.Count(s)
	}
	order := x.Order()
	if n != x.Len() || len(order) != n {
		t.Errorf("%d machines, %d in a state, %d in order", x.Len(), n, len(order))
	}
	members := make([]int, x.ClassMax())
	for i, r := range order {
		if i > 0 && x.ID(order[i-1]) >= x.ID(r) {
			t.Errorf("%q stands before %q", x.ID(order[i-1]), x.ID(r))
		}
		m := x.Get(r)
		if err := m.Validate(false); err != nil {
			t.Error(err)
		}
		if back, ok := x.Lookup(m.ID); !ok || back != r {
			t.Errorf("%q is found in row %d, not %d", m.ID, back, r)
		}
		members[x.Class(r)]++
	}
	for c, count := range members {
		if x.classes.list[c].count != count {
			t.Errorf("class %d has %d members, counts %d", c, count, x.classes.list[c].count)
		}
	}
}
