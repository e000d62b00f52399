package whatif_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/whatif"
	"github.com/tonnage/tonnage/internal/world/worldtest"
)

func drawings(t *testing.T, text string) []whatif.Drawing {
	t.Helper()
	in, plan := worldtest.Decide(t, text)
	return whatif.DrawingsOf(in, plan, whatif.Words{Profile: func(p *model.Profile) string { return fmt.Sprintf("<priority %d>", p.Priority()) }})
}

func TestPlansOfACycleAreKept(t *testing.T) {
	list := drawings(t, strings.Replace(racks, "victims: machine", "victims: gang", 1))
	if len(list) != 1 {
		t.Fatalf("%d plans are kept, want 1", len(list))
	}
	if !list[0].Takes("a-1") || list[0].Takes("w-1") {
		t.Error("a-1 is not taken, or w-1 is")
	}
	var out strings.Builder
	if err := list[0].WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"&lt;priority 1000&gt; of cluster t<", "takes 3 machines in rack r1",
		"<title>a-1: taken: its gang is broken, serves a</title>", "<title>x-1: taken: nobody claims it",
		"<title>i-1: its own", "2 × g of a", "1 × single machines of w",
		"domains that were tried", "r1: chosen (2 machines, 1 gang)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "w-1:") {
		t.Error("w-1 is drawn, which is not in the rack")
	}
}

// TestDomainsThatWereTriedAreKept with what each would have cost, in as many plans
// as are drawn.
func TestDomainsThatWereTriedAreKept(t *testing.T) {
	const plans, racksOfEach = 20, 3
	var w, needs strings.Builder
	w.WriteString("machines:\n")
	for i := range plans {
		for j := range racksOfEach {
			for k := range 2 + j { // in one rack are two of a gang, in others also what is no gang
				fmt.Fprintf(&w, "- {id: m-%02d-%d-%d, state: Configured, cluster: a, resources: {gpu: 8}, labels: {kind: k%d, rack: r%02d-%d}, assigned: {priority: 1}}\n", i, j, k, i, i, j)
			}
		}
		fmt.Fprintf(&needs, "- {name: low-%d, cluster: a, priority: %d, aggregate: {gpu: 72}, minUnit: {gpu: 8}, requirements: [{key: kind, operator: In, values: [k%d]}]}\n", i, 1+i, i)
		fmt.Fprintf(&needs, "- {name: top-%d, cluster: t, priority: 1000, aggregate: {gpu: 16}, minUnit: {gpu: 8}, group: t%d, requirements: [{key: rack, operator: Same}, {key: kind, operator: In, values: [k%d]}]}\n", i, i, i)
	}
	list := drawings(t, w.String()+"needs:\n"+needs.String())
	if len(list) != 12 {
		t.Fatalf("%d plans are kept, want 12", len(list))
	}
	for i := range list {
		var out strings.Builder
		if err := list[i].WriteSVG(&out); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Count(got, ": chosen (2 machines, 0 gangs)") != 1 || strings.Count(got, ": not chosen: alike; another comes first by name (2 machines") != racksOfEach-1 {
			t.Errorf("plan %d does not show the three racks that were tried:\n%s", i, got)
		}
	}
}

// TestDrawingsAreBounded, however many machines a plan takes and its domain has.
func TestDrawingsAreBounded(t *testing.T) {
	const machines = 2000
	var w strings.Builder
	w.WriteString("machines:\n")
	for i := range machines {
		fmt.Fprintf(&w, "- {id: m-%04d, state: Configured, cluster: a, resources: {gpu: 8}, labels: {rack: r1}, assigned: {priority: 1, need: low}}\n", i)
	}
	fmt.Fprintf(&w, `needs:
- {name: low, cluster: a, priority: 1, aggregate: {gpu: %d}, minUnit: {gpu: 8}}
- {name: top, cluster: t, priority: 1000, aggregate: {gpu: %d}, minUnit: {gpu: 8}, group: t, requirements: [{key: rack, operator: Same}]}
`, 8*machines, 8*machines/2)
	list := drawings(t, w.String())
	if len(list) != 1 {
		t.Fatalf("%d plans are kept, want 1", len(list))
	}
	var out strings.Builder
	if err := list[0].WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"takes 1000 machines in rack r1", "… and 1480 more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
	if most := 150_000; out.Len() > most {
		t.Errorf("the picture has %d bytes, at most %d are expected", out.Len(), most)
	}
}

func TestACycleWithoutVictimsHasNoPlans(t *testing.T) {
	if list := drawings(t, "machines: [{id: m, state: Idle, resources: {cpu: 1}}]\nneeds: [{name: n, cluster: c, aggregate: {cpu: 1}}]"); list != nil {
		t.Errorf("%d plans are kept", len(list))
	}
}
