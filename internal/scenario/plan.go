package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// kinds are the kinds of actions.
var kinds = []string{"Bootstrap", "Provision", "Preempt", "Reclaim", "Delete"}

// act is an action as expectations write it: kind, machine, need.
type act [3]string

// plan is the output of decide, and what checks need of its input.
type plan struct {
	actions  []act
	fields   map[string]map[string]any // action by machine
	needs    map[string]needRow
	order    []string // of the needs
	claimed  []string
	machines map[string]machineRow
}

type needRow struct {
	Name      string            `json:"name"`
	Satisfied bool              `json:"satisfied"`
	Deficit   map[string]string `json:"deficit"`
	Domain    string            `json:"domain"`
	Claimed   []string          `json:"claimed"`
	Bootstrap int               `json:"bootstrap"`
	Provision int               `json:"provision"`
	Reason    string            `json:"reason"`
}

type machineRow struct {
	ID           string            `json:"id"`
	Zone         string            `json:"zone"`
	InstanceType string            `json:"instanceType"`
	Labels       map[string]string `json:"labels"`
}

// attribute returns what requirements on a key see.
func (m machineRow) attribute(key string) string {
	return cmp.Or(map[string]string{model.KeyZone: m.Zone, model.KeyInstanceType: m.InstanceType}[key], m.Labels[key])
}

