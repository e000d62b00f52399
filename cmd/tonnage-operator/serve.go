package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// httpStopLimit is how long requests may take to end when the process stops.
const httpStopLimit = time.Second

// serveProbes adds the HTTP servers to a manager. They serve whether or not this
// replica leads.
func (s *settings) serveProbes(m manager.Manager, metrics prometheus.Gatherer) error {
	if s.pprofAddr != "" {
		if err := serve(m, s.pprofAddr, profiles()); err != nil {
			return badInput(fmt.Errorf("%w (--pprof-addr)", err))
		}
	}
	if s.metricsAddr == "" || s.metricsAddr == "0" {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !m.GetCache().WaitForCacheSync(ctx) {
			http.Error(w, "the cluster's objects are not read yet", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ready\n")
	})
	if s.pprofAddr == "" {
		mux.Handle("GET /debug/pprof/", fromHere(profiles()))
	}
	if err := serve(m, s.metricsAddr, mux); err != nil {
		return badInput(fmt.Errorf("%w (--metrics-addr)", err))
	}
	return nil
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// fromHere lets only this machine in, under a name of its own.
func fromHere(h http.Handler) http.Handler {
	local := func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		ip := net.ParseIP(host)
		return host == "localhost" || ip != nil && ip.IsLoopback()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.RemoteAddr) || !local(r.Host) {
			http.Error(w, "profiles are for this machine only; --pprof-addr gives them an address", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// everywhere is a runnable of every replica, leader or not.
type everywhere struct{ manager.RunnableFunc }

func (everywhere) NeedLeaderElection() bool { return false }

// serve listens at once, so that a taken address is reported, and answers while
// the manager runs.
func serve(m manager.Manager, address string, h http.Handler) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	return m.Add(everywhere{func(ctx context.Context) error {
		context.AfterFunc(ctx, func() {
			stop, cancel := context.WithTimeout(context.Background(), httpStopLimit)
			defer cancel()
			if server.Shutdown(stop) != nil {
				_ = server.Close()
			}
		})
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}})
}
