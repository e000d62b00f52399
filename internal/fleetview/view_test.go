package fleetview_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/fleetview/viewtest"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

var began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// ask asks a query such as need?name=c/0 and reads the answer.
func ask[T any](t *testing.T, v *fleetview.View, query string) (out T) {
	t.Helper()
	answer, err := try(t, v, query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	text, err := json.Marshal(answer)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(t *testing.T, v *fleetview.View, query string) (any, error) {
	t.Helper()
	u, err := url.Parse(query)
	if err != nil {
		t.Fatal(err)
	}
	return v.Queries()[u.Path](t.Context(), u.Query())
}

func TestNeedsAreListedByPriorityAndFiltered(t *testing.T) {
	f := viewtest.Contended(t, began)
	names := func(query string) (out []string) {
		for _, n := range ask[fleetview.NeedsAnswer](t, f.View, query).Needs {
			out = append(out, n.Name)
		}
		return out
	}
	for query, want := range map[string][]string{
		"needs": {"research/1", "research/2", "research/3", "batch/0"}, "needs?cluster=batch": {"batch/0"}, "needs?q=V100&limit=2": {"research/1", "research/2"},
		"needs?q=V100&offset=2": {"research/3"}, "needs?reason=priority_starved": {"batch/0"}, "needs?q=nothing": nil,
	} {
		if got := names(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// TestANeedIsFoundByItsKeyWhenItsRowHasAnotherNumber: a link outlives a roll-up with other rows.
func TestANeedIsFoundByItsKeyWhenItsRowHasAnotherNumber(t *testing.T) {
	f := viewtest.Contended(t, began)
	list := ask[fleetview.NeedsAnswer](t, f.View, "needs?q=V100").Needs
	key := url.QueryEscape(list[1].Key)
	need := ask[fleetview.NeedAnswer](t, f.View, "need?name=research/2&key="+key)
	if need.Group != "v2" || !need.Unmet || need.Reason != "no_matching_supply" || len(need.History) != 1 {
		t.Errorf("%+v", need)
	}
	var rows []model.Need
	_ = f.Shard.Inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
		rows = in.Demand.Rows("research")
		return nil
	})
	f.Report("research", []model.Need{rows[2], rows[0]})
	f.Step()
	if got := ask[fleetview.NeedAnswer](t, f.View, "need?name=research/2&key="+key); got.Name != "research/0" || got.Group != "v2" {
		t.Errorf("found %s of group %q, want research/0 of v2", got.Name, got.Group)
	}
	f.Report("research", rows[:1])
	f.Step()
	if _, err := try(t, f.View, "need?name=research/2&key="+key); !errors.Is(err, web.ErrNotFound) {
		t.Errorf("a Need that is gone: %v", err)
	}
	changes := ask[fleetview.ChangesAnswer](t, f.View, "changes?q=v100")
	if len(changes.Needs) != 0 { // they came and went within the span
		for _, n := range changes.Needs {
			if n.To != "gone" {
				t.Errorf("%s is %s, want gone", n.Name, n.To)
			}
		}
	}
}

// TestThePastOfAMachine: what was done to it, and what became of it, also after it is gone.
func TestThePastOfAMachine(t *testing.T) {
	f := viewtest.Contended(t, began)
	past := func() (out []string) {
		for _, e := range ask[fleetview.MachineAnswer](t, f.View, "machine?id=a-r2-m00").History {
			if e.Did != nil {
				out = append(out, e.Did.Kind)
			} else {
				out = append(out, e.Moved.From+">"+e.Moved.To)
			}
		}
		slices.Reverse(out)
		return out
	}
	want := []string{"Preempt", "Configured>Draining", "Draining>Idle", "Bootstrap", "Idle>Configuring", "Configuring>Configured"}
	if got := past(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	m := ask[fleetview.MachineAnswer](t, f.View, "machine?id=a-r2-m00")
	if m.Need != "train/0" || m.Priority != 5000 || m.Group != "llm" || len(m.Domains) != 2 {
		t.Errorf("%+v", m)
	}
	if f.Provider.Lose("a-r2-m00") != 1 {
		t.Fatal("there is no such machine to take away")
	}
	for range 3 {
		f.Step()
	}
	if got := past(); got[len(got)-1] != "Configured>" {
		t.Errorf("of a machine that is gone: %v", got)
	}
	if _, err := try(t, f.View, "machine?id=none"); !errors.Is(err, web.ErrNotFound) {
		t.Errorf("a machine that never was: %v", err)
	}
}

func TestAComparisonFoldsWhatHappenedInBetween(t *testing.T) {
	f := viewtest.Contended(t, began)
	at := func(cycle int64) int64 { return began.UnixMilli() + cycle*viewtest.Interval.Milliseconds() }
	span := func(from, to int64) fleetview.ChangesAnswer {
		return ask[fleetview.ChangesAnswer](t, f.View, "changes?"+url.Values{"from": {itoa(at(from))}, "to": {itoa(at(to))}}.Encode())
	}
	whole, none := span(2, 8), span(8, 8)
	if whole.Cycles != 6 || none.Cycles != 0 || len(none.Machines)+len(none.Needs)+len(none.Actions) != 0 {
		t.Errorf("%d cycles, none: %+v", whole.Cycles, none)
	}
	moved := map[string]string{}
	for _, m := range whole.Machines {
		moved[m.Machine] = m.From + " " + m.FromCluster + " > " + m.To + " " + m.ToCluster
	}
	if moved["a-r2-m00"] != "Configured batch > Configured train" {
		t.Errorf("a-r2-m00: %q", moved["a-r2-m00"])
	}
	// Two halves say what the whole does.
	first, second := span(2, 5), span(5, 8)
	if first.To != second.From || first.From != whole.From || second.To != whole.To {
		t.Error("the figures of the halves do not meet")
	}
	if n := slices.IndexFunc(whole.Needs, func(n fleetview.NeedEvent) bool { return n.Name == "batch/0" }); n < 0 || whole.Needs[n].From != "" || whole.Needs[n].To != "priority_starved" {
		t.Errorf("Needs: %+v", whole.Needs)
	}
}

func itoa(v int64) string { text, _ := json.Marshal(v); return string(text) }

func TestBadQueriesSayWhatIsWrong(t *testing.T) {
	f := viewtest.Contended(t, began)
	for query, want := range map[string]error{
		"need": web.ErrBadQuery, "need?name=x": web.ErrBadQuery, "need?name=none/0": web.ErrNotFound, "need?name=web/9": web.ErrNotFound, "need?name=web/-1": web.ErrBadQuery,
		"needs?limit=0": web.ErrBadQuery, "needs?offset=-1": web.ErrBadQuery, "machines?state=Asleep": web.ErrBadQuery, "machines?key=none": web.ErrNotFound,
		"machine": web.ErrBadQuery, "clusters?sort=luck": web.ErrBadQuery, "cluster?name=none": web.ErrNotFound, "domains?key=none": web.ErrNotFound, "domains?hold=0": web.ErrBadQuery,
		"domain?key=topology.kubernetes.io/rack&value=none": web.ErrNotFound, "plan?number=2": web.ErrNotFound, "plan?number=x": web.ErrBadQuery, "map?key=none": web.ErrNotFound,
		"changes?from=2&to=1": web.ErrBadQuery, "cycles?over=x": web.ErrBadQuery, "explain": web.ErrBadQuery, "explain?need=a/0&machine=b": web.ErrBadQuery,
		"explain?machine=none": web.ErrNotFound, "explain?need=web/99": web.ErrNotFound, "whatif": web.ErrBadQuery, "whatif?lose=none": web.ErrNotFound,
	} {
		if _, err := try(t, f.View, query); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", query, err, want)
		}
	}
}

// TestWhatIfLosesADomain: the answer is that of the engine, for a zone that a gang is in and one that idles.
func TestWhatIfLosesADomain(t *testing.T) {
	f := viewtest.Contended(t, began)
	type loss struct {
		Lost   int
		Answer struct {
			Now, WhatIf struct{ Satisfied int }
			Needs       []struct{ Name, Before, After string }
		}
	}
	a := ask[loss](t, f.View, "whatif?key=topology.kubernetes.io/zone&value=a")
	if a.Lost != 48 || len(a.Answer.Needs) != 1 || a.Answer.Needs[0].Name != "train/0" || a.Answer.WhatIf.Satisfied != a.Answer.Now.Satisfied-1 {
		t.Errorf("zone a: %+v", a)
	}
	if c := ask[loss](t, f.View, "whatif?key=topology.kubernetes.io/rack&value=c-c1"); c.Lost != 16 || len(c.Answer.Needs) != 0 {
		t.Errorf("rack c-c1: %+v", c)
	}
}

// TestTheMapsSquaresStayWhatTheyAre: cells follow the layout, and its version changes with the machines alone.
func TestTheMapsSquaresStayWhatTheyAre(t *testing.T) {
	f := viewtest.Contended(t, began)
	layout := ask[fleetview.LayoutAnswer](t, f.View, "map")
	cells := ask[fleetview.CellsAnswer](t, f.View, "cells")
	if layout.Version != cells.Version || layout.Machines != 112 || len(layout.IDs) != 112 || len(cells.Data) != 6*112 || layout.Aggregated {
		t.Fatalf("%d machines, %d ids, %d bytes, versions %q and %q", layout.Machines, len(layout.IDs), len(cells.Data), layout.Version, cells.Version)
	}
	at := slices.Index(layout.IDs, "a-r2-m03")
	cell := cells.Data[6*at:]
	if owner := cells.Owners[int(cell[2])+int(cell[3])<<8-1]; model.State(cell[0]) != model.Configured || owner != "train" || cells.Priorities[cell[1]] != 5000 || cell[4] == 0 && cell[5] == 0 {
		t.Errorf("a-r2-m03 is %v of %s", cell[:6], owner)
	}
	within := ask[fleetview.LayoutAnswer](t, f.View, "map?within=a-r2")
	if len(within.IDs) != 16 || !strings.HasPrefix(within.IDs[0], "a-r2-") || within.Version == layout.Version {
		t.Errorf("one rack: %+v", within)
	}
}
