// Package telemetry publishes what the operator does. Its series are those that
// dashboards of BigFleet expect, and a few more.
package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the operator's series. The methods of a nil Metrics do nothing,
// so that tests need none. All may be called concurrently.
type Metrics struct {
	rollup       prometheus.Histogram
	rollupPhase  *prometheus.HistogramVec
	acknowledge  prometheus.Histogram
	acknowledged prometheus.Counter
	reconnects   prometheus.Counter
	connected    prometheus.Gauge
	dropped      prometheus.Counter
	nodeState    *prometheus.HistogramVec
	nodeWrites   *prometheus.CounterVec
	inflight     prometheus.Gauge
	refused      prometheus.Gauge
	leftOut      *prometheus.GaugeVec
	answers      *prometheus.GaugeVec
	lowered      prometheus.Gauge
	softSpread   prometheus.Gauge
	early        *prometheus.CounterVec
	drains       *prometheus.CounterVec
	evictions    *prometheus.CounterVec
}

// New registers the series of a cluster.
func New(r prometheus.Registerer, cluster string) *Metrics {
	name := func(s string) string { return "bigfleet_operator_" + s }
	m := &Metrics{
		rollup:       prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("rollup_duration_seconds"), Help: "From listing the requests to handing the roll-up over.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}),
		rollupPhase:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name("rollup_phase_duration_seconds"), Help: "The same, by phase.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"phase"}),
		acknowledge:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("acknowledge_duration_seconds"), Help: "Writing that one roll-up's requests were heard.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 16)}),
		acknowledged: prometheus.NewCounter(prometheus.CounterOpts{Name: name("acknowledged_total"), Help: "Requests whose phase became Acknowledged."}),
		reconnects:   prometheus.NewCounter(prometheus.CounterOpts{Name: name("session_reconnects_total"), Help: "Sessions that ended and were tried anew."}),
		connected:    prometheus.NewGauge(prometheus.GaugeOpts{Name: name("session_connected"), Help: "1 while a shard has greeted."}),
		dropped:      prometheus.NewCounter(prometheus.CounterOpts{Name: name("outbox_dropped_total"), Help: "Replies that found the outbox full."}),
		nodeState:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name("node_state_update_duration_seconds"), Help: "From news of a machine to its object, by the phase it got.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 17)}, []string{"phase"}),
		nodeWrites:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("upcoming_node_writes_total"), Help: "Writes of UpcomingNodes."}, []string{"op", "outcome"}),
		inflight:     prometheus.NewGauge(prometheus.GaugeOpts{Name: name("dispatch_inflight"), Help: "Messages of the shard that are being carried out."}),
		refused:      prometheus.NewGauge(prometheus.GaugeOpts{Name: name("requests_not_reported"), Help: "CapacityRequests that the last roll-up left out; their events say why."}),
		leftOut:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tonnage_operator_requests_left_out", Help: "The same, by reason."}, []string{"reason"}),
		answers:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tonnage_operator_requests", Help: "CapacityRequests by what the shard last said of them: the reasons of the condition Satisfied."}, []string{"reason"}),
		lowered:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "tonnage_operator_rows_lowered", Help: "Rows of the last roll-up that the shard lowers to its policy."}),
		softSpread: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tonnage_operator_soft_spread_terms", Help: "ScheduleAnyway terms of topology spread that the last roll-up leaves out.",
			ConstLabels: prometheus.Labels{"cluster": cluster}}),
		early:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("early_rollups_total"), Help: "Roll-ups before their time, after demand had grown."}, []string{"outcome"}),
		drains:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("drains_total"), Help: "Drains by how they ended."}, []string{"outcome"}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("evictions_total"), Help: "Evictions asked for, by answer."}, []string{"outcome"}),
	}
	r.MustRegister(m.rollup, m.rollupPhase, m.acknowledge, m.acknowledged, m.reconnects, m.connected, m.dropped,
		m.nodeState, m.nodeWrites, m.inflight, m.refused, m.leftOut, m.answers, m.lowered, m.softSpread, m.early, m.drains, m.evictions)
	return m
}

