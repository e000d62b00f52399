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

func profile(tb testing.TB, spec model.ProfileSpec) *model.Profile {
	tb.Helper()
	p, err := model.NewProfile(spec)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func amounts(name string, value int64) model.Resources {
	return model.NewResources(model.Amount{Name: name, Value: value})
}

// plain returns n rows of one profile.
func plain(tb testing.TB, n int) []model.Need {
	p := profile(tb, model.ProfileSpec{Priority: int32(n)})
	rows := make([]model.Need, n)
	for i := range rows {
		rows[i] = model.Need{Profile: p, Aggregate: amounts("cpu", int64(i+1)), MinUnit: amounts("cpu", 1)}
	}
	return rows
}

// TestReplaceIsComplete: a roll-up is the whole demand of its cluster, an
// empty one clears it, and other clusters are not touched.
func TestReplaceIsComplete(t *testing.T) {
	d := demand.New()
	for _, c := range []string{"b", "a"} {
		if err := d.Replace(c, plain(t, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Replace("a", plain(t, 1)); err != nil {
		t.Fatal(err)
	}
	if got := len(d.Rows("a")); got != 1 {
		t.Errorf("a has %d rows after a roll-up of one", got)
	}
	if got := d.Clusters(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("clusters are %q", got)
	}
	if err := d.Replace("a", nil); err != nil {
		t.Fatal(err)
	}
	if d.Block("a") != nil || d.Rows("a") != nil || d.Len() != 3 || !slices.Equal(d.Clusters(), []string{"b"}) {
		t.Errorf("after an empty roll-up of a: %d rows in all, clusters %q", d.Len(), d.Clusters())
	}
	if !d.Reported("a") || d.Reported("c") {
		t.Error("a has reported, if nothing; c has not")
	}
	if err := d.Load("c", plain(t, 1)); err != nil || d.Reported("c") {
		t.Errorf("loaded demand is no report: %v", err)
	}
}

// TestRefusedRollupLeavesTheLastGoodOne: whatever is wrong, and wherever in
// the rows, nothing changes.
func TestRefusedRollupLeavesTheLastGoodOne(t *testing.T) {
	good := plain(t, 3)
	long := strings.Repeat("x", model.NameBytesMax+1)
	many := make(model.Resources, demand.NamesMax+1)
	for i := range many {
		many[i] = model.Amount{Name: fmt.Sprintf("dim%03d", i), Value: 1}
	}
	for _, c := range []struct {
		name, cluster, want string
		spoil               func(*model.Need)
	}{
		{"no profile", "a", "row 2 has no profile", func(n *model.Need) { n.Profile = nil }},
		{"another cluster", "a", `row 2 names cluster "b"`, func(n *model.Need) { n.Cluster = "b" }},
		{"long group", "a", "row 2 has a group of 513 bytes", func(n *model.Need) { n.Group = long }},
		{"negative amount", "a", "row 2 has a vector", func(n *model.Need) { n.Aggregate = model.Resources{{Name: "cpu", Value: -1}} }},
		{"zero amount", "a", "row 2 has a vector", func(n *model.Need) { n.MinUnit = model.Resources{{Name: "cpu"}} }},
		{"unsorted", "a", "row 2 has a vector", func(n *model.Need) {
			n.MinAggregate = model.Resources{{Name: "b", Value: 1}, {Name: "a", Value: 1}}
		}},
		{"nameless dimension", "a", "row 2 has a vector", func(n *model.Need) { n.Aggregate = model.Resources{{Value: 1}} }},
		{"too many resources", "a", "at most 79 are accepted", func(n *model.Need) { n.Aggregate = many }},
		{"no cluster", "", "the cluster id must not be empty", func(*model.Need) {}},
		{"a control character in the cluster", "a\u009b", `the cluster id holds the control character U+009B at byte 1: "a\u009b"`, func(*model.Need) {}},
		{"a control character in a resource", "a", `row 2 names a resource whose name holds the control character U+001B`, func(n *model.Need) { n.Aggregate = model.Resources{{Name: "g\x1b", Value: 1}} }},
		{"long cluster", long, "the cluster id has 513 bytes", func(*model.Need) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := demand.New()
			if err := d.Replace("a", good); err != nil {
				t.Fatal(err)
			}
			before, version := d.Rows("a"), d.Version()
			bad := plain(t, 5)
			c.spoil(&bad[2])
			err := d.Replace(c.cluster, bad)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %q", err, c.want)
			}
			if !reflect.DeepEqual(d.Rows("a"), before) || d.Len() != 3 || d.ProfileIDMax() != 1 {
				t.Errorf("the last good demand changed: %d rows, version %d -> %d", d.Len(), version, d.Version())
			}
			if c.cluster != "a" && d.Reported(c.cluster) {
				t.Error("a refused roll-up counts as a report")
			}
		})
	}
}

// TestRowsComeBack: what was reported is what is returned, in order, whatever
// was reported before and elsewhere.
func TestRowsComeBack(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	d := demand.New()
	want := map[string][]model.Need{}
	vector := func() model.Resources {
		var v []model.Amount
		for range rng.IntN(4) {
			v = append(v, model.Amount{Name: fmt.Sprint("r", rng.IntN(6)), Value: rng.Int64N(3) + 1})
		}
		return model.NewResources(v...)
	}
	for step := range 400 {
		cluster := fmt.Sprint("c", rng.IntN(5))
		rows := make([]model.Need, rng.IntN(8))
		for i := range rows {
			rows[i] = model.Need{
				Cluster: cluster, Profile: profile(t, model.ProfileSpec{Priority: rng.Int32N(6)}), Group: []string{"", "g", "h1"}[rng.IntN(3)],
				Aggregate: vector(), MinUnit: vector(), Arrival: rng.Int64N(9),
				ShortSince: rng.Int64N(2), Parked: rng.IntN(2) == 0,
			}
			if rng.IntN(2) == 0 {
				rows[i].MinAggregate = part(rng, rows[i].Aggregate)
			}
		}
		if err := d.Replace(cluster, rows); err != nil {
			t.Fatal(err)
		}
		want[cluster] = rows
		profiles := map[string]bool{}
		total := 0
		for c, rows := range want {
			got := d.Rows(c)
			total += len(rows)
			if len(got) != len(rows) {
				t.Fatalf("seed %d, step %d: %s has %d rows, want %d", seed, step, c, len(got), len(rows))
			}
			for i := range rows {
				profiles[rows[i].Profile.Canonical()] = true
				if !got[i].Profile.Equal(rows[i].Profile) {
					t.Fatalf("seed %d, step %d: %s row %d has another profile", seed, step, c, i)
				}
				got[i].Profile = rows[i].Profile
				if !reflect.DeepEqual(got[i], rows[i]) {
					t.Fatalf("seed %d, step %d: %s row %d is\n%+v, want\n%+v", seed, step, c, i, got[i], rows[i])
				}
			}
		}
		held := 0
		for id := range d.ProfileIDMax() {
			if d.Profile(id) != nil {
				held++
			}
		}
		if held != len(profiles) || d.Len() != total {
			t.Fatalf("seed %d, step %d: %d profiles held, %d in use; %d rows, want %d", seed, step, held, len(profiles), d.Len(), total)
		}
	}
}

// TestDimensionsMakeRoom: dimensions that nobody names any more do not count
// against those that come, and the rows of others survive their going.
func TestDimensionsMakeRoom(t *testing.T) {
	d := demand.New()
	p := profile(t, model.ProfileSpec{})
	kept := []model.Need{{Cluster: "kept", Profile: p, Aggregate: amounts("zzz", 7), MinUnit: amounts("cpu", 2)}}
	if err := d.Replace("first", []model.Need{{Profile: p, Aggregate: amounts("gone", 1)}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Replace("kept", kept); err != nil {
		t.Fatal(err)
	}
	for i := range 5 * demand.DimsMax {
		if err := d.Replace("first", []model.Need{{Profile: p, Aggregate: amounts(fmt.Sprint("dim", i), 1), MinUnit: amounts("cpu", 1)}}); err != nil {
			t.Fatalf("roll-up %d: %v", i, err)
		}
		if got := d.Rows("kept"); !reflect.DeepEqual(got, kept) {
			t.Fatalf("roll-up %d: the other cluster's rows are %+v", i, got)
		}
	}
	if n := len(d.Dims()); n > demand.DimsMax {
		t.Errorf("%d dimensions", n)
	}
}

// TestStampsOfRowsThatAreGone: what the caller noted for a row may come late.
func TestStampsOfRowsThatAreGone(t *testing.T) {
	d := demand.New()
	d.SetParked("a", 0, true)
	if err := d.Replace("a", plain(t, 2)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []int{-1, 0, 2, 1 << 30} {
		d.SetParked("a", row, true)
		d.SetShortSince("a", row, 5)
	}
	rows := d.Rows("a")
	if !rows[0].Parked || rows[0].ShortSince != 5 || rows[1].Parked || rows[1].ShortSince != 0 {
		t.Errorf("stamps are %+v", rows)
	}
	d.SetShortSince("a", 0, 0)
	if d.Rows("a")[0].ShortSince != 0 {
		t.Error("still short")
	}
}

// part draws a vector that another covers.
func part(rng *rand.Rand, of model.Resources) model.Resources {
	var v []model.Amount
	for _, a := range of {
		if least := rng.Int64N(a.Value + 1); least > 0 {
			v = append(v, model.Amount{Name: a.Name, Value: least})
		}
	}
	return model.NewResources(v...)
}

// TestCountedFor: a stamp with a group's name, or with a fingerprint that only rows have which ask for one domain, or their folds, is a
// group's. It is so for as long as such a row is there.
func TestCountedFor(t *testing.T) {
	rack := func(op model.Operator, values ...string) *model.Profile {
		return profile(t, model.ProfileSpec{Requirements: []model.Requirement{{Key: "rack", Operator: op, Values: values}}})
	}
	row := func(p *model.Profile) model.Need {
		return model.Need{Profile: p, Aggregate: amounts("cpu", 1), MinUnit: amounts("cpu", 1)}
	}
	anywhere, inA, gang, gangInA := profile(t, model.ProfileSpec{}), rack(model.In, "a"), rack(model.Same), rack(model.Same, "a")
	for _, c := range []struct {
		name  string
		rows  []model.Need
		stamp model.Assignment
		want  string
	}{
		{"nobody's", nil, model.Assignment{Fingerprint: 7}, ""},
		{"a row's", []model.Need{row(anywhere), row(gang)}, model.Assignment{Fingerprint: anywhere.Fingerprint()}, model.CountedForRow},
		{"with a group's name", []model.Need{row(anywhere)}, model.Assignment{Fingerprint: anywhere.Fingerprint(), Group: "g"}, model.CountedForGroup},
		{"a gang's", []model.Need{row(anywhere), row(gang)}, model.Assignment{Fingerprint: gang.Fingerprint()}, model.CountedForGroup},
		{"a fold's", []model.Need{row(gang), row(gang)}, model.Assignment{Fingerprint: gang.Folded().Fingerprint()}, model.CountedForGroup},
		{"a fold's or a row's", []model.Need{row(gangInA), row(inA)}, model.Assignment{Fingerprint: inA.Fingerprint()}, ""},
		{"a row's that could be a fold's", []model.Need{row(inA)}, model.Assignment{Fingerprint: inA.Fingerprint()}, model.CountedForRow},
	} {
		d := demand.New()
		if err := d.Replace("c", c.rows); err != nil {
			t.Fatal(err)
		}
		if got := d.CountedFor(c.stamp); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if turned, all := d.TakeTurned(); slices.Contains(turned, c.stamp.Fingerprint) != (len(c.rows) > 0) || all {
			t.Errorf("%s: the fingerprints with another meaning are %x, all: %v", c.name, turned, all)
		}
		if err := d.Replace("c", nil); err != nil {
			t.Fatal(err)
		}
		if got := d.CountedFor(model.Assignment{Fingerprint: c.stamp.Fingerprint}); got != "" {
			t.Errorf("%s, when its row is gone: %q", c.name, got)
		}
	}
}

// TestTurnedIsBounded: where nobody takes the fingerprints that have another meaning, it is all of them one day.
func TestTurnedIsBounded(t *testing.T) {
	d := demand.New()
	for i := range 5000 {
		p := profile(t, model.ProfileSpec{Priority: int32(i)})
		if err := d.Replace("c", []model.Need{{Profile: p, Aggregate: amounts("cpu", 1), MinUnit: amounts("cpu", 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	if turned, all := d.TakeTurned(); !all || len(turned) > 4096 {
		t.Errorf("%d, all: %v", len(turned), all)
	}
	if turned, all := d.TakeTurned(); all || len(turned) > 0 {
		t.Errorf("and then %d, all: %v", len(turned), all)
	}
}
