package world

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
)

// read reads a world that must be good.
func read(t *testing.T, text string) *World {
	t.Helper()
	w, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s:\n%v", text, err)
	}
	return w
}

func TestDefaultsOfAWorld(t *testing.T) {
	w := read(t, `{}`)
	if w.Now != 0 || len(w.Machines) != 0 || len(w.Needs) != 0 || len(w.Reported) != 0 {
		t.Errorf("an empty world is %+v", w)
	}
	if !reflect.DeepEqual(w.Options.Engine, engine.DefaultOptions()) || w.Options.ReclaimCapFraction != 0 || w.Options.ReclaimCapSet {
		t.Errorf("default options are %+v", w.Options)
	}
	w = read(t, `
now: 2026-06-01T00:00:00Z
machines:
- {id: m-1, state: Idle}
- {id: m-2, state: Configured, cluster: z}
- {id: m-3, state: Idle, idleSince: 2026-05-31T23:40:00Z}
needs:
- {name: n1, cluster: b}
- {name: n2, cluster: a}
`)
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	if w.Now != now {
		t.Errorf("now = %d, want %d", w.Now, now)
	}
	if got := w.Machines[0].IdleSince; got != now {
		t.Errorf("idleSince = %d, want now", got)
	}
	if got := w.Machines[1].IdleSince; got != 0 {
		t.Errorf("idleSince of a bound machine = %d, want 0", got)
	}
	if got := w.Machines[2].IdleSince; got != now-int64(20*time.Minute) {
		t.Errorf("idleSince = %d, want 20 minutes ago", got)
	}
	if got := strings.Join(w.Reported, " "); got != "a b z" {
		t.Errorf("reported = %s, want every cluster named in the file", got)
	}
	if n := w.Needs[0]; n.Arrival != 0 || n.ShortSince != now || n.Parked || n.Profile.Interruption() != model.BucketUnspecified {
		t.Errorf("a bare need is %+v", n)
	}
}

