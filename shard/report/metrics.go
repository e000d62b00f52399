package report

import (
	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// Metrics are the client's series. Nil takes nothing down.
type Metrics struct {
	reports      *prometheus.CounterVec
	unanswered   prometheus.Gauge
	instructions *prometheus.CounterVec
}

// How reports end.
const (
	reportTaken  = "success"
	reportFailed = "error"
	reportStale  = "stale"
)

// NewMetrics registers the series.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		reports:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tonnage_shard_reports_total", Help: "Reports to the coordinator."}, []string{"outcome"}),
		unanswered:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "tonnage_shard_reports_unanswered", Help: "Reports to the coordinator that had no answer, in a row."}),
		instructions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tonnage_shard_instructions_total", Help: "Instructions of the coordinator, by what became of them."}, []string{"outcome"}),
	}
	for _, outcome := range []string{reportTaken, reportFailed, reportStale} {
		m.reports.WithLabelValues(outcome)
	}
	r.MustRegister(m.reports, m.unanswered, m.instructions)
	return m
}

func (m *Metrics) reported(outcome string) {
	if m == nil {
		return
	}
	m.reports.WithLabelValues(outcome).Inc()
	if outcome == reportFailed {
		m.unanswered.Inc()
	} else {
		m.unanswered.Set(0)
	}
}

func (m *Metrics) told(outcome pb.InstructAck_Outcome) {
	if m != nil {
		m.instructions.WithLabelValues(outcome.String()).Inc()
	}
}
