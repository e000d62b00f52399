package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// The defaults of provider's flags.
const (
	providerListenDefault  = ":7800"
	providerMetricsDefault = ":8800"
	providerDataDirDefault = "./provider-data"
	providerRepairMax      = 24 * time.Hour
	providerSeedMax        = 1 << 20 // machines of one kind
)

// providerFlags are the flags of provider, as given.
type providerFlags struct {
	config  string
	listen  string
	metrics string
	dataDir string
	inbound inbound.Settings

	seedFile  string
	seedRung  string
	seedStart string
	seed      uint64
	simple    seedFlags

	latency   string
	latencyOf [shard.NumOps]string
	failures  float64
	late      float64
	faults    string
	repair    time.Duration

	tls      mtls.Files
	logLevel string
}

func newProvider(s streams) *cobra.Command {
	var f providerFlags
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Serve made-up machines to shards, as a real provider would",
		Long: `Provider is a provider of machines that are nowhere but in its file: it serves
bigfleet.v1alpha1.CapacityProvider to shards (tonnage shard --provider-addr), takes
time over every change, and fails on demand. What it has answered survives kill -9.

Machines come from the --seed flags when the data folder is new; afterwards the
folder says what there is. Changes under way go on after a restart.

Trouble is made by flags, or while it runs by a file (--faults-file), which is read
again when it changes:

  faults:
  - {kind: fail, on: Configure, times: 3}         # the call fails, the machine is Failed
  - {kind: late, on: Create, probability: 0.1}    # it begins, and ends in Failed
  - {kind: refuse, on: List, times: 1}            # Unavailable, nothing is done
  - {kind: lose, machine: m-1, probability: 0.5}  # done, and the answer is lost
  - {kind: slow, delay: 2s, probability: 0.01}    # begins later
  vanish: [m-2]                                   # machines that are gone
  repair: [m-3]                                   # Failed machines made whole
  prices: {m-4: 1.25}

All three --tls flags turn mutual TLS on; the caller's certificate must then name
the shard that its calls name. None leaves it off.

The command below tries whether a provider, this one or any other, keeps the protocol.`,
		Example: `  tonnage provider --seed-rung 5k --latency 1s-30s
  tonnage provider --seed-file world.yaml --data-dir /var/lib/tonnage-provider
  tonnage provider --seed-machines 100 --seed-speculative 1000 --late-failure-rate 0.02 --repair-after 1m
  tonnage provider --faults-file faults.yaml --latency-create 30s-2m
  tonnage provider check --addr 127.0.0.1:7800 --dry-run`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var wrong error
			if f.config != "" {
				wrong = readSettings(cmd, f.config)
			}
			p, err := f.parse(cmd.Flags().Changed)
			if err := errors.Join(wrong, err); err != nil {
				return err
			}
			p.settings = settingsOf(cmd)
			return runProvider(cmd.Context(), s, p)
		},
	}
	f.register(cmd)
	cmd.AddCommand(newProviderCheck(s))
	return cmd
}

