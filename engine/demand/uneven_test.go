package demand_test

import (
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// TestUneven: the rows that agree in profile and group and differ in the minimum unit.
func TestUneven(t *testing.T) {
	p, q := profile(t, model.ProfileSpec{Priority: 1}), profile(t, model.ProfileSpec{Priority: 2})
	row := func(p *model.Profile, group string, unit int64) model.Need {
		return model.Need{Profile: p, Group: group, Aggregate: amounts("cpu", 9), MinUnit: amounts("cpu", unit)}
	}
	d := demand.New()
	for _, c := range []struct {
		rows []model.Need
		want []uint32
	}{
		{[]model.Need{row(p, "", 1), row(q, "", 2), row(p, "", 1)}, nil},
		{[]model.Need{row(p, "", 1), row(q, "", 2), row(p, "g", 2)}, nil},
		{[]model.Need{row(p, "", 1), row(q, "", 2), row(p, "", 2), row(q, "", 2), row(p, "", 1)}, []uint32{0, 2, 4}},
		{[]model.Need{row(p, "g", 1), row(p, "h", 1), row(p, "h", 2), row(p, "g", 3)}, []uint32{0, 1, 2, 3}},
		{[]model.Need{row(p, "g", 1), row(p, "h", 1), row(p, "h", 1), row(p, "g", 3)}, []uint32{0, 3}},
		{[]model.Need{row(p, "g", 1)}, nil},
	} {
		if err := d.Replace("c", c.rows); err != nil {
			t.Fatal(err)
		}
		if got := d.Block("c").Uneven(); !slices.Equal(got, c.want) {
			t.Errorf("%d rows: %v, want %v", len(c.rows), got, c.want)
		}
	}
}

// TestTwins: the rows without Same that agree in profile and group.
func TestTwins(t *testing.T) {
	p, q := profile(t, model.ProfileSpec{Priority: 1}), profile(t, model.ProfileSpec{Priority: 2})
	gang := profile(t, model.ProfileSpec{Priority: 1, Requirements: []model.Requirement{{Key: "rack", Operator: model.Same}}})
	row := func(p *model.Profile, group string, unit int64) model.Need {
		return model.Need{Profile: p, Group: group, Aggregate: amounts("cpu", 9), MinUnit: amounts("cpu", unit)}
	}
	d := demand.New()
	for _, c := range []struct {
		rows []model.Need
		want []uint32
		of   []uint32 // of the first row
	}{
		{[]model.Need{row(p, "", 1), row(q, "", 1), row(q, "g", 1)}, nil, nil},
		{[]model.Need{row(p, "", 1), row(q, "", 1), row(p, "", 1)}, []uint32{0, 2}, []uint32{0, 2}},
		{[]model.Need{row(p, "", 1), row(p, "g", 1), row(p, "g", 2), row(p, "", 3)}, []uint32{0, 3, 1, 2}, []uint32{0, 3}},
		{[]model.Need{row(q, "", 1), row(p, "", 1), row(p, "", 1)}, []uint32{1, 2}, nil},
		{[]model.Need{row(gang, "", 1), row(gang, "", 1)}, nil, nil},
		{[]model.Need{row(p, "g", 1)}, nil, nil},
	} {
		if err := d.Replace("c", c.rows); err != nil {
			t.Fatal(err)
		}
		b := d.Block("c")
		if got := b.Twins(); len(got) != len(c.want) || len(c.want) > 0 && !slices.Equal(got, c.want) {
			t.Errorf("%d rows: %v, want %v", len(c.rows), got, c.want)
		}
		if got := b.TwinsOf(0); !slices.Equal(got, c.of) && len(got)+len(c.of) > 0 {
			t.Errorf("%d rows: of the first %v, want %v", len(c.rows), got, c.of)
		}
		for i, row := range b.Twins() {
			rows, before := b.TwinsAt(i)
			if want := b.TwinsOf(int(row)); !slices.Equal(rows, want) || rows[before] != row {
				t.Errorf("%d rows: at %d of Twins are %v, %d before it; of row %d %v", len(c.rows), i, rows, before, row, want)
			}
		}
	}
}
