package kube

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// nodeOf reads a node from JSON, as a Table does.
func nodeOf(t *testing.T, text string) *Node {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	n, err := ReadNode(u)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What pods need of a node and do not have is named, each by itself.
func TestLacks(t *testing.T) {
	want := WantOf(&driver.Offer{
		Key:         driver.Key{InstanceType: "big", Zone: "z1", CapacityType: model.Spot},
		Allocatable: model.NewResources(model.Amount{Name: "cpu", Value: 2000}, model.Amount{Name: "nvidia.com/gpu", Value: 8}),
		Labels:      map[string]string{"team": "a"}, Taints: []driver.Taint{{Key: "gpu", Value: "y", Effect: "NoSchedule"}},
	})
	const labels = `"team":"a","node.kubernetes.io/instance-type":"big","topology.kubernetes.io/zone":"z1","karpenter.sh/capacity-type":"spot"`
	const taint = `{"key":"gpu","value":"y","effect":"NoSchedule"}`
	const ready = `"conditions":[{"type":"Ready","status":"True"}],"allocatable":{"cpu":"2","nvidia.com/gpu":"8"}`
	for _, c := range []struct{ node, says string }{
		{`{"metadata":{"name":"n","labels":{` + labels + `}},"spec":{"taints":[` + taint + `]},"status":{` + ready + `}}`, ""},
		{`{"metadata":{"name":"n","labels":{` + labels + `}},"spec":{"taints":[` + taint + `,{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"},{"key":"x","effect":"PreferNoSchedule"}]},"status":{` + ready + `}}`, ""},
		{`{"metadata":{"name":"n","labels":{` + labels + `}},"spec":{"taints":[` + taint + `]},"status":{}}`, "node n is not Ready (the kubelet has not said that it is Ready)"},
		{`{"metadata":{"name":"n","labels":{` + labels + `}},"spec":{"taints":[` + taint + `]},"status":{"conditions":[{"type":"Ready","status":"False","reason":"NoCNI","message":"plugin"}]}}`, "node n is not Ready (NoCNI: plugin)"},
		{`{"metadata":{"name":"n","labels":{"team":"b","topology.kubernetes.io/zone":"z2"}},"spec":{"taints":[` + taint + `]},"status":{` + ready + `}}`, `label team is "b", and the pool says "a"; label karpenter.sh/capacity-type is missing; label node.kubernetes.io/instance-type is missing; label topology.kubernetes.io/zone is "z2"`},
		{`{"metadata":{"name":"n","labels":{` + labels + `}},"spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}]},"status":{` + ready + `}}`, "taint gpu=y:NoSchedule is missing"},
		{`{"metadata":{"name":"n","labels":{` + labels + `}},"spec":{"taints":[` + taint + `,{"key":"node.cilium.io/agent-not-ready","effect":"NoSchedule"}]},"status":{` + ready + `}}`, "taint node.cilium.io/agent-not-ready:NoSchedule keeps pods off"},
		{`{"metadata":{"name":"n","labels":{` + labels + `}},"spec":{"taints":[` + taint + `]},"status":{"conditions":[{"type":"Ready","status":"True"}],"allocatable":{"cpu":"2"}}}`, "allocatable nvidia.com/gpu is 0 of 8"},
	} {
		got := strings.Join(want.Lacks(nodeOf(t, c.node)), "; ")
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s\nlacks %q, want %q", c.node, got, c.says)
		}
	}
}

// A patch brings what is missing, leaves what is there, and does not write what others know better.
func TestPatch(t *testing.T) {
	want := WantOf(&driver.Offer{
		Key: driver.Key{InstanceType: "big", Zone: "z1"}, Labels: map[string]string{"team": "a", "rack": "r"},
		Taints: []driver.Taint{{Key: "gpu", Value: "y", Effect: "NoSchedule"}},
	})
	n := nodeOf(t, `{"metadata":{"name":"n","resourceVersion":"7","labels":{"team":"b","rack":"r","topology.kubernetes.io/zone":"z2"}},
		"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute","timeAdded":"2026-01-02T03:04:05Z"}]},"status":{}}`)
	var patch corev1.Node
	if err := json.Unmarshal(want.Patch(n), &patch); err != nil {
		t.Fatal(err)
	}
	if l := patch.Labels; len(l) != 2 || l["team"] != "a" || l[corev1.LabelInstanceTypeStable] != "big" {
		t.Errorf("the labels are %v", l)
	}
	if x := patch.Spec.Taints; len(x) != 2 || x[0].TimeAdded == nil || x[1].Key != "gpu" || patch.ResourceVersion != "7" {
		t.Errorf("the taints are %+v of version %s", x, patch.ResourceVersion)
	}
	n.Labels, n.raw = map[string]string{"team": "a", "rack": "r", corev1.LabelInstanceTypeStable: "big", corev1.LabelTopologyZone: "z1"}, patch.Spec.Taints
	if p := want.Patch(n); p != nil {
		t.Errorf("nothing is missing, and %s is written", p)
	}
}
