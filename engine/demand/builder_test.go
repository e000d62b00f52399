package demand_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// dim returns the builder's number for a dimension.
func dim(tb testing.TB, b *demand.Builder, name string) uint32 {
	tb.Helper()
	n, err := b.Dim([]byte(name))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// TestBuilderRefuses: a row that is not in order refuses the roll-up, says
// which row it is, and the table keeps what it had.
func TestBuilderRefuses(t *testing.T) {
	p := profile(t, model.ProfileSpec{})
	for _, c := range []struct {
		name, want string
		row        demand.Row
	}{
		{"unknown profile", "row 1 has no profile", demand.Row{Profile: 1}},
		{"zero amount", "row 1 has a vector", demand.Row{Aggregate: []demand.Amount{{Dim: 0, Value: 0}}}},
		{"negative amount", "row 1 has a vector", demand.Row{MinUnit: []demand.Amount{{Dim: 0, Value: -1}}}},
		{"unknown dimension", "row 1 has a vector", demand.Row{Aggregate: []demand.Amount{{Dim: 1, Value: 1}}}},
		{"dimension twice", "row 1 has a vector", demand.Row{Aggregate: []demand.Amount{{Dim: 0, Value: 1}, {Dim: 0, Value: 1}}}},
		{"long group", "row 1 has a group of 513 bytes", demand.Row{Group: make([]byte, model.NameBytesMax+1)}},
		{"unsorted", "row 1 has a vector", demand.Row{MinAggregate: model.Resources{{Name: "b", Value: 1}, {Name: "a", Value: 1}}}},
		{
			"minimum above the whole", `row 1 has a minAggregate of 5m "cpu", more than its aggregate's 4m; lower it to that, or leave minAggregate out`,
			demand.Row{Aggregate: []demand.Amount{{Dim: 0, Value: 4}}, MinAggregate: model.Resources{{Name: "cpu", Value: 5}}},
		},
		{
			"minimum of what is not asked for", `row 1 has a minAggregate of 1 "gpu", more than its aggregate's 0`,
			demand.Row{Aggregate: []demand.Amount{{Dim: 0, Value: 4}}, MinAggregate: model.Resources{{Name: "cpu", Value: 4}, {Name: "gpu", Value: 1}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, b := demand.New(), demand.NewBuilder()
			if err := d.Replace("a", plain(t, 2)); err != nil {
				t.Fatal(err)
			}
			before, version := d.Rows("a"), d.Version()
			b.Reset("a")
			row := demand.Row{Profile: b.Profile(p), Aggregate: []demand.Amount{{Dim: dim(t, b, "cpu"), Value: 1}}}
			if err := b.Add(&row); err != nil {
				t.Fatal(err)
			}
			err := b.Add(&c.row)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `cluster "a"`) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if again := b.Add(&row); !errors.Is(again, err) {
				t.Errorf("the next row is answered %v", again)
			}
			if got := d.Report(b); !errors.Is(got, err) {
				t.Errorf("the roll-up is answered %v", got)
			}
			if !reflect.DeepEqual(d.Rows("a"), before) || d.Version() != version {
				t.Error("the demand changed")
			}
		})
	}
}

// TestBuilderLimits: what a roll-up may hold has an end, and the error says
// what is too much.
func TestBuilderLimits(t *testing.T) {
	p := profile(t, model.ProfileSpec{})
	d, b := demand.New(), demand.NewBuilder()
	begin := func() *demand.Row {
		b.Reset("a")
		return &demand.Row{Profile: b.Profile(p)}
	}
	fill := func(row *demand.Row, rows int) error {
		for range rows {
			if err := b.Add(row); err != nil {
				return err
			}
		}
		return d.Install(b)
	}
	if err := fill(begin(), demand.RowsMax); err != nil {
		t.Errorf("as many rows as are allowed: %v", err)
	}
	if err := fill(begin(), demand.RowsMax+1); err == nil || !strings.Contains(err.Error(), "more than 1048576 rows") {
		t.Errorf("too many rows: %v", err)
	}
	// sizes fills a roll-up with rows of different sizes, the first of all dimensions.
	sizes := func(rows int, of func(*demand.Row) *[]demand.Amount) error {
		row := begin()
		v := of(row)
		for i := range demand.DimsMax {
			*v = append(*v, demand.Amount{Dim: dim(t, b, fmt.Sprint("dim", i)), Value: 1})
		}
		for i := range rows {
			if err := b.Add(row); err != nil {
				return err
			}
			*v = append((*v)[:0], demand.Amount{Dim: 0, Value: int64(i) + 2})
		}
		return d.Install(b)
	}
	for _, of := range []func(*demand.Row) *[]demand.Amount{
		func(r *demand.Row) *[]demand.Amount { return &r.Aggregate },
		func(r *demand.Row) *[]demand.Amount { return &r.MinUnit },
	} {
		names := d.Dims()
		if err := sizes(demand.ValuesMax/demand.DimsMax+1, of); err == nil || !strings.Contains(err.Error(), "report fewer sizes") || !reflect.DeepEqual(d.Dims(), names) {
			t.Errorf("too many values: %v; dimensions %q", err, d.Dims())
		}
		if err := sizes(1000, of); err != nil {
			t.Error(err)
		}
	}
	begin()
	for i := range demand.NamesMax {
		dim(t, b, fmt.Sprint("dim", i))
	}
	of := func(dims ...uint32) *demand.Row {
		r := &demand.Row{}
		for _, d := range dims {
			r.Aggregate = append(r.Aggregate, demand.Amount{Dim: d, Value: 1})
		}
		return r
	}
	if err := b.Add(of(0, 64, 65, 1, 64)); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("a dimension beyond the first 64, twice: %v", err)
	}
	begin()
	for i := range demand.NamesMax {
		dim(t, b, fmt.Sprint("dim", i))
	}
	for name, want := range map[string]string{"": "without a name", strings.Repeat("x", model.NameBytesMax+1): "whose name has 513 bytes", "new": "would be resource 80 of the roll-up"} {
		if _, err := b.Dim([]byte(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dimension %.5q: %v, want %q", name, err, want)
		}
	}
}

// TestBuilderIsUsedUp: a roll-up is taken over once.
func TestBuilderIsUsedUp(t *testing.T) {
	d, b := demand.New(), demand.NewBuilder()
	if err := d.Install(b); err == nil {
		t.Error("a roll-up of nobody was taken over")
	}
	b.Reset("a")
	if err := d.Install(b); err != nil {
		t.Fatal(err)
	}
	if err := d.Install(b); err == nil || !strings.Contains(err.Error(), "Reset") {
		t.Errorf("the second time: %v", err)
	}
}

// TestEqualProfilesBecomeOne: also when a builder numbered them apart, and
// unused dimensions and units take no number.
func TestEqualProfilesBecomeOne(t *testing.T) {
	d, b := demand.New(), demand.NewBuilder()
	b.Reset("a")
	dim(t, b, "unused")
	for range 3 {
		row := demand.Row{Profile: b.Profile(profile(t, model.ProfileSpec{Priority: 7})), MinUnit: []demand.Amount{{Dim: dim(t, b, "cpu"), Value: 5}}}
		if err := b.Add(&row); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Report(b); err != nil {
		t.Fatal(err)
	}
	block := d.Block("a")
	if !reflect.DeepEqual(block.Profiles(), []uint32{0, 0, 0}) || d.ProfileIDMax() != 1 {
		t.Errorf("profiles %v, %d known", block.Profiles(), d.ProfileIDMax())
	}
	if !reflect.DeepEqual(d.Dims(), []string{"cpu"}) || !reflect.DeepEqual(block.UnitIDs(), []uint32{1, 1, 1}) || !reflect.DeepEqual(d.Vector(1), []int64{5}) {
		t.Errorf("dimensions %q, units %v", d.Dims(), block.UnitIDs())
	}
	if !reflect.DeepEqual(block.AggregateIDs(), []uint32{0, 0, 0}) || block.Aggregate(0) != nil {
		t.Errorf("rows that ask for nothing have aggregates %v", block.AggregateIDs())
	}
}

// TestNumbersGoWithTheirRows: groups, vectors and profiles that no row has any
// more are forgotten, whatever way the rows went.
func TestNumbersGoWithTheirRows(t *testing.T) {
	d := demand.New()
	for round := range 50 {
		rows := plain(t, 5+round%7)
		for i := range rows {
			rows[i].Group = fmt.Sprint("group", round, i)
			rows[i].MinUnit = amounts("cpu", int64(100*round+i+1))
			rows[i].Profile = profile(t, model.ProfileSpec{Priority: int32(100*round + i)})
		}
		if round%10 == 9 {
			rows = nil
		}
		if err := d.Replace("a", rows); err != nil {
			t.Fatal(err)
		}
	}
	rows := plain(t, 1)
	rows[0].Group = "last"
	if err := d.Replace("a", rows); err != nil {
		t.Fatal(err)
	}
	if p, v, g := d.ProfileIDMax(), d.VectorIDMax(), d.GroupIDMax(); p > 22 || v > 45 || g > 23 {
		t.Errorf("numbers go up to %d, %d, %d", p, v, g)
	}
	id := d.Block("a").GroupID(0)
	if d.GroupName(id) != "last" || d.GroupName(0) != "" {
		t.Errorf("group %d is %q", id, d.GroupName(id))
	}
	if got, ok := d.GroupID("last"); !ok || got != id {
		t.Errorf("the number of the group is %d, %v", got, ok)
	}
	if _, ok := d.GroupID("group480"); ok {
		t.Error("a group that is gone has a number")
	}
}

// TestReportContinues: a row has arrived when the one that it continues had,
// and rests as that did while it asks for as much.
func TestReportContinues(t *testing.T) {
	p, q := profile(t, model.ProfileSpec{Priority: 1}), profile(t, model.ProfileSpec{Priority: 2})
	need := func(p *model.Profile, group string, cpu, arrival int64) model.Need {
		return model.Need{Profile: p, Group: group, Aggregate: amounts("cpu", cpu), Arrival: arrival}
	}
	start := []model.Need{need(p, "", 1, 10), need(p, "g", 2, 11), need(p, "g", 2, 12), need(q, "", 4, 13)}
	for _, c := range []struct {
		name     string
		report   []model.Need
		arrivals []int64
		parked   []bool
	}{
		{"the same", []model.Need{need(p, "", 1, 20), need(p, "g", 2, 20), need(p, "g", 2, 20), need(q, "", 4, 20)}, []int64{10, 11, 12, 13}, []bool{true, true, true, true}},
		{"grown", []model.Need{need(p, "", 1, 20), need(p, "g", 3, 20), need(p, "g", 2, 20), need(q, "", 4, 20)}, []int64{10, 11, 12, 13}, []bool{true, false, true, true}},
		{"one more in front", []model.Need{need(q, "g", 1, 20), need(p, "", 1, 20), need(p, "g", 2, 20), need(p, "g", 2, 20), need(q, "", 4, 20)}, []int64{20, 10, 11, 12, 13}, []bool{false, true, true, true, true}},
		{"turned about", []model.Need{need(q, "", 4, 20), need(p, "g", 2, 20), need(p, "", 1, 20), need(p, "g", 2, 20)}, []int64{13, 11, 10, 12}, []bool{true, true, true, true}},
		{"another group", []model.Need{need(p, "h", 1, 20), need(q, "", 4, 20)}, []int64{20, 13}, []bool{false, true}},
		{"reported as older", []model.Need{need(p, "", 1, 5), need(q, "", 4, 0)}, []int64{5, 13}, []bool{true, true}},
		{"another dimension", []model.Need{{Profile: p, Aggregate: amounts("memory", 1), Arrival: 20}, need(q, "", 4, 20)}, []int64{10, 13}, []bool{false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, b := demand.New(), demand.NewBuilder()
			if err := d.Load("a", start); err != nil {
				t.Fatal(err)
			}
			for i := range start {
				d.SetParked("a", i, true)
				d.SetShortSince("a", i, 7)
			}
			b.Reset("a")
			for i := range c.report {
				if err := b.AddNeed(&c.report[i]); err != nil {
					t.Fatal(err)
				}
			}
			version := d.Version()
			if err := d.Report(b); err != nil {
				t.Fatal(err)
			}
			for i, n := range d.Rows("a") {
				if n.Arrival != c.arrivals[i] || n.Parked != c.parked[i] || (n.ShortSince == 7) != c.parked[i] {
					t.Errorf("row %d arrived at %d, parked %v, short since %d; want %d, %v", i, n.Arrival, n.Parked, n.ShortSince, c.arrivals[i], c.parked[i])
				}
			}
			if changed := d.Version() != version+1; c.name == "the same" && changed {
				t.Error("more than the first report changed")
			}
		})
	}
}

// TestReportOfLessIsNotParked: a row that leaves a dimension out asks for
// another size, also when it agrees in the others.
func TestReportOfLessIsNotParked(t *testing.T) {
	d, b := demand.New(), demand.NewBuilder()
	row := plain(t, 1)[0]
	less := row
	row.Aggregate = row.Aggregate.Add(amounts("memory", 1))
	for i, n := range []model.Need{row, row, less} {
		b.Reset("a")
		if err := b.AddNeed(&n); err != nil {
			t.Fatal(err)
		}
		if err := d.Report(b); err != nil {
			t.Fatal(err)
		}
		if got, want := d.Block("a").Parked(0), i == 1; got != want {
			t.Errorf("report %d: parked %v", i, got)
		}
		d.SetParked("a", 0, true)
	}
}

// TestReportAllocatesNothing: neither when the demand is what it was, nor when
// every row asks for another amount.
func TestReportAllocatesNothing(t *testing.T) {
	d, b := demand.New(), demand.NewBuilder()
	rows := plain(t, 500)
	for i := range rows {
		rows[i].Group = fmt.Sprint("g", i%50)
	}
	row := demand.Row{}
	size, name := int64(0), []byte("cpu")
	report := func() {
		b.Reset("a")
		cpu, err := b.Dim(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			row.Profile, row.Group = b.Profile(rows[i].Profile), append(row.Group[:0], rows[i].Group...)
			row.Aggregate = append(row.Aggregate[:0], demand.Amount{Dim: cpu, Value: int64(i) + 1 + size})
			row.MinUnit = append(row.MinUnit[:0], demand.Amount{Dim: cpu, Value: 1})
			if err := b.Add(&row); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Report(b); err != nil {
			t.Fatal(err)
		}
		if _, complete := d.Changes(d.Version() - 1); !complete {
			t.Fatal("changes are incomplete")
		}
	}
	report()
	if n := testing.AllocsPerRun(20, report); n > 0 {
		t.Errorf("the same demand again: %v allocations", n)
	}
	if n := testing.AllocsPerRun(20, func() { size++; report() }); n > 0 {
		t.Errorf("other amounts: %v allocations", n)
	}
}
