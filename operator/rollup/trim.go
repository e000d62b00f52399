package rollup

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// keptBytesMax is how much memory the spec of one request may take, about. It is some
// times what a request may take that is reported.
const keptBytesMax = 4 * ProfileBytesMax

// Trim drops of a request what no roll-up looks at, and all of a spec that is too large
// to be reported: objects may be 1.5 MB long, and all of a cluster are kept in memory.
func Trim(request *api.CapacityRequest) {
	m := &request.ObjectMeta
	tag, overhead := m.Labels[api.LabelPackingOverhead]
	annotations := m.Annotations
	defer func() {
		if !overhead {
			return
		}
		m.Labels = map[string]string{api.LabelPackingOverhead: tag}
		for _, name := range []string{api.AnnotationRows, api.AnnotationDomain} {
			if text, is := annotations[name]; is && len(text) <= keptBytesMax {
				metav1.SetMetaDataAnnotation(m, name, text)
			}
		}
	}()
	m.ManagedFields, m.Labels, m.Annotations, m.Finalizers = nil, nil, nil, nil
	m.OwnerReferences = podOf(m.OwnerReferences)
	if n := sizeOf(&request.Spec); n > keptBytesMax {
		request.Spec = api.CapacityRequestSpec{Unreadable: fmt.Sprintf(
			"%v: it takes %d bytes of memory, at most %d are looked at: shorten requirements, selector and names of resources", ErrLarge, n, keptBytesMax)}
	}
}

// podOf keeps the pod that a request is of: it is told what the request waits for.
func podOf(owners []metav1.OwnerReference) []metav1.OwnerReference {
	for i := range owners {
		if o := &owners[i]; o.Kind == "Pod" && o.APIVersion == "v1" && len(o.Name) <= nameBytesMax && len(o.UID) <= nameBytesMax {
			return []metav1.OwnerReference{{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID}}
		}
	}
	return nil
}

// nameBytesMax is how long names of objects are, at most.
const nameBytesMax = 253

// sizeOf estimates the memory of what a spec's author has written.
func sizeOf(s *api.CapacityRequestSpec) (n int) {
	const perText, perItem = 16, 64
	texts := func(all []string) {
		for _, v := range all {
			n += len(v) + perText
		}
	}
	for i := range s.Requirements {
		n += len(s.Requirements[i].Key) + perItem
		texts(s.Requirements[i].Values)
	}
	for name := range s.Resources {
		n += len(name) + perItem
	}
	for i := range s.TopologySpread {
		n += len(s.TopologySpread[i].TopologyKey) + perItem
	}
	if s.CoLocation != nil && s.CoLocation.LabelSelector != nil {
		n += sizeOfSelector(s.CoLocation.LabelSelector, texts)
	}
	return n + len(s.Unreadable)
}

// sizeOfSelector returns the size of all but the values, which it hands over.
func sizeOfSelector(s *metav1.LabelSelector, texts func([]string)) (n int) {
	const perItem = 64
	for k, v := range s.MatchLabels {
		n += len(k) + len(v) + perItem
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		n += len(e.Key) + len(e.Operator) + perItem
		texts(e.Values)
	}
	return n
}
