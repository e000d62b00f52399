package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/private"
	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/server"
)

// standbyEvery is how often a replica that stands by tries to take over.
const standbyEvery = time.Second

// serveFlags are the flags of serve, as given.
type serveFlags struct {
	pools    string
	listen   string
	metrics  string
	dataDir  string
	standby  bool
	election leaseFlags
	inbound  inbound.Settings
	tls      mtls.Files
	logLevel string
}

func newServe(s streams) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the machines of pools to shards",
		Long: `Serve answers shards (tonnage shard --provider-addr) from the records in its data folder, and
has the drivers of the pools file carry out what they ask. What it has answered survives kill -9; what
exists is found again even without the folder.

Of several processes one works. With --lease it is the one that holds a Lease of Kubernetes; each may have a folder of its
own. Without Kubernetes they share one folder and --standby has the others wait for its lock.

The pools file is looked at every second. One with a fault changes nothing, and is logged with the place.`,
		Example: `  tonnage-provider serve --pools pools.yaml --data-dir /var/lib/tonnage-provider
  tonnage-provider serve --pools pools.yaml --standby
  tonnage-provider serve --pools pools.yaml --lease fleet/tonnage-provider --kubeconfig management.kubeconfig`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.pools, "pools", "", "file of the pools, YAML or JSON; read again when it changes; required")
	flags.StringVar(&f.listen, "listen", ":7800", "address for shards; port 0 takes a free one")
	flags.StringVar(&f.metrics, "metrics-addr", ":8800", "address of /metrics, /healthz, /readyz, /offers and /orphans; 0 = none")
	flags.StringVar(&f.dataDir, "data-dir", "./provider-data", "folder of the records; it is created")
	flags.BoolVar(&f.standby, "standby", false, "wait while another process has the folder, and take over when it ends")
	flags.StringVar(&f.election.lease, "lease", "", "NAMESPACE/NAME of the Lease whose holder works while other processes stand by; empty = no Kubernetes: this process works, or waits as --standby says")
	flags.StringVar(&f.election.pod, "lease-pod", "", "with --lease: the pod of this process, in the same namespace; its label tonnage.dev/leads says whether it works")
	flags.DurationVar(&f.election.duration, "lease-duration", 15*time.Second, "with --lease: how long the others wait after the last sign of its holder, which gives up after two thirds of it")
	flags.StringVar(&f.election.kubeconfig, "kubeconfig", "", "with --lease: how its API server is reached; read again when it changes; empty = by the pod's service account")
	flags.IntVar(&f.inbound.ConnectionsPerAddress, "connections-per-address", inbound.ConnectionsPerAddressMax, "connections that one address may have; an IPv6 network of 64 bits is one address")
	flags.BoolVar(&f.inbound.Compressed, "accept-compressed", false, "accept messages compressed with gzip; what they inflate to is in no memory budget")
	flags.StringVar(&f.tls.Cert, "tls-cert", "", "certificate of this process, PEM; read again when it changes")
	flags.StringVar(&f.tls.Key, "tls-key", "", "key of the certificate, PEM; read again when it changes")
	flags.StringVar(&f.tls.CA, "tls-ca", "", "certificates of the authority that peers must come from, PEM; read again when they change")
	flags.StringVar(&f.tls.Deny, "tls-deny", "", "serial numbers of certificates that are refused, one hexadecimal number a line, # begins a comment; read again when it changes")
	flags.StringVar(&f.logLevel, "log-level", "info", "what is logged to standard error: debug, info, warn or error")
	return cmd
}

// check returns every fault of the flags.
func (f *serveFlags) check(level *slog.Level) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if f.pools == "" {
		fault("--pools is missing; name the file of the pools")
	}
	if f.metrics == "0" {
		f.metrics = ""
	}
	for _, x := range [...][2]string{{"listen", f.listen}, {"metrics-addr", f.metrics}} {
		if _, _, err := net.SplitHostPort(x[1]); err != nil && x != [2]string{"metrics-addr", ""} {
			fault("--%s must be HOST:PORT, as in 127.0.0.1:7800 or :7800, got %q", x[0], x[1])
		}
	}
	if f.dataDir == "" {
		fault("--data-dir is empty; name a folder")
	}
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		fault("--log-level must be debug, info, warn or error, got %q", f.logLevel)
	}
	if _, err := mtls.Load(f.tls, nil); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(append(faults, f.inbound.Validate(), f.election.check(f.standby))...)
}

// serving is everything that runs in one process.
type serving struct {
	flags    *serveFlags
	log      *slog.Logger
	out      io.Writer
	watched  *pools.Watched
	material *mtls.Material
	election *candidate // nil = there is none
	series   series

	mu       sync.Mutex
	file     *pools.File        // the newest without a fault
	provider *provider.Provider // nil = this process does not work yet
}

