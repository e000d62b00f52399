package client

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/shard"
)

// Metrics are the client's series. Nil takes nothing down.
type Metrics struct {
	calls    *prometheus.HistogramVec // by method and outcome
	attempts *prometheus.CounterVec   // by method
	bytes    prometheus.Counter
}

// NewMetrics registers the series.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tonnage_shard_provider_call_duration_seconds", Help: "Calls to the provider with all their attempts, by method and outcome.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}, []string{"method", "outcome"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tonnage_shard_provider_attempts_total", Help: "Attempts of calls to the provider, by method.",
		}, []string{"method"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tonnage_shard_provider_list_bytes_total", Help: "Bytes of the provider's listings.",
		}),
	}
	r.MustRegister(m.calls, m.attempts, m.bytes)
	return m
}

func (m *Metrics) ended(method string, start time.Time, err error) {
	if m != nil {
		m.calls.WithLabelValues(method, outcome(err)).Observe(time.Since(start).Seconds())
	}
}

func (m *Metrics) attempt(method string) {
	if m != nil {
		m.attempts.WithLabelValues(method).Inc()
	}
}

func (m *Metrics) listed(msg [][]byte) {
	if m == nil {
		return
	}
	for _, b := range msg {
		m.bytes.Add(float64(len(b)))
	}
}

// outcome names how a call ended, from a short list.
func outcome(err error) string {
	switch {
	case err == nil:
		return "success"
	case errors.Is(err, shard.ErrFenced):
		return "fenced"
	case errors.Is(err, shard.ErrUncertain):
		return "uncertain"
	case errors.Is(err, shard.ErrUnsent):
		return "unsent"
	case errors.Is(err, shard.ErrNoMachine):
		return "no_machine"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case retryable(err):
		return "unavailable"
	}
	return "refused"
}
