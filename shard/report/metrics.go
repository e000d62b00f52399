package report

import (
	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// Metrics are the client's series. Nil takes nothing down.
type Metrics struct {
	reports      *prometheus.CounterVec
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
		instructions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tonnage_shard_instructions_total", Help: "Instructions of the coordinator, by what became of them."}, []string{"outcome"}),
	}
	for _, outcome := range []string{reportTaken, reportFailed, reportStale} {
		m.reports.WithLabelValues(outcome)
	}
	r.MustRegister(m.reports, m.instructions)
	return m
}

func (m *Metrics) reported(outcome string) {
	if m != nil {
		m.reports.WithLabelValues(outcome).Inc()
	}
}

func (m *Metrics) told(outcome pb.InstructAck_Outcome) {
	if m != nil {
		m.instructions.WithLabelValues(outcome.String()).Inc()
	}
}
