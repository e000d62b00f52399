package world

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// plansWorld has, in rack r1, a gang of two and a plain need; in rack r2 a gang
// of two of higher priority. A gang needs two machines of one rack; a plain need
// one machine, for which a smaller one of less worth is not enough.
const plansWorld = `
machines:
- {id: a-1, state: Configured, cluster: a, resources: {gpu: 8}, labels: {rack: r1}, assigned: {priority: 1, need: ga, group: g}}
- {id: a-2, state: Configured, cluster: a, resources: {gpu: 8}, labels: {rack: r1}, assigned: {priority: 1, need: ga, group: g}}
- {id: b-1, state: Configured, cluster: b, resources: {gpu: 8}, labels: {rack: r2}, assigned: {priority: 5, need: gb, group: h}}
- {id: b-2, state: Configured, cluster: b, resources: {gpu: 8}, labels: {rack: r2}, assigned: {priority: 5, need: gb, group: h}}
- {id: c-1, state: Configured, cluster: c, resources: {gpu: 8}, labels: {rack: r3}, assigned: {priority: 1, need: gc}}
- {id: s-1, state: Configured, cluster: w, resources: {cpu: 4}, assigned: {priority: 1, need: small}}
- {id: s-2, state: Configured, cluster: w, resources: {cpu: 8}, assigned: {priority: 5, need: large}}
needs:
- {name: top, cluster: t, priority: 1000, aggregate: {gpu: 16}, minUnit: {gpu: 8}, group: t, requirements: [{key: rack, operator: Same}]}
- {name: web, cluster: t, priority: 900, aggregate: {cpu: 8}}
- {name: ga, cluster: a, priority: 1, aggregate: {gpu: 16}, minUnit: {gpu: 8}, group: g, requirements: [{key: rack, operator: Same}]}
- {name: gb, cluster: b, priority: 5, aggregate: {gpu: 16}, minUnit: {gpu: 8}, group: h, requirements: [{key: rack, operator: Same}]}
- {name: gc, cluster: c, priority: 1, aggregate: {gpu: 8}}
- {name: small, cluster: w, priority: 1, aggregate: {cpu: 4}}
- {name: large, cluster: w, priority: 5, aggregate: {cpu: 8}}
`

