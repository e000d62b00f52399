package pods

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// expression is one of a node selector term: "key op v1,v2".
func expression(text string) corev1.NodeSelectorRequirement {
	f := strings.Fields(text)
	r := corev1.NodeSelectorRequirement{Key: f[0], Operator: corev1.NodeSelectorOperator(f[1])}
	if len(f) > 2 {
		r.Values = strings.Split(f[2], ",")
	}
	return r
}

// affine makes a pod with required node affinity; a term is expressions with
// semicolons between.
func affine(terms ...string) *corev1.Pod {
	selector := &corev1.NodeSelector{}
	for _, term := range terms {
		var t corev1.NodeSelectorTerm
		for e := range strings.SplitSeq(term, ";") {
			switch {
			case strings.HasPrefix(e, "field"):
				t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: "In", Values: []string{"n1"}})
			case e != "":
				t.MatchExpressions = append(t.MatchExpressions, expression(e))
			}
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, t)
	}
	return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}}}
}

func TestRequirements(t *testing.T) {
	chosen := affine("zone In a")
	chosen.Spec.NodeSelector = map[string]string{"disk": "ssd", "zone": "a"}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"none":                     {&corev1.Pod{}, "node.kubernetes.io/instance-type Exists"},
		"selector and affinity":    {chosen, "disk In ssd;zone In a"},
		"all conditions of a term": {affine("zone In b,a,b;gpu Exists;cores Gt 4;old Lt 9;spot NotIn true"), "cores Gt 4;gpu Exists;old Lt 9;spot NotIn true;zone In a,b"},
		"terms of one key":         {affine("zone In a;gpu Exists", "gpu Exists;zone In b", "zone In c;gpu Exists"), "gpu Exists;zone In a,b,c"},
		"joined in two steps":      {affine("zone In a;arch In x", "zone In b;arch In x", "zone In a,b;arch In y"), "arch In x,y;zone In a,b"},
		"terms that differ more":   {affine("zone In a;gpu Exists", "zone In b"), "gpu Exists;zone In a"},
		"NotIn is not joined":      {affine("zone NotIn a", "zone NotIn b"), "zone NotIn a"},
		"a term that says nothing": {affine("", "zone In b"), "zone In b"},
		"a field only":             {affine("field"), "node.kubernetes.io/instance-type Exists"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range Request(c.pod, nil).Spec.Requirements {
				got = append(got, strings.TrimSpace(r.Key+" "+string(r.Operator)+" "+strings.Join(r.Values, ",")))
			}
			if s := strings.Join(got, ";"); s != c.want {
				t.Errorf("requirements are %q, want %q", s, c.want)
			}
		})
	}
}

func container(cpu string, sidecar bool) corev1.Container {
	c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}
	if sidecar {
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
	return c
}

func TestResources(t *testing.T) {
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"containers": {corev1.PodSpec{Containers: []corev1.Container{container("1", false), container("500m", false)}}, "1500m"},
		"init peak":  {corev1.PodSpec{InitContainers: []corev1.Container{container("3", false), container("2", false)}, Containers: []corev1.Container{container("1", false)}}, "3"},
		"sidecars run beside containers and later init": {corev1.PodSpec{
			InitContainers: []corev1.Container{container("1", true), container("4", false), container("1", true)},
			Containers:     []corev1.Container{container("2", false)}}, "5"},
		"overhead": {corev1.PodSpec{Containers: []corev1.Container{container("1", false)}, Overhead: corev1.ResourceList{"cpu": resource.MustParse("250m")}}, "1250m"},
		"nothing":  {corev1.PodSpec{Containers: []corev1.Container{{}}}, "1m"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Request(&corev1.Pod{Spec: c.spec}, nil).Spec.Resources
			if len(got) != 1 || got.Cpu().String() != c.want {
				t.Errorf("resources are %v, want cpu %s", got, c.want)
			}
		})
	}
}

func TestTogetherAndApart(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Priority: new(int32(9)),
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{TopologyKey: "zone", MaxSkew: 2, WhenUnsatisfiable: corev1.DoNotSchedule}, {TopologyKey: "host", MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway},
		},
		Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: "rack", LabelSelector: selector}, {TopologyKey: "row"}}}},
	}}
	got := Request(pod, nil).Spec
	if want := []api.TopologySpread{{TopologyKey: "zone", MaxSkew: 2, WhenUnsatisfiable: corev1.DoNotSchedule}}; !reflect.DeepEqual(got.TopologySpread, want) {
		t.Errorf("spread is %v", got.TopologySpread)
	}
	if got.CoLocation == nil || got.CoLocation.TopologyKey != "rack" || got.CoLocation.LabelSelector != selector || got.Priority != 9 {
		t.Errorf("request is %+v", got)
	}
}

func TestPenalties(t *testing.T) {
	defaults, err := ParseDefaults([]byte("batch: {interruptionPenalty: \"0.25\", reclamationPenalty: 3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		class, annotation, want string
	}{
		"neither":     {"", "", ""},
		"default":     {"batch", "", "250m"},
		"annotation":  {"batch", "12.5", "12500m"},
		"no quantity": {"batch", "lots", "250m"},
		"negative":    {"", "-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: c.class}}
			if c.annotation != "" {
				pod.Annotations = map[string]string{api.AnnotationInterruptionPenalty: c.annotation}
			}
			got := ""
			if q := Request(pod, defaults).Spec.InterruptionPenalty; q != nil {
				got = q.String()
			}
			if got != c.want {
				t.Errorf("penalty is %q, want %q", got, c.want)
			}
		})
	}
	for _, bad := range []string{"batch: {interruptionPenalty: -1}", "batch: {interruption: 1}", "- x"} {
		if _, err := ParseDefaults([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestName: it is valid, tells the pod, and no other pod's.
func TestName(t *testing.T) {
	of := func(name, uid string) string {
		return Name(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}})
	}
	long := strings.Repeat("a", 228) + "." + strings.Repeat("b", 24)
	for _, name := range []string{of("web-0", "1"), of(long, "1")} {
		if len(name) > nameBytesMax || !strings.HasPrefix(name, "cr-pod-") || strings.Contains(name, ".-") {
			t.Errorf("name is %q", name)
		}
	}
	if of("web-0", "1") == of("web-0", "2") || !strings.HasPrefix(of("web-0", "1"), "cr-pod-web-0-") {
		t.Error("names do not tell pods apart")
	}
}
