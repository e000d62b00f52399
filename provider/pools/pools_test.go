package pools_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/pools"
)

// write puts files into a folder and returns the path of the first.
func write(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i+1 < len(names); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, names[i]), []byte(names[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, names[0])
}

const example = `drivers:
- {name: sim, kind: simulated, launchesPerMinute: 600, config: {latency: 1s}}
quotas:
- {name: gpus, machines: 8, resources: {nvidia.com/gpu: 32}}
pools:
- name: general
  driver: sim
  lateBound: true
  machines: 100
  quotas: [gpus]
  zones: [a, b]
  capacityTypes: [OnDemand, spot]
  labels: {team: web}
  taints: [{key: dedicated, value: web, effect: NoSchedule}]
  template: {image: x, list: [1]}
  timeouts: {create: 1m}
  types:
  - name: small
    resources: {cpu: 2, memory: 8Gi}
    allocatable: {cpu: 1900m, memory: 7Gi}
    labels: {arch: arm64}
    prices:
    - {capacityType: OnDemand, pricePerHour: 0.1}
    - {capacityType: Spot, pricePerHour: 0.04, interruptionProbability: 0.01}
    - {capacityType: Spot, zone: b, pricePerHour: 0.03, interruptionProbability: 0.02}
    - {capacityType: Reserved, pricePerHour: 0.05}
- {name: owned, driver: sim, initial: idle, hosts: [h1, h2], zones: [dc], typesFile: types.yaml}
`

const exampleTypes = `types:
- {name: metal, resources: {cpu: 64}, prices: [{capacityType: BareMetal, pricePerHour: 0}], template: {image: y}}
`

func TestRead(t *testing.T) {
	f, err := pools.Read(write(t, "pools.yaml", example, "types.yaml", exampleTypes))
	if err != nil {
		t.Fatal(err)
	}
	p := f.Pool("general")
	var got []string
	for _, o := range p.Offers {
		got = append(got, fmt.Sprintf("%s/%s/%s %v %v", o.InstanceType, o.Zone, o.CapacityType, o.PricePerHour, o.InterruptionProbability))
		if o.Pool != "general" || !maps.Equal(o.Labels, map[string]string{"team": "web", "arch": "arm64"}) || len(o.Taints) != 1 || string(o.Template) != `{"image":"x","list":[1]}` {
			t.Errorf("offer %+v", o)
		}
		if o.Resources.Get("cpu") != 2000 || o.Allocatable.Get("cpu") != 1900 || o.Allocatable.Get("memory") != 7<<30 {
			t.Errorf("offer of %v, %v", o.Resources, o.Allocatable)
		}
	}
	want := []string{"small/a/OnDemand 0.1 0", "small/a/Spot 0.04 0.01", "small/b/OnDemand 0.1 0", "small/b/Spot 0.03 0.02"}
	if !slices.Equal(got, want) {
		t.Errorf("offers %q, want %q", got, want)
	}
	if !p.LateBound || p.Owned || p.Machines != 100 || p.FreeSlots != pools.FreeSlotsMax || p.Timeouts.Create != time.Minute || p.Timeouts.Drain != pools.DrainDefault {
		t.Errorf("pool %+v", p)
	}
	o := f.Pool("owned")
	if !o.Owned || o.Machines != 2 || len(o.Offers) != 1 || string(o.Offers[0].Template) != `{"image":"y"}` || !o.Offers[0].Allocatable.Equal(o.Offers[0].Resources) {
		t.Errorf("pool %+v", o)
	}
	if d := f.Drivers[0]; d.LaunchesPerMinute != 600 || d.LaunchBurst != pools.BurstDefault || string(d.Config) != `{"latency":"1s"}` {
		t.Errorf("driver %+v", d)
	}
	if q := f.Quotas[0]; q.Machines != 8 || q.Resources.Get("nvidia.com/gpu") != 32 {
		t.Errorf("quota %+v", q)
	}
}

