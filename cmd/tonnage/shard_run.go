package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/disk"
	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/private"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/audit"
	"github.com/tonnage/tonnage/shard/journal"
	"github.com/tonnage/tonnage/shard/policy"
	"github.com/tonnage/tonnage/shard/provider/epoch"
	"github.com/tonnage/tonnage/shard/report"
	"github.com/tonnage/tonnage/shard/session"
)

// The files in the data folder that stop a shard while they are there.
const (
	pauseFile   = "pause"
	dryRunFile  = "dry-run"
	breakerFile = "breaker" // the shard makes it, and says in it why
)

const (
	// sessionsStopLimit is how long sessions may take to end.
	sessionsStopLimit = 3 * time.Second
	// shardStopLimit is how long the cycle and the calls under way may take.
	shardStopLimit = 10 * time.Second
)

// shardProcess is everything that runs in one `tonnage shard`.
type shardProcess struct {
	plan     *shardPlan
	log      *slog.Logger
	registry *prometheus.Registry
	tls      *mtls.Material
	epoch    *epoch.File
	journal  *journal.Journal
	audit    *audit.Log[shard.AuditRecord]
	sessions *session.Server
	shard    *shard.Shard
	page     *shardPage
	tidy     tidy
	policy   *policy.File                  // nil = none
	reports  atomic.Pointer[report.Client] // nil = there is no coordinator, or not yet
	newest   atomic.Int64                  // epoch of a newer process that the coordinator knows, 0 = none
	closers  []func() error
	renew    func(context.Context) error // nil = nobody fences

	guard *httpguard.Guard // of the HTTP servers

	grpc, metrics, pages, pprof net.Listener // pages is nil when they are at the metrics' address
}

// runShard runs until its context ends or a part fails.
func runShard(ctx context.Context, s streams, p *shardPlan) (err error) {
	x := &shardProcess{plan: p, registry: prometheus.NewRegistry()}
	x.log = slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: p.level})).With("shard", p.id)
	x.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() { err = errors.Join(err, x.close()) }()
	if err := x.open(); err != nil {
		return err
	}
	if err := x.build(); err != nil {
		return err
	}
	x.log.Debug("configuration", "settings", p.settings)
	x.log.Info("started", "version", versionText(), "epoch", x.epoch.Epoch(), "listen", x.grpc.Addr(), "metrics", addressOf(x.metrics), "provider", p.provider, "dataDir", p.dataDir, "paused", p.shard.Paused, "dryRun", p.shard.DryRun)
	x.tls.WarnIfExposed(x.log, "--listen", x.grpc.Addr())
	fmt.Fprintf(s.out, "tonnage shard %s: acquire %s, sessions on %s, metrics on %s\n", p.id, p.shard.Engine.Acquire, x.grpc.Addr(), addressOf(x.metrics))
	if x.pages != nil {
		fmt.Fprintf(s.out, "tonnage shard %s: page on %s\n", p.id, pageAddress(x.pages, x.tls != nil))
	}
	return x.run(ctx)
}

func addressOf(l net.Listener) string {
	if l == nil {
		return "none"
	}
	return l.Addr().String()
}

// later has something closed at the end, the last first.
func (x *shardProcess) later(closing func() error) { x.closers = append(x.closers, closing) }

func (x *shardProcess) close() error {
	var all []error
	for i := len(x.closers) - 1; i >= 0; i-- {
		all = append(all, x.closers[i]())
	}
	return errors.Join(all...)
}

