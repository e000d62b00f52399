package fleetview_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
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
		"needs": {"volta", "volta-2", "volta-3", "nightly"}, "needs?cluster=batch": {"nightly"}, "needs?q=V100&limit=2": {"volta", "volta-2"},
		"needs?q=V100&offset=2": {"volta-3"}, "needs?reason=priority_starved": {"nightly"}, "needs?q=nothing": nil,
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
	if got := ask[fleetview.NeedAnswer](t, f.View, "need?name=research/2&key="+key); got.Name != "volta-2" || got.Group != "v2" {
		t.Errorf("found %s of group %q, want volta-2 of v2", got.Name, got.Group)
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
	if m.Need != "llm" || m.Priority != 5000 || m.Group != "llm" || len(m.Domains) != 2 {
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

// TestPreemptionsNameTheNeedsOnBothSides.
func TestPreemptionsNameTheNeedsOnBothSides(t *testing.T) {
	f := viewtest.Contended(t, began)
	a := ask[fleetview.PreemptionsAnswer](t, f.View, "preemptions")
	if len(a.Pairs) != 1 {
		t.Fatalf("%+v", a)
	}
	p := &a.Pairs[0]
	if p.FromNeed != "nightly" || p.From != "batch" || p.FromPriority != 10 || p.ForNeed != "llm" || p.For != "train" || p.Priority != 5000 || p.Machines != 8 || p.Different != 8 || p.Times != 1 || a.Different != 8 || p.GraceSeconds <= 0 {
		t.Errorf("%+v", p)
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
	if n := slices.IndexFunc(whole.Needs, func(n fleetview.NeedEvent) bool { return n.Name == "nightly" }); n < 0 || whole.Needs[n].From != "" || whole.Needs[n].To != "priority_starved" {
		t.Errorf("Needs: %+v", whole.Needs)
	}
}

func itoa(v int64) string { text, _ := json.Marshal(v); return string(text) }

func TestBadQueriesSayWhatIsWrong(t *testing.T) {
	f := viewtest.Contended(t, began)
	for query, want := range map[string]error{
		"need": web.ErrBadQuery, "need?name=x": web.ErrNotFound, "help": web.ErrBadQuery, "help?need=none": web.ErrNotFound, "help?need=web/99": web.ErrNotFound, "whatif?add=none": web.ErrBadQuery, "whatif?need=llm": web.ErrBadQuery, "whatif?add=m6i.4xlarge&count=0": web.ErrBadQuery, "whatif?need=none&priority=3": web.ErrNotFound, "whatif?need=volta&relax=none": web.ErrNotFound, "whatif?relax=gpu-model": web.ErrBadQuery, "whatif?value=a": web.ErrBadQuery, "whatif?key=none&value=a": web.ErrNotFound, "need?name=none/0": web.ErrNotFound, "need?name=web/9": web.ErrNotFound, "need?name=web/-1": web.ErrNotFound,
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
	if a.Lost != 48 || len(a.Answer.Needs) != 1 || a.Answer.Needs[0].Name != "llm" || a.Answer.WhatIf.Satisfied != a.Answer.Now.Satisfied-1 {
		t.Errorf("zone a: %+v", a)
	}
	if c := ask[loss](t, f.View, "whatif?key=topology.kubernetes.io/rack&value=c-c1"); c.Lost != 16 || len(c.Answer.Needs) != 0 {
		t.Errorf("rack c-c1: %+v", c)
	}
}

// TestWhatIfLeavesARequirementOut: a Need of V100 machines, of which there are none, may have others.
func TestWhatIfLeavesARequirementOut(t *testing.T) {
	f := viewtest.Contended(t, began)
	if a := ask[whatIf](t, f.View, "whatif?need=volta&relax=gpu-model"); a.Answer.WhatIf.Preempt != 2 {
		t.Errorf("%+v", a)
	}
}

// TestAFrameAgreesWithItself: the reasons that are counted are those of the Needs that are listed, also while a parked gang is tried again, in
// which it stays parked.
func TestAFrameAgreesWithItself(t *testing.T) {
	f := viewtest.Contended(t, began)
	gang, err := model.NewProfile(model.ProfileSpec{Priority: 5, Requirements: []model.Requirement{{Key: "topology.kubernetes.io/rack", Operator: model.Same}}})
	if err != nil {
		t.Fatal(err)
	}
	gpus := func(n int64) model.Resources {
		return model.NewResources(model.Amount{Name: "nvidia.com/gpu", Value: n})
	}
	f.Report("lab", []model.Need{{Cluster: "lab", Group: "sweep", Profile: gang, Aggregate: gpus(128), MinUnit: gpus(8), Arrival: 9}})
	site := f.Site()
	parked := 0
	for range 60 {
		f.Step()
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/state", nil)
		r.RemoteAddr = "127.0.0.1:1"
		site.ServeHTTP(w, r)
		var state struct{ Frame web.Frame }
		if err := json.Unmarshal(w.Body.Bytes(), &state); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		counted := map[string]int{}
		for _, r := range state.Frame.Reasons {
			counted[r.Reason] = r.Count
		}
		was := parked
		for _, u := range state.Frame.Unmet {
			counted[u.Reason]--
			if u.Cluster == "lab" && u.Reason == "parked" {
				parked++
			}
		}
		if was > 0 && parked == was {
			t.Fatalf("cycle %d: the gang is not parked any more: %+v", state.Frame.Cycle, state.Frame.Unmet)
		}
		for reason, n := range counted {
			if n != 0 {
				t.Fatalf("cycle %d: %s is counted %d times more than it is listed", state.Frame.Cycle, reason, n)
			}
		}
	}
	if parked < 40 {
		t.Errorf("the gang is parked in %d cycles of 60", parked)
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

// TestNeedsAreFoundByTheirNamesAndByTheirRows: a link of either kind leads to the same Need.
func TestNeedsAreFoundByTheirNamesAndByTheirRows(t *testing.T) {
	f := viewtest.Contended(t, began)
	for _, name := range []string{"volta", "research/1"} {
		if n := ask[fleetview.NeedAnswer](t, f.View, "need?name="+name); n.Name != "volta" || n.Cluster != "research" || !n.Unmet {
			t.Errorf("%s: %+v", name, n)
		}
		why := ask[struct {
			Needs map[string]struct{ Funnel struct{ Verdict string } }
		}](t, f.View, "explain?need="+name)
		if says := why.Needs["volta"].Funnel.Verdict; !strings.Contains(says, "gpu-model in V100 leaves none") {
			t.Errorf("explain %s says %q", name, says)
		}
	}
	plans := ask[[]fleetview.PlanRow](t, f.View, "plans")
	if len(plans) != 1 || plans[0].Name != "llm" {
		t.Errorf("plans %+v", plans)
	}
}

// TestHelpIsWhatTheEngineDecided: for a Need whose requirement nothing meets, for one that is behind others, and for one that is
// satisfied.
func TestHelpIsWhatTheEngineDecided(t *testing.T) {
	f := viewtest.Contended(t, began)
	type help struct {
		Need      string
		Satisfied bool
		Capacity  []struct {
			Count               int
			Like                string
			AddedDollarsPerHour float64
		}
		Priority *struct {
			Priority int
			Losers   []struct{ Need string }
		}
		Relax     []struct{ LeaveOut string }
		Decisions int
	}
	if h := ask[help](t, f.View, "help?need=research/1"); h.Need != "volta" || len(h.Relax) != 1 || h.Relax[0].LeaveOut != "gpu-model in V100" || h.Priority != nil || len(h.Capacity) != 0 {
		t.Errorf("volta: %+v", h)
	}
	h := ask[help](t, f.View, "help?need=nightly")
	if len(h.Capacity) == 0 || h.Priority == nil || h.Decisions < 4 {
		t.Fatalf("nightly: %+v", h)
	}
	// What it says is what happens.
	q := url.Values{"add": {h.Capacity[0].Like}, "count": {itoa(int64(h.Capacity[0].Count))}}
	if a := ask[whatIf](t, f.View, "whatif?"+q.Encode()); a.Added != h.Capacity[0].Count || !a.turns("nightly") {
		t.Errorf("with %v: %+v", q, a)
	}
	q = url.Values{"need": {"batch/0"}, "priority": {itoa(int64(h.Priority.Priority))}}
	if a := ask[whatIf](t, f.View, "whatif?"+q.Encode()); len(a.Answer.Needs) == 0 && a.Answer.WhatIf.Preempt == 0 {
		t.Errorf("with %v: %+v", q, a)
	}
	if h := ask[help](t, f.View, "help?need=shop"); !h.Satisfied {
		t.Errorf("shop: %+v", h)
	}
}

type whatIf struct {
	Lost, Added int
	Answer      struct {
		Now, WhatIf struct{ Satisfied, Preempt int }
		Needs       []struct {
			Name, Before, After string
			Satisfied           bool
		}
	}
}

// turns tells whether a Need comes to be satisfied, or waits for machines that drain for it.
func (w *whatIf) turns(name string) bool {
	return slices.ContainsFunc(w.Answer.Needs, func(n struct {
		Name, Before, After string
		Satisfied           bool
	}) bool {
		return n.Name == name && n.Satisfied
	})
}

// TestHelpEndsWithItsClient: a question whose client has gone is not answered, and holds nobody up.
func TestHelpEndsWithItsClient(t *testing.T) {
	f := viewtest.Contended(t, began)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.View.Queries()["help"](ctx, url.Values{"need": {"nightly"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	ask[struct{}](t, f.View, "help?need=nightly")
}

// TestQuestionsWaitForTheCycle that runs: they are answered when it has ended.
func TestQuestionsWaitForTheCycle(t *testing.T) {
	f := viewtest.Contended(t, began)
	for _, query := range []string{"help?need=nightly", "explain?need=nightly", "whatif?lose=a-r2-m00"} {
		f.Recorder.Running(true)
		answered := make(chan error, 1)
		go func() {
			name, q, _ := strings.Cut(query, "?")
			values, err := url.ParseQuery(q)
			if err == nil {
				_, err = f.View.Queries()[name](t.Context(), values)
			}
			answered <- err
		}()
		for !f.Recorder.Awaited() {
			runtime.Gosched()
		}
		select {
		case err := <-answered:
			t.Errorf("%s was answered beside a cycle: %v", query, err)
		default:
			f.Recorder.Running(false)
			if err := <-answered; err != nil {
				t.Errorf("%s: %v", query, err)
			}
		}
	}
}

// TestWhyThisMachine: a machine that is bound is decided about as if it were free.
func TestWhyThisMachine(t *testing.T) {
	f := viewtest.Contended(t, began)
	type why struct {
		Action, Acquire, For, RunnerUp string
		Covers                         map[string]float64
	}
	answer := ask[struct{ Machines, Free map[string]why }](t, f.View, "explain?machine=a-c1-m00")
	if free := answer.Free["a-c1-m00"]; free.Action != "Bootstrap" || free.For == "" || free.Acquire == "" || len(free.Covers) == 0 {
		t.Errorf("%+v", answer)
	}
	if m := ask[fleetview.MachineAnswer](t, f.View, "machine?id=a-c1-m00"); m.Covers <= 0 || m.Covers > 1 {
		t.Errorf("it covers %v of its Need", m.Covers)
	}
}

// TestAQuestionKnowsWhatHasJustCome: the copy of the world that is used again does not have it yet.
func TestAQuestionKnowsWhatHasJustCome(t *testing.T) {
	f := viewtest.Contended(t, began)
	ask[struct{}](t, f.View, "explain?need=nightly") // makes the copy
	profile, err := model.NewProfile(model.ProfileSpec{Priority: 3})
	if err != nil {
		t.Fatal(err)
	}
	f.Report("lab", []model.Need{{Cluster: "lab", Profile: profile, Aggregate: model.NewResources(model.Amount{Name: "cpu", Value: 4000}), Arrival: 1}})
	f.Step()
	if a := ask[struct{ Needs map[string]struct{} }](t, f.View, "explain?need=lab/0"); len(a.Needs) != 1 {
		t.Errorf("%+v", a)
	}
}

func TestKindsAreWhatCanBeAdded(t *testing.T) {
	f := viewtest.Contended(t, began)
	kinds := ask[[]fleetview.KindRow](t, f.View, "kinds")
	if len(kinds) != 4 || kinds[0].Machines != 48 {
		t.Fatalf("%+v", kinds)
	}
	for _, k := range kinds {
		if a := ask[whatIf](t, f.View, "whatif?count=2&add="+url.QueryEscape(k.Name)); a.Added != 2 {
			t.Errorf("%s: %+v", k.Name, a)
		}
	}
}

// TestReliefIsWhatTheEngineDecided, and is used again until other Needs are short.
func TestReliefIsWhatTheEngineDecided(t *testing.T) {
	f := viewtest.Contended(t, began)
	type relief struct {
		Short, Satisfies, Decisions int
		Needs                       []string
		Capacity                    *struct {
			Count int
			Like  string
		}
	}
	r := ask[relief](t, f.View, "relief")
	if r.Short != 4 || r.Satisfies != 1 || r.Capacity == nil || r.Capacity.Count != 4 || r.Decisions < 3 || !slices.Equal(r.Needs, []string{"nightly"}) {
		t.Fatalf("%+v %+v", r, r.Capacity)
	}
	q := url.Values{"add": {r.Capacity.Like}, "count": {itoa(int64(r.Capacity.Count))}}
	if a := ask[whatIf](t, f.View, "whatif?"+q.Encode()); !a.turns("nightly") {
		t.Errorf("with %v: %+v", q, a)
	}
	f.Recorder.Running(true) // it would have to wait for the cycle
	if again := ask[relief](t, f.View, "relief"); again.Decisions != r.Decisions || *again.Capacity != *r.Capacity {
		t.Errorf("%+v, then %+v", r, again)
	}
	f.Recorder.Running(false)
}

// TestMachinesOfAGangThatIsNotCompleteAreTold: they are paid for and serve nobody, though they are not idle.
func TestMachinesOfAGangThatIsNotCompleteAreTold(t *testing.T) {
	if m := ask[fleetview.MoneyAnswer](t, viewtest.Contended(t, began).View, "money"); m.Incomplete != 0 || m.IncompleteGangs != 0 {
		t.Errorf("while every gang is complete %+v", m)
	}
	f := viewtest.Contended(t, began)
	lost := []string{}
	for i := range 4 {
		lost = append(lost, fmt.Sprintf("a-r2-m%02d", i))
	}
	f.Provider.Lose(lost...)
	f.Step()
	n := ask[fleetview.NeedAnswer](t, f.View, "need?name=llm")
	if !n.Unmet || len(n.Held) != 12 {
		t.Fatalf("the gang is unmet: %v, and has %d machines, want 12 of 16", n.Unmet, len(n.Held))
	}
	if m := ask[fleetview.MoneyAnswer](t, f.View, "money"); m.Incomplete != 12*12 || m.IncompleteGangs != 1 {
		t.Errorf("%g an hour of %d gangs, want 144 of 1", m.Incomplete, m.IncompleteGangs)
	}
}
