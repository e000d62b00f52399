package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
)

// fleetOf writes machines of a kind.
func fleetOf(id string, count int, rest string) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "- {id: %s-%d, %s}\n", id, i, rest)
	}
	return b.String()
}

// number begins a line of a funnel; texts of tests leave out the indentation.
var number = regexp.MustCompile(`(?m)^( +[0-9])`)

// lastSentence is the last line of a text, if it is a sentence below the first line.
var lastSentence = regexp.MustCompile(`\n  [A-Z][^\n]*\.\n$`)

// TestADomainSaysWhoseItsMachinesAre: own, free, what could be taken, what is out of reach, and what is missing with all that
// it could have; what the engine counted is told with verbose alone.
func TestADomainSaysWhoseItsMachinesAre(t *testing.T) {
	w := read(t, "machines:\n"+
		fleetOf("own", 1, "state: Configured, cluster: c, resources: {cpu: 4}, labels: {rack: r1}, assigned: {priority: 100, need: n}")+
		fleetOf("high", 2, "state: Configured, cluster: high, resources: {cpu: 4}, labels: {rack: r1}, assigned: {priority: 900, need: top}")+
		fleetOf("low", 1, "state: Configured, cluster: low, resources: {cpu: 4}, labels: {rack: r1}, assigned: {priority: 1, need: bottom}")+
		fleetOf("free", 2, "state: Idle, resources: {cpu: 4}, labels: {rack: r2}")+`
needs:
- {name: n, cluster: c, priority: 100, aggregate: {cpu: 12}, minUnit: {cpu: 4}, requirements: [{key: rack, operator: Same}]}
- {name: top, cluster: high, priority: 900, aggregate: {cpu: 8}, requirements: [{key: rack, operator: In, values: [r1]}]}
- {name: bottom, cluster: low, priority: 1, aggregate: {cpu: 4}, requirements: [{key: rack, operator: In, values: [r1]}]}
`)
	answer, err := w.Explain(&Subjects{Needs: map[string]bool{"n": true}})
	if err != nil {
		t.Fatal(err)
	}
	domains := answer.Explain.Needs[0].Funnel.Domains
	if len(domains) != 2 {
		t.Fatalf("%+v", domains)
	}
	for i := range domains {
		d := &domains[i]
		lacks := vector(d.Lacks)
		switch d.Value {
		case "r1":
			if d.Fit != 4 || d.Higher != 2 || d.Own+d.Lower != 2 || d.Own != d.Free || lacks != "cpu=4" {
				t.Errorf("%+v, lacks %s", d, lacks)
			}
		case "r2":
			if d.Fit != 2 || d.Free != 2 || d.Lower+d.Higher != 0 || lacks != "cpu=4" {
				t.Errorf("%+v, lacks %s", d, lacks)
			}
		}
	}
	if says := answer.Explain.Needs[0].Funnel.Verdict; says != "No rack could give it enough. r1 comes nearest: of the 4 machines there that fit, 1 is its own, 1 could be taken and 2 are out of its reach." {
		t.Errorf("it says %q", says)
	}
	told := func(verbose bool) string {
		var out bytes.Buffer
		if err := answer.WriteExplanation(&out, w, verbose); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const counted = "what the machines are to it: "
	if short, long := told(false), told(true); strings.Contains(short, counted) || !strings.Contains(short, "DOMAIN  FIT  OWN  FREE  COULD TAKE  OUT OF REACH  MISSING") || !strings.Contains(long, counted) {
		t.Errorf("it says\n%s\nand in detail\n%s", short, long)
	}
}

// TestAFunnelSaysWhereMachinesAreLost, and does not advise a priority that would not help.
func TestAFunnelSaysWhereMachinesAreLost(t *testing.T) {
	const need = "\nneeds:\n- {name: n, cluster: c, priority: 100, "
	zones := "machines:\n" + fleetOf("a", 1200, "state: Idle, zone: z1, instanceType: std, resources: {cpu: 4}") + fleetOf("b", 34, "state: Failed, zone: z1, resources: {cpu: 4}")
	for _, c := range []struct{ name, text, want string }{
		{"a key that no machine has", zones + need + `aggregate: {cpu: 4}, requirements: [{key: zone, operator: In, values: [z1]}]}`, `
     1,234 machines in the fleet
     1,200 in a usable state; 34 Deleting or Failed
         0 meet ´zone in z1´: no machine has this label; 1,200 have ´topology.kubernetes.io/zone´
  No machine meets its requirements: zone in z1 leaves none. A higher priority does not help.
`},
		{"a value that no machine has", zones + need + `aggregate: {cpu: 4}, requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [z2]}]}`, `
         0 meet ´topology.kubernetes.io/zone in z2´: no machine has it; there are 1,200 with "z1"
`},
		{"a value misspelt", "machines:\n" + fleetOf("a", 2, "state: Idle, zone: europe-1, resources: {cpu: 4}") + need + `aggregate: {cpu: 4}, requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [eurpe-1]}]}`, `
         0 meet ´topology.kubernetes.io/zone in eurpe-1´: no machine has it; there are 2 with "europe-1"; did you mean "europe-1"?
`},
		{"a value of another make", "machines:\n" + fleetOf("a", 2, "state: Idle, zone: A100, resources: {cpu: 4}") + need + `aggregate: {cpu: 4}, requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [H100]}]}`, `
         0 meet ´topology.kubernetes.io/zone in H100´: no machine has it; there are 2 with "A100"
`},
		{"two that nothing meets together", "machines:\n" + fleetOf("a", 2, "state: Idle, zone: z1, instanceType: x, resources: {cpu: 4}") + fleetOf("b", 1, "state: Idle, zone: z2, instanceType: y, resources: {cpu: 4}") +
			need + `aggregate: {cpu: 4}, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [x]}, {key: topology.kubernetes.io/zone, operator: In, values: [z2]}]}`, `
         2 meet ´node.kubernetes.io/instance-type in x´
         0 meet ´topology.kubernetes.io/zone in z2´: 1 meets it, and none of them what stands before it
`},
		{"one machine of 4 and a unit of 8", "machines:\n" + fleetOf("a", 1, "state: Idle, resources: {cpu: 4}") + need + `aggregate: {cpu: 8}, minUnit: {cpu: 8}}`, `
         1 machine in the fleet
         0 large enough: the most cpu of one machine is 4, a unit needs 8
  No machine is large enough: the most cpu of one machine is 4, a unit needs 8. A higher priority does not help.
`},
		{"one machine of 4 and a need of 8", "machines:\n" + fleetOf("a", 1, "state: Idle, resources: {cpu: 4}") + need + `aggregate: {cpu: 8}}`, `
         1 large enough, with cpu=4 together
         1 of them its own
         0 of them free
  All machines that fit, whoever has them, lack cpu=4 of what it asks for. A higher priority does not help. More machines or quota do.
`},
		{"machines with others", "machines:\n" + fleetOf("a", 3, "state: Configured, cluster: high, resources: {cpu: 4}, assigned: {priority: 900}") + need + "aggregate: {cpu: 8}}\n- {name: top, cluster: high, priority: 900, aggregate: {cpu: 12}}", `
         3 large enough, with cpu=12 together
         3 of them with need top of cluster high, priority 900: out of reach
         0 of them free
  Enough machines fit: 3 in all. Of these, 0 are its own, 3 serve Needs that it cannot take from.
`},
		{"racks that are too small", "machines:\n" + fleetOf("a", 3, "state: Idle, resources: {cpu: 4}, labels: {rack: r1}") + fleetOf("b", 2, "state: Idle, resources: {cpu: 4}, labels: {rack: r2}") +
			need + `aggregate: {cpu: 16}, minUnit: {cpu: 4}, requirements: [{key: rack, operator: Same}]}`, `
         5 meet ´one rack´
         5 large enough, with cpu=20 together
         3 of them its own
         2 of them free
  DOMAIN  FIT  OWN  FREE  COULD TAKE  OUT OF REACH  MISSING  IF EMPTY
  r1      3    3    0     0           0             cpu=4    75 %
  r2      2    0    2     0           0             cpu=8    50 %
  No rack could hold it, even if it were empty: r1 comes nearest and lacks cpu=4. A higher priority does not help.
`},
	} {
		w := read(t, c.text)
		answer, err := w.Explain(&Subjects{Needs: map[string]bool{"n": true}})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := answer.WriteExplanation(&out, w, true); err != nil {
			t.Fatal(err)
		}
		// The verdict, which ends what is wanted, stands below the first line.
		steps, verdict := strings.ReplaceAll(c.want, "´", "`"), ""
		if at := lastSentence.FindStringIndex(steps); at != nil {
			steps, verdict = steps[:at[0]+1], steps[at[0]+1:]
		}
		first, rest, _ := strings.Cut(out.String(), "\n")
		if want := number.ReplaceAllString(steps, " $1"); !strings.Contains("\n"+rest, want) || !strings.HasPrefix(rest, verdict) {
			t.Errorf("%s:\n%s\n%s\nwant%s%s", c.name, first, rest, want, verdict)
		}
		out.Reset()
		if err := answer.WriteExplanationJSON(&out); err != nil || !json.Valid(out.Bytes()) || !strings.Contains(out.String(), `"funnel": {"machines": `) {
			t.Errorf("%s: %v: %s", c.name, err, out.String())
		}
	}
}

// TestFunnelsAgreeWithReasons, over all worlds of the scenarios: what the engine calls unmet for want of supply,
// of size or of a domain is where the funnel ends too, and nowhere else does it say that priority is
// moot.
func TestFunnelsAgreeWithReasons(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "scenario", "testdata", "*.json"))
	if err != nil || len(files) < 100 {
		t.Fatal(len(files), err)
	}
	seen := map[engine.Unmet]int{}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Command string
			Input   json.RawMessage
		}
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		w, err := Read(bytes.NewReader(s.Input))
		if s.Command != "decide" || err != nil {
			continue
		}
		all := &Subjects{Needs: map[string]bool{}}
		for i := range w.Needs {
			all.Needs[w.Needs[i].Name] = true
		}
		answer, err := w.Explain(all)
		if err != nil {
			continue // a limit of the engine
		}
		for i := range answer.Explain.Needs {
			n := &answer.Explain.Needs[i]
			row := &answer.Needs[i]
			if row.Satisfied || n.FoldOf != "" {
				continue
			}
			seen[row.Reason]++
			moot := strings.Contains(n.Funnel.Verdict, "does not help")
			switch row.Reason {
			case engine.UnmetNoMatchingSupply, engine.UnmetInsufficientSupply, engine.UnmetTopology:
				if !moot {
					t.Errorf("%s, need %s: %s, and the funnel says %q", filepath.Base(path), n.Name, row.Reason, n.Funnel.Verdict)
				}
			case engine.UnmetPriorityStarved:
				if moot {
					t.Errorf("%s, need %s: %s, and the funnel says %q", filepath.Base(path), n.Name, row.Reason, n.Funnel.Verdict)
				}
			}
		}
	}
	for _, reason := range []engine.Unmet{engine.UnmetNoMatchingSupply, engine.UnmetInsufficientSupply, engine.UnmetTopology, engine.UnmetPriorityStarved} {
		if seen[reason] == 0 {
			t.Errorf("no need is %s; seen are %v", reason, seen)
		}
	}
}

