package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/tonnage/tonnage/internal/httpguard"
)

// serveProbes adds the HTTP servers to a manager. They serve whether or not this
// replica leads. Metrics and probes are open to all, profiles are for this machine.
func (s *settings) serveProbes(m manager.Manager, metrics prometheus.Gatherer) error {
	var guard *httpguard.Guard // lets this machine in
	if s.pprofAddr != "" {
		if err := serve(m, s.pprofAddr, guard.Profiles()); err != nil {
			return badInput(fmt.Errorf("%w (--pprof-addr)", err))
		}
	}
	if s.metricsAddr == "" || s.metricsAddr == "0" {
		return nil
	}
	mux := http.NewServeMux()
	httpguard.HandleProbes(mux, metrics, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if !m.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the cluster's objects are not read yet")
		}
		return nil
	})
	if s.pprofAddr == "" {
		mux.Handle("GET /debug/pprof/", guard.Profiles())
	}
	if err := serve(m, s.metricsAddr, mux); err != nil {
		return badInput(fmt.Errorf("%w (--metrics-addr)", err))
	}
	return nil
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
	return m.Add(everywhere{func(ctx context.Context) error { return httpguard.Serve(ctx, l, h, httpguard.Options{}) }})
}