func TestEveryFieldIsRead(t *testing.T) {
	w := read(t, `
machines:
- id: m-1
  state: Draining
  cluster: c9
  instanceType: m5.large
  zone: us-east-1a
  capacityType: Spot
  resources: {cpu: "4", memory: 16Gi}
  allocatable: {cpu: 3900m}
  labels: {topology.kubernetes.io/rack: r1}
  pricePerHour: 0.096
  interruptionProbability: 0.05
  assigned: {priority: -7, interruptionPenalty: 64, reclamationPenalty: pinned, need: n1, group: g2}
  reservedFor: {need: n1, until: 1970-01-01T00:02:00Z, plan: 00000000000000a1, domain: r1}
- {id: m-2, state: Failed, lastError: broken}
needs:
- name: n1
  cluster: c1
  priority: 1000
  interruptionPenalty: 33
  reclamationPenalty: 0
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, c5.large]}
  - {key: topology.kubernetes.io/rack, operator: Same}
  spread:
  - {topologyKey: topology.kubernetes.io/zone, maxSkew: 2, whenUnsatisfiable: ScheduleAnyway}
  aggregate: {cpu: "12"}
  minUnit: {cpu: "4"}
  minAggregate: {cpu: "8"}
  shortSince: 1970-01-01T00:00:05Z
  group: g1
  arrival: 1970-01-01T00:00:03Z
  parked: true
reported: [c2, c1]
options:
  workers: 3
  reclaimCapFraction: 0.05
  gang: {victims: machine, band: inf, topDomains: 4, searchPairs: 5, searchUnits: 6}
  weights: {priority: 2, drainSpeed: 0.2, interruption: 0.3, reclamation: 0.4}
  release: {OnDemand: 20m, Spot: 30}
  tenancy: {tenants: []}
  acquire: fit
  maxMachineShare: 0.25
  fit: {lambda: 0.3, epsilon: 0}
`)
	m, n := w.Machines[0], w.Needs[0]
	if m.State != model.Draining || m.Cluster != "c9" || m.InstanceType != "m5.large" || m.Zone != "us-east-1a" || m.CapacityType != model.Spot ||
		m.Resources.Get("memory") != 16<<30 || m.Allocatable.Get("cpu") != 3900 || m.Labels["topology.kubernetes.io/rack"] != "r1" ||
		m.PricePerHour != 0.096 || m.InterruptionProbability != 0.05 {
		t.Errorf("machine is %+v", m)
	}
	if want := (model.Assignment{Priority: -7, Interruption: 9, Reclamation: model.BucketPinned, Fingerprint: n.Profile.Fingerprint(), Group: "g2"}); m.Assigned != want {
		t.Errorf("assigned is %+v, want %+v", m.Assigned, want)
	}
	want := model.Reservation{
		Owner:    model.Owner{Cluster: "c1", Fingerprint: n.Profile.WithoutSame().Fingerprint(), Group: "g1"},
		Priority: 1000, Interruption: 9, Reclamation: model.BucketZero, Arrival: 3e9, Deadline: 120e9, Plan: 0xa1, Domain: "r1",
	}
	if m.Reservation != want {
		t.Errorf("reservation is %+v, want %+v", m.Reservation, want)
	}
	if w.Machines[1].LastError != "broken" {
		t.Errorf("lastError is %q", w.Machines[1].LastError)
	}
	if n.Cluster != "c1" || n.Profile.Priority() != 1000 || n.Profile.Same() == nil || len(n.Profile.Requirements()) != 2 || len(n.Profile.Spread()) != 1 ||
		n.Aggregate.Get("cpu") != 12000 || n.MinUnit.Get("cpu") != 4000 || n.MinAggregate.Get("cpu") != 8000 ||
		n.ShortSince != 5e9 || n.Arrival != 3e9 || n.Group != "g1" || !n.Parked {
		t.Errorf("need is %+v", n)
	}
	o := w.Options
	wantEngine := engine.Options{
		Workers: 3, Victims: engine.VictimsMachine, Band: math.Inf(1), TopDomains: 4, SearchPairs: 5, SearchUnits: 6, Weights: engine.Weights{Priority: 2, DrainSpeed: 0.2, Interruption: 0.3, Reclamation: 0.4},
		Release: engine.Release{OnDemand: 20 * time.Minute, Spot: 30 * time.Second},
		Acquire: engine.AcquireFit, MaxMachineShare: 0.25, Fit: engine.Fit{Lambda: 0.3},
	}
	if !reflect.DeepEqual(o.Engine, wantEngine) || o.ReclaimCapFraction != 0.05 || !o.ReclaimCapSet {
		t.Errorf("options are %+v", o)
	}
	if got := strings.Join(w.Reported, " "); got != "c1 c2" {
		t.Errorf("reported = %s", got)
	}
}

func TestACreatingMachineIsOwnedByItsStamp(t *testing.T) {
	w := read(t, `{"machines": [{"id": "m", "state": "Creating", "assigned": {"need": "n", "group": "g2"}}],
		"needs": [{"name": "n", "cluster": "c1", "group": "g1", "priority": 5}]}`)
	r := w.Machines[0].Reservation
	if r.Owner.Cluster != "c1" || r.Owner.Group != "g2" || r.Owner.Fingerprint != w.Needs[0].Profile.Fingerprint() || r.Deadline != 0 || r.Priority != 5 {
		t.Errorf("reservation is %+v", r)
	}
}

func TestAllocatableOfZerosReplacesTheShape(t *testing.T) {
	w := read(t, `{"machines": [
		{"id": "a", "state": "Idle", "resources": {"cpu": "4"}, "allocatable": {"cpu": "0"}},
		{"id": "b", "state": "Idle", "resources": {"cpu": "4"}, "allocatable": {}}]}`)
	if got := w.Machines[0].EffectiveAllocatable(); !got.IsZero() {
		t.Errorf("a machine whose allocatable is zero offers %v", got)
	}
	if got := w.Machines[1].EffectiveAllocatable().Get("cpu"); got != 4000 {
		t.Errorf("an empty allocatable leaves %d, want the resources", got)
	}
}

// needWith and machineWith are a good need and a good machine with one more field.
func needWith(field string) string {
	return fmt.Sprintf(`{"needs": [{"name": "n", "cluster": "c", %s}]}`, field)
}

func machineWith(field string) string {
	return fmt.Sprintf(`{"machines": [{"id": "m", "state": "Idle", %s}]}`, field)
}

func optionsWith(field string) string { return fmt.Sprintf(`{"options": {%s}}`, field) }

