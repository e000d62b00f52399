package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// alternativesMax is how many terms of an affinity are looked at; joining them
// compares each with each.
const alternativesMax = 64

// alternatives returns the terms of a pod's required node affinity, each a list
// of conditions of which all must hold. Terms that can be said as one are joined.
func alternatives(pod *corev1.Pod) [][]api.Requirement {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var out [][]api.Requirement
	for _, t := range terms[:min(len(terms), alternativesMax)] {
		if len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0 {
			continue // it matches no node
		}
		out = append(out, conditions(t.MatchExpressions))
	}
	return joinAll(out)
}

func conditions(expressions []corev1.NodeSelectorRequirement) []api.Requirement {
	out := make([]api.Requirement, 0, len(expressions))
	for _, e := range expressions {
		values := slices.Clone(e.Values)
		slices.Sort(values)
		out = append(out, api.Requirement{Key: e.Key, Operator: e.Operator, Values: slices.Compact(values)})
	}
	slices.SortFunc(out, compare)
	return slices.CompactFunc(out, func(a, b api.Requirement) bool { return compare(a, b) == 0 })
}

// joinAll joins terms until no two can be.
func joinAll(terms [][]api.Requirement) [][]api.Requirement {
	for i := 0; i < len(terms); i++ {
		for j := i + 1; j < len(terms); j++ {
			if joined, ok := join(terms[i], terms[j]); ok {
				terms[i] = joined
				terms = slices.Delete(terms, j, j+1)
				i = -1 // what did not fit the parts may fit the whole
				break
			}
		}
	}
	return terms
}

// join says "a or b" as one term: they must be equal but for the values of one
// key that both list.
func join(a, b []api.Requirement) ([]api.Requirement, bool) {
	if len(a) != len(b) {
		return nil, false
	}
	differs := -1
	for i := range a {
		if compare(a[i], b[i]) == 0 {
			continue
		}
		if differs >= 0 || a[i].Key != b[i].Key || a[i].Operator != corev1.NodeSelectorOpIn || b[i].Operator != corev1.NodeSelectorOpIn {
			return nil, false
		}
		differs = i
	}
	out := slices.Clone(a)
	if differs >= 0 {
		values := slices.Concat(a[differs].Values, b[differs].Values)
		slices.Sort(values)
		out[differs].Values = slices.Compact(values)
	}
	return out, true
}
