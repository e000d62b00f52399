package report

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// TestAnswersAreWrittenWhenTheyChange: a condition for each request that was heard, and an event when it waits for
// another thing than before.
func TestAnswersAreWrittenWhenTheyChange(t *testing.T) {
	var requests []*api.CapacityRequest
	for _, name := range []string{"a", "b", "far", "deaf"} {
		q := named(name)
		q.Generation = 3
		q.Spec.Resources = corev1.ResourceList{"cpu": resource.MustParse("2")}
		q.Spec.Requirements = []api.Requirement{{Key: "zone", Operator: "In", Values: []string{"near"}}}
		q.Status.Phase = api.RequestAcknowledged
		requests = append(requests, q)
	}
	requests[2].Spec.Requirements[0].Values = []string{"far"}
	requests[3].Status.Phase = api.RequestPending
	var told []string
	registry := prometheus.NewRegistry()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := New(Config{
		List: func() []*api.CapacityRequest { return requests }, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
		Metrics: telemetry.New(registry, "a"), Refused: func(*api.CapacityRequest, string) {},
		Waits: func(q *api.CapacityRequest, reason, _ string) { told = append(told, q.Name+" "+reason) },
	})
	rows, _ := r.Next(false)
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	// The shard shows the rows as it keeps them: lowered, and in another order.
	view := func(zone string) *bigfleet.NeedView {
		for _, row := range rows {
			if row.Requirements[0].Values[0] == zone {
				return &bigfleet.NeedView{Need: &bigfleet.CapacityNeed{
					Requirements: row.Requirements, Priority: row.Priority - 5, MinUnit: row.MinUnit, Group: row.Group,
				}}
			}
		}
		t.Fatalf("no row of %s", zone)
		return nil
	}
	near, far := view("near"), view("far")
	far.Satisfied = true
	near.ResidualDeficit = &bigfleet.Resources{Resources: map[string]string{"cpu": "4"}}
	near.UnmetReason = bigfleet.UnmetReason_UNMET_REASON_NO_MATCHING_SUPPLY
	r.Decided([]*bigfleet.NeedView{near, far})
	written := func() map[string]map[string]any {
		out := map[string]map[string]any{}
		for _, m := range r.marks.take(99) {
			out[m.request.Name] = r.status(m)["conditions"].([]map[string]any)[0]
		}
		return out
	}
	got := written()
	if len(got) != 3 || got["a"]["reason"] != "NoMatchingSupply" || got["a"]["status"] != metav1.ConditionFalse || got["a"]["observedGeneration"] != int64(3) ||
		got["far"]["reason"] != "Satisfied" || got["far"]["status"] != metav1.ConditionTrue || got["deaf"] != nil {
		t.Errorf("written is %v", got)
	}
	if says := got["a"]["message"].(string); !strings.Contains(says, "For the 3 requests like this one cpu=4 is missing.") || !strings.Contains(says, "Correct the requirements") {
		t.Errorf("it says %q", says)
	}
	if strings.Join(told, ", ") != "a NoMatchingSupply, b NoMatchingSupply" {
		t.Errorf("told are %v", told)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP tonnage_operator_requests CapacityRequests by what the shard last said of them: the reasons of the condition Satisfied.
# TYPE tonnage_operator_requests gauge
tonnage_operator_requests{reason="NoDomainHoldsIt"} 0
tonnage_operator_requests{reason="NoMatchingSupply"} 3
tonnage_operator_requests{reason="PreemptionExhausted"} 0
tonnage_operator_requests{reason="Satisfied"} 1
tonnage_operator_requests{reason="Unmet"} 0
tonnage_operator_requests{reason="WaitingForCapacity"} 0
tonnage_operator_requests{reason="WaitingForDrain"} 0
tonnage_operator_requests{reason="WaitingForMachines"} 0
tonnage_operator_requests{reason="WaitingForWholeGroup"} 0
`), "tonnage_operator_requests"); err != nil {
		t.Error(err)
	}
	// What the objects say is not written again, until it is something else.
	before := metav1.NewTime(now.Add(-time.Hour))
	for _, q := range requests[:2] {
		q.Status.Conditions = []metav1.Condition{{Type: api.ConditionSatisfied, Status: metav1.ConditionFalse, Reason: AnswerNoMatch, ObservedGeneration: 3, LastTransitionTime: before}}
	}
	requests[2].Status.Conditions = []metav1.Condition{{Type: api.ConditionSatisfied, Status: metav1.ConditionTrue, Reason: AnswerSatisfied, ObservedGeneration: 3}}
	r.Decided([]*bigfleet.NeedView{near, far})
	if got := written(); len(got) != 0 || len(told) != 2 {
		t.Errorf("again %v is written, and told are %v", got, told)
	}
	near.ProvisionCount, near.UnmetReason = 2, bigfleet.UnmetReason_UNMET_REASON_PRIORITY_STARVED
	r.Decided([]*bigfleet.NeedView{near, far})
	if got := written(); len(got) != 2 || got["b"]["reason"] != "WaitingForMachines" || got["b"]["lastTransitionTime"] != before.UTC().Format(time.RFC3339) || len(told) != 4 {
		t.Errorf("then %v is written, and told are %v", got, told)
	}
	// An acknowledgement keeps the answer.
	if s := r.status(mark{request: requests[0]}); len(s["conditions"].([]*metav1.Condition)) != 1 {
		t.Errorf("the status is %v", s)
	}
	r.Decided(nil)
	if got := written(); len(got) != 0 {
		t.Errorf("of nothing %v is written", got)
	}
}

func TestAnswersSayWhatWouldHelp(t *testing.T) {
	short := &bigfleet.Resources{Resources: map[string]string{"gpu": "8", "cpu": "4"}}
	for want, v := range map[string]*bigfleet.NeedView{
		"WaitingForMachines: 5 machines are on their way, 3 of them being bought": {BootstrapCount: 2, ProvisionCount: 3},
		"WaitingForDrain: 2 machines of lower priority are being emptied":         {Preemption: &bigfleet.PreemptionSummary{VictimsFound: 2}, BootstrapCount: 1},
		"WaitingForWholeGroup: r4 could hold most, 87 %":                          {AcquisitionParked: true, SameCandidates: []*bigfleet.DomainCoverage{{Domain: "r4", CoveragePerMille: 875}}},
		"NoDomainHoldsIt: A smaller group":                                        {UnmetReason: bigfleet.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE},
		"PreemptionExhausted: A higher priority or more machines":                 {UnmetReason: bigfleet.UnmetReason_UNMET_REASON_PREEMPTION_EXHAUSTED},
		"WaitingForCapacity: More machines would help":                            {UnmetReason: bigfleet.UnmetReason_UNMET_REASON_PRIORITY_STARVED},
		"Unmet: tonnage explain need":                                             {},
	} {
		v.ResidualDeficit = short
		a := answerOf(v, 1)
		reason, text, _ := strings.Cut(want, ": ")
		if a.reason != reason || !strings.Contains(strings.ReplaceAll(a.message, "`", ""), text) || !strings.HasPrefix(a.message, "For the 1 request like this one cpu=4, gpu=8 is missing. ") {
			t.Errorf("%s: %+v", want, a)
		}
	}
}
