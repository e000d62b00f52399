package inbound

import "github.com/prometheus/client_golang/prometheus"

var (
	descRefused     = prometheus.NewDesc("tonnage_inbound_refused_total", "Connections and calls refused before a message was read, by reason.", []string{"reason"}, nil)
	descConnections = prometheus.NewDesc("tonnage_inbound_connections", "Connections, by whether a hello or call was accepted on them.", []string{"proven"}, nil)
	descHeld        = prometheus.NewDesc("tonnage_inbound_held_bytes", "Bytes reserved by messages that arrive or have arrived and are not yet taken, by size of the message.", []string{"size"}, nil)
	descWaiting     = prometheus.NewDesc("tonnage_inbound_waiting", "Messages that wait for room before they may arrive, by size of the message.", []string{"size"}, nil)
)

// Describe sends the descriptions of all series.
func (g *Gate) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{descRefused, descConnections, descHeld, descWaiting} {
		ch <- d
	}
}

// Collect sends all series as they are.
func (g *Gate) Collect(ch chan<- prometheus.Metric) {
	for why, name := range reasonNames {
		ch <- prometheus.MustNewConstMetric(descRefused, prometheus.CounterValue, float64(g.refusals.of(reason(why))), name)
	}
	g.mu.Lock()
	unproven, all, held := g.unproven.Len(), g.connections, g.held
	waiting := [kinds]int{len(g.waiters[small]), len(g.waiters[large])}
	g.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
	}
	gauge(descConnections, float64(all-unproven), "true")
	gauge(descConnections, float64(unproven), "false")
	for k, name := range [kinds]string{"small", "large"} {
		gauge(descHeld, float64(held[k]), name)
		gauge(descWaiting, float64(waiting[k]), name)
	}
}
