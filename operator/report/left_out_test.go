package report

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/rollup"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// TestMessagesAreShort: as events must be, and still text.
func TestMessagesAreShort(t *testing.T) {
	for n := range 8 {
		text := message(errors.New(strings.Repeat("x", 990+n) + strings.Repeat("ü", 500)))
		if len(text) > messageBytesMax || !utf8.ValidString(text) || !strings.HasSuffix(text, "…") {
			t.Errorf("%d bytes, %q", len(text), text[980:])
		}
	}
	if message(errors.New("short")) != "short" {
		t.Error("a short one is cut")
	}
}

// TestLeftOutIsSaidOnce: in log and metrics, and again when there are others. The log names
// some of every namespace.
func TestLeftOutIsSaidOnce(t *testing.T) {
	var out strings.Builder
	registry := prometheus.NewRegistry()
	metrics, log := telemetry.New(registry, "a"), slog.New(slog.NewTextHandler(&out, nil))
	refusal := func(namespace, name string, err error) rollup.Refusal {
		r := named(name)
		r.Namespace = namespace
		return rollup.Refusal{Request: r, Err: fmt.Errorf("%w: %s", err, "remedy")}
	}
	all := []rollup.Refusal{refusal("b", "z", rollup.ErrMany), refusal("b", "y", rollup.ErrMany), refusal("a", "x", rollup.ErrUnreadable)}
	var s summary
	now := time.Unix(1000, 0)
	s.tell(nil, now, metrics, log)
	if out.Len() > 0 {
		t.Errorf("nobody is left out, and the log says %s", out.String())
	}
	for range 3 {
		s.tell(all, now, metrics, log)
	}
	if text := out.String(); strings.Count(text, "left out") != 1 || !strings.Contains(text, "TooMany 2, Unreadable 1") || !strings.Contains(text, "b/y: too many") || !strings.Contains(text, "a/x: ") {
		t.Errorf("the log says %s", text)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP tonnage_operator_requests_left_out The same, by reason.
# TYPE tonnage_operator_requests_left_out gauge
tonnage_operator_requests_left_out{reason="Name"} 0
tonnage_operator_requests_left_out{reason="Operator"} 0
tonnage_operator_requests_left_out{reason="Quantity"} 0
tonnage_operator_requests_left_out{reason="TooLarge"} 0
tonnage_operator_requests_left_out{reason="TooMany"} 2
tonnage_operator_requests_left_out{reason="Unreadable"} 1
`), "tonnage_operator_requests_left_out"); err != nil {
		t.Error(err)
	}
	s.tell(all[1:], now.Add(summaryApart-1), metrics, log)
	if text := out.String(); strings.Count(text, "left out") != 1 {
		t.Errorf("another number is said at once: %s", text)
	}
	s.tell(all[1:], now.Add(summaryApart), metrics, log)
	s.tell(all[2:], now.Add(summaryApart), metrics, log)
	if text := out.String(); !strings.Contains(text, "TooMany 1, Unreadable 1") || strings.Count(text, "left out") != 3 {
		t.Errorf("the log says %s", text)
	}
	s.tell(nil, now.Add(summaryApart), metrics, log)
	if text := out.String(); strings.Count(text, "any more") != 1 {
		t.Errorf("the log says %s", text)
	}
}

// TestConditionGoesWithItsReason: one that was left out is told once, is heard again
// though its phase is Acknowledged, and the condition is taken away then.
func TestConditionGoesWithItsReason(t *testing.T) {
	q := named("a")
	q.Namespace, q.Spec.Unreadable = "n", "no number"
	told := 0
	r := New(Config{
		List: func() []*api.CapacityRequest { return []*api.CapacityRequest{q} }, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Refused: func(*api.CapacityRequest, string) { told++ },
	})
	r.Next(false)
	marks := r.marks.take(9)
	if len(marks) != 1 || marks[0].why == nil || told != 1 {
		t.Fatalf("marks %v, told %d times", marks, told)
	}
	status := r.status(marks[0])
	c := status["conditions"].([]map[string]any)[0]
	if c["type"] != "Reported" || c["reason"] != "Unreadable" || c["message"] != "the request cannot be read: no number" || c["observedGeneration"] != int64(1) || status["phase"] != api.RequestPending {
		t.Errorf("status is %v", status)
	}
	// Another process reads what this one wrote.
	q.Status = api.CapacityRequestStatus{Phase: api.RequestAcknowledged, Conditions: []metav1.Condition{{
		Type: api.ConditionReported, Status: metav1.ConditionFalse, Reason: "Unreadable", Message: "the request cannot be read: no number", ObservedGeneration: 1,
	}}}
	r.told = nil
	r.Next(false)
	if r.marks.len() != 0 || told != 1 {
		t.Errorf("it is told again: %d marks, told %d times", r.marks.len(), told)
	}
	q.Spec.Unreadable = ""
	r.Begin()
	r.Next(false)
	r.Acknowledged()
	marks = r.marks.take(9)
	if len(marks) != 1 || marks[0].why != nil {
		t.Fatalf("marks %v", marks)
	}
	if status := r.status(marks[0]); status["conditions"] != nil || status["phase"] != api.RequestAcknowledged {
		t.Errorf("status is %v", status)
	}
	q.Status.Conditions = nil
	r.Next(false)
	r.Acknowledged()
	if r.marks.len() != 0 {
		t.Error("it is marked again")
	}
}

// TestOneNamespaceIsToldBesideMany: the first hundred are not all of one.
func TestOneNamespaceIsToldBesideMany(t *testing.T) {
	var all []*api.CapacityRequest
	for i := range 10 * eventsMax {
		q := named(fmt.Sprint("r", i))
		q.Namespace, q.Spec.Unreadable = "many", "x"
		all = append(all, q)
	}
	q := named("last")
	q.Namespace, q.Spec.Unreadable = "few", "x"
	all = append(all, q)
	told := map[string]int{}
	r := New(Config{
		List: func() []*api.CapacityRequest { return all }, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Refused: func(q *api.CapacityRequest, _ string) { told[q.Namespace]++ },
	})
	r.Next(false)
	if told["few"] != 1 || told["many"] != eventsMax-1 {
		t.Errorf("told %v", told)
	}
}
