package demand_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// TestACopyStaysAsItWas, whatever happens to the table: it has the rows that the table had when it was made.
func TestACopyStaysAsItWas(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 3))
	profiles := priorities(t, 5)
	type sight struct {
		copied   *demand.Copy
		want     map[string][]model.Need
		reported map[string]bool
		beside   chan map[string][]model.Need // read while the table changed
	}
	rowsOf := func(c *demand.Copy) map[string][]model.Need {
		out := map[string][]model.Need{}
		for _, cluster := range c.Clusters() {
			rows := make([]model.Need, c.Len(cluster))
			for i := range rows {
				rows[i] = c.Row(cluster, i)
			}
			out[cluster] = rows
		}
		return out
	}
	var sights []sight
	d := demand.New()
	for step := range 4000 {
		cluster := sightClusters[rng.IntN(len(sightClusters))]
		rows := edit(rng, profiles, d.Rows(cluster))
		switch at := rng.IntN(6) - 1; rng.IntN(5) {
		case 0:
			d.SetParked(cluster, at, rng.IntN(2) == 0)
		case 1:
			d.SetShortSince(cluster, at, rng.Int64N(3))
		case 2:
			d.MarkReported(fmt.Sprint("c", step%7))
		default:
			for i := range rows {
				if rng.IntN(3) == 0 {
					rows[i].Group = fmt.Sprint("group-", rng.IntN(200))
				}
				if rng.IntN(9) == 0 {
					rows[i].Aggregate = model.NewResources(model.Amount{Name: fmt.Sprint("made-up-", rng.IntN(4)), Value: rng.Int64N(1 << 40)})
					rows[i].MinUnit, rows[i].MinAggregate = nil, nil
				}
			}
			if err := d.Load(cluster, rows); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
		if step%500 == 99 {
			d.Offer([]string{"r0", "r1", "r2"}[:1+rng.IntN(3)])
		}
		if step%200 == 0 {
			x := sight{d.Copy(), map[string][]model.Need{}, map[string]bool{}, make(chan map[string][]model.Need, 1)}
			go func() { x.beside <- rowsOf(x.copied) }()
			for _, c := range d.Clusters() {
				x.want[c] = d.Rows(c)
			}
			for i := range 7 {
				x.reported[fmt.Sprint("c", i)] = d.Reported(fmt.Sprint("c", i))
			}
			sights = append(sights, x)
		}
	}
	for i, x := range sights {
		for _, got := range []map[string][]model.Need{<-x.beside, rowsOf(x.copied)} {
			if !reflect.DeepEqual(got, x.want) {
				t.Fatalf("seed %d, copy %d:\n%+v\nwant\n%+v", seed, i, got, x.want)
			}
		}
		for c, want := range x.reported {
			if x.copied.Reported(c) != want {
				t.Errorf("seed %d, copy %d: %s has reported: %v, want %v", seed, i, c, !want, want)
			}
		}
	}
	if d.Copy().Len("nobody") != 0 {
		t.Error("a cluster without rows has some")
	}
}
