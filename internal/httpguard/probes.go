package httpguard

import (
	"context"
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapesMax is how many scrapes of /metrics are answered at a time; a further
// one gets 503. Each holds all series in memory.
const scrapesMax = 8

// HandleProbes adds /healthz and /readyz to a mux, and /metrics unless there are
// none. They are open to all. ready returns why the process is not ready, nil
// when it is.
func HandleProbes(mux *http.ServeMux, metrics prometheus.Gatherer, ready func(context.Context) error) {
	if metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesMax}))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answer(w, "ready\n")
	})
}

func answer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // the reader is gone, and will know
}

// Profiles returns the handler of the runtime's profiles, /debug/pprof/, for
// those that the guard lets look into the process.
func (g *Guard) Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return g.Inspect(mux)
}
