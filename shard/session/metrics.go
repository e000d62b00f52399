package session

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/shard"
)

// Registerer takes the metrics of sessions.
type Registerer = prometheus.Registerer

type metrics struct {
	lifecycle *prometheus.CounterVec
	rejected  prometheus.Counter
	lowered   *prometheus.CounterVec

	mu    sync.Mutex
	named map[string]struct{} // clusters with a label of their own
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
	m.lowered = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tonnage_shard_rows_lowered_total", Help: "Rows of roll-ups that were lowered to the limits of the policy.",
	}, []string{"cluster"})
	m.named = map[string]struct{}{}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.lifecycle, m.rejected, m.lowered} {
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

// lower counts rows of a cluster that were lowered. Clusters beyond
// shard.ClusterLabelsMax count as other.
func (m *metrics) lower(cluster string, rows int) {
	if rows == 0 {
		return
	}
	m.mu.Lock()
	if _, known := m.named[cluster]; !known {
		if len(m.named) < shard.ClusterLabelsMax {
			m.named[cluster] = struct{}{}
		} else {
			cluster = "other"
		}
	}
	m.mu.Unlock()
	m.lowered.WithLabelValues(cluster).Add(float64(rows))
}
