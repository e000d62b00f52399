package mirror

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
)

func TestNames(t *testing.T) {
	for machine, want := range map[string]string{
		"i-0abc": "un-i-0abc",
		"a.b-c":  "un-a.b-c",
	} {
		if got := NodeName(machine); got != want {
			t.Errorf("%s is called %s, want %s", machine, got, want)
		}
	}
	seen := map[string]string{}
	for _, machine := range []string{"UPPER", "upper/", "gce://p/z/n", "", "-", "ä", strings.Repeat("x", 300), strings.Repeat("x", 301)} {
		name := NodeName(machine)
		if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
			t.Errorf("%q is called %q: %v", machine, name, faults)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both called %q", machine, other, name)
		}
		seen[name] = machine
	}
	if a, b := CapacityName("available:x"), CapacityName("available:y"); a == b || len(a) != 3+32 {
		t.Errorf("hints are called %s and %s", a, b)
	}
}

// TestPhase: every state, on every object that there may be.
func TestPhase(t *testing.T) {
	const (
		speculative = bigfleet.MachineState_MACHINE_STATE_SPECULATIVE
		creating    = bigfleet.MachineState_MACHINE_STATE_CREATING
		idle        = bigfleet.MachineState_MACHINE_STATE_IDLE
		configuring = bigfleet.MachineState_MACHINE_STATE_CONFIGURING
		configured  = bigfleet.MachineState_MACHINE_STATE_CONFIGURED
		draining    = bigfleet.MachineState_MACHINE_STATE_DRAINING
		deleting    = bigfleet.MachineState_MACHINE_STATE_DELETING
		failed      = bigfleet.MachineState_MACHINE_STATE_FAILED
	)
	for _, c := range []struct {
		had   api.NodePhase // "" = no object
		state bigfleet.MachineState
		want  api.NodePhase // "" = gone
	}{
		{"", speculative, api.NodeProvisioning}, {"", creating, api.NodeProvisioning}, {"", idle, api.NodeLaunched},
		{"", configuring, api.NodeRegistered}, {"", configured, api.NodeReady}, {"", draining, api.NodeDraining},
		{"", deleting, ""}, {"", failed, api.NodeFailed}, {"", bigfleet.MachineState_MACHINE_STATE_UNSPECIFIED, api.NodeProvisioning},
		{api.NodeProvisioning, idle, api.NodeLaunched}, {api.NodeLaunched, speculative, api.NodeProvisioning},
		{api.NodeRegistered, idle, ""}, {api.NodeReady, idle, ""}, {api.NodeDraining, idle, ""}, {api.NodeDrained, idle, ""},
		{api.NodeFailed, idle, ""}, {api.NodeFailed, speculative, ""}, {api.NodeReady, deleting, ""}, {api.NodeProvisioning, deleting, ""},
		{api.NodeDraining, configured, api.NodeReady}, {api.NodeFailed, configuring, api.NodeRegistered}, {api.NodeReady, failed, api.NodeFailed},
	} {
		var had *api.UpcomingNode
		if c.had != "" {
			had = &api.UpcomingNode{Status: api.UpcomingNodeStatus{Phase: c.had}}
		}
		phase, gone := Phase(had, &bigfleet.NodeStateUpdate{State: c.state})
		if gone {
			phase = ""
		}
		if phase != c.want {
			t.Errorf("%q and %s become %q, want %q", c.had, c.state, phase, c.want)
		}
	}
}

func TestCost(t *testing.T) {
	for dollars, want := range map[float64]string{0: "0", -1: "0", 0.42: "420m", 3: "3", 1.0000004: "1", 0.000001: "1u", 1e300: "0"} {
		if q := costOf(dollars); q.String() != want {
			t.Errorf("$%v is written %s, want %s", dollars, q.String(), want)
		}
	}
}

// TestShape: a hint has the shape of the demand that it is for, also when one
// side names co-location or another order.
func TestShape(t *testing.T) {
	in := bigfleet.NodeSelectorRequirement_OPERATOR_IN
	demand := []*bigfleet.NodeSelectorRequirement{{Key: "a", Operator: in, Values: []string{"1", "2"}}, {Key: "b", Operator: bigfleet.NodeSelectorRequirement_OPERATOR_EXISTS}, {Key: "rack", Operator: bigfleet.NodeSelectorRequirement_OPERATOR_SAME}}
	hint := []*bigfleet.NodeSelectorRequirement{{Key: "b", Operator: bigfleet.NodeSelectorRequirement_OPERATOR_EXISTS}, {Key: "a", Operator: in, Values: []string{"2", "1"}}}
	if a, b := shape(requirementsOf(demand)), shape(requirementsOf(hint)); a != b {
		t.Errorf("shapes are %q and %q", a, b)
	}
	hint[1].Values = []string{"2"}
	if shape(requirementsOf(demand)) == shape(requirementsOf(hint)) {
		t.Error("values do not count")
	}
	c := NewCapacities(nil)
	c.book = map[string]*api.AvailableCapacity{"ac": {Spec: api.AvailableCapacitySpec{Requirements: requirementsOf(hint)}}}
	if len(c.stale(false)) != 0 {
		t.Error("stale before the first roll-up")
	}
	c.Demanded([]*bigfleet.CapacityNeed{{Requirements: hint}})
	if len(c.stale(false)) != 0 || len(c.stale(true)) != 1 {
		t.Error("a hint that is asked for is stale only when it was not mentioned")
	}
	c.Demanded(nil)
	if len(c.stale(false)) != 1 {
		t.Error("a hint that nobody asks for is not stale")
	}
}

// applying is an API server without objects that notes what is applied.
type applying struct {
	client.Client
	applied []string
}

func (a *applying) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (a *applying) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	text, err := json.Marshal(object)
	a.applied = append(a.applied, string(text))
	return err
}

// TestRequiredFieldsAreWritten: the public CRDs require resources, and shards of the
// protocol leave them out of hints.
func TestRequiredFieldsAreWritten(t *testing.T) {
	server := &applying{}
	c := NewCapacities(server)
	if err := c.Apply(t.Context(), &bigfleet.AvailableCapacityUpdate{SupersedesKey: "available:x"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), &bigfleet.AvailableCapacityUpdate{
		SupersedesKey: "available:y", Resources: &bigfleet.Resources{Resources: map[string]string{"cpu": "2"}},
	}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"{}", `{"cpu":"2"}`} {
		var object struct{ Spec map[string]json.RawMessage }
		if err := json.Unmarshal([]byte(server.applied[i]), &object); err != nil {
			t.Fatal(err)
		}
		if got := string(object.Spec["resources"]); got != want {
			t.Errorf("resources are %q, want %s", got, want)
		}
		for _, field := range []string{"availability", "availableCount", "cost"} {
			if object.Spec[field] == nil {
				t.Errorf("%s has no %s", server.applied[i], field)
			}
		}
	}
}
