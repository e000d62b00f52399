package world

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/sim"
	"github.com/tonnage/tonnage/shard"
)

const smallWorld = `{"machines": [{"id": "m-1", "state": "Idle"}, {"id": "m-2", "state": "Idle"}], "needs": [{"name": "n1", "cluster": "c1"}]}`

func TestDefaultsOfARun(t *testing.T) {
	s, err := ReadRun(strings.NewReader(`{"world": ` + smallWorld + `, "cycles": 4}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Cycles != 4 || s.Seed != 1 || s.Interval != 10*time.Second || s.Latencies != (sim.Latencies{}) || len(s.Timeline) != 0 {
		t.Errorf("run is %+v", s)
	}
	if want := (sim.Rails{ReclaimCapFraction: 0.05, Quarantine: true}); s.Rails != want {
		t.Errorf("rails are %+v, want the shard's own %+v", s.Rails, want)
	}
	if len(s.Machines) != 2 || len(s.Demand) != 1 || s.Demand[0].Cluster != "c1" || s.Demand[0].Needs[0].Name != "n1" || strings.Join(s.Reported, " ") != "c1" {
		t.Errorf("run is %+v", s)
	}
}

func TestTheReclaimCapOfARun(t *testing.T) {
	for _, c := range []struct {
		options, rails string
		want           float64
	}{
		{`{}`, `{}`, 0.05},
		{`{"reclaimCapFraction": 0.5}`, `{}`, 0.5},
		{`{"reclaimCapFraction": 0}`, `{}`, 0},
		{`{"reclaimCapFraction": 0.5}`, `{"reclaimCapFraction": 0}`, 0},
		{`{}`, `{"reclaimCapFraction": 0.25}`, 0.25},
	} {
		s, err := ReadRun(strings.NewReader(`{"world": {"options": ` + c.options + `}, "cycles": 1, "rails": ` + c.rails + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if s.Rails.ReclaimCapFraction != c.want {
			t.Errorf("options %s, rails %s: cap %v, want %v", c.options, c.rails, s.Rails.ReclaimCapFraction, c.want)
		}
	}
}

func TestEveryFieldOfARunIsRead(t *testing.T) {
	s, err := ReadRun(strings.NewReader(`
world:
  now: 1970-01-01T00:01:00Z
  machines: [{id: m-1, state: Idle}]
  needs: [{name: n1, cluster: c1}, {name: x, cluster: b}]
  options: {workers: 2}
seed: 7
cycles: 40
cycleInterval: 5s
provider:
  create: 2
  configure: {min: 1, max: 4}
  faults:
  - {op: Configure, machine: m-1, times: 1}
  - {op: any, probability: 0.01}
timeline:
- {at: 2, replace: {cluster: c1, needs: [{name: n1, aggregate: {cpu: "1"}}, {name: n2, cluster: c1}]}}
- {at: 3, replace: {cluster: c1, needs: []}}
- {at: 5, lose: [m-1]}
- {at: 9, restart: true, resend: true}
- {at: 12, pause: true}
- {at: 13, pause: false}
- {at: 15, change: {machine: m-1, pricePerHour: 0.4, labels: {a: b}, allocatable: {cpu: "2"}, interruptionProbability: 0.1}}
- {at: 16, change: {machine: m-1, labels: {}}}
rails: {reclaimCapFraction: 0.1, rollupQuarantine: false, dryRun: true, queue: 3}
`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Now != 60e9 || s.Seed != 7 || s.Cycles != 40 || s.Interval != 5*time.Second || s.Options.Workers != 2 {
		t.Errorf("run is %+v", s)
	}
	if want := (sim.Latencies{Create: sim.Latency{Min: 2, Max: 2}, Configure: sim.Latency{Min: 1, Max: 4}}); s.Latencies != want {
		t.Errorf("latencies are %+v", s.Latencies)
	}
	if len(s.Faults) != 2 || s.Faults[0] != (sim.Fault{Op: shard.OpConfigure, Machine: "m-1", Times: 1}) || s.Faults[1] != (sim.Fault{Op: shard.OpAny, Probability: 0.01}) {
		t.Errorf("faults are %+v", s.Faults)
	}
	if want := (sim.Rails{ReclaimCapFraction: 0.1, DryRun: true, Queue: 3}); s.Rails != want {
		t.Errorf("rails are %+v", s.Rails)
	}
	if len(s.Demand) != 2 || s.Demand[0].Cluster != "b" {
		t.Errorf("demand is %+v, want clusters by id", s.Demand)
	}
	e := s.Timeline
	if len(e) != 8 {
		t.Fatalf("%d events", len(e))
	}
	if r := e[0].Replace; e[0].At != 2 || r.Cluster != "c1" || len(r.Needs) != 2 || r.Needs[0].Cluster != "c1" || r.Needs[0].Aggregate.Get("cpu") != 1000 || r.Needs[0].ShortSince != 60e9 {
		t.Errorf("replace is %+v", r)
	}
	if e[1].Replace == nil || len(e[1].Replace.Needs) != 0 || strings.Join(e[2].Lose, " ") != "m-1" || !e[3].Restart || !e[3].Resend || !*e[4].Pause || *e[5].Pause {
		t.Errorf("events are %+v", e)
	}
	c := e[6].Change
	if c.Machine != "m-1" || *c.PricePerHour != 0.4 || *c.InterruptionProbability != 0.1 || c.Labels["a"] != "b" || c.Allocatable.Get("cpu") != 2000 {
		t.Errorf("change is %+v", c)
	}
	if c := e[7].Change; c.Labels == nil || len(c.Labels) != 0 || c.PricePerHour != nil || c.Allocatable != nil {
		t.Errorf("change is %+v", c)
	}
}

func TestFaultsOfARunAreNamedByPath(t *testing.T) {
	event := func(fields string) string { return `"timeline": [{"at": 2, ` + fields + `}]` }
	for _, c := range []struct{ field, want string }{
		{`"cycle": 3`, `cycle: unknown key; did you mean cycles?`},
		{`"seed": -1`, `seed: must be between 0 and 9223372036854775807, got -1`},
		{`"cycleInterval": "0s"`, `cycleInterval: must be at least 1ms, got the text "0s"`},
		{`"provider": {"create": "fast"}`, `provider.create: must be a number of cycles or {min, max}, got the text "fast"`},
		{`"provider": {"drain": {"min": 3, "max": 1}}`, `provider.drain: min must be at most max, got 3 and 1`},
		{`"provider": {"drain": {"max": 1}}`, `provider.drain.min: is missing`},
		{`"provider": {"delete": -1}`, `provider.delete: must be between 0 and 10000, got -1`},
		{`"provider": {"faults": [{"op": "Boot", "times": 1}]}`, `provider.faults[0].op: unknown operation "Boot"; use one of any, Create, Configure, Drain, Delete`},
		{`"provider": {"faults": [{"op": "any"}, {"op": "any", "times": 1, "probability": 1}]}`, "provider.faults[0]: give either times or probability\nprovider.faults[1]: give either times or probability"},
		{`"provider": {"faults": [{"op": "any", "times": 1, "machine": "m-9"}]}`, `provider.faults[0].machine: no machine is named "m-9"; did you mean "m-1"?`},
		{`"timeline": [{"pause": true}]`, `timeline[0].at: is missing`},
		{`"timeline": [{"at": 2}]`, `timeline[0]: nothing happens here; give one of replace, lose, restart, pause, change`},
		{`"timeline": [{"at": 11, "pause": true}]`, `timeline[0].at: is after the last cycle, 10`},
		{`"timeline": [{"at": 0, "pause": true}]`, `timeline[0].at: must be between 1 and 1000000, got 0`},
		{event(`"resend": true`), `timeline[0].resend: stands beside restart only`},
		{event(`"lose": ["m-1", "q"]`), `timeline[0].lose[1]: no machine is named "q"`},
		{event(`"change": {"machine": "q"}`), `timeline[0].change.machine: no machine is named "q"`},
		{event(`"change": {"machine": "m-1", "pricePerHour": -1}`), `timeline[0].change.pricePerHour: must be at least 0, got -1`},
		{event(`"replace": {"needs": [{"name": "a"}]}`), `timeline[0].replace.cluster: is missing`},
		{event(`"replace": {"cluster": "c1"}`), `timeline[0].replace.needs: is missing`},
		{event(`"replace": {"cluster": "c1", "needs": [{"name": "a", "aggregate": {"cpu": "4"}, "minAggregate": {"cpu": "5"}}]}`), `timeline[0].replace.needs[0].minAggregate.cpu: must be at most the aggregate's 4, got 5`},
		{event(`"replace": {"cluster": "c1", "needs": [{"name": "a", "cluster": "c2"}]}`), `timeline[0].replace.needs[0].cluster: must be "c1" as in the roll-up, or left out; got "c2"`},
		{event(`"replace": {"cluster": "c2", "needs": [{"name": "n1"}]}`), `timeline[0].replace.needs[0].name: "n1" is the name of a need of cluster "c1" already`},
		{event(`"replace": {"cluster": "c1", "needs": [{"name": "a", "requirements": [{"key": "k", "operator": "Is"}]}]}`), `timeline[0].replace.needs[0].requirements[0].operator: unknown operator "Is"; did you mean In? Use one of In, NotIn, Exists, DoesNotExist, Same, Gt, Lt`},
		{`"rails": {"queue": -1, "dryRun": 1}`, "rails.dryRun: must be a boolean, got 1; write true or false\nrails.queue: must be between 0 and 1000000, got -1"},
	} {
		_, err := ReadRun(strings.NewReader(`{"world": ` + smallWorld + `, "cycles": 10, ` + c.field + `}`))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.field, err, c.want)
		}
	}
	for text, want := range map[string]string{
		`{}`: "world: is missing\ncycles: is missing",
		`{"world": null, "cycles": 1, "timeline": [{"at": 1, "replace": {"cluster": "c", "needs": []}}]}`: `world: is missing`,
		`{"world": {"machines": [{"id": "m", "state": "Gone"}]}, "cycles": 1}`:                            `world.machines[0].state: unknown state "Gone"; use one of Speculative, Creating, Idle, Configuring, Configured, Draining, Deleting, Failed`,
		`{"world": {}, "cycles": 2000000}`:                                                                `cycles: must be between 1 and 1000000, got 2000000`,
	} {
		if _, err := ReadRun(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// FuzzReadRun looks for input that is not answered with a run or with faults.
func FuzzReadRun(f *testing.F) {
	f.Add(`{"world": ` + smallWorld + `, "cycles": 3, "timeline": [{"at": 1, "lose": ["m-1"]}, {"at": 2, "change": {"machine": "m-1"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadRun(strings.NewReader(text))
		if err == nil && (s.Cycles < 1 || s.Interval <= 0 || math.IsNaN(s.Rails.ReclaimCapFraction)) {
			t.Errorf("accepted: %+v", s)
		}
	})
}