// Each fault is found, at its place and with what to do.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"an unknown key":             {"lateBound: true", "latebound: true", `pools.yaml:8:14: pools[0].latebound: unknown key; did you mean lateBound?`},
		"a driver that is not there": {"driver: sim\n  late", "driver: sin\n  late", `pools.yaml:7:11: pools[0].driver: there is no driver "sin"; did you mean sim?`},
		"a quota that is not there":  {"quotas: [gpus]", "quotas: [gpu]", `pools.yaml:10:12: pools[0].quotas[0]: there is no quota "gpu"; did you mean gpus?`},
		"no machines":                {"  machines: 100\n", "", `pools[0].machines: is missing`},
		"a quota without a limit":    {", machines: 8, resources: {nvidia.com/gpu: 32}", "", `quotas[0]: limits nothing`},
		"spot without interruption":  {"pricePerHour: 0.04, interruptionProbability: 0.01", "pricePerHour: 0.04", `pools[0].types[0].prices[1].interruptionProbability: must be above 0 for Spot`},
		"a price of no zone":         {"zone: b", "zone: c", `prices[2].zone: "c" is none of the zones`},
		"a price twice":              {"{capacityType: Reserved, pricePerHour: 0.05}", "{capacityType: OnDemand, pricePerHour: 0.05}", `prices[3]: is there twice`},
		"a negative price":           {"pricePerHour: 0.1}", "pricePerHour: -1}", `pools[0].types[0].prices[0].pricePerHour: must be between`},
		"a quantity":                 {"memory: 8Gi", "memory: 8Gx", `pools.yaml:19:33: pools[0].types[0].resources.memory: "8Gx"`},
		"no resources":               {"resources: {cpu: 2, memory: 8Gi}", "resources: {cpu: 0}", `pools[0].types[0].resources: names nothing`},
		"an owned label":             {"team: web}", "topology.kubernetes.io/zone: a}", `must not be set here; it comes from zones`},
		"owned and late-bound":       {"initial: idle,", "initial: idle, lateBound: true,", `pools[1].lateBound: an owned machine`},
		"hosts that are not owned":   {"initial: idle, ", "", `pools[1].hosts: belong to owned machines`},
		"hosts and machines":         {"hosts: [h1, h2]", "hosts: [h1, h2], machines: 3", `pools[1].machines: is the number of hosts already`},
		"two owned offers":           {"zones: [dc]", "zones: [dc, dd]", `pools[1]: has 2 offers`},
		"a pool twice":               {"{name: owned", "{name: general", `pools[1].name: "general" is there twice`},
		"a driver twice":             {"quotas:\n- {", "- {name: sim, kind: x}\nquotas:\n- {", `drivers[1].name: "sim" is there twice`},
		"free slots":                 {"  machines: 100", "  freeSlots: 65\n  machines: 100", `pools[0].freeSlots: must be between 1 and 64`},
		"a timeout of 0":             {"create: 1m", "create: 0", `pools[0].timeouts.create: must be above 0`},
		"an effect":                  {"effect: NoSchedule", "effect: No", `pools[0].taints[0].effect: must be one of`},
		"a word":                     {"initial: idle", "initial: Idle", `pools[1].initial: must be one of speculative, idle`},
		"a capacity type":            {"capacityTypes: [OnDemand, spot]", "capacityTypes: [OnDemand, on-demand]", `pools[0].capacityTypes[1]: is listed twice`},
		"no YAML":                    {"pools:", "pools: {", `pools.yaml: line`},
		"a template":                 {"list: [1]", "list: [.nan]", `pools[0].template.list[0]: must be a finite number`},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(example, c.old) {
				t.Fatalf("the example has no %q", c.old)
			}
			_, err := pools.Read(write(t, "pools.yaml", strings.Replace(example, c.old, c.new, 1), "types.yaml", exampleTypes))
			if _, ok := errors.AsType[*pools.Error](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
	_, err := pools.Read(write(t, "pools.yaml", example, "types.yaml", strings.Replace(exampleTypes, "{cpu: 64}", "{cpu: x}", 1)))
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "types.yaml:2:34: types[0].resources.cpu") {
		t.Errorf("in a types file: %v", err)
	}
	_, err = pools.Read(write(t, "pools.yaml", example))
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "pools.yaml:27:86: pools[1].typesFile") {
		t.Errorf("without a types file: %v", err)
	}
}

// The JSON Schema has the keys that the parser has, no more and no less.
func TestSchemaHasTheParsersKeys(t *testing.T) {
	var schema struct {
		Defs map[string]struct {
			Properties map[string]json.RawMessage
			Required   []string
		} `json:"$defs"`
	}
	if err := json.Unmarshal(pools.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	const pool = `{drivers: [], pools: [{%s}]}`
	for def, text := range map[string]string{
		"file":     `{nothing: 1}`,
		"driver":   `{pools: [], drivers: [{nothing: 1}]}`,
		"quota":    `{drivers: [], pools: [], quotas: [{nothing: 1}]}`,
		"pool":     fmt.Sprintf(pool, `nothing: 1`),
		"timeouts": fmt.Sprintf(pool, `timeouts: {nothing: 1}`),
		"taint":    fmt.Sprintf(pool, `taints: [{nothing: 1}]`),
		"type":     fmt.Sprintf(pool, `types: [{nothing: 1}]`),
		"price":    fmt.Sprintf(pool, `types: [{prices: [{nothing: 1}]}]`),
	} {
		_, err := pools.Read(write(t, "pools.yaml", "# YAML\n"+text))
		if err == nil {
			t.Fatalf("%s: an unknown key is read", def)
		}
		says := err.Error()
		_, known, _ := strings.Cut(says, "nothing: unknown key; known are ")
		known, _, _ = strings.Cut(known, "\n")
		if got, want := slices.Sorted(maps.Keys(schema.Defs[def].Properties)), slices.Sorted(slices.Values(strings.Split(known, ", "))); !slices.Equal(got, want) {
			t.Errorf("%s has the keys %q, the parser %q", def, got, want)
		}
		for _, key := range schema.Defs[def].Required {
			if !strings.Contains(says, key+": is missing") {
				t.Errorf("%s: the parser does not require %s:\n%s", def, key, says)
			}
		}
	}
}

func TestOffersAreShared(t *testing.T) {
	f, err := pools.Read(write(t, "pools.yaml", example, "types.yaml", exampleTypes))
	if err != nil {
		t.Fatal(err)
	}
	if f.Pool("nothing") != nil {
		t.Error("a pool that is not there was found")
	}
	var of []string
	f.OfKind("simulated", func(d *pools.Driver, p *pools.Pool) { of = append(of, d.Name+"/"+p.Name) })
	if !slices.Equal(of, []string{"sim/general", "sim/owned"}) {
		t.Errorf("pools of the kind: %q", of)
	}
	if c := f.Pools[0].Offers[0].CapacityType; c != model.OnDemand {
		t.Errorf("first offer is %v", c)
	}
}

// The first example of the how-to is a file that can be served.
func TestTheHowToIsRight(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash("docs/how-to/pools.md")))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	f, err := pools.Read(write(t, "pools.yaml", text))
	if !ok || err != nil || len(f.Pools[0].Offers) != 4 {
		t.Errorf("the page says four offers: %v, %v", f, err)
	}
}
