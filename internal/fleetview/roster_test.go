package fleetview_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/fleetview/viewtest"
	"github.com/tonnage/tonnage/web"
)

// TestAllNeedsAreListed, satisfied ones too, by priority; a text, a state, a cluster and a reason choose among them.
func TestAllNeedsAreListed(t *testing.T) {
	f := viewtest.Contended(t, began)
	for query, want := range map[string][]string{
		"needs?all=true":                         {"llm", "shop", "models", "volta", "volta-2", "volta-3", "builds", "nightly"},
		"needs?all=true&offset=2&limit=2":        {"models", "volta"},
		"needs?all=true&q=SHOP":                  {"shop"},
		"needs?all=true&q=v100":                  {"volta", "volta-2", "volta-3"},
		"needs?state=satisfied":                  {"llm", "shop", "models", "builds"},
		"needs?state=short":                      {"volta", "volta-2", "volta-3", "nightly"},
		"needs?all=true&cluster=research":        {"models", "volta", "volta-2", "volta-3"},
		"needs?all=true&reason=priority_starved": {"nightly"},
		"needs?all=true&q=nothing":               nil,
	} {
		a := ask[fleetview.NeedsAnswer](t, f.View, query)
		var got []string
		for i := range a.Needs {
			got = append(got, a.Needs[i].Name)
		}
		if !slices.Equal(got, want) || a.All != 8 || a.Unmet != 4 {
			t.Errorf("%s: %v of %d, %d unmet; want %v", query, got, a.All, a.Unmet, want)
		}
	}
	a := ask[fleetview.NeedsAnswer](t, f.View, "needs?all=true")
	llm, volta := &a.Needs[0], &a.Needs[3]
	if !llm.Satisfied || llm.Machines != 16 || llm.Reason != "" || llm.Group != "llm" || len(llm.Wants) != 1 || llm.Wants[0].Value != 128 || llm.Rows != 1 {
		t.Errorf("llm is %+v", llm)
	}
	if volta.Satisfied || volta.Reason != "no_matching_supply" || len(volta.Deficit) != 1 || volta.Deficit[0].Value != 16 || volta.Age <= 0 {
		t.Errorf("volta is %+v", volta)
	}
	// What a list says leads to the Need.
	for i := range a.Needs {
		r := &a.Needs[i]
		q := "need?name=" + r.Name + "&key=" + r.Key[:16]
		if r.Group == "" {
			if n := ask[fleetview.NeedAnswer](t, f.View, q); n.Name != r.Name || n.Unmet == r.Satisfied {
				t.Errorf("%s: %+v", q, n)
			}
		}
	}
	if _, err := try(t, f.View, "needs?state=parked"); !errors.Is(err, web.ErrBadQuery) {
		t.Errorf("a state that is none: %v", err)
	}
}

// TestTheListHasAsManyNeedsAsTheHeadline: rows that fold are one Need, with what they want together.
func TestTheListHasAsManyNeedsAsTheHeadline(t *testing.T) {
	var machines []model.Machine
	for _, id := range []string{"m-1", "m-2", "m-3"} {
		machines = append(machines, model.Machine{
			ID: id, State: model.Idle, InstanceType: "std", Zone: "z", PricePerHour: 1, Labels: map[string]string{"rack": "r"},
			Resources: model.NewResources(model.Amount{Name: "cpu", Value: 16000}),
		})
	}
	f := viewtest.New(t, machines, engine.DefaultOptions(), began, nil)
	profile, err := model.NewProfile(model.ProfileSpec{Priority: 7, Requirements: []model.Requirement{{Key: "rack", Operator: model.Same}}})
	if err != nil {
		t.Fatal(err)
	}
	gang := func(group string) model.Need {
		cores := model.NewResources(model.Amount{Name: "cpu", Value: 4000})
		return model.Need{Cluster: "c", Group: group, Profile: profile, Aggregate: cores, MinUnit: cores, Arrival: 1}
	}
	rows := []model.Need{gang("a"), gang("b"), gang("c")}
	f.Report("c", rows)
	for range 4 {
		f.Step()
	}
	frame, _ := f.Recorder.Latest()
	a := ask[fleetview.NeedsAnswer](t, f.View, "needs?all=true")
	if a.All != frame.Needs || len(a.Needs) != frame.Needs || frame.Rows != 3 {
		t.Fatalf("%d of %d are listed, the headline has %d of %d rows", len(a.Needs), a.All, frame.Needs, frame.Rows)
	}
	sum, all := 0, 0
	for i := range a.Needs {
		all += a.Needs[i].Rows
		sum += int(a.Needs[i].Wants[0].Value)
		if r := &a.Needs[i]; !r.Satisfied || r.Machines == 0 {
			t.Errorf("%+v", r)
		}
	}
	if frame.Needs >= 3 || all != 3 || sum != 12000 {
		t.Errorf("%d Needs of %d rows want %d: %+v", frame.Needs, all, sum, a.Needs)
	}
}
