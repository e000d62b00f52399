package mirror

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// phases maps a machine's state to its object's phase. What is not there is
// Provisioning.
var phases = map[bigfleet.MachineState]api.NodePhase{
	bigfleet.MachineState_MACHINE_STATE_IDLE:        api.NodeLaunched,
	bigfleet.MachineState_MACHINE_STATE_CONFIGURING: api.NodeRegistered,
	bigfleet.MachineState_MACHINE_STATE_CONFIGURED:  api.NodeReady,
	bigfleet.MachineState_MACHINE_STATE_DRAINING:    api.NodeDraining,
	bigfleet.MachineState_MACHINE_STATE_FAILED:      api.NodeFailed,
}

func phaseOf(state bigfleet.MachineState) api.NodePhase {
	if phase, ok := phases[state]; ok {
		return phase
	}
	return api.NodeProvisioning
}

// availabilities maps a hint's confidence.
var availabilities = map[bigfleet.AvailableCapacityUpdate_Confidence]api.Availability{
	bigfleet.AvailableCapacityUpdate_CONFIDENCE_LOW:    api.AvailabilityLow,
	bigfleet.AvailableCapacityUpdate_CONFIDENCE_MEDIUM: api.AvailabilityMedium,
	bigfleet.AvailableCapacityUpdate_CONFIDENCE_HIGH:   api.AvailabilityHigh,
}

// operators maps the wire's operators. Same is the shard's own; nothing of this
// cluster asks for it.
var operators = map[bigfleet.NodeSelectorRequirement_Operator]corev1.NodeSelectorOperator{
	bigfleet.NodeSelectorRequirement_OPERATOR_IN:             corev1.NodeSelectorOpIn,
	bigfleet.NodeSelectorRequirement_OPERATOR_NOT_IN:         corev1.NodeSelectorOpNotIn,
	bigfleet.NodeSelectorRequirement_OPERATOR_EXISTS:         corev1.NodeSelectorOpExists,
	bigfleet.NodeSelectorRequirement_OPERATOR_DOES_NOT_EXIST: corev1.NodeSelectorOpDoesNotExist,
}

// requirementsOf returns requirements as an object holds them, sorted, without
// co-location.
func requirementsOf(wire []*bigfleet.NodeSelectorRequirement) []api.Requirement {
	var out []api.Requirement
	for _, r := range wire {
		operator, ok := operators[r.Operator]
		if !ok {
			continue
		}
		values := slices.Sorted(slices.Values(r.Values))
		out = append(out, api.Requirement{Key: r.Key, Operator: operator, Values: values})
	}
	slices.SortFunc(out, func(a, b api.Requirement) int { return strings.Compare(shapeOf(a), shapeOf(b)) })
	return out
}

// shapeOf is one requirement as text.
func shapeOf(r api.Requirement) string {
	return strconv.Quote(r.Key) + string(r.Operator) + strconv.Quote(strings.Join(r.Values, "\x00"))
}

// shape is the canonical form of requirements that requirementsOf returned, by
// which a hint is compared with the demand.
func shape(requirements []api.Requirement) string {
	var b strings.Builder
	for _, r := range requirements {
		b.WriteString(shapeOf(r))
		b.WriteByte(';')
	}
	return b.String()
}

// resourcesOf returns quantities; what is none is left out.
func resourcesOf(wire *bigfleet.Resources) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, text := range wire.GetResources() {
		if q, err := resource.ParseQuantity(text); err == nil {
			out[corev1.ResourceName(name)] = q
		}
	}
	return out
}

func taintsOf(wire []*bigfleet.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range wire {
		out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}

// costOf writes dollars per hour, to the millionth.
func costOf(dollars float64) resource.Quantity {
	if !(dollars > 0) || dollars > math.MaxInt32 {
		return resource.MustParse("0")
	}
	q, err := resource.ParseQuantity(strconv.FormatFloat(math.Round(dollars*1e6)/1e6, 'f', -1, 64))
	if err != nil {
		return resource.MustParse("0")
	}
	return q
}

func sameResources(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
