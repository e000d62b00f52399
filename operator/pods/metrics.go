package pods

import "github.com/prometheus/client_golang/prometheus"

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