// RollupPhase is a part of making a roll-up.
type RollupPhase string

// The phases of a roll-up.
const (
	PhaseList    RollupPhase = "list"
	PhaseBuild   RollupPhase = "build"
	PhaseEnqueue RollupPhase = "enqueue"
)

// Rollup records how long a roll-up took.
func (m *Metrics) Rollup(phases map[RollupPhase]time.Duration) {
	if m == nil {
		return
	}
	total := time.Duration(0)
	for phase, d := range phases {
		m.rollupPhase.WithLabelValues(string(phase)).Observe(d.Seconds())
		total += d
	}
	m.rollup.Observe(total.Seconds())
}

// Refused records how many requests are not reported.
func (m *Metrics) Refused(n int) {
	if m != nil {
		m.refused.Set(float64(n))
	}
}

// LeftOut records how many requests are not reported, by reason.
func (m *Metrics) LeftOut(by map[string]int) {
	if m == nil {
		return
	}
	for reason, n := range by {
		m.leftOut.WithLabelValues(reason).Set(float64(n))
	}
}

// Answers records how many requests the shard says what of, by reason.
func (m *Metrics) Answers(by map[string]int) {
	if m == nil {
		return
	}
	for reason, n := range by {
		m.answers.WithLabelValues(reason).Set(float64(n))
	}
}

// Lowered records how many rows of a roll-up the shard lowers.
func (m *Metrics) Lowered(n int) {
	if m != nil {
		m.lowered.Set(float64(n))
	}
}

// SoftSpread records how many terms of topology spread a roll-up leaves out.
func (m *Metrics) SoftSpread(n int) {
	if m != nil {
		m.softSpread.Set(float64(n))
	}
}

// Early records that a roll-up before its time was sent, or withheld.
func (m *Metrics) Early(sent bool) {
	if m == nil {
		return
	}
	outcome := "withheld"
	if sent {
		outcome = "sent"
	}
	m.early.WithLabelValues(outcome).Inc()
}

// Acknowledged records that n requests were marked in that time.
func (m *Metrics) Acknowledged(n int, took time.Duration) {
	if m != nil {
		m.acknowledged.Add(float64(n))
		m.acknowledge.Observe(took.Seconds())
	}
}

// Connected records that a session is there, or no longer.
func (m *Metrics) Connected(is bool) {
	if m == nil {
		return
	}
	if m.connected.Set(0); is {
		m.connected.Set(1)
	}
}

// Reconnected records that a session ended and another is tried.
func (m *Metrics) Reconnected() {
	if m != nil {
		m.reconnects.Inc()
	}
}

// Dropped records a reply that was dropped.
func (m *Metrics) Dropped() {
	if m != nil {
		m.dropped.Inc()
	}
}

// Inflight records that the number of messages being carried out changed.
func (m *Metrics) Inflight(by int) {
	if m != nil {
		m.inflight.Add(float64(by))
	}
}

// NodeState records that news of a machine were written.
func (m *Metrics) NodeState(phase string, took time.Duration) {
	if m != nil {
		m.nodeState.WithLabelValues(phase).Observe(took.Seconds())
	}
}

// NodeWrite records a write of an UpcomingNode: op is create, spec_update,
// status_update or delete; outcome success, conflict, error or noop.
func (m *Metrics) NodeWrite(op, outcome string) {
	if m != nil {
		m.nodeWrites.WithLabelValues(op, outcome).Inc()
	}
}

// Drain records how a drain ended: drained, failed or canceled.
func (m *Metrics) Drain(outcome string) {
	if m != nil {
		m.drains.WithLabelValues(outcome).Inc()
	}
}

// Eviction records an answer: evicted, refused, gone or error.
func (m *Metrics) Eviction(outcome string) {
	if m != nil {
		m.evictions.WithLabelValues(outcome).Inc()
	}
}
