package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/session"
)

// The defaults of shard's flags.
const (
	shardListenDefault    = ":7780"
	shardMetricsDefault   = ":8780"
	shardIDDefault        = "shard-0"
	shardHeartbeatDefault = 10 * time.Second
	metricsOff            = "0"
	flagClusterInterval   = "cluster-rollup-interval"
	phaseLogVariable      = "BIGFLEET_PHASEDUMP"
)

// shardFlags are the flags of shard, as given.
type shardFlags struct {
	acquire     string
	maxShare    float64
	config      string
	listen      string
	metricsAddr string
	pageAddr    string
	access      accessFlags
	pprofAddr   string
	id          string
	dataDir     string
	logLevel    string
	inbound     inbound.Settings

	providerAddr     string
	providerIdentity string
	coordinatorAddr  string
	advertiseAddr    string
	heartbeat        time.Duration

	cycle         time.Duration
	workers       int
	pin           bool
	maxActions    int
	concurrency   int
	incremental   bool
	hints         time.Duration
	reclaimCap    float64
	deleteCap     float64
	provisionCap  float64
	preemptCap    float64
	breakerShare  float64
	breakerWindow time.Duration
	emptyGuard    bool
	paused        bool
	dryRun        bool
	auditLog      string
	policy        string
	auditBytes    int64
	warmupCycles  int
	phaseLog      bool
	local         bool
	profileDir    string
	profileOver   time.Duration

	clusters        session.ClusterLimits
	clusterInterval time.Duration

	tls  mtls.Files
	seed seedFlags
}

// seedFlags describe the machines of the provider in the process.
type seedFlags struct {
	machines, speculative, spot, configured int
	clusters, stride                        int
	failures                                float64
	// Accepted for the sake of scripts; there is nothing for them to change.
	shedAt     int
	archetypes string
	density    float64
	shed       float64
}

