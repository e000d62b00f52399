package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// TestLedger plays stories: a roll-up is "r" and its requests (a, or a2 for its
// second generation, a! when it is acknowledged already), an acknowledgement is
// "ack", a new session "begin"; every ack is followed by who was heard.
func TestLedger(t *testing.T) {
	for name, story := range map[string]string{
		"each with its own":                       "r a b; ack=a b; r a! b! c; ack=c",
		"one that came later waits":               "r a; r a b; ack=a; ack=b",
		"a refused roll-up delays by one":         "r a; r a b; ack=a; r a! b c; ack=b; r b! c; ack=c",
		"what was in the refused one only":        "r a; r b; ack=; ack=b",
		"gone and back is new":                    "r a; r b; r a; ack=; ack=; ack=a",
		"changed is new":                          "r a; r a2; ack=; ack=a2",
		"an acknowledgement of nothing":           "ack=; r a; ack=a; ack=",
		"a new session counts anew":               "r a; r a; begin; r a b; ack=a b; ack=",
		"an acknowledgement before the next":      "r a; begin; ack=; r a; ack=a",
		"known ones are not heard again":          "r a; ack=a; r a!; ack=",
		"one whose mark was lost is heard again":  "r a; ack=a; r a; ack=a",
		"acknowledgements that come late, in row": "r a; r a b; r a b c; ack=a; ack=b; ack=c; ack=",
	} {
		t.Run(name, func(t *testing.T) {
			var l ledger
			l.begin()
			for step := range strings.SplitSeq(story, "; ") {
				switch {
				case step == "begin":
					l.begin()
				case strings.HasPrefix(step, "r"):
					var included []*api.CapacityRequest
					for _, name := range strings.Fields(step)[1:] {
						included = append(included, named(name))
					}
					l.report(included, make([]uint8, len(included)))
				default:
					var got []string
					for _, e := range l.acknowledge() {
						got = append(got, e.request.Name)
					}
					slices.Sort(got)
					if s := "ack=" + strings.Join(got, " "); s != step {
						t.Fatalf("%s, want %s", s, step)
					}
				}
			}
		})
	}
}

func named(name string) *api.CapacityRequest {
	r := &api.CapacityRequest{}
	bare, known := strings.CutSuffix(name, "!")
	if known {
		r.Status.Phase = api.RequestAcknowledged
	}
	uid, second := strings.CutSuffix(bare, "2")
	r.ObjectMeta = metav1.ObjectMeta{Name: bare, UID: types.UID(uid), Generation: 1}
	if second {
		r.Generation = 2
	}
	return r
}

// BenchmarkReport is what the ledger adds to a roll-up of many who wait.
func BenchmarkReport(b *testing.B) {
	requests := make([]*api.CapacityRequest, 100_000)
	for i := range requests {
		requests[i] = named(fmt.Sprint("r-", i, "x"))
	}
	var l ledger
	l.begin()
	classes := make([]uint8, len(requests))
	for b.Loop() {
		l.report(requests, classes)
	}
}