func TestPlansOfGangsAreExplained(t *testing.T) {
	answer, err := read(t, plansWorld).Explain(&Subjects{Needs: map[string]bool{"top": true, "web": true}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := answer.WriteExplanationJSON(&out); err != nil {
		t.Fatal(err)
	}
	type unitRow struct {
		Class, Cluster, Group string
		Machines, ServedNeeds []string
		Gang                  bool
		Band, Gain, Cost, ROI float64
		GraceSeconds          int
	}
	var got struct {
		Needs map[string]struct {
			Plan struct {
				Domain           string
				Missing          map[string]string
				Units, Reprieved []unitRow
			}
			Preemption []struct {
				Domain, RejectedBy string
				Covered            bool
				Candidates         int
				Cost               struct{ Band, Gangs, Machines, Destroyed float64 }
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	top := got.Needs["top"]
	if p := &top.Plan; p.Domain != "r1" || p.Missing["gpu"] != "16" || len(p.Units) != 1 || len(p.Reprieved) != 0 {
		t.Fatalf("the plan of top is %+v", p)
	}
	if u := &top.Plan.Units[0]; u.Class != "whole" || u.Cluster != "a" || u.Group != "g" || !u.Gang || u.Gain != 1 || u.Cost != 1 || u.ROI != 1 ||
		u.Band <= 0 || u.GraceSeconds != 600 || !slices.Equal(u.Machines, []string{"a-1", "a-2"}) || !slices.Equal(u.ServedNeeds, []string{"ga"}) {
		t.Errorf("the unit is %+v", u)
	}
	var why []string
	for _, d := range top.Preemption {
		why = append(why, d.Domain+" "+d.RejectedBy)
	}
	if want := []string{"r1 ", "r2 band", "r3 capacity"}; !slices.Equal(why, want) {
		t.Errorf("domains were rejected as %q, want %q", why, want)
	}
	if c := top.Preemption[1]; c.Cost.Gangs != 1 || c.Cost.Machines != 2 || c.Cost.Destroyed != 1 || !c.Covered || c.Candidates != 2 {
		t.Errorf("the best plan for r2 is %+v", c)
	}
	web := got.Needs["web"].Plan
	if len(web.Units) != 1 || web.Units[0].Class != "plain" || len(web.Reprieved) != 1 || web.Reprieved[0].Machines[0] != "s-1" || web.Units[0].Machines[0] != "s-2" {
		t.Errorf("the plan of web is %+v", web)
	}
}

func TestPlansOfGangsAreToldToPeople(t *testing.T) {
	w := read(t, plansWorld)
	answer, err := w.Explain(&Subjects{Needs: map[string]bool{"top": true, "web": true}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := answer.WriteExplanation(&out, w, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"the plan takes a-1 a-2 (whole): band", "the plan spares s-1 (plain): band", "served small",
		"preemption in r2: 2 candidates, enough, rejected by band", "preemption in r3: 1 candidate, not enough, rejected by capacity",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

// TestWhatAPlanTakesOfWhatWasAcquired: a plan counts on a free machine that a Need of lower priority has acquired. The plan says so, and
// the machine says for whom it is kept; the Need is none of those that lose what is preempted.
func TestWhatAPlanTakesOfWhatWasAcquired(t *testing.T) {
	const file = `
machines:
- {id: i-a, state: Idle, resources: {cpu: 4}, labels: {rack: ra}}
- {id: i-b, state: Idle, resources: {cpu: 4}, labels: {rack: rb}}
- {id: v-b, state: Configured, cluster: v, resources: {cpu: 4}, labels: {rack: rb}, assigned: {priority: 10, need: victim}}
needs:
- {name: gang, cluster: g, priority: 1000, aggregate: {cpu: 8}, minUnit: {cpu: 4}, requirements: [{key: rack, operator: Same}]}
- {name: other, cluster: o, priority: 500, aggregate: {cpu: 4}}
- {name: victim, cluster: v, priority: 10, aggregate: {cpu: 4}}
`
	w := read(t, file)
	answer, err := w.Explain(&Subjects{Needs: map[string]bool{"gang": true}, Machines: map[string]bool{"i-b": true}})
	if err != nil {
		t.Fatal(err)
	}
	var table, js bytes.Buffer
	if err := answer.WriteExplanation(&table, w, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"preempts 1 machine: v-b, of victim\n", "the plan takes i-b (excess)", "; other had acquired it in this cycle\n",
		"the plan of need gang holds it from this cycle on\n",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("there is no %q in\n%s", want, table.String())
		}
	}
	if err := answer.WriteExplanationJSON(&js); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Machines map[string]struct{ PlannedFor string }
	}
	if err := json.Unmarshal(js.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Machines["i-b"].PlannedFor != "gang" {
		t.Errorf("i-b is planned for %q in\n%s", got.Machines["i-b"].PlannedFor, js.String())
	}
}

// What waits says since when: what is satisfied is not short, and a need that
// does not say when it came is not said to have come.
func TestExplainSaysSinceWhen(t *testing.T) {
	const file = `
now: 2026-05-01T12:00:00Z
machines:
- {id: m-1, state: Idle, resources: {cpu: 4}, labels: {rack: r1}}
needs:
- {name: gang, cluster: a, priority: 5, aggregate: {cpu: 400}, minUnit: {cpu: 4}, arrival: "2026-05-01T09:30:00Z", shortSince: "2026-05-01T10:00:00Z", requirements: [{key: rack, operator: Same}]}
- {name: fed, cluster: a, priority: 9, aggregate: {cpu: 4}, arrival: "2026-05-01T11:00:00Z", shortSince: "2026-05-01T11:30:00Z"}
- {name: plain, cluster: a, priority: 1, aggregate: {cpu: 4}}
`
	w := read(t, file)
	answer, err := w.Explain(&Subjects{Needs: map[string]bool{"gang": true, "fed": true, "plain": true}})
	if err != nil {
		t.Fatal(err)
	}
	var table, js bytes.Buffer
	if err := answer.WriteExplanation(&table, w, true); err != nil {
		t.Fatal(err)
	}
	if err := answer.WriteExplanationJSON(&js); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Needs map[string]struct{ DemandedSince, ShortSince string }
	}
	if err := json.Unmarshal(js.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]string{
		"gang": {"2026-05-01T09:30:00Z", "2026-05-01T10:00:00Z"}, "fed": {"2026-05-01T11:00:00Z", ""}, "plain": {"", ""},
	} {
		if n := got.Needs[name]; n.DemandedSince != want[0] || n.ShortSince != want[1] {
			t.Errorf("%s: %+v, want %q", name, n, want)
		}
	}
	for _, says := range []string{"  demanded since 2026-05-01T09:30:00Z\n  short since 2026-05-01T10:00:00Z\n", "  demanded since 2026-05-01T11:00:00Z\n  takes"} {
		if !strings.Contains(table.String(), says) {
			t.Errorf("no %q in %s", says, table.String())
		}
	}
	if n := strings.Count(table.String(), "since"); n != 3 {
		t.Errorf("%d times in %s", n, table.String())
	}
}
