package whatif_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// racks has a gang of two and a plain need of less worth in each of two racks,
// and an idle machine in one.
const racks = `
options: {gang: {victims: machine}}
machines:
- {id: a-1, state: Configured, cluster: a, resources: {gpu: 8}, labels: {rack: r1}, assigned: {priority: 1, need: ga, group: g}}
- {id: a-2, state: Configured, cluster: a, resources: {gpu: 8}, labels: {rack: r1}, assigned: {priority: 1, need: ga, group: g}}
- {id: i-1, state: Idle, resources: {gpu: 8}, labels: {rack: r1}}
- {id: w-1, state: Configured, cluster: w, resources: {gpu: 8}, labels: {rack: r2}, assigned: {priority: 5, need: web}}
- {id: x-1, state: Configured, cluster: w, resources: {gpu: 8}, labels: {rack: r1}, assigned: {priority: 1}}
- {id: z-1, state: Speculative, resources: {cpu: 1}}
needs:
- {name: "<top>", cluster: t, priority: 1000, aggregate: {gpu: 32}, minUnit: {gpu: 8}, group: t, requirements: [{key: rack, operator: Same}]}
- {name: ga, cluster: a, priority: 1, aggregate: {gpu: 16}, minUnit: {gpu: 8}, group: g, requirements: [{key: rack, operator: Same}]}
- {name: web, cluster: w, priority: 5, aggregate: {gpu: 8}, minUnit: {gpu: 8}}
`

func draw(t *testing.T, w, edits string) string {
	t.Helper()
	var out strings.Builder
	if err := ask(t, w, edits).WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(out.String()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, out.String())
		}
	}
	return out.String()
}

func TestPlansAreDrawn(t *testing.T) {
	got := draw(t, racks, "{}")
	for _, want := range []string{
		"&lt;top&gt; of cluster t<", "takes 3 machines in rack r1",
		"<title>a-1: taken: its gang is broken, serves ga</title>",
		"<title>x-1: taken: nobody claims it</title>",
		"<title>i-1: its own, serves &lt;top&gt;</title>",
		"r1: chosen", "2 × ga of a", "600 s", "held until bound, at the latest 1200 s from now",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	for _, never := range []string{"w-1:", "z-1:"} {
		if strings.Contains(got, never) {
			t.Errorf("%s is drawn, which is not in the rack", never)
		}
	}
}

// TestWithoutVictimsTheAlternativeIsDrawn: when all can be bought, the picture is
// of what buying spares.
func TestWithoutVictimsTheAlternativeIsDrawn(t *testing.T) {
	got := draw(t, fleet, `lose: [m-1]`)
	if !strings.Contains(got, "if nothing could be bought") || !strings.Contains(got, "<title>low-1: taken: in no gang, serves batch</title>") {
		t.Error(got)
	}
	if got := draw(t, fleet, "{}"); !strings.Contains(got, "Nobody.") {
		t.Error(got)
	}
}

// TestSparedMachinesAreDrawn: the smaller machine is worth less and goes first,
// but the larger one alone is enough.
func TestSparedMachinesAreDrawn(t *testing.T) {
	got := draw(t, `
machines:
- {id: s-1, state: Configured, cluster: w, resources: {cpu: 4}, assigned: {priority: 1, need: small}}
- {id: s-2, state: Configured, cluster: w, resources: {cpu: 8}, assigned: {priority: 5, need: large}}
needs:
- {name: web, cluster: t, priority: 900, aggregate: {cpu: 8}}
- {name: small, cluster: w, priority: 1, aggregate: {cpu: 4}}
- {name: large, cluster: w, priority: 5, aggregate: {cpu: 8}}
`, "{}")
	for _, want := range []string{"<title>s-1: spared, serves small</title>", "<title>s-2: taken: in no gang, serves large</title>"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}
