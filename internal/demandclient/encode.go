package demandclient

import (
	"fmt"
	"strings"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// operators are the wire's words for those of requirements; the others have none.
var operators = map[model.Operator]bigfleet.NodeSelectorRequirement_Operator{
	model.In:           bigfleet.NodeSelectorRequirement_OPERATOR_IN,
	model.NotIn:        bigfleet.NodeSelectorRequirement_OPERATOR_NOT_IN,
	model.Exists:       bigfleet.NodeSelectorRequirement_OPERATOR_EXISTS,
	model.DoesNotExist: bigfleet.NodeSelectorRequirement_OPERATOR_DOES_NOT_EXIST,
	model.Same:         bigfleet.NodeSelectorRequirement_OPERATOR_SAME,
}

// Row writes a Need as a row of a roll-up. The error is something that the protocol has no form for.
func Row(n *model.Need) (*bigfleet.CapacityNeed, error) {
	p := n.Profile
	if len(n.MinAggregate) > 0 && !n.MinAggregate.Equal(n.Aggregate) {
		return nil, fmt.Errorf("minAggregate has no form on the wire; leave it out")
	}
	out := &bigfleet.CapacityNeed{
		AggregateResources: quantities(n.Aggregate), MinUnit: quantities(n.MinUnit), Priority: p.Priority(), Group: n.Group,
		InterruptionPenaltyBucket: bigfleet.PenaltyBucket(p.Interruption()), ReclamationPenaltyBucket: bigfleet.PenaltyBucket(p.Reclamation()),
	}
	for i := range p.Requirements() {
		q := &p.Requirements()[i]
		operator, ok := operators[q.Operator]
		if !ok {
			return nil, fmt.Errorf("the operator %s has no form on the wire; use In or NotIn", q.Operator)
		}
		out.Requirements = append(out.Requirements, &bigfleet.NodeSelectorRequirement{Key: q.Key, Operator: operator, Values: q.Values})
	}
	for _, s := range p.Spread() {
		when := bigfleet.TopologySpread_WHEN_UNSATISFIABLE_SCHEDULE_ANYWAY
		if s.WhenUnsatisfiable == model.DoNotSchedule {
			when = bigfleet.TopologySpread_WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE
		}
		out.Spread = append(out.Spread, &bigfleet.TopologySpread{TopologyKey: s.Key, MaxSkew: s.MaxSkew, WhenUnsatisfiable: when})
	}
	return out, nil
}

func quantities(r model.Resources) map[string]string {
	out := make(map[string]string, len(r))
	for _, a := range r {
		out[a.Name] = model.FormatQuantity(a.Name, a.Value)
	}
	return out
}

// stateName is the state as people write it: Configured.
func stateName(s bigfleet.MachineState) string {
	word := strings.ToLower(strings.TrimPrefix(s.String(), "MACHINE_STATE_"))
	if word == "" {
		return "unknown"
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
