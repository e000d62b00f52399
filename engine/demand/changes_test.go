package demand_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// sight is what somebody saw of a table at one time.
type sight struct {
	version  uint64
	rows     map[string][]model.Need
	blocks   map[string]uint64 // versions
	reported map[string]bool
}

var sightClusters = []string{"a", "b", "c", "d"}

func look(d *demand.Table) sight {
	s := sight{version: d.Version(), rows: map[string][]model.Need{}, blocks: map[string]uint64{}, reported: map[string]bool{}}
	for _, c := range sightClusters {
		rows := d.Rows(c)
		for i := range rows {
			rows[i].ShortSince = 0 // not a change
		}
		s.rows[c], s.reported[c] = rows, d.Reported(c)
		if b := d.Block(c); b != nil {
			s.blocks[c] = b.Version()
		}
	}
	return s
}

// unnamed returns what differs between two sights and is not among the changes,
// "" = nothing.
func unnamed(before, after sight, changes []demand.ClusterChange) string {
	named := map[string]demand.ClusterChange{}
	for _, c := range changes {
		named[c.Cluster] = c
	}
	for _, c := range sightClusters {
		x, ok := named[c]
		was, is := before.rows[c], after.rows[c]
		switch {
		case !ok && (before.reported[c] != after.reported[c] || !reflect.DeepEqual(was, is)):
			return c
		case x.Whole:
			for i := range min(len(was), len(is)) {
				if _, ok := slices.BinarySearch(x.Arrived, uint32(i)); !ok && !x.AllArrived && was[i].Arrival != is[i].Arrival {
					return fmt.Sprintf("%s row %d as one that arrived", c, i)
				}
			}
			continue
		case !ok:
			continue
		case len(was) != len(is):
			return c + " as a whole"
		}
		for i := range is {
			if _, ok := slices.BinarySearch(x.Rows, uint32(i)); !ok && !reflect.DeepEqual(was[i], is[i]) {
				return fmt.Sprintf("%s row %d", c, i)
			}
			if _, ok := slices.BinarySearch(x.Arrived, uint32(i)); !ok && !x.AllArrived && was[i].Arrival != is[i].Arrival {
				return fmt.Sprintf("%s row %d as one that arrived", c, i)
			}
		}
	}
	return ""
}

// priorities returns profiles of so many priorities.
func priorities(tb testing.TB, n int) (out []*model.Profile) {
	tb.Helper()
	for i := range n {
		out = append(out, profile(tb, model.ProfileSpec{Priority: int32(i)}))
	}
	return out
}

// edit draws the next demand of a cluster from the one before.
func edit(rng *rand.Rand, profiles []*model.Profile, rows []model.Need) []model.Need {
	draw := func() model.Need {
		n := model.Need{Profile: profiles[rng.IntN(len(profiles))], Group: []string{"", "", "g", "h"}[rng.IntN(4)], Arrival: rng.Int64N(3)}
		n.Aggregate = model.NewResources(model.Amount{Name: fmt.Sprint("r", rng.IntN(3)), Value: rng.Int64N(3) + 1})
		n.MinUnit = model.NewResources(model.Amount{Name: fmt.Sprint("r", rng.IntN(3)), Value: rng.Int64N(2)})
		if rng.IntN(8) == 0 {
			n.MinAggregate = part(rng, n.Aggregate)
		}
		return n
	}
	rows = slices.Clone(rows)
	switch k := rng.IntN(8); {
	case k == 0:
		return nil
	case k == 1 && len(rows) > 0:
		return slices.Delete(rows, 0, 1)
	case k < 4:
		at := rng.IntN(len(rows) + 1)
		return slices.Insert(rows, at, draw())
	case k < 7 && len(rows) > 0:
		rows[rng.IntN(len(rows))] = draw()
	}
	return rows
}

