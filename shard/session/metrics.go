package session

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Registerer takes the metrics of sessions.
type Registerer = prometheus.Registerer

type metrics struct {
	lifecycle *prometheus.CounterVec
	rejected  prometheus.Counter
}

// newMetrics registers the metrics of sessions; nil registers none.
func newMetrics(registerer Registerer) (*metrics, error) {
	m := &metrics{
		lifecycle: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bigfleet_shard_session_lifecycle_total", Help: "Sessions that began, ended, or took the place of another.",
		}, []string{"event"}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bigfleet_shard_session_identity_rejected_total", Help: "Sessions whose certificate is not of the cluster that they name.",
		}),
	}
	for _, event := range []string{"installed", "removed", "replaced"} {
		m.lifecycle.WithLabelValues(event)
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.lifecycle, m.rejected} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of sessions: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) installed()        { m.lifecycle.WithLabelValues("installed").Inc() }
func (m *metrics) removed()          { m.lifecycle.WithLabelValues("removed").Inc() }
func (m *metrics) replaced()         { m.lifecycle.WithLabelValues("replaced").Inc() }
func (m *metrics) identityRejected() { m.rejected.Inc() }
