package service

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/coordinator"
)

// Metrics are the coordinator's series. Those of the public protocol begin with
// bigfleet_, our own with tonnage_.
type Metrics struct {
	applies    *prometheus.CounterVec
	dropped    prometheus.Counter
	handling   *prometheus.HistogramVec
	passes     prometheus.Histogram
	asked      prometheus.Counter
	exports    *prometheus.CounterVec
	leads      prometheus.Gauge
	elections  prometheus.Counter
	wasLeading bool
}

// handlingBuckets are close around the aim, 5 ms at p99.
var handlingBuckets = []float64{0.00025, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.25, 1}

// NewMetrics registers the series.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		applies: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bigfleet_coordinator_apply_total", Help: "Durable commands by outcome."}, []string{"outcome"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "tonnage_coordinator_reports_dropped_total", Help: "Reports and offers that came out of order or from a replaced process."}),
		handling: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tonnage_coordinator_handling_seconds", Help: "Time that a shard's report or offer took, from the head of the call to the end of the answer.",
			Buckets: handlingBuckets}, []string{"call"}),
		passes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tonnage_coordinator_rebalance_pass_seconds", Help: "Time of one pass of rebalancing.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8)}),
		asked:     prometheus.NewCounter(prometheus.CounterOpts{Name: "tonnage_coordinator_rebalance_machines_total", Help: "Machines that donors were asked for, or in dry-run would have been."}),
		exports:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tonnage_coordinator_snapshot_exports_total", Help: "Exported snapshots by outcome."}, []string{"outcome"}),
		leads:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "tonnage_coordinator_leads", Help: "1 while this replica leads, and a majority has confirmed it of late."}),
		elections: prometheus.NewCounter(prometheus.CounterOpts{Name: "tonnage_coordinator_leaderships_total", Help: "Times that this replica became the leader."}),
	}
	for _, o := range []string{"success", "error", "fsm_error"} {
		m.applies.WithLabelValues(o)
	}
	for _, call := range timedCalls {
		m.handling.WithLabelValues(call)
	}
	for _, o := range []string{"success", "error"} {
		m.exports.WithLabelValues(o)
	}
	registry.MustRegister(m.applies, m.dropped, m.handling, m.passes, m.asked, m.exports, m.leads, m.elections)
	return m
}

// Applied counts a command.
func (m *Metrics) Applied(outcome string) { m.applies.WithLabelValues(outcome).Inc() }

// ReportDropped counts a report that was not believed.
func (m *Metrics) ReportDropped() { m.dropped.Inc() }

// Passed notes a pass of rebalancing.
func (m *Metrics) Passed(took time.Duration, machines int) {
	m.passes.Observe(took.Seconds())
	m.asked.Add(float64(machines))
}

// Exported counts an export.
func (m *Metrics) Exported(err error) {
	outcome := "success"
	if err != nil {
		outcome = "error"
	}
	m.exports.WithLabelValues(outcome).Inc()
}

// Leads notes whether this replica leads. It is called by one goroutine.
func (m *Metrics) Leads(leads bool, _ int64) {
	if leads && !m.wasLeading {
		m.elections.Inc()
	}
	m.wasLeading = leads
	m.Heard(leads)
}

// Heard notes whether a majority agrees that this replica leads.
func (m *Metrics) Heard(heard bool) { m.leads.Set(map[bool]float64{true: 1}[heard]) }

// state are the gauges that are read off the state when somebody asks.
type state struct {
	service *Service
	term, pending, shards, domains, heard,
	shortfalls, moves, lent *prometheus.Desc
}

// Collector returns the gauges of the state. A follower has only the term.
func (s *Service) Collector() prometheus.Collector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &state{
		service:    s,
		term:       d("bigfleet_coordinator_raft_term", "Term of the leader, as far as this replica knows."),
		pending:    d("bigfleet_coordinator_pending_instructions", "Instructions that a shard has yet to acknowledge.", "shard"),
		shards:     d("tonnage_coordinator_shards", "Registered shards."),
		domains:    d("tonnage_coordinator_domains", "Assigned domains."),
		heard:      d("tonnage_coordinator_shards_heard", "Shards that this leader has had a report of."),
		shortfalls: d("tonnage_coordinator_shortfalls", "Shortfalls of all shards by age in cycles.", "age"),
		moves:      d("tonnage_coordinator_moves", "Moves that are known, by phase.", "phase"),
		lent:       d("tonnage_coordinator_machines_lent", "Machines that another shard has than the one whose domain they lie in."),
	}
}

// Describe names the gauges.
func (x *state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{x.term, x.pending, x.shards, x.domains, x.heard, x.shortfalls, x.moves, x.lent} {
		out <- d
	}
	x.service.gate.Describe(out)
}

// ages are the buckets of shortfalls, as the shard's own gauge has them.
var ages = []struct {
	name string
	max  int32
}{{"1-9", 9}, {"10-59", 59}, {"60-299", 299}, {"300+", 1<<31 - 1}}

// Collect reads them.
func (x *state) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	x.service.gate.Collect(out)
	r, _ := x.service.attached()
	if r == nil {
		gauge(x.term, 0)
		return
	}
	hint, _ := r.Hint()
	r.Look(func(c *coordinator.Core, leads bool, term int64) {
		gauge(x.term, float64(max(term, hint.Term)))
		if !leads {
			return
		}
		heard, byAge := 0, [4]int{}
		statuses := c.Statuses("")
		for _, s := range statuses {
			gauge(x.pending, float64(s.Pending), s.Shard)
			if s.Heartbeat > 0 {
				heard++
			}
			for _, f := range s.Shortfalls {
				for i := range ages {
					if f.AgeCycles <= ages[i].max {
						byAge[i]++
						break
					}
				}
			}
		}
		gauge(x.shards, float64(len(statuses)))
		gauge(x.heard, float64(heard))
		gauge(x.domains, float64(c.DomainCount()))
		gauge(x.lent, float64(c.LoanCount()))
		for i, n := range byAge {
			gauge(x.shortfalls, float64(n), ages[i].name)
		}
		byPhase := c.PhaseCounts()
		for _, p := range []coordinator.Phase{coordinator.Asked, coordinator.Released, coordinator.Adopted, coordinator.Settled, coordinator.Returning, coordinator.Returned, coordinator.Cancelled} {
			gauge(x.moves, float64(byPhase[p]), string(p))
		}
	})
}
