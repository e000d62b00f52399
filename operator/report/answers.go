package report

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// The reasons of the condition Satisfied.
const (
	AnswerSatisfied  = "Satisfied"
	AnswerMachines   = api.ReasonWaitingForMachines
	AnswerDrain      = api.ReasonWaitingForDrain
	AnswerWhole      = "WaitingForWholeGroup"
	AnswerNoMatch    = "NoMatchingSupply"
	AnswerNoDomain   = "NoDomainHoldsIt"
	AnswerExhausted  = "PreemptionExhausted"
	AnswerNotEnough  = "WaitingForCapacity"
	AnswerUnexpected = "Unmet"
)

// Answers are all of them.
var Answers = []string{
	AnswerSatisfied, AnswerMachines, AnswerDrain, AnswerWhole, AnswerNoMatch, AnswerNoDomain, AnswerExhausted, AnswerNotEnough, AnswerUnexpected,
}

// answersMax is how many conditions are written after one look; the others are in the next ones. Namespaces take turns.
const answersMax = 500

// answer is what a shard says of a row.
type answer struct{ reason, message string }

// answerOf puts a view into words, with what would help.
func answerOf(v *bigfleet.NeedView, like int) answer {
	if v.GetSatisfied() {
		return answer{AnswerSatisfied, fmt.Sprintf("The machines for the %s like this one are there.", requestsOf(like))}
	}
	short := fmt.Sprintf("For the %s like this one %s is missing. ", requestsOf(like), quantities(v.GetResidualDeficit().GetResources()))
	victims := int(v.GetPreemption().GetVictimsFound())
	switch coming := v.GetBootstrapCount() + v.GetProvisionCount(); {
	case coming > 0 && victims == 0:
		return answer{AnswerMachines, short + fmt.Sprintf("%d machines are on their way, %d of them being bought.", coming, v.GetProvisionCount())}
	case victims > 0:
		return answer{AnswerDrain, short + fmt.Sprintf("%d machines of lower priority are being emptied for them.", victims)}
	case v.GetAcquisitionParked():
		return answer{AnswerWhole, short + "They wait until all of them fit at once" + bestDomain(v) + ". More machines of the kind in one domain, a smaller group or a higher priority would help."}
	}
	switch v.GetUnmetReason() {
	case bigfleet.UnmetReason_UNMET_REASON_NO_MATCHING_SUPPLY:
		return answer{AnswerNoMatch, short + "No machine of the fleet has all that they require. Correct the requirements, or have such machines offered; `tonnage explain need` says which requirement it is."}
	case bigfleet.UnmetReason_UNMET_REASON_TOPOLOGY_UNSATISFIABLE:
		return answer{AnswerNoDomain, short + "No domain holds them" + bestDomain(v) + ". A smaller group, a wider domain or more machines in one domain would help."}
	case bigfleet.UnmetReason_UNMET_REASON_PREEMPTION_EXHAUSTED:
		return answer{AnswerExhausted, short + "Preempting all that may be preempted does not suffice. A higher priority or more machines would help."}
	case bigfleet.UnmetReason_UNMET_REASON_PRIORITY_STARVED:
		return answer{AnswerNotEnough, short + "Others have the machines that match. More machines would help, and a higher priority where others have a lower one."}
	}
	return answer{AnswerUnexpected, short + "`tonnage explain need` says why."}
}

func requestsOf(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// bestDomain names the domain that could hold most.
func bestDomain(v *bigfleet.NeedView) string {
	all := v.GetSameCandidates()
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s could hold most, %d %% of what they ask for", all[0].GetDomain(), all[0].GetCoveragePerMille()/10)
}

// quantities writes resources in order of their names.
func quantities(of map[string]string) string {
	if len(of) == 0 {
		return "machines"
	}
	parts := make([]string, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, name+"="+of[name])
	}
	return strings.Join(parts, ", ")
}

// rowKey is what tells a row from the others of its cluster, in the roll-up and in a view of it. A shard may lower priority and
// penalties, so these are no part of it. It shows folded rows together, with the group and the unit of the first; unless whole, these are
// no part of it either.
func rowKey(n *bigfleet.CapacityNeed, whole bool) string {
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	requirements := make([]string, 0, len(n.GetRequirements()))
	for _, r := range n.GetRequirements() {
		values := slices.Clone(r.GetValues())
		slices.Sort(values)
		requirements = append(requirements, fmt.Sprintf("%q %d %q", r.GetKey(), r.GetOperator(), values))
	}
	slices.Sort(requirements)
	for _, r := range requirements {
		text(r)
	}
	if whole {
		text("|" + n.GetGroup() + "|")
		for _, name := range slices.Sorted(maps.Keys(n.GetMinUnit())) {
			text(name)
			text(n.GetMinUnit()[name])
		}
	}
	return string(b)
}