// series are the metrics of the process.
type series struct {
	registry *prometheus.Registry
	reloads  *prometheus.CounterVec
	leads    prometheus.Gauge
}

func newSeries() series {
	s := series{
		registry: prometheus.NewRegistry(),
		reloads:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tonnage_provider_pools_reloads_total", Help: "Changes of the pools file, by whether they were taken over."}, []string{"outcome"}),
		leads:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "tonnage_provider_leads", Help: "1 in the process that works, 0 in one that stands by."}),
	}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), s.reloads, s.leads)
	return s
}

func (f *serveFlags) run(ctx context.Context, s streams) (err error) {
	var level slog.Level
	if err := f.check(&level); err != nil {
		return badInput(err)
	}
	x := &serving{flags: f, out: s.out, log: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level})), series: newSeries()}
	if x.material, err = mtls.Load(f.tls, x.log); err != nil {
		return badInput(err)
	}
	if x.watched, x.file, err = pools.Watch(f.pools, checkPools, x.log); err != nil {
		return badInput(fmt.Errorf("--pools: %w", err))
	}
	if err := private.MkdirAll(f.dataDir); err != nil {
		return badInput(fmt.Errorf("--data-dir: %w; name a folder that can be written", err))
	}
	p := newParts(ctx)
	if f.election.lease != "" {
		if x.election, err = newCandidate(&f.election, x.log); err != nil {
			return badInput(fmt.Errorf("--lease: %w", err))
		}
		metrics, err := x.listenMetrics()
		if err != nil {
			return err
		}
		x.serveMetrics(p, metrics) // probes are answered while it stands by
		p.start(func(ctx context.Context) error {
			return x.election.lead(ctx, func(ctx context.Context) error { return x.work(ctx, metrics) })
		})
	} else {
		p.start(func(ctx context.Context) error { return x.work(ctx, nil) })
	}
	p.start(func(ctx context.Context) error {
		return x.watched.Run(ctx, func(f *pools.File) { x.take(ctx, f) }, x.refused)
	})
	return p.wait()
}

// parts run side by side; when one ends, all do.
type parts struct {
	ctx      context.Context //nolint:containedctx // of all parts
	cancel   context.CancelFunc
	running  sync.WaitGroup
	failures chan error
}

// partsMax is how many parts there are at most.
const partsMax = 8