// TestChangesNameEveryDifference: whatever happens to the demand, what differs
// between two times is named, and versions move exactly when it differs.
func TestChangesNameEveryDifference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 2))
	profiles := priorities(t, 5)
	d, b := demand.New(), demand.NewBuilder()
	seen := []sight{look(d)}
	for step := range 3000 {
		before := look(d)
		cluster := sightClusters[rng.IntN(len(sightClusters))]
		action := rng.IntN(5)
		switch row := rng.IntN(6) - 1; action {
		case 0:
			d.SetParked(cluster, row, rng.IntN(2) == 0)
		case 1:
			d.SetShortSince(cluster, row, rng.Int64N(3))
		default:
			b.Reset(cluster)
			for _, r := range edit(rng, profiles, d.Rows(cluster)) {
				if err := b.AddNeed(&r); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
			take := d.Install
			if action == 2 {
				take = d.Report
			}
			if err := take(b); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
		after := look(d)
		differs := !reflect.DeepEqual(before.rows, after.rows) || !reflect.DeepEqual(before.reported, after.reported)
		if moved := before.version != after.version; moved != differs || after.version < before.version {
			t.Fatalf("seed %d, step %d: version %d -> %d, but the demand differs: %v", seed, step, before.version, after.version, differs)
		}
		for _, c := range sightClusters {
			if (before.blocks[c] != after.blocks[c]) != !reflect.DeepEqual(before.rows[c], after.rows[c]) {
				t.Fatalf("seed %d, step %d: the version of %s went %d -> %d", seed, step, c, before.blocks[c], after.blocks[c])
			}
		}
		for _, old := range seen {
			changes, complete := d.Changes(old.version)
			if !complete {
				t.Fatalf("seed %d, step %d: the changes since %d are incomplete", seed, step, old.version)
			}
			if what := unnamed(old, after, changes); what != "" {
				t.Fatalf("seed %d, step %d: changes since %d do not name %s: %+v", seed, step, old.version, what, changes)
			}
			if !slices.IsSortedFunc(changes, func(a, b demand.ClusterChange) int { return strings.Compare(a.Cluster, b.Cluster) }) {
				t.Fatalf("seed %d, step %d: changes are not in order: %+v", seed, step, changes)
			}
		}
		if seen = append(seen, after); len(seen) > 6 {
			seen = slices.Delete(seen, 0, 1+rng.IntN(5))
		}
	}
}

// TestChangesAreSparing: one row is named as one row, and a report of what was
// there already as nothing.
func TestChangesAreSparing(t *testing.T) {
	d := demand.New()
	rows := plain(t, 100)
	for _, c := range []string{"a", "b"} {
		if err := d.Replace(c, rows); err != nil {
			t.Fatal(err)
		}
	}
	at, block := d.Version(), d.Block("a").Version()
	if err := d.Replace("a", rows); err != nil {
		t.Fatal(err)
	}
	d.SetParked("a", 3, false)
	d.SetShortSince("a", 3, 9)
	if d.Version() != at || d.Block("a").Version() != block {
		t.Error("the same demand again is a change")
	}
	rows = slices.Clone(rows)
	rows[7].Aggregate = amounts("cpu", 1000)
	if err := d.Replace("a", rows); err != nil {
		t.Fatal(err)
	}
	for _, parked := range []bool{true, false, true} {
		d.SetParked("b", 5, parked)
	}
	d.SetParked("a", 99, true)
	got, complete := d.Changes(at)
	want := []demand.ClusterChange{{Cluster: "a", Rows: []uint32{7, 99}}, {Cluster: "b", Rows: []uint32{5}}}
	if !complete || !reflect.DeepEqual(got, want) {
		t.Errorf("changes are %+v, want %+v", got, want)
	}
	if got, complete = d.Changes(d.Version()); len(got) != 0 || !complete {
		t.Errorf("changes since now are %+v", got)
	}
	if _, complete = d.Changes(d.Version() + 1); complete {
		t.Error("changes since a version to come are known")
	}
}

// TestEachFieldIsAChange: of its row, whichever it is.
func TestEachFieldIsAChange(t *testing.T) {
	other := profile(t, model.ProfileSpec{Priority: 99})
	for name, edit := range map[string]func(*model.Need){
		"profile":            func(n *model.Need) { n.Profile = other },
		"aggregate":          func(n *model.Need) { n.Aggregate = amounts("memory", 1) },
		"no aggregate":       func(n *model.Need) { n.Aggregate = nil },
		"minimum unit":       func(n *model.Need) { n.MinUnit = amounts("cpu", 2) },
		"least aggregate":    func(n *model.Need) { n.MinAggregate = amounts("cpu", 2) },
		"no least aggregate": func(n *model.Need) { n.MinAggregate = nil },
		"group":              func(n *model.Need) { n.Group = "other" },
		"no group":           func(n *model.Need) { n.Group = "" },
		"arrival":            func(n *model.Need) { n.Arrival++ },
		"parked":             func(n *model.Need) { n.Parked = true },
	} {
		t.Run(name, func(t *testing.T) {
			d, rows := demand.New(), plain(t, 70)
			rows[66].Group = "g"
			if strings.HasSuffix(name, "least aggregate") {
				rows[66].MinAggregate = amounts("cpu", 1)
			}
			if err := d.Load("a", rows); err != nil {
				t.Fatal(err)
			}
			at := d.Version()
			edit(&rows[66])
			if err := d.Load("a", rows); err != nil {
				t.Fatal(err)
			}
			want := demand.ClusterChange{Cluster: "a", Rows: []uint32{66}}
			if name == "arrival" {
				want.Arrived = want.Rows
			}
			if got, _ := d.Changes(at); !reflect.DeepEqual(got, []demand.ClusterChange{want}) {
				t.Errorf("changes are %+v", got)
			}
		})
	}
}

// TestChangesAreBounded: of too many changes, the log says that it does not
// know them all, and it does not grow.
func TestChangesAreBounded(t *testing.T) {
	d := demand.New()
	rows := plain(t, 1000)
	for i := range 300 {
		if err := d.Replace(fmt.Sprint("c", i), rows); err != nil {
			t.Fatal(err)
		}
	}
	start, bytes := d.Version(), int64(0)
	for round := range 14 {
		before := d.Version()
		for i := range 300 {
			for row := range 200 {
				d.SetParked(fmt.Sprint("c", i), row, round%2 == 0)
			}
		}
		got, complete := d.Changes(before)
		if !complete || len(got) != 300 || len(got[17].Rows) != 200 {
			t.Fatalf("round %d: complete %v, %d clusters", round, complete, len(got))
		}
		if round == 7 {
			bytes = d.Bytes()
		}
	}
	if _, complete := d.Changes(start); complete {
		t.Error("everything since the start is known")
	}
	if now := d.Bytes(); now > bytes+bytes/10 {
		t.Errorf("the table grew from %d to %d bytes", bytes, now)
	}
}

// TestDimensionsWithOtherNumbersAreAChangeOfAll: vectors mean something else.
func TestDimensionsWithOtherNumbersAreAChangeOfAll(t *testing.T) {
	d := demand.New()
	p := profile(t, model.ProfileSpec{})
	if err := d.Replace("kept", []model.Need{{Profile: p, Aggregate: amounts("cpu", 1)}}); err != nil {
		t.Fatal(err)
	}
	at, numbering := d.Version(), d.Numbering()
	for i := range demand.DimsMax {
		if err := d.Replace("other", []model.Need{{Profile: p, Aggregate: amounts(fmt.Sprint("dim", i), 1)}}); err != nil {
			t.Fatal(err)
		}
		if _, complete := d.Changes(at); complete != (i < demand.DimsMax-1) {
			t.Fatalf("after %d dimensions the changes are known: %v", i+2, complete)
		}
	}
	if d.Numbering().Dims == numbering.Dims {
		t.Error("the numbering of dimensions is what it was")
	}
}