// viewOf picks, of the views with a row's key, the one that is nearest to its priority: the same, or what it was lowered to.
func viewOf(views []*bigfleet.NeedView, row *bigfleet.CapacityNeed) *bigfleet.NeedView {
	var best *bigfleet.NeedView
	for _, v := range views {
		p := v.GetNeed().GetPriority()
		if p <= row.GetPriority() && (best == nil || p > best.GetNeed().GetPriority()) {
			best = v
		}
	}
	return best
}

// reported is the newest roll-up: its rows, and which request is in which.
type reported struct {
	rows     []*bigfleet.CapacityNeed
	requests []*api.CapacityRequest
	rowOf    []int32
}

// Decided takes what the shard says of the cluster's needs, and has the conditions of the requests written that
// change. Requests that were not heard yet are left alone.
func (r *Reporter) Decided(views []*bigfleet.NeedView) {
	byKey := map[string][]*bigfleet.NeedView{}
	for _, v := range views {
		for _, whole := range [...]bool{true, false} {
			k := rowKey(v.GetNeed(), whole)
			byKey[k] = append(byKey[k], v)
		}
	}
	r.mu.Lock()
	newest := r.newest
	r.mu.Unlock()
	like := make([]int, len(newest.rows))
	for _, row := range newest.rowOf {
		like[row]++
	}
	answers := make([]*answer, len(newest.rows))
	for i, row := range newest.rows {
		v := viewOf(byKey[rowKey(row, true)], row)
		if v == nil {
			v = viewOf(byKey[rowKey(row, false)], row)
		}
		if v != nil {
			a := answerOf(v, like[i])
			answers[i] = &a
		}
	}
	counts := make(map[string]int, len(Answers))
	for _, reason := range Answers {
		counts[reason] = 0
	}
	var fresh queue[mark]
	for i, request := range newest.requests {
		a := answers[newest.rowOf[i]]
		if a == nil {
			continue
		}
		counts[a.reason]++
		if heard(request) && !says(request, a) {
			fresh.put(request.Namespace, versionOf(request), mark{request: request, answer: a})
		}
	}
	r.cfg.Metrics.Answers(counts)
	write := fresh.take(answersMax)
	r.mu.Lock()
	for _, m := range write {
		r.marks.put(m.request.Namespace, versionOf(m.request), m)
	}
	r.mu.Unlock()
	if len(write) > 0 {
		r.awake()
	}
	r.tellWaiting(write)
}

// tellWaiting has requests told, in the cluster, what they wait for, when that is another thing than before.
func (r *Reporter) tellWaiting(all []mark) {
	if r.cfg.Waits == nil {
		return
	}
	told := 0
	for _, m := range all {
		had := conditionOf(m.request)
		if m.answer.reason == AnswerSatisfied || had != nil && had.Reason == m.answer.reason || told == eventsMax {
			continue
		}
		told++
		r.cfg.Waits(m.request, m.answer.reason, m.answer.message)
	}
}

// conditionOf returns the condition Satisfied of a request, nil when it has none.
func conditionOf(r *api.CapacityRequest) *metav1.Condition {
	for i := range r.Status.Conditions {
		if c := &r.Status.Conditions[i]; c.Type == api.ConditionSatisfied {
			return c
		}
	}
	return nil
}

// says tells whether a request's status says an answer already. Figures in the message alone are no reason to write.
func says(r *api.CapacityRequest, a *answer) bool {
	c := conditionOf(r)
	return c != nil && c.Reason == a.reason && c.ObservedGeneration == r.Generation
}

// satisfied makes the condition of an answer.
func satisfied(r *api.CapacityRequest, a *answer, now string) map[string]any {
	is := metav1.ConditionFalse
	if a.reason == AnswerSatisfied {
		is = metav1.ConditionTrue
	}
	since := now
	if had := conditionOf(r); had != nil && had.Status == is {
		since = cmp.Or(had.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z07:00"), now)
	}
	return map[string]any{
		"type": api.ConditionSatisfied, "status": is, "observedGeneration": r.Generation, "lastTransitionTime": since, "reason": a.reason, "message": cutMessage(a.message),
	}
}
