package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/operator"
	"github.com/tonnage/tonnage/operator/bootstrap"
	"github.com/tonnage/tonnage/operator/session"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// operateFlags are those of the operator itself.
type operateFlags struct {
	settings
	clusterID      string
	shards         string
	rollupInterval time.Duration
	earlyRollups   bool
	ackConcurrency int
	templateFile   string
	tls            mtls.Files
}

// newOperate returns the command that runs the operator.
func newOperate(err io.Writer) *cobra.Command {
	var f operateFlags
	cmd := &cobra.Command{
		Use:   "tonnage-operator --cluster-id ID --shard-addr HOST:PORT[,HOST:PORT...]",
		Short: "Report what a cluster asks for to its shard, and carry out what the shard says",
		Long: `Reports what the cluster asks for to its shard, and carries out what the shard says.

A flag that the command line does not give is taken from the environment: --cluster-id from
TONNAGE_CLUSTER_ID. One dash before a flag does as well as two.`,
		Args: noArguments, PreRunE: takeEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), err) },
	}
	flags := cmd.Flags()
	f.register(flags, ":8770")
	flags.StringVar(&f.clusterID, "cluster-id", "", "name of the cluster; required")
	flags.StringVar(&f.shards, "shard-addr", "", "address of the shard; several with commas between are tried in turn; required")
	flags.DurationVar(&f.rollupInterval, "rollup-interval", 0, "how often the demand is reported at the least; 0 = 10s")
	flags.BoolVar(&f.earlyRollups, "early-rollups", true, "report new requests before the interval is over, when nothing was added for a tenth of it")
	flags.IntVar(&f.ackConcurrency, "ack-concurrency", operator.AckConcurrencyDefault, "requests that are marked as heard at a time")
	flags.StringVar(&f.templateFile, "bootstrap-template-file", "", "file with the text/template of the user data that joins a machine to the cluster; empty = a stub")
	flags.StringVar(&f.tls.Cert, "tls-cert", "", "certificate of this process, PEM; read again when it changes")
	flags.StringVar(&f.tls.Key, "tls-key", "", "key of the certificate, PEM")
	flags.StringVar(&f.tls.CA, "tls-ca", "", "certificates of the authority that peers must come from, PEM; read again when they change")
	flags.StringVar(&f.tls.Deny, "tls-deny", "", "serial numbers of certificates that are refused, one hexadecimal number a line, # begins a comment; read again when it changes")
	completeFiles(cmd, "bootstrap-template-file", "tls-cert", "tls-key", "tls-ca", "tls-deny", "kubeconfig")
	return cmd
}

// completeFiles has values completed as names of files.
func completeFiles(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.MarkFlagFilename(name)
	}
}

// config makes the configuration, all but TLS. The error has every fault.
func (f *operateFlags) config() (operator.Config, error) {
	cfg := operator.Config{ClusterID: f.clusterID, RollupInterval: f.rollupInterval, EarlyRollups: f.earlyRollups, AckConcurrency: f.ackConcurrency, SettleAfter: session.SettleAfterDefault, LookInterval: session.LookIntervalDefault, ReleaseAfter: operator.ReleaseAfterDefault}
	if f.shards != "" {
		cfg.Shards = strings.Split(f.shards, ",")
	}
	if cfg.RollupInterval == 0 {
		cfg.RollupInterval = operator.RollupIntervalDefault
	}
	faults := []error{cfg.Validate()}
	if f.templateFile != "" {
		text, e := os.ReadFile(f.templateFile)
		if e != nil {
			faults = append(faults, fmt.Errorf("%w (--bootstrap-template-file)", e))
		}
		cfg.BootstrapTemplate = string(text)
		if _, e := bootstrap.New(cfg.ClusterID, cfg.BootstrapTemplate); e != nil {
			faults = append(faults, fmt.Errorf("%s: %w", f.templateFile, e))
		}
	}
	return cfg, errors.Join(faults...)
}

func (f *operateFlags) run(ctx context.Context, err io.Writer) error {
	log, noLog := f.logger(err)
	cfg, noConfig := f.config()
	material, noTLS := mtls.Load(f.tls, log)
	config, noCluster := f.cluster()
	if e := errors.Join(noLog, noConfig, noTLS, noCluster); e != nil {
		return badInput(e)
	}
	cfg.TLS = material
	m, e := f.manager(config, "tonnage-operator", operator.CacheOptions())
	if e != nil {
		return e
	}
	direct, e := client.New(config, client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), HTTPClient: m.GetHTTPClient()})
	if e != nil {
		return fmt.Errorf("client: %w", e)
	}
	if _, e := operator.New(ctx, m, direct, cfg, telemetry.New(metrics.Registry, cfg.ClusterID), log); e != nil {
		return e
	}
	log.Info("operator starts", "version", versionText(), "cluster", cfg.ClusterID, "shards", cfg.Shards, "election", f.lease() != "")
	return m.Start(ctx)
}

// manager makes the manager of a command, with its election and HTTP servers.
func (s *settings) manager(config *rest.Config, lease string, objects map[client.Object]cache.ByObject) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := api.AddToScheme(scheme); err != nil {
		return nil, err
	}
	namespace := s.lease()
	m, err := manager.New(config, manager.Options{
		Scheme:                        scheme,
		Cache:                         cache.Options{ByObject: objects},
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // serveProbes
		LeaderElection:                namespace != "",
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends with the manager
	})
	if unknown := new(meta.NoKindMatchError); errors.As(err, &unknown) && unknown.GroupKind.Group == api.Group {
		return nil, badInput(fmt.Errorf("cluster %s has no %s of %s: install the chart tonnage-operator there, or kubectl apply -f deploy/crds", config.Host, unknown.GroupKind.Kind, api.SchemeGroupVersion))
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", config.Host, err)
	}
	return m, s.serveProbes(m, metrics.Registry)
}
