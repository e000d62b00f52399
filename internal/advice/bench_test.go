package advice

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/internal/world"
)

// largeFleet is a fleet of 50,000 machines in 1,000 racks that serve 100 clusters: four in five are bound,
// by gangs and by plain Needs of 40 priorities, and the others can be bought. A gang and a plain Need find no room.
func largeFleet(tb testing.TB) *world.World {
	tb.Helper()
	const racks, perRack, clusters = 1000, 50, 100
	var b strings.Builder
	b.WriteString(`{"machines": [`)
	for r := range racks {
		for i := range perRack {
			if r+i > 0 {
				b.WriteString(",\n")
			}
			gpu, price, kind := "", 0.5, fmt.Sprintf("std-%d", r%7)
			if r%2 == 0 {
				gpu, price, kind = `, "nvidia.com/gpu": "8"`, 12, fmt.Sprintf("gpu-%d", r%4)
			}
			state := fmt.Sprintf(`"state": "Configured", "cluster": "c%d", "assigned": {"need": "c%d-%d"}`, r%clusters, r%clusters, r/clusters)
			if i >= perRack*4/5 && r%2 == 1 {
				state = `"state": "Speculative", "capacityType": "OnDemand"`
			}
			fmt.Fprintf(&b, `{"id": "m-%d-%d", %s, "instanceType": %q, "zone": "z%d", "resources": {"cpu": "64", "memory": "256Gi"%s}, "labels": {"topology.kubernetes.io/rack": "r%d"}, "pricePerHour": %g}`,
				r, i, state, kind, r%3, gpu, r, price)
		}
	}
	b.WriteString("],\n\"needs\": [")
	for c := range clusters {
		for k := range racks / clusters {
			what := `"nvidia.com/gpu": "400"`
			unit := `"nvidia.com/gpu": "8"`
			if c%2 == 1 {
				what, unit = `"cpu": "2560"`, `"cpu": "16"`
			}
			fmt.Fprintf(&b, `{"name": "c%d-%d", "cluster": "c%d", "priority": %d, "aggregate": {%s}, "minUnit": {%s}, "requirements": [{"key": "topology.kubernetes.io/rack", "operator": "Same"}]},`+"\n",
				c, k, c, 100+10*(c%40), what, unit)
		}
	}
	b.WriteString(`{"name": "gang", "cluster": "new", "priority": 50, "aggregate": {"nvidia.com/gpu": "128"}, "minUnit": {"nvidia.com/gpu": "8"}, "requirements": [{"key": "topology.kubernetes.io/rack", "operator": "Same"}]},
{"name": "plain", "cluster": "new", "priority": 40, "aggregate": {"nvidia.com/gpu": "1024"}, "minUnit": {"nvidia.com/gpu": "4"}},
{"name": "large", "cluster": "new", "priority": 30, "aggregate": {"cpu": "4000000"}, "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["std-1", "std-3"]}]}]}`)
	w, err := world.Read(strings.NewReader(b.String()))
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// BenchmarkFor is what help costs with 50,000 machines.
func BenchmarkFor(b *testing.B) {
	w := largeFleet(b)
	for _, name := range []string{"gang", "plain", "large"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				a, err := For(b.Context(), w, name)
				if err != nil || a.Satisfied || a.Waiting {
					b.Fatalf("%v %+v", err, a)
				}
				b.ReportMetric(float64(a.Tries), "decisions")
				b.ReportMetric(float64(len(suggestions(a))), "suggestions")
			}
		})
	}
}
