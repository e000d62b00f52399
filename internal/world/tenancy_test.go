package world

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

func TestTenancyIsWrittenAsItIsRead(t *testing.T) {
	opts := engine.DefaultOptions()
	opts.Band = math.Inf(1)
	opts.Tenancy.Tenants = []engine.Tenant{
		{Name: "a", Clusters: []string{"c1", "c2"}, Share: model.NewResources(model.Amount{Name: "cpu", Value: 100_000})},
		{Name: "b"},
	}
	var text bytes.Buffer
	if err := WriteInput(&text, engine.Input{Supply: supply.New(), Demand: demand.New()}, opts); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"band": "inf"`, `"tenants": [{"name": "a", "clusters": ["c1", "c2"], "share": {"cpu": "100"}}, {"name": "b"}]`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s does not hold %s", text.String(), want)
		}
	}
}

func TestTenantsHaveNamesAndClustersOfTheirOwn(t *testing.T) {
	_, err := Read(strings.NewReader(`{"options": {"tenancy": {"tenants": [{"name": "a", "clusters": ["c"]}, {"name": "a", "clusters": ["c"]}, {}]}}}`))
	faults := strings.Split(err.Error(), "\n")
	for _, want := range []string{
		`options.tenancy.tenants[1].name: "a" is used twice; first by item [0] of the list`,
		`options.tenancy.tenants[1].clusters: "c" is a cluster of tenant "a" already`,
		`options.tenancy.tenants[2].name: is missing`,
	} {
		if !slices.Contains(faults, want) {
			t.Errorf("%q is not among %q", want, faults)
		}
	}
}

// tenantsWorld has a taker below its share, a giver above, one that would fall
// below its share, one within it, and one whose work has a higher priority.
const tenantsWorld = `
machines:
- {id: a-1, state: Configured, cluster: v, resources: {cpu: 4}, assigned: {priority: 1, need: giver, interruptionPenalty: 8, reclamationPenalty: 1}}
- {id: a-2, state: Configured, cluster: v, resources: {cpu: 4}, assigned: {priority: 1, need: giver, interruptionPenalty: 64, reclamationPenalty: 64}}
- {id: b-1, state: Configured, cluster: big, resources: {cpu: 16}, assigned: {priority: 1, need: big}}
- {id: c-1, state: Configured, cluster: within, resources: {cpu: 4}, assigned: {priority: 1, need: within}}
- {id: d-1, state: Configured, cluster: high, resources: {cpu: 4}, assigned: {priority: 9, need: high}}
needs:
- {name: taker, cluster: t, priority: 1, aggregate: {cpu: 4}, minUnit: {cpu: 4}}
- {name: stray, cluster: nobodys, priority: 1, aggregate: {cpu: 4}}
- {name: giver, cluster: v, priority: 1, aggregate: {cpu: 8}}
- {name: big, cluster: big, priority: 1, aggregate: {cpu: 16}}
- {name: within, cluster: within, priority: 1, aggregate: {cpu: 4}}
- {name: high, cluster: high, priority: 9, aggregate: {cpu: 4}}
options:
  tenancy:
    tenants:
    - {name: T, clusters: [t], share: {cpu: 8}}
    - {name: V, clusters: [v], share: {cpu: 4}}
    - {name: B, clusters: [big], share: {cpu: 15}}
    - {name: W, clusters: [within], share: {cpu: 4}}
    - {name: H, clusters: [high], share: {cpu: 2}}
`

func TestReclaimIsExplained(t *testing.T) {
	w := read(t, tenantsWorld)
	answer, err := w.Explain(&Subjects{Needs: map[string]bool{"taker": true, "stray": true}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := answer.WriteExplanationJSON(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"preempted": ["a-1"]`, `"tenant": "V", "ratio": 2`, `"interruptionDollars": 8, "reclamationDollars": 1`,
		`"tenancy": {"tenant": "T", "share": {"cpu": "8"}, "verdict": "reclaims"`,
		`{"tenant": "V", "has": {"cpu": "8"}, "share": {"cpu": "4"}, "ratio": 2, "verdict": "gives"}`,
		`"share": {"cpu": "15"}, "ratio": 1.05, "verdict": "taker_share"}`,
		`{"tenant": "W", "has": {"cpu": "4"}, "share": {"cpu": "4"}, "ratio": 1, "verdict": "within_share"}`,
		`"share": {"cpu": "2"}, "ratio": 2, "verdict": "nothing_of_use"}`,
		`"tenancy": {"verdict": "no_tenant"}`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s does not hold %s", out.String(), want)
		}
	}
	var told bytes.Buffer
	if err := answer.WriteExplanation(&told, w, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"(plain) of tenant V at 2.00 of its share", "it reclaims from other tenants", "tenant B would bring the taker above its share", "its cluster is of no tenant"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("%s does not hold %q", told.String(), want)
		}
	}
	// That nothing is reclaimed is said with verbose alone.
	told.Reset()
	if err := answer.WriteExplanation(&told, w, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(told.String(), "it reclaims from other tenants") || strings.Contains(told.String(), "its cluster is of no tenant") {
		t.Errorf("without verbose it says %s", told.String())
	}
}
