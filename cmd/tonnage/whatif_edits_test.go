package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const firstHour = "../../docs/examples/first-hour.yaml"

// TestWhatIfTakesChangesOfEveryKind, and says what differs.
func TestWhatIfTakesChangesOfEveryKind(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--add gpu=1", "+ Provision added-gpu-1 cluster web for render\n~ need render: insufficient_supply -> satisfied\n"},
		{"--add gpu-1=2", "+ Provision added-gpu-1 cluster web for render\n"},
		{"--add std/Spot=1 --remove render", "- Bootstrap gpu-1 cluster web for render\n"},
		{"--lose-where node.kubernetes.io/instance-type=gpu", "- Bootstrap gpu-1 cluster web for render\n"},
		{"--priority reports=2000 --size shop:cpu=24", "+ Provision spot-1 cluster web for shop\n"},
		{"--price std/OnDemand=9", "+ Provision spot-1 cluster web for shop\n- Provision od-1 cluster web for shop\n"},
		{"--price od-1=9", "+ Provision spot-1 cluster web for shop\n- Provision od-1 cluster web for shop\n"},
	} {
		got := call("", true, append([]string{"what-if", "-f", firstHour, "-o", "diff"}, strings.Fields(c.flags)...)...)
		if got.code != exitOK || !strings.HasPrefix(got.out, c.want) {
			t.Errorf("%s: exit %d:\n%s%s\nwant\n%s", c.flags, got.code, got.out, got.err, c.want)
		}
	}
}

// TestWhatHelpsByARequirementLessCanBeAsked: --help-me names the command, and what-if decides that it helps.
func TestWhatHelpsByARequirementLessCanBeAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.yaml")
	text := `machines: [{id: m, state: Idle, instanceType: std, resources: {cpu: 8}, labels: {disk: ssd}}]
needs: [{name: n, cluster: c, priority: 1, aggregate: {cpu: 8}, requirements: [{key: gen, operator: In, values: ["2"]}, {key: disk, operator: Exists}]}]
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := "tonnage what-if -f " + path + " --relax n=gen"
	if got := call("", true, "explain", "need", "-f", path, "--help-me", "n"); got.code != exitOK || !strings.Contains(got.out, command+"\n") {
		t.Fatalf("exit %d: no %q in\n%s%s", got.code, command, got.out, got.err)
	}
	for flags, want := range map[string]string{
		"--relax n=gen":                "~ need n: no_matching_supply -> satisfied\n",
		"--relax n=gen --relax n=disk": "~ need n: no_matching_supply -> satisfied\n",
		"--relax n=disk":               "",
	} {
		got := call("", true, append([]string{"what-if", "-f", path, "-o", "diff"}, strings.Fields(flags)...)...)
		if got.code != exitOK || !strings.Contains(got.out, want) || want == "" && strings.Contains(got.out, "satisfied") {
			t.Errorf("%s: exit %d:\n%s%s\nwant %q", flags, got.code, got.out, got.err, want)
		}
	}
}

func TestWhatIfNamesFaultsOfChanges(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--add gpux=1", `--add gpux=1: no machine of the world is of instance type "gpux"; did you mean "gpu"?`},
		{"--add gpu/Spot=1", "with this capacity type and zone"},
		{"--add gpu/Spt=1", `--add gpu/Spt=1: unknown capacity type "Spt"; did you mean Spot?`},
		{"--add gpu=0", "--add gpu=0: must be between 1 and 100000"},
		{"--add gpu=100000000", "must be between 1 and 100000"},
		{"--add gpu", "--add: must be POOL=COUNT"},
		{"--lose-rack r1", `--lose-rack r1: no machine of the world has "topology.kubernetes.io/rack"`},
		{"--lose-where node.kubernetes.io/instance-type=x", `there are "gpu", "std"`},
		{"--priority shp=1", `--priority shp=1: no need is named "shp"; did you mean "shop"?`},
		{"--priority shop=99999999999", "must be between"},
		{"--relax shop", "--relax: must be NEED=KEY"},
		{"--relax shp=a", `--relax: no need is named "shp"`},
		{"--relax shop=a", `--relax: need "shop" has no requirement on "a"`},
		{"--size shop:cpu", "--size: must be NEED:cpu=8"},
		{"--size shop:cpu=x", "is not a quantity"},
		{"--batch x --lose gpu-1", "--batch has all changes in its file"},
		{"--batch x -o diff", "a batch takes -o table or -o json"},
		{"--batch - --edits -", "cannot both be standard input"},
	} {
		got := call("", true, append([]string{"what-if", "-f", firstHour}, strings.Fields(c.flags)...)...)
		if got.code != exitBadInput || !strings.Contains(got.err, c.want) {
			t.Errorf("%s: exit %d: %s\nwant %s", c.flags, got.code, got.err, c.want)
		}
	}
}

func TestWhatIfOfABatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`questions:
- {name: one more, pools: [{instanceType: gpu, count: 1}]}
- {name: a record, addMachines: [{id: mine, state: Idle, resources: {nvidia.com/gpu: 8}}]}
- {needs: [{name: render, aggregate: {nvidia.com/gpu: 8}}], lose: [od-1]}
- {changePools: [{like: std-1, pricePerHour: 3}], loseWhere: [{key: node.kubernetes.io/instance-type, value: gpu}]}
`)
	got := call("", true, "what-if", "-f", firstHour, "--batch", path)
	rows := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != exitOK || len(rows) != 6 || !strings.HasPrefix(rows[1], "(as it is)") || !strings.HasPrefix(rows[2], "one more    3 of 3") ||
		!strings.HasPrefix(rows[3], "a record    3 of 3") || !strings.HasPrefix(rows[4], "question 3  3 of 3") || !strings.HasPrefix(rows[5], "question 4  2 of 3") {
		t.Errorf("exit %d:\n%s%s", got.code, got.out, got.err)
	}
	got = call("", false, "what-if", "-f", firstHour, "--batch", path)
	var list []struct {
		Name        string
		Now, WhatIf struct{ Satisfied int }
	}
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != 4 || list[0].Name != "one more" || list[0].Now.Satisfied != 2 || list[0].WhatIf.Satisfied != 3 {
		t.Errorf("%v: %s", err, got.out)
	}
	write("questions:\n- {name: a, lose: [od-9]}\n- {pools: [{count: 2}]}\n- {needs: [{name: shop, priority: 1}, {name: shop, priority: 2}]}\n")
	got = call("", true, "what-if", "-f", firstHour, "--batch", path)
	for _, want := range []string{path + `:2:20: questions[0].lose[0]: no machine is named "od-9"`, path + ":3:12: questions[1].pools[0]: give like (a machine) or instanceType", `questions[2].needs[1].name: "shop" changes twice`} {
		if got.code != exitBadInput || !strings.Contains(got.err, want) {
			t.Errorf("exit %d: %s\nwant %s", got.code, got.err, want)
		}
	}
}