func parsePlan(text string, input json.RawMessage) (*plan, error) {
	var doc struct {
		Actions []map[string]any `json:"actions"`
		Needs   []needRow        `json:"needs"`
		Claimed []string         `json:"claimed"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("the output is not a plan: %w", err)
	}
	p := &plan{fields: map[string]map[string]any{}, needs: map[string]needRow{}, machines: map[string]machineRow{}, claimed: doc.Claimed}
	for _, a := range doc.Actions {
		x := act{text1(a, "kind"), text1(a, "machine"), text1(a, "need")}
		p.actions = append(p.actions, x)
		p.fields[x[1]] = a
	}
	for _, n := range doc.Needs {
		p.needs[n.Name] = n
		p.order = append(p.order, n.Name)
	}
	if len(input) > 0 {
		var world struct {
			Machines []machineRow `json:"machines"`
		}
		if err := json.Unmarshal(input, &world); err != nil {
			return nil, fmt.Errorf("the input: %w", err)
		}
		for _, m := range world.Machines {
			p.machines[m.ID] = m
		}
	}
	return p, nil
}

// planCheck holds a plan against expectations.
type planCheck struct {
	*checker
	plan *plan
}

// oneActionEach holds for every plan, named or not.
func (d *planCheck) oneActionEach() {
	if len(d.plan.fields) != len(d.plan.actions) {
		d.fault("a machine has more than one action")
	}
}

// row returns the output's row of a need.
func (d *planCheck) row(name string) needRow {
	n, ok := d.plan.needs[name]
	if !ok {
		d.fault("need %s is not in the output", name)
	}
	return n
}

// check checks one key; false when there is no such key.
func (d *planCheck) check(key string, raw json.RawMessage) bool {
	switch key {
	case "actions":
		d.sameActions("actions", value[[][]string](d.checker, key, raw), d.plan.actions)
	case "order":
		d.inOrder(value[[][]string](d.checker, key, raw))
	case "ordered":
		for kind, want := range value[map[string][]string](d.checker, key, raw) {
			equalLists(d.checker, "order of "+kind, want, d.machinesOf(kind))
		}
	case "untouched":
		for _, m := range value[[]string](d.checker, key, raw) {
			if _, ok := d.plan.fields[m]; ok {
				d.fault("acts on %s, which it must leave alone", m)
			}
		}
	case "counts", "countsMin", "countsMax":
		d.bounds(key, value[map[string]int](d.checker, key, raw), count(d.plan.actions))
	case "grace":
		for m, want := range value[map[string]any](d.checker, key, raw) {
			equal(d.checker, "grace of "+m, want, d.plan.fields[m]["graceSeconds"])
		}
	case "fields":
		for m, fields := range value[map[string]map[string]any](d.checker, key, raw) {
			for f, want := range fields {
				equal(d.checker, f+" of the action on "+m, want, d.plan.fields[m][f])
			}
		}
	default:
		return d.checkNeeds(key, raw) || d.checkClaims(key, raw)
	}
	return true
}

// checkNeeds checks the keys about rows of Needs.
func (d *planCheck) checkNeeds(key string, raw json.RawMessage) bool {
	switch key {
	case "unsatisfied":
		var got []string
		for _, n := range d.plan.order {
			if !d.plan.needs[n].Satisfied {
				got = append(got, n)
			}
		}
		equalSets(d.checker, key, value[[]string](d.checker, key, raw), got)
	case "deficit":
		for n, want := range value[map[string]map[string]string](d.checker, key, raw) {
			d.vectors("deficit of "+n, want, d.row(n).Deficit)
		}
	case "bootstrap", "provision", "claimedCount":
		for n, want := range value[map[string]int](d.checker, key, raw) {
			row := d.row(n)
			got := map[string]int{"bootstrap": row.Bootstrap, "provision": row.Provision, "claimedCount": len(row.Claimed)}[key]
			equal(d.checker, key+" of "+n, want, got)
		}
	case "domain", "reason":
		for n, want := range value[map[string]string](d.checker, key, raw) {
			row := d.row(n)
			equal(d.checker, key+" of "+n, want, map[string]string{"domain": row.Domain, "reason": row.Reason}[key])
		}
	default:
		return false
	}
	return true
}

// checkClaims checks the keys about claimed machines.
func (d *planCheck) checkClaims(key string, raw json.RawMessage) bool {
	switch key {
	case "claimed":
		for n, want := range value[map[string][]string](d.checker, key, raw) {
			if n == "*" {
				equalSets(d.checker, "claimed", want, d.plan.claimed)
			} else {
				equalSets(d.checker, "claimed by "+n, want, d.row(n).Claimed)
			}
		}
	case "notClaimed":
		claimed := slices.Clone(d.plan.claimed)
		for _, n := range d.plan.needs {
			claimed = append(claimed, n.Claimed...)
		}
		for _, m := range value[[]string](d.checker, key, raw) {
			if slices.Contains(claimed, m) {
				d.fault("%s is claimed, but must not be", m)
			}
		}
	case "sameDomain":
		for n, attribute := range value[map[string]string](d.checker, key, raw) {
			if per := d.perValue(n, attribute, nil); len(per) > 1 || per[""] > 0 {
				d.fault("%s claims machines of several %s: %v", n, attribute, per)
			}
		}
	case "perDomain":
		for n, want := range value[map[string][2]json.RawMessage](d.checker, key, raw) {
			attribute := value[string](d.checker, key, want[0])
			counts := value[map[string]int](d.checker, key, want[1])
			if per := d.perValue(n, attribute, nil); !maps.Equal(per, counts) {
				d.fault("machines of %s per %s: want %v, got %v", n, attribute, counts, per)
			}
		}
	case "skewMax":
		type skew struct {
			Key  string
			Max  int
			Over []string
		}
		for n, s := range value[map[string]skew](d.checker, key, raw) {
			per := slices.Collect(maps.Values(d.perValue(n, s.Key, s.Over)))
			if len(per) > 0 && slices.Max(per)-slices.Min(per) > s.Max {
				d.fault("%s: the skew over %s is more than %d: %v", n, s.Key, s.Max, d.perValue(n, s.Key, s.Over))
			}
		}
	default:
		return false
	}
	return true
}

// perValue counts the machines that a need claims by their value of a key;
// over are values that count also when there is no machine.
func (d *planCheck) perValue(need, key string, over []string) map[string]int {
	per := map[string]int{}
	for _, v := range over {
		per[v] = 0
	}
	for _, id := range d.row(need).Claimed {
		per[d.plan.machines[id].attribute(key)]++
	}
	return per
}

func (d *planCheck) machinesOf(kind string) []string {
	var out []string
	for _, a := range d.plan.actions {
		if a[0] == kind {
			out = append(out, a[1])
		}
	}
	return out
}

// inOrder compares all actions with a list; items without a need leave it open.
func (d *planCheck) inOrder(want [][]string) {
	got := make([][]string, len(d.plan.actions))
	for i, a := range d.plan.actions {
		n := len(a)
		if i < len(want) {
			n = min(n, len(want[i]))
		}
		got[i] = slices.Clone(a[:n])
	}
	if !slices.EqualFunc(want, got, slices.Equal) {
		d.fault("actions in order: want %v, got %v", want, got)
	}
}

// vectors compares two vectors as quantities.
func (d *planCheck) vectors(what string, want, got map[string]string) {
	w, wantFaults := model.ParseResources(want)
	g, gotFaults := model.ParseResources(got)
	if len(wantFaults)+len(gotFaults) > 0 || !w.Equal(g) {
		d.fault("%s: want %v, got %v %v%v", what, want, got, wantFaults, gotFaults)
	}
}

// sameActions compares actions as a multiset; items without a need leave it
// open.
func (c *checker) sameActions(what string, want [][]string, got []act) {
	rest := slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(rest, func(a act) bool { return len(w) <= len(a) && slices.Equal(a[:len(w)], w) })
		if i < 0 {
			c.fault("%s: missing %v", what, w)
			continue
		}
		rest = slices.Delete(rest, i, i+1)
	}
	if len(rest) > 0 {
		c.fault("%s: unexpected %v", what, rest)
	}
}

// bounds compares counts of actions with exact numbers or bounds.
func (c *checker) bounds(key string, want, got map[string]int) {
	if key == "counts" {
		for _, kind := range kinds {
			equal(c, "number of "+kind, want[kind], got[kind])
		}
	}
	for kind, n := range want {
		switch {
		case !slices.Contains(kinds, kind):
			c.fault("%s: no such kind: %s", key, kind)
		case key == "countsMin" && got[kind] < n:
			c.fault("%s: want at least %d, got %d", kind, n, got[kind])
		case key == "countsMax" && got[kind] > n:
			c.fault("%s: want at most %d, got %d", kind, n, got[kind])
		}
	}
}

func count(actions []act) map[string]int {
	out := map[string]int{}
	for _, a := range actions {
		out[a[0]]++
	}
	return out
}

// equal compares values by how they print, so that 0 of the file and 0 of the
// output are equal whatever their types. What is absent is nil.
func equal(c *checker, what string, want, got any) {
	if fmt.Sprint(want) != fmt.Sprint(got) {
		c.fault("%s: want %v, got %v", what, want, got)
	}
}

func equalLists(c *checker, what string, want, got []string) {
	if !slices.Equal(want, got) {
		c.fault("%s: want %v, got %v", what, want, got)
	}
}

func equalSets(c *checker, what string, want, got []string) {
	want, got = slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))
	if !slices.Equal(want, got) {
		c.fault("%s: want {%s}, got {%s}", what, strings.Join(want, " "), strings.Join(got, " "))
	}
}
