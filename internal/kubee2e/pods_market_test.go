package kubee2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/tonnage/tonnage/benches/buying"
	"github.com/tonnage/tonnage/operator/kubetest"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// regions are the parts of the catalogue that machines are bought in.
var regions = map[string]buying.Region{
	"A": {Provider: "aws", Name: "eu-west-1"},
	"B": {Provider: "gcp", Name: "europe-west1"},
}

const regionText = "AWS eu-west-1 and GCP europe-west1"

const (
	// slotsMax is how many machines of one type are on offer at most.
	slotsMax = 300
	zones    = 3
)

// The dimensions of package buying.
const (
	dimCPU = iota
	dimMemory
	dimGPU
	dimPods
	dims
)

// paidFor are the states of machines that cost something.
var paidFor = []pb.MachineState{
	pb.MachineState_MACHINE_STATE_CREATING, pb.MachineState_MACHINE_STATE_IDLE, pb.MachineState_MACHINE_STATE_CONFIGURING,
	pb.MachineState_MACHINE_STATE_CONFIGURED, pb.MachineState_MACHINE_STATE_DRAINING, pb.MachineState_MACHINE_STATE_DELETING,
	pb.MachineState_MACHINE_STATE_FAILED,
}

type marketType = buying.Type

// marketOf reads the types of a region. Without the catalogue the test is left out.
func marketOf(t *testing.T, region string) []marketType {
	t.Helper()
	where, known := regions[region]
	if !known {
		t.Fatalf("-pods-regions: no region is called %q: there are A and B, %s", region, regionText)
	}
	path := kubetest.Root("..", "shared", "data", "catalog", "instances.csv")
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("there is no price list at %s: the folder shared must lie beside the checkout", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	types, err := buying.ReadCatalogue(f, where)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// market writes a provider's machines: of each type as many as hold all pods twice, at most slotsMax in
// each zone by turns. What they offer is what pods may use of such a machine.
func market(t *testing.T, dir string, types []marketType, w *podsWorkload) string {
	t.Helper()
	var machines []map[string]any
	sum := buying.Sum(w.peak())
	for i := range types {
		x := &types[i]
		n := int64(zones)
		for d, want := range sum {
			if c := x.Capacity[d]; c > 0 {
				n = max(n, 2*want/c+1)
			}
		}
		offers := map[string]string{}
		for name, q := range amounts(&x.Capacity) {
			offers[string(name)] = q.String()
		}
		for slot := range min(n, slotsMax) {
			machines = append(machines, map[string]any{
				"id": fmt.Sprintf("%s-%03d", x.Name, slot), "state": "Speculative", "instanceType": x.Name, "zone": "z" + strconv.FormatInt(slot%zones, 10),
				"capacityType": "OnDemand", "pricePerHour": x.Price, "resources": offers,
			})
		}
	}
	text, err := json.Marshal(map[string]any{"machines": machines, "needs": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "market.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d machines of %d types are on offer", len(machines), len(types))
	return path
}

// schedulerProfile returns a configuration of the scheduler: its own defaults, the one of deploy/scheduler,
// or a file.
func schedulerProfile(t *testing.T, name string) string {
	t.Helper()
	settings := map[string]any{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
	path := name
	switch name {
	case "default":
		path = ""
	case "tonnage":
		path = kubetest.Root("deploy", "scheduler", "kube-scheduler.yaml")
	}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("-pods-profiles: %v", err)
		}
		if err := yaml.Unmarshal(text, &settings); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	settings["clientConnection"] = map[string]any{"kubeconfig": "KUBECONFIG", "qps": 200, "burst": 400}
	settings["leaderElection"] = map[string]any{"leaderElect": false}
	out, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// sizeOf is what a pod asks for, in the dimensions of package buying.
func sizeOf(p *corev1.Pod) (out buying.Pod) {
	for i := range p.Spec.Containers {
		asks := p.Spec.Containers[i].Resources.Requests
		out[dimCPU] += asks.Cpu().MilliValue()
		out[dimMemory] += asks.Memory().Value() >> 20
		g := asks[gpu]
		out[dimGPU] += g.Value()
	}
	out[dimPods] = 1
	return out
}
