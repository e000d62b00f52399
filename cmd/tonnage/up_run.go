package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/internal/livefleet"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

const (
	// upConcurrency is the number of calls at a time: the built-in provider
	// answers at once, so the queue is what bounds a cold start.
	upConcurrency = 512
	// rollupGap is how often the source is asked what fell due. Roll-ups that
	// come together start one cycle.
	rollupGap = 200 * time.Millisecond
	// stopLimit is how long the parts may take to end; the process is gone well
	// within two seconds of a signal, however large the fleet.
	stopLimit = 1200 * time.Millisecond
)

// process is everything that runs in one `tonnage up`.
type process struct {
	plan    *upPlan
	console *console
	log     *slog.Logger
	dir     *dataDir // nil in tests: what happens is not kept
	started time.Time
	source  workload.Source
	fleet   *clockedFleet
	shard   *shard.Shard   // the first
	shards  []*shard.Shard // all
	region  *region        // nil with one shard
	feed    *web.Feed
	pages   []*fleetview.Recorder // by shard
	site    *web.Site
	guard   *httpguard.Guard
	tls     *mtls.Material // nil = the page is plain HTTP
	album   fleetview.Album
	// progress is written by pump, the source's owner.
	progress atomic.Pointer[string]
}

func (x *process) sayProgress() string {
	if p := x.progress.Load(); p != nil {
		return *p
	}
	return ""
}

// up runs until its context ends, the duration is over or a part fails.
func up(ctx context.Context, s streams, p *upPlan) error {
	if p.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.duration)
		defer cancel()
	}
	c := &console{out: s.out, terminal: s.terminal}
	log := slog.New(slog.NewTextHandler(logWriter{c, s.err}, &slog.HandlerOptions{Level: p.level}))
	listener, err := listen(p.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	x := &process{plan: p, console: c, log: log, started: clock()}
	if x.tls, err = mtls.Load(p.tls, log); err != nil {
		return badInput(err)
	}
	if x.guard, err = p.access.guard(log); err != nil {
		return badInput(err)
	}
	if err := p.access.checkReach("listen", listener, x.tls); err != nil {
		return err
	}
	dir, err := openDataDir(p.dataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	if err := makeProfileDir(p.shard.WorstDir); err != nil {
		return err
	}
	x.dir = dir
	if err := x.build(); err != nil {
		return err
	}
	log.Debug("configuration", "source", fmt.Sprintf("%+v", p.source), "shard", fmt.Sprintf("%+v", p.shard), "latency", p.latency, "faults", p.faults, "listen", listener.Addr(), "dataDir", p.dataDir)
	c.print("%s; acquire %s", x.source.Describe(), p.shard.Engine.Acquire)
	address := pageAddress(listener, x.tls != nil)
	c.print("%s  (stop with Ctrl-C)", address)
	for _, line := range x.trials(address) {
		c.print("%s", line)
	}
	failed := x.run(ctx, listener)
	summary := x.summary()
	c.print("%s", strings.TrimSuffix(summary, "\n"))
	if err := dir.keep(summary); err != nil {
		log.Warn("the summary is not kept", "error", err)
	}
	return failed
}

// listen opens the address of --listen.
func listen(address string) (net.Listener, error) { return listenOn("listen", address) }

// listenOn opens the address that a flag gives.
func listenOn(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listenFault(flag, address, err)
	}
	return l, nil
}

// listenFault says why an address cannot be listened on, and what the flag that
// gives it should say.
func listenFault(flag, address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		free := fmt.Sprintf(", as in --%s 127.0.0.1:0 for a free one", flag)
		if flag == "raft-bind" {
			free = "" // the other replicas must know it
		}
		return badInput(fmt.Errorf("--%s %s: the port is in use; choose another%s", flag, address, free))
	case errors.Is(err, syscall.EACCES):
		return badInput(fmt.Errorf("--%s %s: not allowed to use this port; choose one above 1023", flag, address))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return badInput(fmt.Errorf("--%s %s: this machine does not have the address; 127.0.0.1 and 0.0.0.0 always work", flag, address))
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // what it says before that is in the message already
	}
	return badInput(fmt.Errorf("--%s %s: %w; give HOST:PORT, as in 127.0.0.1:8080", flag, address, err))
}

