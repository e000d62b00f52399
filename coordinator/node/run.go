package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/replica"
	"github.com/tonnage/tonnage/coordinator/service"
	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/steady"
)

// stopTimeout is how long open calls may take at the end.
const stopTimeout = 3 * time.Second

// Started is where a process can be reached; MetricsAddr is empty without
// endpoints.
type Started struct{ Address, MetricsAddr string }

// FlagError is why a process cannot start that a flag of it mends.
type FlagError struct {
	Flag, Value string
	Err         error
}

func (e *FlagError) Error() string { return fmt.Sprintf("--%s %s: %v", e.Flag, e.Value, e.Err) }
func (e *FlagError) Unwrap() error { return e.Err }

// Run is a whole process: it returns nil when ctx ends, and an error when the
// replica cannot start, a *FlagError if a flag is at fault, or was removed from
// its group. Nobody else may use the data folder meanwhile. started may be nil; it is
// called once the services listen, before the replica has joined its group.
func Run(ctx context.Context, c Config, log *slog.Logger, started func(Started)) error {
	if err := errors.Join(c.Validate(), c.CheckTLS()); err != nil {
		return err
	}
	material, err := mtls.Load(c.TLS, log)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mode, _ := coordinator.ParseMode(c.Rebalance) // validated
	metrics := service.NewMetrics(registry)
	s := service.New(service.Config{
		Name: c.ID, TempDir: c.DataDir, TLS: material, Secure: c.TLS.Given(), Alone: c.alone(),
		Mode: mode, Log: log, Metrics: metrics, Inbound: c.Inbound,
	})
	registry.MustRegister(s.Collector())
	if c.GCPercent != nil {
		s.LimitGarbage(c.GCPercent)
	}

	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return &FlagError{"listen", c.Listen, err}
	}
	server := s.Server()
	tasks.Go(func() { _ = server.Serve(listener) })
	defer stop(server)
	at := Started{Address: listener.Addr().String()}
	if c.MetricsAddr != "0" {
		endpoints, err := net.Listen("tcp", c.MetricsAddr)
		if err != nil {
			return &FlagError{"metrics-addr", c.MetricsAddr, err}
		}
		tasks.Go(func() {
			if err := httpguard.Serve(ctx, endpoints, handler(registry, s.Ready), httpguard.Options{Log: log}); err != nil {
				log.Error("metrics and probes are served no longer", "error", err)
			}
		})
		at.MetricsAddr = endpoints.Addr().String()
	}
	if started != nil {
		started(at)
	}
	tasks.Go(func() { s.WatchHealth(ctx) })
	o := &opener{config: &c, material: material, address: c.clientAddress(listener.Addr()), log: log}
	o.warnIfExposed(listener.Addr())
	return serve(ctx, &c, mode, s, o, metrics)
}

// serve joins the group and takes part until ctx ends.
func serve(ctx context.Context, c *Config, mode coordinator.Mode, s *service.Service, o *opener, metrics *service.Metrics) error {
	st, err := o.open(ctx)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		return err
	}
	defer st.Close()
	interval := c.SnapshotExportInterval
	if interval == 0 {
		interval = ExportIntervalDefault
	}
	r := replica.New(replica.Config{
		Mode: mode, RebalanceInterval: c.RebalanceInterval,
		ExportDir: c.SnapshotExportDir, ExportInterval: interval, ExportKeep: c.SnapshotExportKeep,
		Log: o.log, Now: steady.Clock(), Metrics: metrics,
	}, st)
	s.Attach(r, st)
	return r.Run(ctx)
}

// stop lets open calls end, for a while.
func stop(server *grpc.Server) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.GracefulStop()
	}()
	select {
	case <-done:
	case <-time.After(stopTimeout):
		server.Stop()
		<-done
	}
}

// handler serves metrics and probes.
func handler(registry *prometheus.Registry, ready func() bool) http.Handler {
	mux := http.NewServeMux()
	httpguard.HandleProbes(mux, registry, func(context.Context) error {
		if !ready() {
			return errors.New("no leader is known")
		}
		return nil
	})
	return mux
}
