package provider

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/driver"
)

// stats are what was counted so far.
type stats struct {
	calls.Stats
	lost, failures, soldOut, adopted uint64
	paced                            map[string]uint64 // by driver
	verbs                            map[verbKey]uint64
	observes                         map[verbKey]uint64
	observeTime                      map[string]time.Duration
	orphansDeleted                   map[string]uint64 // by driver
}

// verbKey is a verb of a driver and how it ended; names of drivers are from the pools file.
type verbKey struct{ driver, verb, outcome string }

func (s *stats) init() {
	s.paced, s.verbs, s.observes = map[string]uint64{}, map[verbKey]uint64{}, map[verbKey]uint64{}
	s.observeTime, s.orphansDeleted = map[string]time.Duration{}, map[string]uint64{}
}

// outcome names how a call of a driver ended.
func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, driver.ErrOutOfStock):
		return "out_of_stock"
	case errors.Is(err, driver.ErrPermanent):
		return "permanent"
	}
	return "transient"
}

func (s *stats) verb(name string, v verb, err error) {
	s.verbs[verbKey{name, v.String(), outcome(err)}]++
}

func (s *stats) observed(name string, took time.Duration, err error) {
	s.observes[verbKey{name, "Observe", outcome(err)}]++
	s.observeTime[name] += took
}

var (
	descVerbs    = prometheus.NewDesc("tonnage_provider_driver_calls_total", "Calls of drivers, by driver, verb and outcome.", []string{"driver", "verb", "outcome"}, nil)
	descObserved = prometheus.NewDesc("tonnage_provider_driver_observe_seconds_total", "Time that Observe of a driver took.", []string{"driver"}, nil)
	descPaced    = prometheus.NewDesc("tonnage_provider_driver_paced_total", "Times that the making of a machine waited for the pace of its driver.", []string{"driver"}, nil)
	descOrphans  = prometheus.NewDesc("tonnage_provider_orphans", "Objects that exist and nobody asked for, by driver.", []string{"driver"}, nil)
	descDeleted  = prometheus.NewDesc("tonnage_provider_orphans_deleted_total", "Orphans whose deletion a person asked for and the driver accepted, by driver.", []string{"driver"}, nil)
	descStock    = prometheus.NewDesc("tonnage_provider_offers_out_of_stock", "Offers without capacity at present, by pool.", []string{"pool"}, nil)
	descFailing  = prometheus.NewDesc("tonnage_provider_offers_failing", "Offers that are held back since their machines failed, by pool.", []string{"pool"}, nil)
	descLost     = prometheus.NewDesc("tonnage_provider_machines_lost_total", "Machines that were gone without being asked to.", nil, nil)
	descFailures = prometheus.NewDesc("tonnage_provider_machines_failed_total", "Machines that became Failed.", nil, nil)
	descSoldOut  = prometheus.NewDesc("tonnage_provider_insufficient_capacity_total", "Machines that could not be made for want of capacity.", nil, nil)
	descAdopted  = prometheus.NewDesc("tonnage_provider_machines_adopted_total", "Objects that a record was made of.", nil, nil)
)

// Describe sends the descriptions of all series.
func (p *Provider) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{descVerbs, descObserved, descPaced, descOrphans, descDeleted, descStock, descFailing, descLost, descFailures, descSoldOut, descAdopted} {
		ch <- d
	}
}

// Collect sends all series as they are.
func (p *Provider) Collect(ch chan<- prometheus.Metric) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, of := range [...]map[verbKey]uint64{p.stats.verbs, p.stats.observes} {
		for k, n := range of {
			send(descVerbs, prometheus.CounterValue, float64(n), k.driver, k.verb, k.outcome)
		}
	}
	for name, took := range p.stats.observeTime {
		send(descObserved, prometheus.CounterValue, took.Seconds(), name)
	}
	for name, h := range p.hands {
		send(descOrphans, prometheus.GaugeValue, float64(len(h.orphans)+h.unlisted), name)
		send(descDeleted, prometheus.CounterValue, float64(p.stats.orphansDeleted[name]), name)
		send(descPaced, prometheus.CounterValue, float64(p.stats.paced[name]), name)
	}
	without, failing := map[string]int{}, map[string]int{}
	for _, o := range p.offers {
		switch {
		case o.stock.Until.IsZero() || o.pool == nil:
		case o.stock.failures == 0:
			without[o.Pool]++
		default:
			failing[o.Pool]++
		}
	}
	for i := range p.file.Pools {
		pool := p.file.Pools[i].Name
		send(descStock, prometheus.GaugeValue, float64(without[pool]), pool)
		send(descFailing, prometheus.GaugeValue, float64(failing[pool]), pool)
	}
	send(descLost, prometheus.CounterValue, float64(p.stats.lost))
	send(descFailures, prometheus.CounterValue, float64(p.stats.failures))
	send(descSoldOut, prometheus.CounterValue, float64(p.stats.soldOut))
	send(descAdopted, prometheus.CounterValue, float64(p.stats.adopted))
}
