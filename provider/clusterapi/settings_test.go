package clusterapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/clusterapi"
	"github.com/tonnage/tonnage/provider/driver"
)

// Every fault of a driver's config is named by its place.
func TestSettingsFaults(t *testing.T) {
	for text, says := range map[string]string{
		"namespace: Fleet": "namespace: a lowercase RFC 1123 label",
		"scope: a b":       "scope: a valid label",
		"clusters: {blue: {name: x}, green: {name: x}}": "clusters.green: Cluster default/x is cluster \"blue\" already",
		"clusters: {blue: {nam: x}}":                    "clusters.blue.nam: unknown key; did you mean name?",
		"outOfStock: ['(']":                             "outOfStock[0]: is no regular expression",
		"volumeDetachTimeout: 0s":                       "volumeDetachTimeout: must be at least 1s",
		"kubeconfg: x":                                  "kubeconfg: unknown key; did you mean kubeconfig?",
	} {
		if _, err := clusterapi.ParseSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if s, err := clusterapi.ParseSettings(nil); err != nil || s.Namespace != "default" || s.VolumeDetach <= 0 {
		t.Errorf("nothing is %+v, %v", s, err)
	}
}

// Every fault of a pool's template is found when the file is checked, before any machine is made.
func TestTemplateFaults(t *testing.T) {
	const infra = `infrastructure: {templateRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: XMachineTemplate, name: "w-${zone}"}%s}`
	good := fmt.Sprintf(infra, "") + "\nbootstrap: {blob: {}}"
	for text, says := range map[string]string{
		"":                      "template is missing",
		"bootstrap: {blob: {}}": "infrastructure: is missing",
		fmt.Sprintf(infra, ""):  "bootstrap: is missing",
		fmt.Sprintf(infra, "") + "\nbootstrap: {}":                                                                           "bootstrap: has either blob",
		fmt.Sprintf(infra, "") + "\nbootstrap: {blob: {}, templateRef: {apiGroup: b, kind: CTemplate, name: x}}":             "bootstrap: has either blob",
		"infrastructure: {templateRef: {apiGroup: a/v1, kind: XMachineTemplate, name: w}}\nbootstrap: {blob: {}}":            "apiGroup: is a group without version",
		"infrastructure: {templateRef: {apiGroup: a, kind: XMachine, name: w}}\nbootstrap: {blob: {}}":                       "kind: is the kind of a template and ends in Template",
		"infrastructure: {templateRef: {apiGroup: a, kind: XMachineTemplate, name: 'w-${zome}'}}\nbootstrap: {blob: {}}":     "infrastructure.templateRef.name: there is no placeholder ${zome}; there are ${capacityType}, ${instanceType}, ${pool}, ${zone}",
		"infrastructure: {templateRef: {apiGroup: a, kind: XMachineTemplate, name: w, namespace: n}}\nbootstrap: {blob: {}}": "namespace: a template is in the namespace of the Cluster",
		fmt.Sprintf(infra, ", overrides: [{spec: 3}]") + "\nbootstrap: {blob: {}}":                                           "spec: must be an object",
		fmt.Sprintf(infra, ", overrides: [{capacityTypes: [spot], spec: {}}]") + "\nbootstrap: {blob: {}}":                   "must be of BareMetal, Reserved, OnDemand, Spot",
		good + "\nlabels: {tonnage.dev/scope: x}":                                                                            "keys that begin with tonnage.dev/ are the driver's own",
		good + "\nlabels: {a: '${instanceType}'}":                                                                            "labels.a: a valid label must be",
	} {
		o := &driver.Offer{Key: driver.Key{Pool: "p", InstanceType: "big one", Zone: "z1", CapacityType: model.Spot}, Template: []byte(text)}
		err := (*clusterapi.Driver)(nil).Check(o, driver.PoolTraits{LateBound: true})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s:\n%v, want %q", text, err, says)
		}
	}
	o := &driver.Offer{Key: driver.Key{Zone: "z1"}, Template: []byte(good)}
	if err := (*clusterapi.Driver)(nil).Check(o, driver.PoolTraits{LateBound: true}); err != nil {
		t.Errorf("a good template: %v", err)
	}
	if err := (*clusterapi.Driver)(nil).Check(o, driver.PoolTraits{}); err == nil || !strings.Contains(err.Error(), "lateBound: true is missing") {
		t.Errorf("a pool that is not late-bound: %v", err)
	}
}
