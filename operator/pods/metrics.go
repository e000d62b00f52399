package pods

import "github.com/prometheus/client_golang/prometheus"

// SoftSpreadCounter registers the series of what requests leave out and returns what
// counts in it.
func SoftSpreadCounter(r prometheus.Registerer) func(terms int) {
	total := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tonnage_operator_pod_soft_spread_terms_total",
		Help: "ScheduleAnyway terms of topology spread of pods that the requests written for them leave out.",
	})
	r.MustRegister(total)
	return func(terms int) { total.Add(float64(terms)) }
}

// Counter registers the controller's series and returns what counts in it.
func Counter(r prometheus.Registerer) func(Outcome) {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bigfleet_unschedulable_pod_controller_reconciles_total",
		Help: "Pods looked at, by what was done.",
	}, []string{"outcome"})
	r.MustRegister(total)
	for _, o := range []Outcome{Created, Exists, Gone, Terminal, Failed} {
		total.WithLabelValues(string(o))
	}
	return func(o Outcome) { total.WithLabelValues(string(o)).Inc() }
}
