package report

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// TestRefusedAreToldOnce: until they change; and no more at once than the limit.
func TestRefusedAreToldOnce(t *testing.T) {
	var requests []*api.CapacityRequest
	told := map[string]int{}
	rolled := 0
	registry := prometheus.NewRegistry()
	r := New(Config{
		List: func() []*api.CapacityRequest { return requests }, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Metrics: telemetry.New(registry, "a"),
		Refused: func(q *api.CapacityRequest, _ string) { told[q.Name]++ },
		Rolled:  func(needs []*bigfleet.CapacityNeed) { rolled += len(needs) },
	})
	add := func(name, operator string) {
		q := named(name)
		q.Spec.Resources = corev1.ResourceList{"cpu": resource.MustParse("1")}
		q.Spec.Requirements = []api.Requirement{{Key: "k", Operator: corev1.NodeSelectorOperator(operator), Values: []string{"1"}}}
		requests = append(requests, q)
	}
	add("good", "In")
	add("bad", "Gt")
	requests[0].Spec.TopologySpread = []api.TopologySpread{{TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway}}
	for range 3 {
		if got, send := r.Next(false); len(got) != 1 || !send {
			t.Fatalf("%d rows, sent is %v", len(got), send)
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP tonnage_operator_soft_spread_terms ScheduleAnyway terms of topology spread that the last roll-up leaves out.
# TYPE tonnage_operator_soft_spread_terms gauge
tonnage_operator_soft_spread_terms{cluster="a"} 1
`), "tonnage_operator_soft_spread_terms"); err != nil {
		t.Error(err)
	}
	if told["bad"] != 1 || told["good"] != 0 || rolled != 3 {
		t.Errorf("told %v, rolled %d", told, rolled)
	}
	requests = requests[:1]
	add("bad2", "Lt") // its second generation
	r.Next(false)
	r.Next(false)
	if told["bad2"] != 1 {
		t.Errorf("told %v", told)
	}
	for i := range eventsMax + 20 {
		add(string(rune('A'+i)), "Gt")
	}
	before := len(told)
	r.Next(false)
	if n := len(told) - before; n != eventsMax {
		t.Errorf("%d were told at once", n)
	}
	r.Next(false)
	if n := len(told) - before; n != eventsMax+20 {
		t.Errorf("%d were told in the end", n)
	}
}

// TestEarly plays stories of roll-ups by their rows: "e" is an early one, and "-"
// one that is withheld.
func TestEarly(t *testing.T) {
	for name, story := range map[string]string{
		"not before the third":                "5; e5-; 5; e6-; 5; e6; e9",
		"as many, or half":                    "10; 10; 10; e10; e5; e4-",
		"what has vanished is not confirmed":  "10; 10; 10; e1-; 1; e2-; 1; e2-; 1; e2",
		"unless it is back":                   "10; 10; 10; 0; e4-; e5; 5; e10",
		"the large ones in between count not": "4; 4; 4; e100; e2",
		"nothing, as always":                  "0; 0; 0; e0; e1",
	} {
		t.Run(name, func(t *testing.T) {
			var rows int
			r := New(Config{
				List: func() []*api.CapacityRequest {
					var all []*api.CapacityRequest
					for i := range rows {
						q := named(fmt.Sprint("r", i, "x"))
						q.Spec.Priority = int32(i)
						q.Spec.Resources = corev1.ResourceList{"cpu": resource.MustParse("1")}
						all = append(all, q)
					}
					return all
				},
				Log: slog.New(slog.DiscardHandler), Now: time.Now,
			})
			for i, step := range strings.Split(story, "; ") {
				number, early := strings.CutPrefix(step, "e")
				number, withheld := strings.CutSuffix(number, "-")
				if _, err := fmt.Sscan(number, &rows); err != nil {
					t.Fatal(err)
				}
				needs, send := r.Next(early)
				if send == withheld || send && len(needs) != rows {
					t.Fatalf("step %d, %s: sent is %v, %d rows", i, step, send, len(needs))
				}
			}
		})
	}
}

// TestWithheldIsNotHeard: what was in a roll-up that was not sent is not marked.
func TestWithheldIsNotHeard(t *testing.T) {
	q := named("a")
	q.Spec.Resources = corev1.ResourceList{"cpu": resource.MustParse("1")}
	r := New(Config{List: func() []*api.CapacityRequest { return []*api.CapacityRequest{q} }, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	r.Next(true)
	r.Acknowledged()
	if r.marks.len() > 0 {
		t.Error("marked without a roll-up")
	}
	r.Next(false)
	r.Acknowledged()
	if r.marks.len() != 1 {
		t.Error("not marked with one")
	}
}

// TestGrowth: it is told once, however much was added, and not to the next session.
func TestGrowth(t *testing.T) {
	r := New(Config{})
	told := func() int { return len(r.Grown()) }
	r.Grow()
	r.Grow()
	if told() != 1 {
		t.Errorf("told %d times", told())
	}
	r.Begin()
	if told() != 0 {
		t.Error("the first roll-up of a session has it, and it is told again")
	}
}
