package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/private"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated/store"
)

// providerStoreFile is the file of the machines in the data folder.
const providerStoreFile = "provider.db"

// providerProcess is everything that runs in one `tonnage provider`.
type providerProcess struct {
	log      *slog.Logger
	store    *store.Store
	server   *server.Server
	troubles *troubles

	calls, metrics net.Listener // metrics may be nil
}

// runProvider serves until its context ends or a part fails.
func runProvider(ctx context.Context, s streams, p *providerPlan) (err error) {
	x := &providerProcess{log: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: p.level}))}
	material, err := mtls.Load(p.tls, x.log)
	if err != nil {
		return badInput(err)
	}
	if x.calls, err = listenOn("listen", p.listen); err != nil {
		return err
	}
	defer x.calls.Close()
	if p.metrics != "" {
		if x.metrics, err = listenOn("metrics-addr", p.metrics); err != nil {
			return err
		}
		defer x.metrics.Close()
	}
	if err := x.open(p); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.store.Close()) }()
	x.server = server.New(x.store, x.log)
	x.server.Inbound, x.server.OwnProcess = p.inbound, true
	x.troubles = &troubles{path: p.faults, rates: [2]float64{p.failures, p.late}, server: x.server, store: x.store, log: x.log}
	switch err := x.troubles.look(ctx); {
	case ctx.Err() != nil:
		return nil // stopped before it began
	case err != nil:
		return badInput(err)
	}
	material.WarnIfExposed(x.log, "--listen", x.calls.Addr())
	x.log.Debug("configuration", "settings", p.settings)
	fmt.Fprintf(s.out, "tonnage provider: %d machines on %s, metrics on %s\n", x.store.Len(), x.calls.Addr(), addressOf(x.metrics))
	return x.run(ctx, material)
}

// open opens the store, or makes a new one with the machines of the seeds.
func (x *providerProcess) open(p *providerPlan) error {
	if err := private.MkdirAll(p.dataDir); err != nil {
		return badInput(fmt.Errorf("--data-dir: %w; name a folder that can be written", err))
	}
	seeds, err := p.seeds.machines(time.Now())
	if err != nil {
		return err
	}
	x.store, err = store.Open(store.Config{
		Path: filepath.Join(p.dataDir, providerStoreFile), Seed: seeds,
		Latencies: p.latencies, Random: p.seeds.seed, RepairAfter: p.repair, Now: clock,
	})
	switch {
	case errors.Is(err, store.ErrInUse):
		return badInput(fmt.Errorf("--data-dir %s is in use by another tonnage provider; stop it, or name another folder", p.dataDir))
	case err != nil:
		return badInput(fmt.Errorf("--data-dir %s: %w", p.dataDir, err))
	}
	n := x.store.Len()
	switch seeded := x.store.Seeded(); {
	case n == 0:
		x.log.Warn("there is no machine; --seed-rung, --seed-file or --seed-machines give a new folder some", "dataDir", p.dataDir)
	case !seeded && p.seeds.given():
		x.log.Info("the folder has machines; the seed flags are not used", "dataDir", p.dataDir, "machines", n)
	}
	return nil
}

// run serves until the context ends, and stops in good order.
func (x *providerProcess) run(ctx context.Context, material *mtls.Material) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	failures := make(chan error, 4)
	part := func(work func(context.Context) error) {
		parts.Go(func() {
			defer cancel()
			failures <- work(ctx)
		})
	}
	part(func(ctx context.Context) error { return x.server.Serve(ctx, x.calls, material) })
	part(x.troubles.watch)
	part(func(ctx context.Context) error {
		select {
		case <-x.store.Done():
			return errors.New("the store has ended") // Close says why
		case <-ctx.Done():
			return nil
		}
	})
	if x.metrics != nil {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), x.server)
		part(func(ctx context.Context) error {
			return httpguard.Serve(ctx, x.metrics, probes(registry, func() error { return nil }, nil, true), httpguard.Options{Log: x.log})
		})
	}
	parts.Wait()
	var all []error
	for range len(failures) {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}
