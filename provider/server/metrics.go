package server

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tonnage/tonnage/engine/model"
)

// callKey is a method and how it ended; both are from short lists.
type callKey struct {
	method string
	code   codes.Code
}

// counts are what was answered so far.
type counts struct {
	mu        sync.Mutex
	calls     map[callKey]uint64
	listBytes [2]uint64 // by changed since a cursor, or full
}

func (c *counts) listed(bytes int, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if full {
		c.listBytes[1] += uint64(bytes)
	} else {
		c.listBytes[0] += uint64(bytes)
	}
}

// count counts calls by how they end.
func (s *Server) count(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	out, err := handler(ctx, req)
	s.calls.mu.Lock()
	if s.calls.calls == nil {
		s.calls.calls = map[callKey]uint64{}
	}
	s.calls.calls[callKey{info.FullMethod, status.Code(err)}]++
	s.calls.mu.Unlock()
	return out, err
}

var (
	descCalls = prometheus.NewDesc("tonnage_provider_calls_total", "Calls answered, by method and code.", []string{"code", "method"}, nil)
	descBytes = prometheus.NewDesc("tonnage_provider_list_bytes_total", "Bytes of listings answered, by whether they were full.", []string{"full"}, nil)
	descState = prometheus.NewDesc("tonnage_provider_machines", "Machines by state.", []string{"state"}, nil)
	descMarks = prometheus.NewDesc("tonnage_provider_tokens", "Pairs of shard and machine whose newest token is known.", nil, nil)
	descEnded = prometheus.NewDesc("tonnage_provider_transitions_total", "Transitions that ended by the clock.", nil, nil)
	descTx    = prometheus.NewDesc("tonnage_provider_transactions_total", "Transactions of the store's file.", nil, nil)
	descDisk  = prometheus.NewDesc("tonnage_provider_disk_seconds_total", "Time spent in transactions of the store's file.", nil, nil)
)

// Describe sends the descriptions of all series.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{descCalls, descBytes, descState, descMarks, descEnded, descTx, descDisk} {
		ch <- d
	}
	s.gate.Load().Describe(ch)
}

// Collect sends all series as they are.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	s.calls.mu.Lock()
	for k, n := range s.calls.calls {
		counter(descCalls, float64(n), k.code.String(), k.method)
	}
	counter(descBytes, float64(s.calls.listBytes[0]), "false")
	counter(descBytes, float64(s.calls.listBytes[1]), "true")
	s.calls.mu.Unlock()
	states := s.backend.States()
	for x := model.Speculative; int(x) < model.NumStates; x++ {
		ch <- prometheus.MustNewConstMetric(descState, prometheus.GaugeValue, float64(states[x]), x.String())
	}
	if gate := s.gate.Load(); gate != nil {
		gate.Collect(ch)
	}
	stats := s.backend.Stats()
	ch <- prometheus.MustNewConstMetric(descMarks, prometheus.GaugeValue, float64(stats.Tokens))
	counter(descEnded, float64(stats.Ended))
	counter(descTx, float64(stats.Transactions))
	counter(descDisk, stats.DiskTime.Seconds())
}
