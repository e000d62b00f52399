package world

import (
	"bytes"
	"strings"
	"testing"
)

// TestExplainSaysWhyThisMachine: its cost, what of the Need it covers, and the runner-up.
func TestExplainSaysWhyThisMachine(t *testing.T) {
	const machines = `"machines": [
  {"id": "big", "state": "Speculative", "pricePerHour": 0.6, "resources": {"cpu": "16", "memory": "64Gi"}},
  {"id": "next", "state": "Speculative", "pricePerHour": 0.7, "resources": {"cpu": "16", "memory": "128Gi"}},
  {"id": "small", "state": "Speculative", "pricePerHour": 0.2, "resources": {"cpu": "4", "memory": "16Gi"}},
  {"id": "idle", "state": "Idle", "pricePerHour": 0.1, "resources": {"cpu": "2", "memory": "8Gi"}}]`
	for _, c := range []struct {
		name, world string
		subject     string
		text, json  []string
	}{
		{"fit", `{"options": {"acquire": "fit"}, ` + machines + `, "needs": [{"name": "n", "cluster": "c", "aggregate": {"cpu": "16", "memory": "64Gi"}}]}`, "big",
			[]string{"  by fit: it costs the need $0.6 an hour and covers 100 % of cpu, 100 % of memory\n", "  runner-up: next for $0.7 an hour\n"},
			[]string{`"acquire": "fit", "covers": {"cpu": 1, "memory": 1}, "runnerUp": "next", "runnerUpCost": 0.7`}},
		{"cheapest", `{` + machines + `, "needs": [{"name": "n", "cluster": "c", "aggregate": {"cpu": "18", "memory": "72Gi"}}]}`, "idle",
			[]string{"  by cheapest: it costs the need $0.1 an hour and covers 11.1 % of cpu, 11.1 % of memory\n", "  runner-up: none;"},
			[]string{`"acquire": "cheapest", "covers": {"cpu": 0.1111111111111111, "memory": 0.1111111111111111}`}},
	} {
		w := read(t, c.world)
		answer, err := w.Explain(&Subjects{Machines: map[string]bool{c.subject: true}})
		if err != nil {
			t.Fatal(err)
		}
		var text, json bytes.Buffer
		if err := answer.WriteExplanation(&text, w, true); err != nil {
			t.Fatal(err)
		}
		if err := answer.WriteExplanationJSON(&json); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.text {
			if strings.Count(text.String(), want) != 1 {
				t.Errorf("%s: it says\n%s, want once\n%s", c.name, &text, want)
			}
		}
		for _, want := range c.json {
			if strings.Count(json.String(), want) != 1 {
				t.Errorf("%s: JSON is %s, want once %s", c.name, &json, want)
			}
		}
	}
}