func newShard(s streams) *cobra.Command {
	var f shardFlags
	cmd := &cobra.Command{
		Use:   "shard",
		Short: "Run a shard: sessions of operators, a provider, decisions",
		Long: `Shard serves the operators that connect to it (--listen) with the machines of one
provider (--provider-addr). It decides every --cycle-interval and at once when a
cluster reports, and carries out what it decides. A coordinator (--coordinator-addr)
is reported to and never waited for.

What must not be lost is in --data-dir: the epoch that tells the provider this
process from the one before, and a journal. While there is a file "pause" in that
folder, everything is decided and nothing carried out; so it is with "dry-run".

Settings can be in a file (--config) under the names of the flags; a flag that is
given counts more. All three --tls flags turn mutual TLS on, none leaves it off.

Metrics and probes are open to all. The page and its API are for the machine that the
shard runs on. From elsewhere the page needs the token of --token-file or, at
--page-addr over TLS, a certificate of an admin or one that may only read; changes
then need the token or an admin wherever they come from.`,
		Example: `  tonnage shard --provider-addr 127.0.0.1:7800 --data-dir /var/lib/tonnage
  tonnage shard --config shard.yaml --dry-run --audit-log audit.jsonl
  tonnage shard --seed-machines 100 --local-bootstrap --log-level info
  touch /var/lib/tonnage/pause     # stop acting; rm it to go on`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			wrong := f.readConfig(cmd)
			p, err := f.parse(cmd.Flags().Changed)
			if err := errors.Join(wrong, err); err != nil {
				return err
			}
			p.settings = settingsOf(cmd)
			return runShard(cmd.Context(), s, p)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *shardFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	defaults := shard.DefaultConfig()
	flags.StringVar(&f.config, "config", "", "file of settings, YAML or JSON: names of flags and their values")
	flags.StringVar(&f.listen, "listen", shardListenDefault, listenUsage+hereMark+"for operators and tools")
	flags.StringVar(&f.metricsAddr, "metrics-addr", shardMetricsDefault, "address of /metrics, /healthz and /readyz; 0 = none")
	flags.StringVar(&f.pageAddr, "page-addr", "", "address of the page and its API alone, over TLS with the --tls flags; empty = at that of the metrics")
	f.access.register(cmd)
	flags.StringVar(&f.pprofAddr, "pprof-addr", "", "address of /debug/pprof/; empty = that of the metrics; for this machine only, and for admins")
	flags.StringVar(&f.id, "id", shardIDDefault, idUsage)
	flags.StringVar(&f.dataDir, "data-dir", upDataDirDefault, dataDirUsage+hereMark+"it is created")
	flags.StringVar(&f.providerAddr, "provider-addr", "", "address of the provider; empty = machines in memory, for trying out")
	flags.StringVar(&f.providerIdentity, "provider-identity", "", providerIdentityUsage+hereMark+"empty = the certificate must be for the host of --provider-addr")
	flags.StringVar(&f.coordinatorAddr, "coordinator-addr", "", "addresses of the coordinator's replicas, with commas between; empty = none")
	flags.StringVar(&f.advertiseAddr, "advertise-addr", "", advertiseUsage+hereMark+"empty = that of --listen")
	flags.DurationVar(&f.heartbeat, "coordinator-heartbeat-interval", shardHeartbeatDefault, "time between two reports to the coordinator")
	flags.DurationVar(&f.cycle, "cycle-interval", defaults.CycleInterval, "time between two cycles; new demand starts one at once")
	workersFlag(cmd, &f.workers, "")
	fitFlags(cmd, &f.acquire, &f.maxShare)
	pinFlag(cmd, &f.pin)
	flags.IntVar(&f.maxActions, "max-actions-per-cycle", 0, "most actions that a cycle starts, by rank; 0 = no limit")
	flags.IntVar(&f.concurrency, "execute-concurrency", defaults.Concurrency, "calls to the provider at a time; the queue before them is twice as long")
	flags.BoolVar(&f.incremental, "incremental-reconcile", false, "ask the provider for what changed, and for everything now and then only")
	flags.DurationVar(&f.hints, "available-capacity-interval", 0, "how often a cluster hears of free capacity for one profile at most; 0 = 5s")
	f.registerRails(flags, &defaults)
	clusterFlags(flags, &f.clusters, &f.clusterInterval)
	flags.BoolVar(&f.paused, "actuation-paused", false, "decide everything and carry out nothing")
	flags.BoolVar(&f.dryRun, "dry-run", false, dryRunUsage+hereMark+"decide everything, report it, and carry out nothing")
	flags.StringVar(&f.policy, "policy", "", "file of the highest priority and penalties that clusters may have, YAML or JSON; read again when it changes; empty = no limits")
	flags.StringVar(&f.auditLog, "audit-log", "", auditLogUsage+hereMark+"it is written; empty = none")
	flags.Int64Var(&f.auditBytes, "audit-log-max-bytes", 0, "size at which the audit log begins a new file; 0 = 64 MiB")
	flags.IntVar(&f.warmupCycles, "metrics-warmup-cycles", 0, "first cycles whose durations are left out of the metrics")
	flags.BoolVar(&f.phaseLog, "phase-attribution-log", false, "log what each phase of each cycle did (also with "+phaseLogVariable+"=1)")
	flags.BoolVar(&f.local, "local-bootstrap", false, "for tests: bind machines without asking operators how they join")
	flags.StringVar(&f.profileDir, "profile-dir", "", "keep execution traces of the slowest cycles in this folder; empty keeps none")
	flags.DurationVar(&f.profileOver, "profile-over", shard.WorstMinDefault, "a cycle that takes as long is slow")
	inboundFlags(cmd, &f.inbound)
	flags.StringVar(&f.logLevel, "log-level", "info", "what is logged to standard error: debug, info, warn or error")
	tlsFlags(cmd, &f.tls)
	f.seed.register(cmd)
	_ = cmd.MarkFlagDirname("data-dir")
	_ = cmd.MarkFlagDirname("profile-dir")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
	_ = cmd.MarkFlagFilename("audit-log", "jsonl")
	_ = cmd.MarkFlagFilename("policy", "yaml", "yml", "json")
}

// registerRails adds what bounds the work over time.
func (f *shardFlags) registerRails(flags *pflag.FlagSet, defaults *shard.Config) {
	flags.Float64Var(&f.reclaimCap, "reclaim-cap-fraction", defaults.ReclaimCapFraction, "part of a cluster's machines that may be reclaimed in one --cycle-interval, at least one; 0 = no cap")
	flags.Float64Var(&f.deleteCap, "delete-cap-fraction", defaults.DeleteCapFraction, "part of the idle machines that may be given back in one --cycle-interval, at least 10; 0 = no cap")
	flags.Float64Var(&f.provisionCap, "provision-cap-fraction", defaults.ProvisionCapFraction, "part of all records, quota included, that may be bought in one --cycle-interval, at least 100; 0 = no cap")
	flags.Float64Var(&f.preemptCap, "preempt-cap-fraction", defaults.PreemptCapFraction, "part of all bound machines that may be preempted in one --cycle-interval, at least 20; 0 = no cap")
	flags.Float64Var(&f.breakerShare, "breaker-share", defaults.BreakerShare, "part of the fleet that may be preempted, reclaimed or given back within --breaker-window, at least 50 machines; then the shard pauses itself; 0 = never")
	flags.DurationVar(&f.breakerWindow, "breaker-window", defaults.BreakerWindow, "over how long --breaker-share counts")
	flags.BoolVar(&f.emptyGuard, "empty-rollup-guard", true, "believe a roll-up that asks for nearly nothing of what its cluster asked for only when it is the third")
}

// clusterFlags add the limits of what one cluster may report.
func clusterFlags(flags *pflag.FlagSet, limits *session.ClusterLimits, interval *time.Duration) {
	flags.IntVar(&limits.Rows, session.FlagClusterRows, session.ClusterRowsDefault, "most rows of one cluster's roll-up")
	flags.IntVar(&limits.Gangs, session.FlagClusterGangs, session.ClusterGangsDefault, "most rows of one cluster's roll-up with a Same requirement")
	flags.IntVar(&limits.RequirementSets, session.FlagClusterRequirementSets, session.ClusterRequirementSetsDefault, "most different sets of requirements in one cluster's roll-up")
	flags.IntVar(&limits.Keys, session.FlagClusterKeys, session.ClusterKeysDefault, "most different attribute keys in one cluster's requirements and hard spread")
	flags.DurationVar(interval, flagClusterInterval, session.ClusterIntervalDefault, "least time between two roll-ups of one cluster, the newest of those that come meanwhile being read; 0 = none")
}

func (f *seedFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.machines, "seed-machines", 0, seedMachinesUsage+hereMark+"in memory")
	flags.IntVar(&f.speculative, "seed-speculative", 0, seedSpeculativeUsage+hereMark+"in memory")
	flags.IntVar(&f.spot, "seed-spot", 0, seedSpotUsage+hereMark+"in memory")
	flags.IntVar(&f.configured, "seed-configured-per-cluster", 0, "machines in memory: so many bound to each cluster")
	flags.Float64Var(&f.failures, "failure-rate-per-sec", 0, "machines in memory: probability that a call fails, 0 to 1")
	flags.IntVar(&f.clusters, "seed-cluster-total", 0, "machines in memory: number of clusters, cluster-0 and on")
	flags.IntVar(&f.stride, "seed-cluster-stride", 0, "machines in memory: step from one cluster's number to the next; 0 = 1")
	flags.IntVar(&f.shedAt, "speculative-shed-at-seconds", 0, "accepted, changes nothing")
	flags.StringVar(&f.archetypes, "archetypes", "", "accepted, changes nothing")
	flags.Float64Var(&f.density, "seed-density-multiplier", 1, "accepted, changes nothing")
	flags.Float64Var(&f.shed, "speculative-shed-multiplier", 1, "accepted, changes nothing")
	for _, name := range []string{"speculative-shed-at-seconds", "archetypes", "seed-density-multiplier", "speculative-shed-multiplier"} {
		_ = flags.MarkHidden(name)
	}
}
