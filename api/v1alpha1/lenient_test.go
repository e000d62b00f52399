package v1alpha1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	kubejson "k8s.io/apimachinery/pkg/util/json"
)

// TestQuantitiesAreReadInBoundedTime: the library takes minutes and more over some.
func TestQuantitiesAreReadInBoundedTime(t *testing.T) {
	for text, want := range map[string]string{
		"1": "1", "500m": "500m", "1.5": "1500m", "16Gi": "16Gi", "1e3": "1e3", "1E3": "1E3", "1E": "1E", "9223372036854775807Ei": "9223372036854775807",
		"1e30": "1e30", "1e+5": "100e3", "1e-30": "1e-9", "0.0000001": "100n", "-1": "-1", "+5": "+5", "1e099": "1e099",
		"": "error", "1e1.5": "error", "1e.5": "error", "1e": "error", "1e-": "error", "1e100": "error", "1e-2147483648": "error",
		"1e2147483647": "error", "1e99999999999999999999": "error", "0.00000000000000000001e200000": "error", "1Zi": "error",
		"1" + strings.Repeat("0", 64): "error",
	} {
		begun := time.Now()
		q, err := ParseQuantity(text)
		got := "error"
		if err == nil {
			got = q.String()
			q.AsInt64()
			q.CmpInt64(1)
			q.AsApproximateFloat64()
		}
		if got != want {
			t.Errorf("%q is %s (%v), want %s", text, got, err, want)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%q took %v", text, took)
		}
	}
}

// TestWhatCannotBeReadIsNoted: an object at fault is read all the same, so that a list of
// many is.
func TestWhatCannotBeReadIsNoted(t *testing.T) {
	for spec, want := range map[string]string{
		`{"resources":{"cpu":"1e-2147483648"}}`:                            `resources["cpu"]: the exponent`,
		`{"resources":{"cpu":"1e1.5"}}`:                                    `resources["cpu"]: the exponent`,
		`{"resources":{"cpu":true}}`:                                       `resources["cpu"]: a quantity is not a number`,
		`{"resources":{},"interruptionPenalty":"1e2147483647"}`:            "interruptionPenalty: the exponent",
		`{"resources":{},"reclamationPenalty":"1e100"}`:                    "reclamationPenalty: the exponent",
		`{"resources":{},"priority":2147483648}`:                           "priority",
		`{"resources":{},"topologySpread":[{"maxSkew":9007199254740993}]}`: "maxSkew",
		`{"resources":[]}`:                                                 "resources",
		`{"resources":{"cpu":"2","memory":1073741824},"priority":-5,"reclamationPenalty":"0.5","requirements":[{"key":"a","operator":"In","values":["b"]}]}`: "",
	} {
		var r CapacityRequest
		text := `{"metadata":{"name":"a","namespace":"b"},"spec":` + spec + `,"status":{"phase":"Acknowledged","acknowledgedAt":"2020-01-02t03:04:05z"}}`
		if err := kubejson.Unmarshal([]byte(text), &r); err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if r.Name != "a" || r.Namespace != "b" || (r.Spec.Unreadable == "") != (want == "") || !strings.Contains(r.Spec.Unreadable, want) {
			t.Errorf("%s is %q in %s/%s, want %q", spec, r.Spec.Unreadable, r.Namespace, r.Name, want)
		}
		if r.Status.Phase != "" {
			t.Errorf("%s: the phase of a status that cannot be read is %q", spec, r.Status.Phase)
		}
		if want != "" {
			continue
		}
		if r.Spec.Resources.Cpu().Value() != 2 || r.Spec.Resources.Memory().Value() != 1<<30 || r.Spec.Priority != -5 || r.Spec.ReclamationPenalty.MilliValue() != 500 || len(r.Spec.Requirements) != 1 {
			t.Errorf("read %+v", r.Spec)
		}
		if out, err := json.Marshal(&r.Spec); err != nil || strings.Contains(string(out), "nreadable") {
			t.Errorf("written as %s, %v", out, err)
		}
	}
}

// TestSpecTextHasAllFields: what is added to the spec is added to what reads it.
func TestSpecTextHasAllFields(t *testing.T) {
	tags := func(x any) (out []string) {
		for f := range reflect.TypeOf(x).Fields() {
			if tag := f.Tag.Get("json"); tag != "-" {
				out = append(out, f.Name+" "+tag)
			}
		}
		return out
	}
	if got, want := tags(specText{}), tags(CapacityRequestSpec{}); !reflect.DeepEqual(got, want) {
		t.Errorf("it has %q, the spec %q", got, want)
	}
}