// open opens what the process needs of the machine that it runs on. What can go
// wrong here has a flag as its remedy.
func (x *shardProcess) open() (err error) {
	p := x.plan
	if x.tls, err = mtls.Load(p.tls, x.log); err != nil {
		return badInput(err)
	}
	if x.guard, err = p.access.guard(x.log); err != nil {
		return badInput(err)
	}
	if x.epoch, err = epoch.Open(p.dataDir); err != nil {
		return badInput(fmt.Errorf("--data-dir %s: %w", p.dataDir, err))
	}
	x.later(x.epoch.Close)
	x.journal, err = journal.Open(p.dataDir, journal.Options{
		FS: disk.OS, Log: x.log, Guard: journal.Guard{Prefix: shard.DomainPrefix, File: domainsFile}, Restarted: x.epoch.Epoch() > 1,
	})
	if err != nil {
		return badInput(fmt.Errorf("--data-dir %s: %w", p.dataDir, err))
	}
	x.later(x.journal.Close)
	if len(p.coordinators) == 0 { // nobody could confirm lost domains, nor give them to another
		x.journal.Confirm(false)
	}
	if err := makeProfileDir(p.shard.WorstDir); err != nil {
		return err
	}
	if p.policy != "" {
		if x.policy, err = policy.Open(p.policy, x.log); err != nil {
			return badInput(fmt.Errorf("--policy: %w", err))
		}
	}
	if p.audit != "" {
		if x.audit, err = audit.Open[shard.AuditRecord](p.audit, p.auditBytes, x.log); err != nil {
			return badInput(fmt.Errorf("--audit-log: %w", err))
		}
		x.later(x.audit.Close)
	}
	for _, l := range []struct {
		flag, address string
		into          *net.Listener
	}{{"listen", p.listen, &x.grpc}, {"metrics-addr", p.metrics, &x.metrics}, {"page-addr", p.page, &x.pages}, {"pprof-addr", p.pprof, &x.pprof}} {
		if l.address == "" {
			continue
		}
		if *l.into, err = listenOn(l.flag, l.address); err != nil {
			return err
		}
		x.later(closeQuietly(*l.into))
	}
	if x.pages != nil {
		return p.access.checkReach("page-addr", x.pages, x.tls)
	}
	return nil
}

// closeQuietly closes a listener that its server may have closed already.
func closeQuietly(l net.Listener) func() error {
	return func() error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// build makes the parts and ties them together.
func (x *shardProcess) build() error {
	x.registerEdges()
	from, err := x.provider()
	if err != nil {
		return err
	}
	machines := &countedProvider{Provider: from}
	x.page = x.newPage(machines)
	core := &lateShard{}
	decisions := session.NewDecisions(func() { core.Wake() }, func(plan *engine.Plan, row int) shard.Ages { return core.AgesOf(plan, row) })
	x.sessions, err = session.NewServer(session.Deps{
		Core: core, Clock: clock, Limits: x.plan.clusters, Policy: x.limits(), ClusterInterval: x.plan.apart, Epoch: x.epoch.Epoch, Term: core.term, Offered: decisions.Offered, Needs: decisions.Needs, TLS: x.tls, Log: x.log, Registerer: x.registry, Inbound: x.plan.inbound,
	})
	if err != nil {
		return err
	}
	x.sessions.LimitGarbage()
	cfg := x.plan.shard
	runBeside(&cfg.Engine, 1)
	err = pinWorkers(&cfg.Engine, x.plan.pin, func(worker int, err error) {
		x.log.Warn("a worker is not tied to its CPU", "worker", worker, "error", err)
	})
	if err != nil {
		return err
	}
	deps := shard.Deps{
		Provider: machines, Operators: x.operators(), RollupBytes: x.sessions.RollupBytes, Memory: x.journal, Domains: knownDomains(x.journal),
		Switches: x.switches(), Trip: tripIn(x.plan.dataDir), Renew: x.renew, Awake: x.awake,
		Registerer: x.registry, Log: x.log, Clock: clock, Differed: x.keepDiffering, Observer: x.observe, Running: x.page.recorder.Running,
		Decided: func(in engine.Input, plan *engine.Plan) {
			decisions.Decided(in, plan)
			x.page.recorder.Decided(in, plan)
		},
	}
	if x.audit != nil {
		deps.Audit = x.audit.Write
	}
	if x.shard, err = shard.New(cfg, deps); err != nil {
		return err
	}
	core.Shard = x.shard
	x.later(func() error { x.shard.Close(); return nil })
	return nil
}

// registerEdges adds the metrics of what stands beside the shard.
func (x *shardProcess) registerEdges() {
	x.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tonnage_shard_epoch", Help: "Number of this process among those of the shard.",
	}, func() float64 { return float64(x.epoch.Epoch()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tonnage_shard_journal_healthy", Help: "1 while the journal can be written.",
	}, func() float64 {
		if x.journal.Failed() != nil {
			return 0
		}
		return 1
	}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tonnage_shard_damaged_files", Help: "Damaged files that the shard has renamed and kept in its data folder, until an administrator removes them.",
	}, func() float64 { return float64(x.journal.Damaged()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tonnage_shard_domains_lost", Help: "1 while the shard does not know its domains and carries nothing out.",
	}, func() float64 {
		if x.journal.Knowledge() == journal.Lost {
			return 1
		}
		return 0
	}))
	if x.policy != nil {
		x.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tonnage_shard_policy_healthy", Help: "1 while the file of policy is in order; else the last good one is in force.",
		}, func() float64 {
			if x.policy.Good() {
				return 1
			}
			return 0
		}))
	}
	if x.audit != nil {
		x.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tonnage_shard_audit_dropped_total", Help: "Records that the audit log lost.",
		}, func() float64 { return float64(x.audit.Dropped()) }))
	}
}

