package supply

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

// askingProfile draws requirements on two keys, most of which list values.
func askingProfile(t *testing.T, d *rand.Rand) *model.Profile {
	t.Helper()
	var spec model.ProfileSpec
	for _, key := range []string{"app", "team"} {
		r := model.Requirement{Key: key, Operator: []model.Operator{model.In, model.In, model.In, model.NotIn, model.Exists, model.DoesNotExist}[d.IntN(6)]}
		if r.Operator == model.In || r.Operator == model.NotIn {
			for range 1 + d.IntN(askedValuesMax+2) {
				r.Values = append(r.Values, fmt.Sprint(d.IntN(60)))
			}
		}
		if d.IntN(4) > 0 {
			spec.Requirements = append(spec.Requirements, r)
		}
	}
	p, err := model.NewProfile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMatchersFoundByValue: matchers that are found by the values they list accept
// what each accepts by itself, whether it was there before them or not.
func TestMatchersFoundByValue(t *testing.T) {
	d := rand.New(rand.NewPCG(1, 2))
	tbl := New()
	var profiles []*model.Profile
	put := func(from, to int) {
		for i := from; i < to; i++ {
			m := model.Machine{ID: fmt.Sprint("m", i), Host: "h", State: model.Idle, Labels: map[string]string{}}
			for _, key := range []string{"app", "team"} {
				if d.IntN(5) > 0 {
					m.Labels[key] = fmt.Sprint(d.IntN(60))
				}
			}
			if err := tbl.Put(&m); err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 6 {
		put(round*50, round*50+50)
		for range 2 * askedMin {
			profiles = append(profiles, askingProfile(t, d))
		}
		if err := tbl.Use(profiles); err != nil {
			t.Fatal(err)
		}
		put(round*50+25, round*50+75) // some anew, and some of classes that come after
		for i := 1; i < tbl.ClassMax(); i++ {
			x := &tbl.classes.list[i]
			if x.count == 0 {
				continue
			}
			var want []uint32
			for id := range tbl.matchers.list {
				if m := &tbl.matchers.list[id]; m.ready && tbl.accepts(m, &x.kind) {
					want = append(want, uint32(id))
				}
			}
			if !slices.Equal(x.matchers, want) {
				t.Fatalf("round %d: class %d is accepted by %v, want %v", round, i, x.matchers, want)
			}
		}
	}
}

// TestFewMatchersAreTried: of many matchers that each ask for a value of their own, a
// class is tried on the one that asks for its.
func TestFewMatchersAreTried(t *testing.T) {
	tbl := New()
	var profiles []*model.Profile
	for i := range 10 * askedMin {
		p, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{
			{Key: "app", Operator: model.In, Values: []string{fmt.Sprint(i)}}, {Key: "team", Operator: model.Exists},
		}})
		if err != nil {
			t.Fatal(err)
		}
		profiles = append(profiles, p)
	}
	m := model.Machine{ID: "m", Host: "h", State: model.Idle, Labels: map[string]string{"app": "7", "team": "a"}}
	if err := tbl.Put(&m); err != nil {
		t.Fatal(err)
	}
	if err := tbl.Use(profiles); err != nil {
		t.Fatal(err)
	}
	tbl.acceptedBy(&tbl.classes.list[tbl.cols.class[1]].kind)
	x := tbl.matchers.asked
	if tries := len(x.others) + len(x.byValue[tbl.Key("app")]["7"]); tries != 1 {
		t.Errorf("a class is tried on %d matchers, want 1", tries)
	}
}
