package v1alpha1

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubejson "k8s.io/apimachinery/pkg/util/json"
)

// Objects are read in lists and watches: one that cannot be read would keep all others
// of the cluster from being read. What a schema lets through and Go does not read, such
// as the quantity 1e1.5 or a priority beyond 32 bits, is noted instead.

// specText is a CapacityRequestSpec whose quantities are not read yet.
type specText struct {
	Requirements        []Requirement                           `json:"requirements,omitempty"`
	Resources           map[corev1.ResourceName]json.RawMessage `json:"resources"`
	Priority            int32                                   `json:"priority"`
	TopologySpread      []TopologySpread                        `json:"topologySpread,omitempty"`
	CoLocation          *CoLocation                             `json:"coLocation,omitempty"`
	InterruptionPenalty json.RawMessage                         `json:"interruptionPenalty,omitempty"`
	ReclamationPenalty  json.RawMessage                         `json:"reclamationPenalty,omitempty"`
}

// UnmarshalJSON reads a spec. It returns no error: what is wrong is in Unreadable, and
// the rest is empty then.
func (s *CapacityRequestSpec) UnmarshalJSON(text []byte) error {
	var read specText
	err := kubejson.Unmarshal(text, &read)
	var out CapacityRequestSpec
	if err == nil {
		out, err = read.spec()
	}
	if err != nil {
		out = CapacityRequestSpec{Unreadable: err.Error()}
	}
	*s = out
	return nil
}

// spec reads the quantities.
func (t *specText) spec() (out CapacityRequestSpec, err error) {
	out = CapacityRequestSpec{Requirements: t.Requirements, Priority: t.Priority, TopologySpread: t.TopologySpread, CoLocation: t.CoLocation}
	if t.Resources != nil {
		out.Resources = make(corev1.ResourceList, len(t.Resources))
	}
	for name, text := range t.Resources {
		q, err := quantityOf(text)
		if err != nil {
			return out, fmt.Errorf("resources[%.64q]: %w", name, err)
		}
		if q != nil {
			out.Resources[name] = *q
		}
	}
	if out.InterruptionPenalty, err = quantityOf(t.InterruptionPenalty); err != nil {
		return out, fmt.Errorf("interruptionPenalty: %w", err)
	}
	if out.ReclamationPenalty, err = quantityOf(t.ReclamationPenalty); err != nil {
		return out, fmt.Errorf("reclamationPenalty: %w", err)
	}
	return out, nil
}

// quantityOf reads a number or a string; nil when there is none.
func quantityOf(text json.RawMessage) (*resource.Quantity, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	plain := string(text)
	if plain[0] == '"' {
		if err := json.Unmarshal(text, &plain); err != nil {
			return nil, err
		}
	}
	q, err := ParseQuantity(plain)
	if err != nil {
		return nil, err
	}
	return &q, nil
}

// UnmarshalJSON reads a status. One that cannot be read is as if nothing was written.
func (s *CapacityRequestStatus) UnmarshalJSON(text []byte) error {
	type plain CapacityRequestStatus
	var read plain
	if err := kubejson.Unmarshal(text, &read); err != nil {
		read = plain{}
	}
	*s = CapacityRequestStatus(read)
	return nil
}
