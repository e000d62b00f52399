package demand_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// asking returns a row that asks for so much of each name, and as a unit too.
func asking(p *model.Profile, names ...string) model.Need {
	var v model.Resources
	for _, name := range names {
		v = v.Add(amounts(name, 3))
	}
	return model.Need{Profile: p, Aggregate: v, MinUnit: v}
}

func madeUp(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("made.up/r%03d", i))
	}
	return names
}

// TestUnofferedNamesTakeNoDimension: whatever names clusters make up, there are
// dimensions for what machines offer.
func TestUnofferedNamesTakeNoDimension(t *testing.T) {
	d, p := demand.New(), profile(t, model.ProfileSpec{})
	d.Offer([]string{"cpu", "nvidia.com/gpu"})
	for c := range 5 {
		var rows []model.Need
		for i := range model.UnofferedNamesMax {
			rows = append(rows, asking(p, "cpu", fmt.Sprintf("made.up/c%d-%d", c, i)))
		}
		if err := d.Replace(fmt.Sprint("greedy", c), rows); err != nil {
			t.Fatal(err)
		}
	}
	want := []model.Need{asking(p, "cpu", "nvidia.com/gpu")}
	want[0].Cluster = "victim"
	if err := d.Replace("victim", want); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(slices.Values(d.Dims())); !slices.Equal(got, []string{"cpu", "nvidia.com/gpu"}) {
		t.Errorf("dimensions %q", got)
	}
	if got := d.Rows("victim"); !reflect.DeepEqual(got, want) || d.Block("victim").UnofferedRows() != 0 {
		t.Errorf("rows %+v", got)
	}
	b := d.Block("greedy3")
	if u := b.Unoffered(2); !u.Aggregate.Equal(amounts("made.up/c3-2", 3)) || !u.MinUnit.Equal(u.Aggregate) || b.UnofferedRows() != model.UnofferedNamesMax {
		t.Errorf("unoffered %+v of %d rows", u, b.UnofferedRows())
	}
	if row := d.Rows("greedy3")[2]; !row.Aggregate.Equal(asking(p, "cpu", "made.up/c3-2").Aggregate) {
		t.Errorf("the row has lost a name: %v", row.Aggregate)
	}
}

// TestTooManyUnofferedNames: the roll-up is refused with the name, and the rows
// before stay; all the names that a shard has dimensions for are accepted beside
// the most that have none.
func TestTooManyUnofferedNames(t *testing.T) {
	d, p := demand.New(), profile(t, model.ProfileSpec{})
	var offered []string
	for i := range model.OfferedNamesMax {
		offered = append(offered, fmt.Sprintf("example.com/r%02d", i))
	}
	d.Offer(offered)
	names := madeUp(model.UnofferedNamesMax + 1)
	good := []model.Need{asking(p, slices.Concat(offered, names[1:], []string{"cpu", "memory", "pods"})...)}
	good[0].Cluster = "a"
	if err := d.Replace("a", good); err != nil {
		t.Fatal(err)
	}
	if n := len(d.Dims()); n != model.DimensionsMax {
		t.Errorf("%d dimensions", n)
	}
	for range 3 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var bad []model.Need
		for _, name := range names {
			bad = append(bad, asking(p, name))
		}
		err := d.Replace("a", bad)
		if err == nil || !strings.Contains(err.Error(), `17 resources that no machine offers, such as "made.up/r016"; at most 16`) {
			t.Errorf("error is %v", err)
		}
	}
	if got := d.Rows("a"); !reflect.DeepEqual(got, good) {
		t.Errorf("the rows before have changed: %+v", got)
	}
}

