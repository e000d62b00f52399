package report

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/rollup"
	"github.com/tonnage/tonnage/operator/telemetry"
)

const (
	// messageBytesMax is how long a condition's message is, at most. An event's note
	// may be no longer.
	messageBytesMax = 1000
	// namedMax is how many of the requests that are left out the log names, each of another namespace.
	namedMax = 5
	// summaryApart is how long the log says nothing of other numbers of the same reasons.
	summaryApart = time.Minute
)

// leftOut returns the condition of a request that says that it is left out, nil when
// there is none.
func leftOut(r *api.CapacityRequest) *metav1.Condition {
	for i := range r.Status.Conditions {
		if c := &r.Status.Conditions[i]; c.Type == api.ConditionReported && c.Status == metav1.ConditionFalse {
			return c
		}
	}
	return nil
}

// heard tells whether nothing is to be written of a request that was heard.
func heard(r *api.CapacityRequest) bool {
	return r.Status.Phase == api.RequestAcknowledged && leftOut(r) == nil
}

// message is what a request is told, within what an event may say.
func message(why error) string { return cutMessage(why.Error()) }

// cutMessage cuts a text to what a condition and an event may say.
func cutMessage(text string) string {
	if len(text) <= messageBytesMax {
		return text
	}
	cut := messageBytesMax - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// knows tells whether a request's status says already why it is left out.
func knows(f *rollup.Refusal) bool {
	c := leftOut(f.Request)
	return c != nil && c.ObservedGeneration == f.Request.Generation && c.Reason == string(rollup.ReasonOf(f.Err)) && c.Message == message(f.Err)
}

// summary logs and counts the requests that are left out.
type summary struct {
	said, reasons string // as last logged
	at            time.Time
}

// tell counts by reason, and logs when there are others than before.
func (s *summary) tell(all []rollup.Refusal, now time.Time, metrics *telemetry.Metrics, log *slog.Logger) {
	by := map[string]int{}
	for _, reason := range rollup.Reasons {
		by[string(reason)] = 0
	}
	for i := range all {
		by[string(rollup.ReasonOf(all[i].Err))]++
	}
	metrics.LeftOut(by)
	maps.DeleteFunc(by, func(_ string, n int) bool { return n == 0 })
	reasons := slices.Sorted(maps.Keys(by))
	counts := make([]string, 0, len(by))
	for _, reason := range reasons {
		counts = append(counts, fmt.Sprintf("%s %d", reason, by[reason]))
	}
	says, why := strings.Join(counts, ", "), strings.Join(reasons, " ")
	if says == s.said || why == s.reasons && now.Sub(s.at) < summaryApart {
		return
	}
	s.said, s.reasons, s.at = says, why, now
	if says == "" {
		log.Info("no request is left out of the roll-up any more")
		return
	}
	log.Warn("requests are left out of the roll-up; their events and conditions say why", "by reason", says, "such as", some(all))
}

// some names a few of those who are left out: the first by name, of different namespaces
// where there are several.
func some(all []rollup.Refusal) []string {
	first := map[string]*rollup.Refusal{} // by namespace
	for i := range all {
		f := &all[i]
		if had := first[f.Request.Namespace]; had == nil || f.Request.Name < had.Request.Name {
			first[f.Request.Namespace] = f
		}
	}
	var out []string
	for _, namespace := range slices.Sorted(maps.Keys(first)) {
		if len(out) == namedMax {
			break
		}
		f := first[namespace]
		out = append(out, fmt.Sprintf("%s/%s: %s", namespace, f.Request.Name, message(f.Err)))
	}
	return out
}
