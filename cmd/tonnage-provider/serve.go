package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

The pools file is looked at every second. One with a fault changes nothing, and is logged with the place.`,
		Example: `  tonnage-provider serve --pools pools.yaml --data-dir /var/lib/tonnage-provider
  tonnage-provider serve --pools pools.yaml --standby`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.pools, "pools", "", "file of the pools, YAML or JSON; read again when it changes; required")
	flags.StringVar(&f.listen, "listen", ":7800", "address for shards; port 0 takes a free one")
	flags.StringVar(&f.metrics, "metrics-addr", ":8800", "address of /metrics, /healthz, /readyz and /orphans; 0 = none")
	flags.StringVar(&f.dataDir, "data-dir", "./provider-data", "folder of the records; it is created")
	flags.BoolVar(&f.standby, "standby", false, "wait while another process has the folder, and take over when it ends")
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
	return errors.Join(append(faults, f.inbound.Validate())...)
}

// serving is everything that runs in one process.
type serving struct {
	flags    *serveFlags
	log      *slog.Logger
	watched  *pools.Watched
	provider *provider.Provider
	server   *server.Server
	reloads  *prometheus.CounterVec

	calls, metrics net.Listener // metrics may be nil
}

func (f *serveFlags) run(ctx context.Context, s streams) (err error) {
	var level slog.Level
	if err := f.check(&level); err != nil {
		return badInput(err)
	}
	x := &serving{flags: f, log: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))}
	material, err := mtls.Load(f.tls, x.log)
	if err != nil {
		return badInput(err)
	}
	var file *pools.File
	if x.watched, file, err = pools.Watch(f.pools, checkPools, x.log); err != nil {
		return badInput(fmt.Errorf("--pools: %w", err))
	}
	if err := private.MkdirAll(f.dataDir); err != nil {
		return badInput(fmt.Errorf("--data-dir: %w; name a folder that can be written", err))
	}
	if err := x.open(ctx, file); err != nil || x.provider == nil {
		return err
	}
	defer func() { err = errors.Join(err, x.provider.Close()) }()
	if x.calls, err = listen("listen", f.listen); err != nil {
		return err
	}
	defer x.calls.Close()
	if f.metrics != "" {
		if x.metrics, err = listen("metrics-addr", f.metrics); err != nil {
			return err
		}
		defer x.metrics.Close()
	}
	x.server = server.New(x.provider, x.log)
	x.server.Inbound, x.server.OwnProcess = f.inbound, true
	material.WarnIfExposed(x.log, "--listen", x.calls.Addr())
	fmt.Fprintf(s.out, "tonnage-provider: %d pools, %d machines and slots on %s, metrics on %s\n", len(file.Pools), x.provider.Len(), x.calls.Addr(), addressOf(x.metrics))
	return x.serve(ctx, material)
}

// open opens the records, and waits for them when the process stands by. There is no provider and no error
// when the context ends meanwhile.
func (x *serving) open(ctx context.Context, file *pools.File) error {
	dir := x.flags.dataDir
	waiting := false
	for {
		p, err := provider.Open(provider.Config{
			Dir: dir, Pools: file, Log: x.log,
			Driver: func(d *pools.Driver) (driver.Driver, error) { return kinds[d.Kind].open(d, dir, x.log) },
		})
		switch {
		case err == nil:
			x.provider = p
			return nil
		case !errors.Is(err, provider.ErrInUse):
			return badInput(fmt.Errorf("--data-dir %s: %w", dir, err))
		case !x.flags.standby:
			return badInput(fmt.Errorf("--data-dir %s is in use by another tonnage-provider; stop it, name another folder, or stand by (--standby)", dir))
		case !waiting:
			waiting = true
			x.log.Info("stands by: another process has the folder", "dataDir", dir)
		}
		pause := time.NewTimer(standbyEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
	}
}

// serve serves until the context ends or a part fails.
func (x *serving) serve(ctx context.Context, material *mtls.Material) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	failures := make(chan error, 8)
	part := func(work func(context.Context) error) {
		parts.Go(func() {
			defer cancel()
			failures <- work(ctx)
		})
	}
	x.reloads = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tonnage_provider_pools_reloads_total", Help: "Changes of the pools file, by whether they were taken over."}, []string{"outcome"})
	part(func(ctx context.Context) error { return x.server.Serve(ctx, x.calls, material) })
	part(x.provider.Run)
	part(func(ctx context.Context) error {
		return x.watched.Run(ctx, func(f *pools.File) { x.take(ctx, f) }, x.refused)
	})
	part(func(ctx context.Context) error {
		select {
		case <-x.provider.Done():
			return errors.New("the records' file has failed") // Close says why
		case <-ctx.Done():
			return nil
		}
	})
	if x.metrics != nil {
		part(func(ctx context.Context) error {
			return httpguard.Serve(ctx, x.metrics, x.handler(), httpguard.Options{Log: x.log})
		})
	}
	parts.Wait()
	var all []error
	for range len(failures) {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}

// take takes a changed pools file over.
func (x *serving) take(ctx context.Context, f *pools.File) {
	if err := x.provider.SetPools(ctx, f); err != nil {
		x.log.Error("pools are not taken over; those before stay in force", "error", err)
		x.refused(err)
		return
	}
	x.reloads.WithLabelValues("taken").Inc()
	x.log.Info("pools are taken over", "file", x.flags.pools, "pools", len(f.Pools))
}

func (x *serving) refused(error) { x.reloads.WithLabelValues("refused").Inc() }

// handler answers probes, metrics, profiles and the list of orphans.
func (x *serving) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), x.server, x.provider, x.reloads)
	mux := http.NewServeMux()
	var guard *httpguard.Guard // lets this machine in
	httpguard.HandleProbes(mux, registry, func(context.Context) error { return x.provider.Ready() })
	mux.Handle("GET /debug/pprof/", guard.Profiles())
	mux.Handle("GET /orphans", guard.Read(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(orphanList{Orphans: x.provider.Orphans()}) // the reader may have gone
	})))
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