// TestOfferMovesNames: a name gets a dimension when machines come to offer it and
// loses it when they no longer do; rows say what they said, and are named as
// changed when decisions see them otherwise. The state depends on nothing but the
// rows and what is offered.
func TestOfferMovesNames(t *testing.T) {
	p, q := profile(t, model.ProfileSpec{}), profile(t, model.ProfileSpec{Priority: 5})
	all := append(madeUp(8), "cpu", "memory")
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		some := func() []string {
			names := slices.Clone(all)
			rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			return names[:1+rng.IntN(len(names))]
		}
		d := demand.New()
		rows := map[string][]model.Need{}
		var offered []string
		for step := range 30 {
			at, before := d.Version(), sights(d)
			if rng.IntN(2) == 0 {
				c := fmt.Sprint("c", rng.IntN(3))
				list := make([]model.Need, rng.IntN(4))
				for i := range list {
					list[i] = asking([]*model.Profile{p, q}[rng.IntN(2)], some()...)
					list[i].Cluster, list[i].Arrival, list[i].Parked = c, 1+rng.Int64N(9), rng.IntN(2) == 0
					if i%2 == 0 {
						list[i].MinAggregate = amounts(list[i].Aggregate[0].Name, 1)
					}
				}
				if err := d.Replace(c, list); err != nil {
					t.Fatal(err)
				}
				rows[c] = list
			} else {
				offered = slices.Sorted(slices.Values(some()))
				d.Offer(offered)
			}
			fresh := demand.New()
			if offered != nil {
				fresh.Offer(offered)
			}
			for c, list := range rows {
				if got := d.Rows(c); len(list) > 0 && !reflect.DeepEqual(got, list) {
					t.Fatalf("seed %d step %d: rows of %s are %+v, want %+v", seed, step, c, got, list)
				}
				if err := fresh.Replace(c, list); err != nil {
					t.Fatal(err)
				}
			}
			after := sights(d)
			if want := sights(fresh); !reflect.DeepEqual(after, want) {
				t.Fatalf("seed %d step %d: decisions see %v, of a new table %v", seed, step, after, want)
			}
			changes, complete := d.Changes(at)
			for key, was := range before {
				if !complete || reflect.DeepEqual(was, after[key]) {
					continue
				}
				i := slices.IndexFunc(changes, func(c demand.ClusterChange) bool { return c.Cluster == key.cluster })
				if i < 0 || !changes[i].Whole && !slices.Contains(changes[i].Rows, uint32(key.row)) {
					t.Fatalf("seed %d step %d: row %v is seen otherwise and not named", seed, step, key)
				}
			}
		}
	}
}

type rowKey struct {
	cluster string
	row     int
}

// sights returns what decisions see of each row, by name.
func sights(d *demand.Table) map[rowKey][4]map[string]int64 {
	out := map[rowKey][4]map[string]int64{}
	vector := func(v []int64) map[string]int64 {
		m := map[string]int64{}
		for i, x := range v {
			if x > 0 {
				m[d.Dims()[i]] = x
			}
		}
		return m
	}
	beyond := func(r model.Resources) map[string]int64 {
		m := map[string]int64{}
		for _, a := range r {
			m[a.Name] = a.Value
		}
		return m
	}
	for _, c := range d.Clusters() {
		b := d.Block(c)
		for i := range b.Len() {
			u := b.Unoffered(i)
			out[rowKey{c, i}] = [4]map[string]int64{vector(b.Aggregate(i)), vector(b.MinUnit(i)), beyond(u.Aggregate), beyond(u.MinUnit)}
		}
	}
	return out
}

// TestNamesBeforeAnyListing: before it is known what is offered, a table takes in
// as many names as there may be from every cluster, and sorts them out later.
func TestNamesBeforeAnyListing(t *testing.T) {
	d, p := demand.New(), profile(t, model.ProfileSpec{})
	for c := range 3 {
		var names []string
		for i := range demand.NamesMax {
			names = append(names, fmt.Sprintf("made.up/c%d-%d", c, i))
		}
		if err := d.Replace(fmt.Sprint("greedy", c), []model.Need{asking(p, names...)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Replace("victim", []model.Need{asking(p, "cpu", "gpu")}); err != nil {
		t.Fatal(err)
	}
	d.Offer([]string{"gpu"})
	if d.Block("victim").UnofferedRows() != 0 || !reflect.DeepEqual(d.Rows("victim")[0].Aggregate, asking(p, "cpu", "gpu").Aggregate) {
		t.Errorf("rows %+v, unoffered %+v", d.Rows("victim"), d.Block("victim").Unoffered(0))
	}
	if u := d.Block("greedy1").Unoffered(0); len(u.Aggregate) != demand.NamesMax {
		t.Errorf("%d names are unoffered", len(u.Aggregate))
	}
}

// TestOfferAllocatesNothing: when nothing has changed.
func TestOfferAllocatesNothing(t *testing.T) {
	d, offered := demand.New(), []string{"cpu", "gpu"}
	d.Offer(offered)
	again := slices.Clone(offered)
	if n := testing.AllocsPerRun(10, func() { d.Offer(again) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
