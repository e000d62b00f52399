package bootstrap

import (
	"strings"
	"testing"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

func TestRender(t *testing.T) {
	request := &bigfleet.BootstrapRequest{RequestId: "r1", ClusterId: "blue", Requirements: []*bigfleet.NodeSelectorRequirement{
		{Key: "zone", Operator: bigfleet.NodeSelectorRequirement_OPERATOR_IN, Values: []string{"a", "b"}},
		{Key: "rack", Operator: bigfleet.NodeSelectorRequirement_OPERATOR_SAME},
	}}
	for name, c := range map[string]struct {
		text, data, fault string
		ttl               int64
	}{
		"stub":              {data: "#cloud-config\n# cluster blue: no bootstrap template is configured\n", ttl: 600},
		"fields":            {text: `{{.ClusterID}}{{range .Requirements}} {{.Key}} {{.Operator}} {{join .Values}}{{end}}`, fault: "parse"},
		"cluster and needs": {text: `join {{.ClusterID}}:{{range .Requirements}} {{.Key}} {{.Operator}}{{range .Values}} {{.}}{{end}};{{end}}`, data: "join blue: zone In a b; rack Same;"},
		"unknown field":     {text: `{{.Token}}`, fault: "Token"},
		"out of range":      {text: `{{(index .Requirements 5).Key}}`, fault: "index out of range"},
		"too long":          {text: `{{range .Requirements}}{{printf "%1000000d" 1}}{{end}}`, fault: "longer than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := New("blue", c.text)
			if c.fault == "parse" {
				if err == nil {
					t.Error("a template with an unknown function is taken")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := r.Render(request)
			if got.RequestId != "r1" || string(got.UserData) != c.data || got.TtlSeconds != c.ttl {
				t.Errorf("answer is %q, %d s", got.UserData, got.TtlSeconds)
			}
			if !strings.Contains(got.Error, c.fault) || (got.Error == "") != (c.fault == "") {
				t.Errorf("error is %q, want %q", got.Error, c.fault)
			}
		})
	}
}

// TestOtherCluster: what is meant for another cluster is not given.
func TestOtherCluster(t *testing.T) {
	r, err := New("blue", "secret")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Render(&bigfleet.BootstrapRequest{ClusterId: "red"}); got.Error == "" || len(got.UserData) > 0 {
		t.Errorf("answer is %v", got)
	}
}