func newParts(ctx context.Context) *parts {
	p := &parts{failures: make(chan error, partsMax)}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

func (p *parts) start(work func(context.Context) error) {
	p.running.Go(func() {
		defer p.cancel()
		p.failures <- work(p.ctx)
	})
}

// wait returns what went wrong, after the last part has ended.
func (p *parts) wait() error {
	p.running.Wait()
	var all []error
	for range len(p.failures) {
		all = append(all, <-p.failures)
	}
	return errors.Join(all...)
}

// work opens the records and serves them until ctx ends or a part fails. metrics is where they are served
// already, nil = they are not.
func (x *serving) work(ctx context.Context, metrics net.Listener) (err error) {
	last := "" // whatever records the folder has
	if x.election != nil {
		if last, err = x.election.records(ctx); err != nil {
			return err
		}
	}
	if err := x.open(ctx, last); err != nil || x.provider == nil {
		return err
	}
	defer func() { err = errors.Join(err, x.provider.Close()) }()
	if x.election != nil {
		if err := x.election.use(ctx, x.provider.Name()); err != nil {
			return err
		}
	}
	calls, err := listen("listen", x.flags.listen)
	if err != nil {
		return err
	}
	defer calls.Close()
	p := newParts(ctx)
	if metrics == nil {
		if metrics, err = x.listenMetrics(); err != nil {
			return err
		}
		x.serveMetrics(p, metrics)
	}
	return x.serve(p, calls, metrics)
}

// serve answers calls and has drivers work.
func (x *serving) serve(p *parts, calls, metrics net.Listener) error {
	srv := server.New(x.provider, x.log)
	srv.Inbound, srv.OwnProcess = x.flags.inbound, true
	x.series.registry.MustRegister(srv, x.provider)
	x.material.WarnIfExposed(x.log, "--listen", calls.Addr())
	p.start(func(ctx context.Context) error { return srv.Serve(ctx, calls, x.material) })
	p.start(x.provider.Run)
	p.start(func(ctx context.Context) error {
		select {
		case <-x.provider.Done():
			return errors.New("the records' file has failed") // Close says why
		case <-ctx.Done():
			return nil
		}
	})
	if x.election != nil {
		if err := x.election.mark(p.ctx, true); err != nil {
			p.cancel()
			return errors.Join(err, p.wait())
		}
	}
	x.series.leads.Set(1)
	fmt.Fprintf(x.out, "tonnage-provider: %s on %s, metrics on %s\n", summary(x.file, x.provider.Len()), calls.Addr(), addressOf(metrics))
	return p.wait()
}

// summary says what a file declares, and how much of it is listed: machines and free slots appear when their driver
// has said what exists.
func summary(f *pools.File, listed int) string {
	owned, bought := 0, 0
	for i := range f.Pools {
		if p := &f.Pools[i]; p.Owned {
			owned += p.Machines * len(p.Offers)
		} else {
			bought += p.Machines
		}
	}
	out := plural(len(f.Pools), "pool")
	if owned > 0 {
		out += ", " + plural(owned, "owned host")
	}
	if bought > 0 {
		out += ", at most " + plural(bought, "bought machine")
	}
	if listed == 1 {
		return out + "; 1 machine or slot listed so far,"
	}
	return out + fmt.Sprintf("; %d machines and slots listed so far,", listed)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// open opens the records, and waits for them when the process stands by. There is no provider and no error
// when the context ends meanwhile.
func (x *serving) open(ctx context.Context, last string) error {
	waiting := false
	for ctx.Err() == nil {
		err := x.openOnce(ctx, last)
		switch dir := x.flags.dataDir; {
		case err == nil:
			return nil
		case ctx.Err() != nil: // it ends before it has begun
			continue
		case errors.Is(err, provider.ErrDriver):
			return badInput(fmt.Errorf("--pools %s: %w", x.flags.pools, err))
		case !errors.Is(err, provider.ErrInUse):
			return badInput(fmt.Errorf("--data-dir %s: %w", dir, err))
		case !x.flags.standby && x.election == nil:
			return badInput(fmt.Errorf("--data-dir %s is in use by another tonnage-provider; stop it, name another folder, or stand by (--standby)", dir))
		case !waiting:
			waiting = true
			x.log.Info("stands by: another process has the folder", "dataDir", dir)
		}
		pause := time.NewTimer(standbyEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	return nil
}

func (x *serving) openOnce(ctx context.Context, last string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	dir := x.flags.dataDir
	p, err := provider.Open(provider.Config{
		Dir: dir, Pools: x.file, Log: x.log, Last: last,
		Driver: func(d *pools.Driver) (driver.Driver, error) { return kinds[d.Kind].open(ctx, d, dir, x.log) },
	})
	if err == nil {
		x.provider = p
	}
	return err
}

// working returns the provider, nil while this process does not work.
func (x *serving) working() *provider.Provider {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.provider
}

// take takes a changed pools file over. A process that stands by keeps it for its turn.
func (x *serving) take(ctx context.Context, f *pools.File) {
	x.mu.Lock()
	p := x.provider
	if p == nil {
		x.file = f
	}
	x.mu.Unlock()
	if p != nil {
		if err := p.SetPools(ctx, f); err != nil {
			x.log.Error("pools are not taken over; those before stay in force", "error", err)
			x.refused(err)
			return
		}
	}
	x.series.reloads.WithLabelValues("taken").Inc()
	x.log.Info("pools are taken over", "file", x.flags.pools, "pools", len(f.Pools))
}

func (x *serving) refused(error) { x.series.reloads.WithLabelValues("refused").Inc() }

// listenMetrics returns nil where --metrics-addr says that there are none.
func (x *serving) listenMetrics() (net.Listener, error) {
	if x.flags.metrics == "" {
		return nil, nil
	}
	return listen("metrics-addr", x.flags.metrics)
}

func (x *serving) serveMetrics(p *parts, l net.Listener) {
	if l != nil {
		p.start(func(ctx context.Context) error {
			return httpguard.Serve(ctx, l, x.handler(), httpguard.Options{Log: x.log})
		})
	}
}

// handler answers probes, metrics, profiles and the lists of offers and orphans.
func (x *serving) handler() http.Handler {
	mux := http.NewServeMux()
	var guard *httpguard.Guard // lets this machine in
	// A process that stands by is ready to: nobody reaches its machines through it, see --lease-pod.
	httpguard.HandleProbes(mux, x.series.registry, func(context.Context) error {
		if p := x.working(); p != nil {
			return p.Ready()
		}
		return nil
	})
	mux.Handle("GET /debug/pprof/", guard.Profiles())
	x.handleOffers(mux, guard)
	x.handleOrphans(mux, guard)
	return mux
}

func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, badInput(fmt.Errorf("--%s: %w", flag, err))
	}
	return l, nil
}

func addressOf(l net.Listener) string {
	if l == nil {
		return "no address"
	}
	return l.Addr().String()
}

// openInput opens a file, or standard input for "-".
func openInput(s streams, path string) (interface {
	Read([]byte) (int, error)
	Close() error
}, error) {
	if path == "-" {
		return nopCloser{s.in}, nil
	}
	return os.Open(path)
}
