package world

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/supply"
)

// nestedWorld has a zone of two racks. A gang wants two machines of one zone;
// those of least worth stand in different racks.
const nestedWorld = `
machines:
- {id: a-1, state: Configured, cluster: v, zone: z, resources: {cpu: 4}, labels: {rack: ra}, assigned: {priority: 1, need: low}}
- {id: b-1, state: Configured, cluster: v, zone: z, resources: {cpu: 4}, labels: {rack: rb}, assigned: {priority: 1, need: low}}
- {id: b-2, state: Configured, cluster: w, zone: z, resources: {cpu: 4}, labels: {rack: rb}, assigned: {priority: 5, need: mid}}
needs:
- {name: top, cluster: t, priority: 1000, aggregate: {cpu: 8}, minUnit: {cpu: 4}, group: t, requirements: [{key: topology.kubernetes.io/zone, operator: Same}]}
- {name: low, cluster: v, priority: 1, aggregate: {cpu: 8}}
- {name: mid, cluster: w, priority: 5, aggregate: {cpu: 4}}
options: {gang: {nested: [%s]}}
`

// TestNestedKeysAreLookedAtFromTheNarrowest: a rack is freed where one will do,
// although the zone has machines of less worth.
func TestNestedKeysAreLookedAtFromTheNarrowest(t *testing.T) {
	for _, x := range []struct{ nested, preempted, domain string }{
		{"", "a-1 b-1", "z"},
		{"topology.kubernetes.io/zone, rack", "b-1 b-2", "z/rb"},
		{"rack, topology.kubernetes.io/zone", "a-1 b-1", "z"}, // racks are not in zones then
		{"rack", "a-1 b-1", "z"},
	} {
		answer, err := read(t, fmt.Sprintf(nestedWorld, x.nested)).Decide(true, nil)
		if err != nil {
			t.Fatal(err)
		}
		var preempted []string
		for _, a := range answer.Actions {
			if a.Kind == engine.Preempt {
				preempted = append(preempted, a.Machine)
			}
		}
		if got := strings.Join(preempted, " "); got != x.preempted {
			t.Errorf("with %q: %s are preempted, want %s", x.nested, got, x.preempted)
		}
		var out bytes.Buffer
		if err := answer.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`"domain": %q`, x.domain); !strings.Contains(out.String(), want) {
			t.Errorf("with %q: %s does not hold %s", x.nested, out.String(), want)
		}
	}
}

func TestNestedKeysAreWrittenAsTheyAreRead(t *testing.T) {
	opts := engine.DefaultOptions()
	opts.Nested = []string{"zone", "rack"}
	var text bytes.Buffer
	if err := WriteInput(&text, engine.Input{Supply: supply.New(), Demand: demand.New()}, opts); err != nil {
		t.Fatal(err)
	}
	if w := read(t, text.String()); !slices.Equal(w.Options.Engine.Nested, opts.Nested) {
		t.Errorf("%v are read, %v were written: %s", w.Options.Engine.Nested, opts.Nested, text.String())
	}
}

func TestFaultsOfNestedKeysAreNamed(t *testing.T) {
	for _, x := range []struct{ nested, want string }{
		{`["a", "a"]`, `options.gang.nested[1]: "a" is listed twice, first as [0]`},
		{`"rack"`, `options.gang.nested: must be a list, got the text "rack"`},
		{`["1", "2", "3", "4", "5", "6", "7", "8", "9"]`, `options.gang.nested: more than 8 keys`},
	} {
		_, err := Read(strings.NewReader(`{"options": {"gang": {"nested": ` + x.nested + `}}}`))
		if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), x.want) {
			t.Errorf("%s: %v, want %s", x.nested, err, x.want)
		}
	}
}