func TestFaultsAreNamedByPath(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`[]`, `$: must be an object with the keys now, needs, machines, reported, options, heldBack; got a list`},
		{`{"nodes": []}`, `nodes: unknown key; known are now, needs, machines, reported, options, heldBack`},
		{`{"machine": []}`, `machine: unknown key; did you mean machines?`},
		{`{"now": "today"}`, `now: is not a time, got "today"; write it as 2026-06-01T00:00:00Z`},
		{`{"machines": {}}`, `machines: must be a list of machines, got an object`},
		{`{"needs": 3}`, `needs: must be a list of needs, got 3`},
		{`{"machines": [3]}`, `machines[0]: must be an object with the keys id, state, cluster, instanceType, zone, capacityType, resources, allocatable, labels, pricePerHour, interruptionProbability, idleSince, lastError, assigned, reservedFor; got 3`},
		{`{"reported": ["c", "c"]}`, `reported[1]: "c" is listed twice, first as [0]`},

		{`{"machines": [{}]}`, "machines[0].id: is missing\nmachines[0].state: is missing"},
		{`{"machines": [{"id": "m", "state": "idle"}]}`, `machines[0].state: unknown state "idle"; did you mean Idle? Use one of Speculative, Creating, Idle, Configuring, Configured, Draining, Deleting, Failed`},
		{`{"machines": [{"id": "m", "state": "Unspecified"}]}`, `machines[0].state: unknown state "Unspecified"; use one of Speculative, Creating, Idle, Configuring, Configured, Draining, Deleting, Failed`},
		{`{"machines": [{"id": "m", "state": "Idle"}, {"id": "m", "state": "Idle"}]}`, `machines[1].id: "m" is used twice; first by machines[0]`},
		{`{"machines": [{"id": "m", "state": "Configured"}]}`, `machines[0].cluster: must be set for a machine in state Configured`},
		{`{"machines": [{"id": "m", "state": "Draining", "cluster": ""}]}`, `machines[0].cluster: must be set for a machine in state Draining`},
		{machineWith(`"cluster": "c"`), `machines[0].cluster: must be empty for a machine in state Idle, got "c"`},
		{machineWith(`"capacityType": "spot"`), `machines[0].capacityType: unknown capacity type "spot"; did you mean Spot? Use one of Unspecified, BareMetal, Reserved, OnDemand, Spot`},
		{machineWith(`"colour": "red"`), `machines[0].colour: unknown key; known are id, state, cluster, instanceType, zone, capacityType, resources, allocatable, labels, pricePerHour, interruptionProbability, idleSince, lastError, assigned, reservedFor`},
		{machineWith(`"pricePerHour": -3`), `machines[0].pricePerHour: must be at least 0, got -3`},
		{machineWith(`"pricePerHour": "1"`), `machines[0].pricePerHour: must be a number, got the text "1"; leave the quotes out`},
		{"machines:\n- {id: m, state: Idle, pricePerHour: .nan}", `machines[0].pricePerHour: must be a finite number, got NaN`},
		{machineWith(`"interruptionProbability": 1.5`), `machines[0].interruptionProbability: must be between 0 and 1, got 1.5`},
		{machineWith(`"resources": {"nvidia.com/gpu": "8x"}`), `machines[0].resources["nvidia.com/gpu"]: "8x" is not a quantity; write a number such as 4, 1.5, 500m, 16Gi or 1e3`},
		{machineWith(`"resources": {"cpu": "-1"}`), `machines[0].resources.cpu: "-1" must not be negative`},
		{machineWith(`"resources": {"cpu": "9223372036854775807"}`), `machines[0].resources.cpu: "9223372036854775807" is more than can be counted; must be at most 9223372036854775807m`},
		{needWith(`"aggregate": {"memory": "1e400"}`), `needs[0].aggregate.memory: "1e400" is more than can be counted; must be at most 9223372036854775807`},
		{machineWith(`"resources": {"cpu": true}`), `machines[0].resources.cpu: must be a quantity such as 4, 500m or 16Gi, got true`},
		{machineWith(`"resources": {"cpu": 1, "cpu": 2}`), `machines[0].resources.cpu: the key occurs twice`},
		{machineWith(`"labels": {"a": 1}`), `machines[0].labels.a: must be text, got 1; put it in quotes`},
		{machineWith(`"lastError": "x"`), `machines[0].lastError: is for Failed machines only; this one is Idle`},
		{`{"machines": [{"id": "m", "state": "Creating", "idleSince": "2026-06-01T00:00:00Z"}]}`, `machines[0].idleSince: is for Idle machines only; this one is Creating`},
		{`{"machines": [{"id": "m", "state": "Failed", "reservedFor": {"need": "n"}}], "needs": [{"name": "n", "cluster": "c"}]}`, `machines[0].reservedFor: a machine in state Failed cannot be reserved; only Creating, Idle, Configured and Draining ones`},
		{machineWith(`"reservedFor": {}`), `machines[0].reservedFor.need: is missing`},
		{machineWith(`"assigned": {"need": "n"}`), `machines[0].assigned.need: no need is named "n"`},
		{`{"machines": [{"id": "m", "state": "Idle", "reservedFor": {"need": "batch-1"}}], "needs": [{"name": "batch-2", "cluster": "c"}]}`, `machines[0].reservedFor.need: no need is named "batch-1"; did you mean "batch-2"?`},
		{machineWith(`"assigned": {"priority": 3000000000}`), `machines[0].assigned.priority: must be between -2147483648 and 2147483647, got 3000000000`},
		{machineWith(`"assigned": {"interruptionPenalty": "pined"}`), `machines[0].assigned.interruptionPenalty: must be an amount in dollars or "pinned", got the text "pined"`},

		{`{"needs": [{"aggregate": {"cpu": "4"}}]}`, "needs[0].name: is missing\nneeds[0].cluster: is missing"},
		{`{"needs": [{"name": "n", "cluster": "c"}, {"name": "n", "cluster": "c"}]}`, `needs[1].name: "n" is used twice; first by item [0] of the list`},
		{needWith(`"count": 3`), `needs[0].count: unknown key; a need has no count: aggregate says how much in all, and how many machines that takes is the answer`},
		{needWith(`"agregate": {}`), `needs[0].agregate: unknown key; did you mean aggregate?`},
		{needWith(`"aggregate": {"cpu": "4x"}`), `needs[0].aggregate.cpu: "4x" is not a quantity; write a number such as 4, 1.5, 500m, 16Gi or 1e3`},
		{needWith(`"aggregate": {"cpu": "4"}, "minAggregate": {"cpu": "5", "memory": "1Gi"}`), "needs[0].minAggregate.cpu: must be at most the aggregate's 4, got 5\nneeds[0].minAggregate.memory: must be at most the aggregate's 0, got 1Gi"},
		{needWith(`"requirements": [{"key": "a", "operator": "Near", "values": ["b"]}]`), `needs[0].requirements[0].operator: unknown operator "Near"; use one of In, NotIn, Exists, DoesNotExist, Same, Gt, Lt`},
		{needWith(`"requirements": [{"operator": "Exists"}, {"key": "a"}]`), "needs[0].requirements[0].key: is missing\nneeds[0].requirements[1].operator: is missing"},
		{needWith(`"requirements": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}]`), `needs[0].requirements[0].values: Gt takes exactly one integer, got 2 values`},
		{needWith(`"requirements": [{"key": "a", "operator": "Lt", "values": ["x"]}]`), `needs[0].requirements[0].values[0]: Lt takes an integer, got "x"`},
		{needWith(`"requirements": [{"key": "a", "operator": "Same"}, {"key": "b", "operator": "Same"}]`), `needs[0].requirements[1]: a second Same requirement; at most one is allowed (the first is requirements[0])`},
		{needWith(`"spread": [{"topologyKey": "a", "maxSkew": 0, "whenUnsatisfiable": "Maybe"}]`), "needs[0].spread[0].maxSkew: must be between 1 and 2147483647, got 0\nneeds[0].spread[0].whenUnsatisfiable: unknown word \"Maybe\"; use one of DoNotSchedule, ScheduleAnyway"},
		{needWith(`"interruptionPenalty": -1`), `needs[0].interruptionPenalty: must be at least 0, got -1`},
		{needWith(`"parked": "no"`), `needs[0].parked: must be a boolean, got the text "no"; write true or false`},
		{needWith(`"arrival": "1960-01-01T00:00:00Z"`), `needs[0].arrival: must be between 1970 and 2262, got "1960-01-01T00:00:00Z"`},

		{optionsWith(`"gang": {"victims": "all"}`), `options.gang.victims: unknown way to choose victims "all"; use gang or machine`},
		{optionsWith(`"acquire": "best", "maxMachineShare": 2, "fit": {"lambda": -1}`), "options.acquire: unknown rule of acquisition \"best\"; use cheapest or fit\noptions.maxMachineShare: must be between 0 and 1, got 2\noptions.fit.lambda: must be between 0 and 1, got -1"},
		{optionsWith(`"gang": {"band": -1, "topDomains": 0}`), "options.gang.band: must be at least 0, got -1\noptions.gang.topDomains: must be between 1 and 4096, got 0"},
		{optionsWith(`"gang": {"band": "wide"}`), `options.gang.band: must be a number of priority points or "inf", got the text "wide"`},
		{optionsWith(`"tenancy": {"tenants": [{"clusters": ["a"]}]}`), `options.tenancy.tenants[0].name: is missing`},
		{optionsWith(`"workers": -1`), `options.workers: must be between 0 and 256, got -1`},
		{optionsWith(`"reclaimCapFraction": 2`), `options.reclaimCapFraction: must be between 0 and 1, got 2`},
		{optionsWith(`"weights": {"priority": -1}`), `options.weights.priority: must be at least 0, got -1`},
		{optionsWith(`"release": {"BareMetal": "1m"}`), `options.release.BareMetal: machines of this capacity type are never released; only OnDemand and Spot have a hold`},
		{optionsWith(`"release": {"Spot": "-1m"}`), `options.release.Spot: must be between 0 and 8760h0m0s, got "-1m"`},
	} {
		_, err := Read(strings.NewReader(c.text))
		if err == nil {
			t.Errorf("%s\nis accepted, want %s", c.text, c.want)
			continue
		}
		if _, ok := errors.AsType[*Faults](err); !ok {
			t.Errorf("%s\nthe error is a %T", c.text, err)
		}
		if err.Error() != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, err, c.want)
		}
	}
}