func (f *providerFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "file of settings, YAML or JSON: names of flags and their values")
	flags.StringVar(&f.listen, "listen", providerListenDefault, listenUsage+hereMark+"for shards")
	flags.StringVar(&f.metrics, "metrics-addr", providerMetricsDefault, "address of /metrics, /healthz and /readyz; 0 = none")
	flags.StringVar(&f.dataDir, "data-dir", providerDataDirDefault, dataDirUsage+hereMark+"it is created")
	flags.StringVar(&f.seedFile, "seed-file", "", `new folder: the machines of this world, as in "tonnage decide -f"`)
	flags.StringVar(&f.seedRung, "seed-rung", "", "new folder: the machines of a calibrated workload: "+strings.Join(workload.Names(), ", "))
	flags.StringVar(&f.seedStart, "seed-start", workload.Cold.String(), "how the rung's machines are: cold (idle) or steady (bound)")
	flags.Uint64Var(&f.seed, "seed", 1, seedUsage)
	flags.IntVar(&f.simple.machines, "seed-machines", 0, seedMachinesUsage+hereMark+"in a new folder, all alike")
	flags.IntVar(&f.simple.speculative, "seed-speculative", 0, seedSpeculativeUsage+hereMark+"in a new folder, all alike")
	flags.IntVar(&f.simple.spot, "seed-spot", 0, seedSpotUsage+hereMark+"in a new folder, all alike")
	flags.StringVar(&f.latency, "latency", upLatencyDefault, "how long each change of a machine takes: 2s, or 1s-5s for anything between")
	for op := shard.OpCreate; int(op) < shard.NumOps; op++ {
		name := strings.ToLower(op.String())
		flags.StringVar(&f.latencyOf[op], "latency-"+name, "", "how long "+op.String()+" takes instead")
	}
	flags.Float64Var(&f.failures, "failure-rate", 0, "probability that a call fails and leaves its machine Failed, 0 to 1")
	flags.Float64Var(&f.late, "late-failure-rate", 0, "probability that a change begins and ends in Failed, 0 to 1")
	flags.StringVar(&f.faults, "faults-file", "", "file of trouble, YAML or JSON; read again when it changes, and when it comes: it need not be there yet")
	flags.DurationVar(&f.repair, "repair-after", 0, "how long a machine stays Failed before it is whole again; 0 = for ever")
	inboundFlags(cmd, &f.inbound)
	flags.StringVar(&f.logLevel, "log-level", "info", "what is logged to standard error: debug, info, warn or error")
	tlsFlags(cmd, &f.tls)
	_ = cmd.RegisterFlagCompletionFunc("seed-rung", cobra.FixedCompletions(workload.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("data-dir")
	for _, name := range []string{"config", "seed-file", "faults-file"} {
		_ = cmd.MarkFlagFilename(name, "yaml", "yml", "json")
	}
}

// providerPlan is what provider was asked to do, checked.
type providerPlan struct {
	listen    string
	metrics   string // empty = none
	dataDir   string
	seeds     seedSource
	latencies simulated.Latencies
	failures  float64
	late      float64
	faults    string
	repair    time.Duration
	tls       mtls.Files
	inbound   inbound.Settings
	level     slog.Level
	settings  string // as given, for the log
}

// parse checks all flags and reports every fault; set tells whether a flag was
// given.
func (f *providerFlags) parse(set func(string) bool) (*providerPlan, error) {
	p := &providerPlan{
		listen: f.listen, dataDir: f.dataDir, failures: f.failures, late: f.late, faults: f.faults, repair: f.repair,
		tls: f.tls, inbound: f.inbound,
	}
	if f.metrics != metricsOff {
		p.metrics = f.metrics
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, x := range [...][2]string{{"listen", p.listen}, {"metrics-addr", p.metrics}} {
		if _, _, err := net.SplitHostPort(x[1]); err != nil && x != [2]string{"metrics-addr", ""} {
			fault("--%s must be HOST:PORT, as in 127.0.0.1:7800 or :7800, got %q", x[0], x[1])
		}
	}
	if f.dataDir == "" {
		fault("--data-dir is empty; name a folder")
	}
	for _, x := range [...]struct {
		flag string
		p    float64
	}{{"failure-rate", f.failures}, {"late-failure-rate", f.late}} {
		if !(x.p >= 0 && x.p <= 1) {
			fault("--%s is a probability between 0 and 1, got %v", x.flag, x.p)
		}
	}
	if f.repair < 0 || f.repair > providerRepairMax {
		fault("--repair-after must be between 0 (never) and %v, got %v", providerRepairMax, f.repair)
	}
	if err := p.level.UnmarshalText([]byte(f.logLevel)); err != nil {
		fault("--log-level must be debug, info, warn or error, got %q", f.logLevel)
	}
	if _, err := mtls.Load(p.tls, nil); err != nil {
		faults = append(faults, err)
	}
	if err := p.inbound.Validate(); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, f.parseLatencies(p)...)
	faults = append(faults, f.parseSeeds(p, set)...)
	if len(faults) > 0 {
		return nil, badInput(errors.Join(faults...))
	}
	return p, nil
}

func (f *providerFlags) parseLatencies(p *providerPlan) (faults []error) {
	into := [shard.NumOps]*simulated.Latency{
		shard.OpCreate: &p.latencies.Create, shard.OpConfigure: &p.latencies.Configure,
		shard.OpDrain: &p.latencies.Drain, shard.OpDelete: &p.latencies.Delete,
	}
	all, err := latencyOf("latency", f.latency)
	if err != nil {
		faults = append(faults, err)
	}
	for op := shard.OpCreate; int(op) < shard.NumOps; op++ {
		*into[op] = all
		if text := f.latencyOf[op]; text != "" {
			if *into[op], err = latencyOf("latency-"+strings.ToLower(op.String()), text); err != nil {
				faults = append(faults, err)
			}
		}
	}
	return faults
}