// lateShard is the shard as sessions see it, which are made before it.
type lateShard struct{ *shard.Shard }

func (l *lateShard) term() int64 { return l.CoordinatorTerm() }

// switchesIn looks for the files in a data folder that stop a shard.
func switchesIn(dir string) func() shard.Switches {
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	return func() shard.Switches {
		return shard.Switches{Paused: there(pauseFile), DryRun: there(dryRunFile), Tripped: there(breakerFile)}
	}
}

// switches are those of the data folder, and what the coordinator knows of this process.
func (x *shardProcess) switches() func() shard.Switches {
	files := switchesIn(x.plan.dataDir)
	return func() shard.Switches {
		set := files()
		set.Replaced = x.newest.Load() > x.epoch.Epoch()
		return set
	}
}

// awake asks the coordinator whether this process, which did not run for a while, was replaced.
func (x *shardProcess) awake(ctx context.Context) {
	if reports := x.reports.Load(); reports != nil {
		reports.Ask(ctx)
	}
}

// tripIn keeps in a file of a folder why the breaker has tripped.
func tripIn(dir string) func(why string) error {
	name := filepath.Join(dir, breakerFile)
	return func(why string) error {
		if why == "" {
			return removeIfThere(name)
		}
		return private.WriteFile(name, []byte(why+"\n"))
	}
}

func removeIfThere(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// logPhases says what each phase of a cycle did.
func (x *shardProcess) logPhases(r *shard.CycleReport) {
	d := &r.Durations
	ms := func(nanos int64) float64 { return float64(nanos) / 1e6 }
	x.log.Info("cycle", "cycle", r.Cycle, "ms", ms(d.Total), "reconcileMs", ms(d.Reconcile), "snapshotMs", ms(d.Snapshot), "phase1Ms", ms(d.Phase1),
		"phase2Ms", ms(d.Phase2), "phase3Ms", ms(d.Phase3), "emitMs", ms(d.Emit), "executeMs", ms(d.Execute),
		"machines", r.Machines, "needs", r.Needs, "unmet", r.UnmetTotal, "shortfalls", len(r.Shortfalls), "actions", fmt.Sprint(r.Counts),
		"suppressed", fmt.Sprint(r.Suppressed), "capped", r.Capped, "cut", r.Cut, "dropped", r.Dropped, "reconciled", fmt.Sprintf("%+v", r.Reconciled))
}

func (x *shardProcess) ready() error {
	if !x.shard.Ready() {
		return errors.New("the provider has not listed its machines yet")
	}
	return nil
}

// run starts all parts, waits for the first that ends, and stops the others:
// first the sessions, so that operators connect elsewhere or again, then the
// cycle and the calls under way.
func (x *shardProcess) run(ctx context.Context) error {
	reports, err := x.newReports()
	if err != nil {
		return err
	}
	x.reports.Store(reports)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	failures := make(chan error, 8)
	part := func(work func(context.Context) error) {
		parts.Go(func() {
			defer cancel()
			if err := work(ctx); err != nil {
				failures <- err
			}
		})
	}
	part(x.shard.Run)
	part(x.serveSessions)
	x.serveEndpoints(part)
	if x.policy != nil {
		part(func(ctx context.Context) error { return x.policy.Run(ctx, x.sessions.PolicyChanged) })
	}
	if reports != nil {
		part(reports.Run)
	}
	ended := make(chan struct{})
	go func() { parts.Wait(); close(ended) }()
	<-ctx.Done()
	x.log.Info("stopping")
	select {
	case <-ended:
	case <-time.After(shardStopLimit):
		x.log.Warn("stopping in the middle of a call", "waited", shardStopLimit)
	}
	var all []error
	for range len(failures) {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}

// limits returns what clusters are held to; nil = nothing.
func (x *shardProcess) limits() func(cluster string) policy.Limits {
	if x.policy == nil {
		return nil
	}
	return x.policy.Of
}

// serveSessions serves operators until the context ends, and lets them go.
func (x *shardProcess) serveSessions(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- x.sessions.Serve(x.grpc) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), sessionsStopLimit)
	defer cancel()
	_ = x.sessions.Drain(stop) // those that took longer were cut off
	return <-failed
}