// TestANeedIsFoundByItsRow: a shard's page names Needs by cluster and row where nobody has named them.
func TestANeedIsFoundByItsRow(t *testing.T) {
	w := read(t, "needs:\n- {name: first, cluster: c}\n- {name: other, cluster: d}\n- {name: second, cluster: c}\n- {name: d/1, cluster: e}\n")
	for name, want := range map[string]string{"c/0": "first", "c/1": "second", "d/0": "other", "d/1": "d/1"} {
		answer, err := w.Explain(&Subjects{Needs: map[string]bool{name: true}})
		if err != nil || len(answer.Explain.Needs) != 1 || answer.Explain.Needs[0].Name != want {
			t.Errorf("%s: %v %+v, want %s", name, err, answer, want)
		}
	}
	for _, name := range []string{"c/2", "c/-1", "x/0", "/0", "c/"} {
		if _, err := w.Explain(&Subjects{Needs: map[string]bool{name: true}}); err == nil {
			t.Errorf("%s is found", name)
		}
	}
}

// TestHoldersStandInOneOrder: a cluster's machines of one priority that Needs claim stand before as many that no Need claims.
func TestHoldersStandInOneOrder(t *testing.T) {
	w := read(t, "machines:\n"+
		fleetOf("claimed", 2, "state: Configured, cluster: a, resources: {cpu: 4}, assigned: {priority: 900, need: one}")+
		fleetOf("excess", 2, "state: Configured, cluster: a, resources: {cpu: 4}, assigned: {priority: 900, fingerprint: 00000000000000aa}")+`
needs:
- {name: one, cluster: a, priority: 900, aggregate: {cpu: 4}, minUnit: {cpu: 4}}
- {name: two, cluster: a, priority: 900, aggregate: {cpu: 4}, minUnit: {cpu: 4}, requirements: [{key: zone, operator: DoesNotExist}]}
- {name: n, cluster: c, priority: 1, aggregate: {cpu: 4}, minUnit: {cpu: 4}}
`)
	for range 30 {
		answer, err := w.Explain(&Subjects{Needs: map[string]bool{"n": true}})
		if err != nil {
			t.Fatal(err)
		}
		holders := answer.Explain.Needs[0].Funnel.Holders
		if len(holders) != 2 || !holders[0].Claimed || holders[1].Claimed {
			t.Fatalf("holders %+v", holders)
		}
	}
}
