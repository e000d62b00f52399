package pods

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Penalties of a pod, in dollars; nil = not given.
type Penalties struct {
	InterruptionPenalty *resource.Quantity `json:"interruptionPenalty,omitempty"`
	ReclamationPenalty  *resource.Quantity `json:"reclamationPenalty,omitempty"`
}

// Defaults are the penalties of pods that name none, by priority class.
type Defaults map[string]Penalties

// ParseDefaults reads defaults from YAML.
func ParseDefaults(text []byte) (Defaults, error) {
	var d Defaults
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		return nil, fmt.Errorf("defaults of priority classes: %w", err)
	}
	for class, p := range d {
		for _, q := range []*resource.Quantity{p.InterruptionPenalty, p.ReclamationPenalty} {
			if q != nil && q.Sign() < 0 {
				return nil, fmt.Errorf("defaults of priority classes: %s: a penalty must not be negative, got %s", class, q)
			}
		}
	}
	return d, nil
}
