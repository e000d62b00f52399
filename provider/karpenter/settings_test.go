package karpenter_test

import (
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/karpenter"
)

// Every fault of a driver's config is named by its place.
func TestSettingsFaults(t *testing.T) {
	for text, says := range map[string]string{
		"":                            "config is missing",
		"scope: x":                    "clusters: is missing",
		"scope: a b\nclusters: {}":    "scope: a valid label",
		"clusters: {blue: {kube: x}}": "clusters.blue.kube: unknown key",
		"clusters: {blue: {kubeconfig: f, secret: {namespace: n, name: s}}}": "clusters.blue: has a kubeconfig in a file or in a Secret, not both",
		"clusters: {blue: {kubeconfig: f}, green: {kubeconfig: f}}":          `clusters.green: is where cluster "blue" is already`,
		"clusters: {blue: {secret: {name: s}}}":                              "clusters.blue.secret.namespace: is missing",
	} {
		if _, err := karpenter.ParseSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	s, err := karpenter.ParseSettings([]byte("clusters: {blue: {kubeconfig: f}, green: {secret: {namespace: n, name: s}}, red: {}}"))
	if err != nil || len(s.Clusters) != 3 || s.Clusters["green"].Secret.Key != "value" {
		t.Errorf("read %+v, %v", s, err)
	}
}

// Every fault of a pool's template is found when the file is checked, before any machine is made.
func TestTemplateFaults(t *testing.T) {
	const class = "nodeClassRef: {group: g, kind: K, name: n}"
	for text, says := range map[string]string{
		"":               "template is missing",
		"nodePool: x":    "nodeClassRef: is missing",
		class + "\na: b": "a: unknown key",
		class + "\nrequirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]": "requirements[0].key: karpenter.sh/capacity-type is set from the pool's offer",
		class + "\nrequirements: [{key: kubernetes.io/hostname, operator: Exists}]":                 "requirements[0].key: Karpenter takes no requirement on kubernetes.io/hostname",
		class + "\nrequirements: [{key: a, operator: in}]":                                          "requirements[0].operator: must be one of In,",
		class + "\nstartupTaints: [{key: a, effect: x}]":                                            "startupTaints[0].effect: must be one of NoSchedule,",
		class + "\nannotations: {karpenter.sh/do-not-disrupt: no}":                                  "keys of the domain karpenter.sh are set by the driver",
		class + "\nnodePool: A": "nodePool: a lowercase RFC 1123 subdomain",
	} {
		o := offer("z1")
		o.Template = []byte(text)
		if err := (*karpenter.Driver)(nil).Check(&o, driver.PoolTraits{LateBound: true}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	o := offer("z1")
	if err := (*karpenter.Driver)(nil).Check(&o, driver.PoolTraits{LateBound: true}); err != nil {
		t.Error(err)
	}
	if err := (*karpenter.Driver)(nil).Check(&o, driver.PoolTraits{}); err == nil || !strings.Contains(err.Error(), "lateBound: true is missing") {
		t.Errorf("a pool that is not late-bound: %v", err)
	}
	o.CapacityType = model.BareMetal
	if err := (*karpenter.Driver)(nil).Check(&o, driver.PoolTraits{LateBound: true}); err == nil || !strings.Contains(err.Error(), "capacity type BareMetal") {
		t.Errorf("a bare-metal offer: %v", err)
	}
}
