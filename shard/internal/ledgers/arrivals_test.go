package ledgers

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// TestArrivalsSuitWhomEachMachineSuits compares what is found out once for rows of a kind with a look at
// every machine for every row.
func TestArrivalsSuitWhomEachMachineSuits(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	suited := map[bool]int{}
	for range 200 {
		l, ids := randomArrivals(t, rng, 1+rng.IntN(4), 6)
		since := arrivals{table: l.machines, ids: ids, worth: map[rowKind]worth{}}
		for _, cluster := range []string{"c0", "c1", "c2"} {
			b := l.demand.Block(cluster)
			for row := range b.Len() {
				p := l.demand.Profile(b.Profile(row))
				want := false
				for _, id := range ids {
					r, ok := l.machines.Lookup(id)
					if !ok {
						continue
					}
					m := l.machines.Get(r)
					able := m.State != model.Configured || m.Cluster != cluster && m.Assigned.Priority < p.Priority()
					want = want || able && m.EffectiveAllocatable().Covers(l.demand.Row(b, row).MinUnit) && p.Matches(&m)
				}
				if got := l.suits(b, row, p, &since); got != want {
					t.Fatalf("seed %d: %s row %d: suits %v, want %v", seed, cluster, row, got, want)
				}
				suited[want]++
			}
		}
	}
	if suited[true] < 100 || suited[false] < 100 {
		t.Errorf("seed %d: rows that something suits, and others: %v", seed, suited)
	}
}

// TestParkedRowsDoNotEachReadTheArrivals: beside a thousand machines a thousand parked rows allocate less than twice as
// much as ten.
func TestParkedRowsDoNotEachReadTheArrivals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	few, many := 0.0, 0.0
	for _, x := range []struct {
		rows int
		to   *float64
	}{{10, &few}, {1000, &many}} {
		l, ids := randomArrivals(t, rng, 1000, x.rows)
		*x.to = testing.AllocsPerRun(3, func() {
			since := arrivals{table: l.machines, ids: ids, worth: map[rowKind]worth{}}
			b := l.demand.Block("c0")
			for row := range b.Len() {
				l.suits(b, row, l.demand.Profile(b.Profile(row)), &since)
			}
		})
	}
	if many > 2*few {
		t.Errorf("10 rows take %.0f allocations, 1,000 rows %.0f", few, many)
	}
}

// randomArrivals returns ledgers of three clusters with rows of few kinds, and machines of which one is gone.
func randomArrivals(t *testing.T, rng *rand.Rand, machines, rows int) (*Ledgers, []string) {
	t.Helper()
	l := &Ledgers{machines: supply.New(), demand: demand.New(), parking: newParking()}
	ids := []string{"gone"}
	for i := range machines {
		m := model.Machine{ID: fmt.Sprint("m", i), State: model.Idle, Resources: cpuOf(int64(1+rng.IntN(8)) * 1000),
			Labels: map[string]string{"zone": fmt.Sprint("z", rng.IntN(3))}}
		if rng.IntN(3) > 0 {
			m.State, m.Cluster, m.Assigned.Priority = model.Configured, fmt.Sprint("c", rng.IntN(3)), int32(rng.IntN(4))
		}
		if err := l.machines.Put(&m); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.ID)
	}
	b := demand.NewBuilder()
	for c := range 3 {
		b.Reset(fmt.Sprint("c", c))
		for range rows {
			p, err := model.NewProfile(model.ProfileSpec{Priority: int32(rng.IntN(4)), Requirements: []model.Requirement{
				{Key: "zone", Operator: model.In, Values: []string{fmt.Sprint("z", rng.IntN(4))}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			unit := cpuOf(int64(1+rng.IntN(8)) * 1000)
			if rng.IntN(8) == 0 {
				unit = model.NewResources(append(unit, model.Amount{Name: "example.com/none", Value: 1})...)
			}
			if err := b.AddNeed(&model.Need{Profile: p, Aggregate: unit, MinUnit: unit}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.demand.Install(b); err != nil {
			t.Fatal(err)
		}
	}
	return l, ids
}