// pageAddress returns the URL of a page. Every address of the machine is told by
// the loopback one, which always works.
func pageAddress(l net.Listener, secure bool) string {
	scheme, at := "http", l.Addr().String()
	if secure {
		scheme = "https"
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		at = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return scheme + "://" + at
}

// build makes the parts and ties them together.
func (x *process) build() error {
	var err error
	if x.source, err = x.plan.source.open(); err != nil {
		return err
	}
	x.takeOptions()
	if err := x.buildFleet(); err != nil {
		return err
	}
	x.feed = web.NewFeed(web.Info{
		Version: versionText(), Source: x.plan.source.title(),
		Provider: fmt.Sprintf("built-in provider: machines in memory, %s a change", x.plan.latency),
		Started:  x.started, CycleInterval: x.plan.shard.CycleInterval,
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg := x.plan.shard
	runBeside(&cfg.Engine, x.plan.shards)
	err = pinWorkers(&cfg.Engine, x.plan.pin, func(worker int, err error) {
		x.log.Warn("a worker is not tied to its CPU", "worker", worker, "error", err)
	})
	if err != nil {
		return err
	}
	if err := x.buildShards(registry, cfg); err != nil {
		return err
	}
	x.shard = x.shards[0]
	x.site = web.New(web.Config{
		Feed: x.feed, Metrics: registry, Ready: x.ready, World: x.writeWorld, Plan: x.album.Write, Queries: x.view().Queries(), Profiles: true, Guard: x.guard,
	})
	return nil
}

func (x *process) buildShards(registry *prometheus.Registry, cfg shard.Config) error {
	if x.plan.shards > 1 {
		return x.buildRegion(registry, cfg)
	}
	page := fleetview.NewRecorder(fleetview.Config{Publish: x.feed.Publish, Failed: x.fleet.failed.Load, Progress: x.sayProgress, Album: &x.album, Names: x.names()})
	x.pages = append(x.pages, page)
	s, err := shard.New(cfg, shard.Deps{
		Provider: x.fleet, Switches: x.switches(), Registerer: registry, Log: x.log, Clock: clock,
		Observer: page.Observe, Running: page.Running, Decided: page.Decided, Differed: x.keepDiffering,
	})
	x.shards = []*shard.Shard{s}
	return err
}

// switches looks for the files that stop the shards; nil when there is no folder
// for them.
func (x *process) switches() func() shard.Switches {
	if x.dir == nil {
		return nil
	}
	return switchesIn(x.dir.path)
}

// latest returns the newest frame, of all shards together.
func (x *process) latest() (web.Frame, [len(web.Kinds)]int64) {
	if x.region != nil {
		return x.region.page.joined(), x.region.page.actions()
	}
	return x.pages[0].Latest()
}

// view answers questions about all shards.
func (x *process) view() *fleetview.View {
	parts := make([]fleetview.Part, len(x.shards))
	for i, s := range x.shards {
		parts[i] = fleetview.Part{Recorder: x.pages[i], Inspect: s.Inspect}
	}
	return fleetview.NewView(&x.album, parts...)
}

// writeWorld writes what the next cycle would look at, and what the rails hold back.
func (x *process) writeWorld(ctx context.Context, out io.Writer) error {
	names := x.names()
	if f, ok := x.source.(*livefleet.File); ok {
		names = f.Names() // the file may change while the world is written
	}
	return world.WriteShard(ctx, out, x.shard.Inspect, names)
}

// buildFleet puts the source's machines into the built-in provider.
func (x *process) buildFleet() error {
	cfg := simulated.Config{Latencies: x.plan.provider, Seed: x.plan.source.seed, Now: x.started.UnixNano()}
	if x.plan.faults > 0 {
		cfg.Faults = []simulated.Fault{{Op: shard.OpAny, Probability: x.plan.faults}}
	}
	machines := x.source.Machines(cfg.Now)
	if x.plan.shards > 1 {
		machines = dealt(machines, x.plan.shards)
	}
	for m := range machines {
		cfg.Machines = append(cfg.Machines, *m)
	}
	fleet, err := simulated.New(cfg)
	x.fleet = &clockedFleet{Fleet: fleet, now: clock}
	return err
}

// keepDiffering keeps the input of a cycle that gave two answers.
func (x *process) keepDiffering(cycle uint64, in engine.Input) (string, error) {
	if x.dir == nil {
		return "", nil
	}
	return x.dir.keepInput(cycle, in, x.plan.shard.Engine)
}

func (x *process) ready() error {
	for _, s := range x.shards {
		if !s.Ready() {
			return errors.New("the provider has not listed its machines yet")
		}
	}
	return nil
}

// run starts all parts, waits for the first that ends, and stops the others.
// The error is that of a part that failed.
func (x *process) run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	failures := make(chan error, 6+len(x.shards))
	part := func(work func(context.Context) error) {
		parts.Go(func() {
			defer cancel()
			failures <- work(ctx)
		})
	}
	for _, s := range x.shards {
		part(s.Run)
	}
	if x.region != nil {
		part(x.region.coordinate)
		part(x.region.takePart)
	}
	part(x.pump)
	part(x.report)
	part(func(ctx context.Context) error { return x.site.Serve(ctx, l, x.tls) })
	ended := make(chan struct{})
	go func() { parts.Wait(); close(ended) }()
	<-ctx.Done()
	select {
	case <-ended:
		for _, s := range x.shards {
			s.Close()
		}
	case <-time.After(stopLimit):
		// What is lost is the rest of one decision: it is derived anew.
		x.log.Warn("stopping in the middle of a cycle", "waited", stopLimit)
	}
	var all []error
	for range len(failures) {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}

// pump hands the source's roll-ups to the shard as they fall due.
func (x *process) pump(ctx context.Context) error {
	tick := time.NewTicker(rollupGap)
	defer tick.Stop()
	for {
		now := clock().UnixNano()
		x.moveMachines(now)
		for _, r := range x.source.Due(now) {
			if ctx.Err() != nil {
				return nil
			}
			// A refused roll-up is counted and logged by the shard, and the last
			// good one stays.
			_, _ = x.shards[shardOf(r.Cluster, len(x.shards))].ApplyRollup(r.Cluster, r.Needs, now)
		}
		progress := x.plan.source.progress(time.Since(x.started), x.source.Done())
		x.progress.Store(&progress)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// report keeps the status line, or writes a line now and then.
func (x *process) report(ctx context.Context) error {
	gap := statusGapPlain
	if x.console.terminal {
		gap = statusGap
	}
	tick := time.NewTicker(gap)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			x.console.clear()
			return nil
		case <-tick.C:
			f, _ := x.latest()
			x.console.show(statusLine(&f, x.feed.Quantiles(), time.Since(x.started)))
		}
	}
}

func (x *process) summary() string {
	s := runSummary{source: x.source.Describe(), took: time.Since(x.started), cycles: x.feed.Quantiles()}
	s.frame, s.actions = x.latest()
	return s.text()
}
