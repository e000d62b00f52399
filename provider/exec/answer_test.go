package exec

import (
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// FuzzObserved: of any answer, what is taken over is a machine of ours in a phase with what the
// phase needs, each once, and every other line is a fault.
func FuzzObserved(f *testing.F) {
	m := &driver.Machine{ID: "m", Generation: 1, Offer: driver.Offer{Key: driver.Key{Pool: "p", InstanceType: "t", CapacityType: model.Spot}}}
	record, err := recordOf(m, &driver.Binding{Cluster: "c", Metadata: map[string]string{"a": "b"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"record":"` + record + `","phase":"Idle","ref":"x"}` + "\n")
	f.Add(`{"record":"` + record + `","phase":"Failed","reason":"r","outOfStock":true,"labels":{"a":""},"taints":[{"key":"k","effect":"e"}],"allocatable":{"cpu":"1"}}` + "\n{}\nx\n")
	f.Add("\n\n[1]\n{\"record\":null}\n")
	f.Fuzz(func(t *testing.T, text string) {
		seen := map[known]bool{}
		taken := 0
		err := parseObserved([]byte(text), func(o *driver.Observation) {
			taken++
			k := known{o.ID, o.Generation}
			if seen[k] {
				t.Errorf("%q: %v twice", text, k)
			}
			seen[k] = true
			if model.CheckName(o.ID) != nil || o.Generation == 0 || o.Phase < driver.Creating || o.Phase > driver.Failed {
				t.Errorf("%q: took over %+v", text, o)
			}
			if (o.Phase == driver.Idle || o.Phase == driver.Configured) && o.Ref == "" || o.Phase == driver.Failed && o.Reason == "" {
				t.Errorf("%q: took over %+v", text, o)
			}
			if len(o.Reason) > driver.ReasonBytesMax || strings.ContainsAny(o.Reason, "\n\x1b") {
				t.Errorf("%q: reason %q", text, o.Reason)
			}
			if !o.Allocatable.Canonical() {
				t.Errorf("%q: allocatable %v", text, o.Allocatable)
			}
		})
		lines := 0
		for line := range strings.Lines(text) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		if (err == nil) != (taken == lines) {
			t.Errorf("%q: %d of %d lines were taken over, and the error is %v", text, taken, lines, err)
		}
	})
}

// FuzzAnswer: an answer to a change is nothing, an object with a reason, or a fault.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{"", " ", "{}", `{"reason":"a"}`, `{"reason":7}`, "{", "null", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		reason, err := parseAnswer([]byte(text))
		if len(reason) > driver.ReasonBytesMax || strings.ContainsAny(reason, "\n\x1b") || err == nil && reason != "" && !strings.Contains(text, "reason") {
			t.Errorf("%q: %q, %v", text, reason, err)
		}
	})
}
