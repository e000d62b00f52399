package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestExplainSaysWhatWouldHelp(t *testing.T) {
	got := call("", true, "explain", "need", "-f", firstHour, "--help-me", "render", "shop")
	for _, want := range []string{"more machines: 1 of gpu, $12.00 an hour more", "tonnage what-if -f " + firstHour + " --add gpu-1=1", "need shop is satisfied; it needs no help"} {
		if got.code != exitOK || !strings.Contains(got.out, want) {
			t.Errorf("exit %d: %s%s\nwant %s", got.code, got.out, got.err, want)
		}
	}
	// What it says to try gives what it says.
	if asked := call("", true, "what-if", "-f", firstHour, "--add", "gpu-1=1", "-o", "diff"); !strings.Contains(asked.out, "~ need render: insufficient_supply -> satisfied") {
		t.Errorf("%s%s", asked.out, asked.err)
	}
	got = call("", false, "explain", "need", "-f", firstHour, "--help-me", "render")
	var answer struct {
		Explain struct {
			Needs map[string]struct{ Funnel struct{ Machines int } }
		}
		Help []struct {
			Need     string
			Capacity []struct {
				Count int
				Like  string
			}
		}
	}
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil || answer.Explain.Needs["render"].Funnel.Machines != 5 || len(answer.Help) != 1 || answer.Help[0].Capacity[0].Count != 1 {
		t.Errorf("%v: %s", err, got.out)
	}
	var many strings.Builder
	many.WriteString("needs:\n")
	args := []string{"explain", "need", "-f", "-", "--help-me"}
	for i := range needsHelpedMax + 1 {
		fmt.Fprintf(&many, "- {name: n%d, cluster: c, aggregate: {cpu: 1}}\n", i)
		args = append(args, fmt.Sprintf("n%d", i))
	}
	if got := call(many.String(), true, args...); got.code != exitBadInput || !strings.Contains(got.err, "at most 16 needs at a time") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