func TestTooManyFaultsAreCounted(t *testing.T) {
	text := `{"machines": [` + strings.TrimSuffix(strings.Repeat(`{"id": "", "state": "Idle"},`, document.FaultsMax+5), ",") + `]}`
	_, err := Read(strings.NewReader(text))
	if err == nil || !strings.HasSuffix(err.Error(), "\n... and 5 more") || strings.Count(err.Error(), "\n") != document.FaultsMax {
		t.Errorf("got %v", err)
	}
}

func TestTablesHoldTheWorld(t *testing.T) {
	w := read(t, `{"machines": [{"id": "m-1", "state": "Configured", "cluster": "c2", "resources": {"cpu": "4"}}],
		"needs": [{"name": "b", "cluster": "c1", "aggregate": {"cpu": "1"}}, {"name": "x", "cluster": "c0"}, {"name": "a", "cluster": "c1", "aggregate": {"cpu": "2"}}],
		"reported": ["c2"]}`)
	s, d, err := w.Tables()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Lookup("m-1"); !ok || s.Len() != 1 {
		t.Errorf("the supply has %d machines", s.Len())
	}
	rows := d.Rows("c1")
	if d.Len() != 3 || len(rows) != 2 || rows[0].Aggregate.Get("cpu") != 1000 || rows[1].Aggregate.Get("cpu") != 2000 {
		t.Errorf("rows of c1: %+v", rows)
	}
	if !d.Reported("c2") || d.Reported("c1") {
		t.Error("c2 has reported, and nobody else")
	}
}

// FuzzRead looks for input that is not answered with a world or with faults.
func FuzzRead(f *testing.F) {
	f.Add(`{"machines": [{"id": "m", "state": "Idle", "resources": {"cpu": "4"}}], "needs": [{"name": "n", "cluster": "c"}]}`)
	f.Add("now: 2026-06-01T00:00:00Z\nmachines:\n- {id: m, state: Configured, cluster: c, assigned: {need: n}}\nneeds: [{name: n, cluster: c, spread: [{}]}]\n")
	f.Add("a: &a [*a]\nb: {<<: *a}\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Read(strings.NewReader(text))
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without words")
			}
			return
		}
		if _, _, err := w.Tables(); err != nil {
			t.Errorf("the tables refuse what the reader accepts: %v", err)
		}
	})
}
