package world

import (
	"bytes"
	"strings"
	"testing"
)

const costsWorld = `{"machines": [
  {"id": "spot", "state": "Speculative", "capacityType": "Spot", "pricePerHour": 0.08, "interruptionProbability": 0.05, "resources": {"cpu": "8"}},
  {"id": "safe", "state": "Speculative", "pricePerHour": 0.2, "resources": {"cpu": "8"}},
  {"id": "had", "state": "Idle", "capacityType": "Spot", "interruptionProbability": 0.05, "resources": {"cpu": "8"}}],
 "needs": [
  {"name": "free", "cluster": "c", "aggregate": {"cpu": "8"}},
  {"name": "dear", "cluster": "c", "interruptionPenalty": 64, "aggregate": {"cpu": "8"}},
  {"name": "large", "cluster": "c", "interruptionPenalty": 8, "minUnit": {"cpu": "9"}, "aggregate": {"cpu": "9"}},
  {"name": "elsewhere", "cluster": "c", "interruptionPenalty": 4, "requirements": [{"key": "a", "operator": "Exists"}], "aggregate": {"cpu": "8"}},
  {"name": "dear too", "cluster": "c", "interruptionPenalty": 60, "aggregate": {"cpu": "8"}},
  {"name": "pinned", "cluster": "c", "interruptionPenalty": "pinned", "aggregate": {"cpu": "8"}}]}`

// TestExplainedMachinesSayWhatTheyCost: price and interruptions together, by
// penalty, of Needs that the machine could serve.
func TestExplainedMachinesSayWhatTheyCost(t *testing.T) {
	w := read(t, costsWorld)
	answer, err := w.Explain(&Subjects{Machines: map[string]bool{"spot": true, "safe": true, "had": true}})
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
	for _, want := range []string{
		"machine spot, Speculative, $0.08 an hour\n  for need dear and 1 more it costs $3.28 an hour: an interruption costs $64 and comes with probability 0.05 an hour\n" +
			"  for need pinned, which must not be interrupted, it comes after every safe one: it is interrupted with probability 0.05 an hour\n",
	} {
		if !strings.Contains(text.String(), want) || strings.Count(text.String(), "  for ") != 2 {
			t.Errorf("it says\n%s, want once\n%s", &text, want)
		}
	}
	for _, want := range []string{`"effectiveCosts": [{"need": "dear", "needs": 2, "interruptionPenalty": 64, "effectiveCost": 3.28`, `{"need": "pinned", "needs": 1, "interruptionPenalty": "inf", "effectiveCost": "inf"}]`} {
		if strings.Count(json.String(), want) != 1 {
			t.Errorf("JSON is %s, want once %s", &json, want)
		}
	}
}

// TestExplainedMachinesSayThatTheyAreLateBound: and what they cost each Need.
func TestExplainedMachinesSayThatTheyAreLateBound(t *testing.T) {
	w := read(t, `{"machines": [{"id": "late", "state": "Idle", "labels": {"tonnage.dev/late-bound": "true"}, "capacityType": "Spot",
	  "pricePerHour": 0.08, "interruptionProbability": 0.05, "resources": {"cpu": "8"}}],
	 "needs": [{"name": "dear", "cluster": "c", "interruptionPenalty": 64, "aggregate": {"cpu": "8"}}]}`)
	answer, err := w.Explain(&Subjects{Machines: map[string]bool{"late": true}})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := answer.WriteExplanation(&text, w, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"machine late, Idle and late-bound, $0.08 an hour from when it is bound\n", "  it is not made yet: ", "  for need dear it costs $3.28 an hour: ", "  Bootstrap, because phase1.idle, for need dear\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("it says\n%s, which lacks %q", &text, want)
		}
	}
}
