package rollup

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// TestTrim: what could be reported is kept, what could not is dropped with the reason.
func TestTrim(t *testing.T) {
	values := make([]string, 256)
	for i := range values {
		values[i] = fmt.Sprintf("%0120d", i)
	}
	large := request("cpu=1", requires("a", "In", values...))
	large.Labels, large.Annotations = map[string]string{"a": "b"}, map[string]string{"c": strings.Repeat("x", 1000)}
	large.OwnerReferences, large.Finalizers = []metav1.OwnerReference{{Name: "x"}}, []string{"y"}
	Trim(large)
	if large.Spec.Unreadable != "" || len(large.Spec.Requirements) != 1 || len(Aggregate([]*api.CapacityRequest{large}).Needs) != 1 {
		t.Errorf("one that can be reported is left as %.200v", large.Spec)
	}
	if large.Labels != nil || large.Annotations != nil || large.OwnerReferences != nil || large.Finalizers != nil {
		t.Errorf("kept %+v", large.ObjectMeta)
	}
	pod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
	large.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Pod", Name: "other"}, {APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u", Controller: new(true)}}
	if Trim(large); len(large.OwnerReferences) != 1 || large.OwnerReferences[0] != pod {
		t.Errorf("of the owners %+v is kept", large.OwnerReferences)
	}
	huge := strings.Repeat("x", 1<<20)
	for name, r := range map[string]*api.CapacityRequest{
		"values":      request("cpu=1", requires("a", "In", values...), requires("b", "In", values...), requires("c", "In", values...), requires("d", "In", values...)),
		"resources":   request(huge + "=1"),
		"labels":      request("cpu=1", together("rack", &metav1.LabelSelector{MatchLabels: map[string]string{huge: "1"}})),
		"expressions": request("cpu=1", together("rack", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Values: []string{huge}}}})),
		"empty":       request("cpu=1", together("rack", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Values: make([]string, 9000)}}})),
		"spread":      request("cpu=1", spread(huge, 1, "DoNotSchedule")),
		"unread":      unread(huge),
	} {
		Trim(r)
		if !strings.Contains(r.Spec.Unreadable, "too large") || len(r.Spec.Unreadable) > 300 || len(r.Spec.Resources)+len(r.Spec.Requirements) > 0 || r.Spec.CoLocation != nil {
			t.Errorf("%s: left as %.200v", name, r.Spec)
		}
	}
}
