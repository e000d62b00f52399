package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	traces "github.com/tonnage/tonnage/internal/trace"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider"
)

// The defaults and limits of up's flags.
const (
	upListenDefault    = "127.0.0.1:8080"
	upDataDirDefault   = "./data"
	upCycleDefault     = time.Second
	upLatencyDefault   = "1s-3s"
	upSpeedDefault     = "3600x"
	upTraceListDefault = "default"
	upLatencyMax       = time.Hour
)

// upFlags are the flags of up, as given.
type upFlags struct {
	rung         string
	start        string
	trace        string
	traceList    string
	traceOffer   string
	speed        string
	arrivalsOnly bool
	clusters     int
	seed         uint64

	listen   string
	dataDir  string
	cycle    time.Duration
	workers  int
	dryRun   bool
	duration time.Duration
	logLevel string

	latency string
	faults  float64
}

func newUp(s streams) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process, with a live page",
		Long: `Up runs a shard with a provider of its own: machines in memory that take time over
every change. Demand comes from a calibrated workload (--rung) or from a recorded
one (--trace). What is decided, and why, is on a live page; /metrics, /healthz and
/readyz are beside it, /debug/pprof/ when only this machine can reach the address.

Stop it with Ctrl-C; it prints a summary.`,
		Example: `  tonnage up
  tonnage up --rung 5k --provider-latency 1s-30s --provider-faults 0.01
  tonnage up --trace ../shared/data/openb --speed 3600x`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.parse(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return up(cmd.Context(), s, p)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *upFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.rung, "rung", "tiny", "calibrated workload: "+strings.Join(workload.Names(), ", "))
	flags.StringVar(&f.start, "start", "cold", "how the rung's machines are at the start: cold (idle) or steady (bound)")
	flags.StringVar(&f.trace, "trace", "", "replay the recorded demand in this folder instead of a rung")
	flags.StringVar(&f.traceList, "trace-list", upTraceListDefault, "which list of the trace: "+strings.Join(traces.Lists(), ", "))
	flags.StringVar(&f.traceOffer, "trace-offer", traces.OfferDefault.String(), "what can be bought beside the trace's nodes: default, none, or equivalents (also the trace's own GPU models)")
	flags.StringVar(&f.speed, "speed", upSpeedDefault, "how much faster than recorded the trace is replayed")
	flags.BoolVar(&f.arrivalsOnly, "arrivals-only", false, "let nothing that arrived in the trace leave again")
	flags.IntVar(&f.clusters, "clusters", 1, "how many clusters the trace is split into")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of everything that is drawn at random")
	flags.StringVar(&f.listen, "listen", upListenDefault, "address of the page and its endpoints; port 0 takes a free one")
	flags.StringVar(&f.dataDir, "data-dir", upDataDirDefault, "folder for what is kept between runs; it is created")
	flags.DurationVar(&f.cycle, "cycle", upCycleDefault, "time between two cycles; new demand starts one at once")
	flags.IntVar(&f.workers, "workers", 0, "workers of a cycle, 0 = all cores; no effect yet, a cycle is one sequential pass")
	flags.BoolVar(&f.dryRun, "dry-run", false, "decide everything and carry out nothing")
	flags.DurationVar(&f.duration, "duration", 0, "stop after this time, 0 = run until stopped")
	flags.StringVar(&f.latency, "provider-latency", upLatencyDefault, "how long each change of a machine takes: 2s, or 1s-5s for anything between")
	flags.Float64Var(&f.faults, "provider-faults", 0, "probability that a call to the provider fails, 0 to 1")
	flags.StringVar(&f.logLevel, "log-level", "warn", "what is logged to standard error: debug, info, warn or error")
	_ = cmd.RegisterFlagCompletionFunc("rung", cobra.FixedCompletions(workload.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("trace-list", cobra.FixedCompletions(traces.Lists(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("trace")
	_ = cmd.MarkFlagDirname("data-dir")
}

// upPlan is what up was asked to do, checked.
type upPlan struct {
	source   sourceConfig
	shard    shard.Config
	provider provider.Latencies
	faults   float64
	latency  string
	listen   string
	dataDir  string
	duration time.Duration
	level    slog.Level
}

// parse checks all flags and reports every fault; set tells whether a flag was
// given.
func (f *upFlags) parse(set func(string) bool) (*upPlan, error) {
	var faults []error
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	p := &upPlan{latency: f.latency, faults: f.faults, listen: f.listen, dataDir: f.dataDir, duration: f.duration}
	var err error
	p.source, err = f.parseSource(set)
	note(err)
	p.provider, err = parseLatency(f.latency)
	note(err)
	if !(f.faults >= 0 && f.faults <= 1) {
		note(fmt.Errorf("--provider-faults is a probability between 0 and 1, got %v", f.faults))
	}
	if f.cycle < shard.CycleIntervalMin {
		note(fmt.Errorf("--cycle must be at least %v, got %v", shard.CycleIntervalMin, f.cycle))
	}
	if f.workers < 0 || f.workers > world.WorkersMax {
		note(fmt.Errorf("--workers must be between 0 and %d, got %d", world.WorkersMax, f.workers))
	}
	if f.duration < 0 {
		note(fmt.Errorf("--duration cannot be negative, got %v; 0 runs until stopped", f.duration))
	}
	if f.dataDir == "" {
		note(errors.New("--data-dir is empty; name a folder"))
	}
	if err := p.level.UnmarshalText([]byte(f.logLevel)); err != nil {
		note(fmt.Errorf("--log-level must be debug, info, warn or error, got %q", f.logLevel))
	}
	p.shard = shard.DefaultConfig()
	p.shard.CycleInterval, p.shard.DryRun = f.cycle, f.dryRun
	p.shard.Engine.Workers = f.workers
	p.shard.Concurrency = upConcurrency
	if len(faults) > 0 {
		return nil, badInput(errors.Join(faults...))
	}
	return p, p.shard.Validate()
}

// parseSource settles where demand comes from.
func (f *upFlags) parseSource(set func(string) bool) (sourceConfig, error) {
	c := sourceConfig{seed: f.seed}
	if f.trace == "" {
		for _, name := range []string{"trace-list", "trace-offer", "speed", "arrivals-only", "clusters"} {
			if set(name) {
				return c, fmt.Errorf("--%s belongs to a trace; name its folder with --trace", name)
			}
		}
		return c, c.setRung(f.rung, f.start)
	}
	for _, name := range []string{"rung", "start"} {
		if set(name) {
			return c, fmt.Errorf("--%s and --trace exclude each other; give one", name)
		}
	}
	return c, c.setTrace(f)
}

// parseLatency reads "2s" or "1s-5s", for all four changes alike.
func parseLatency(text string) (provider.Latencies, error) {
	lo, hi, ranged := strings.Cut(text, "-")
	if !ranged {
		hi = lo
	}
	least, err := time.ParseDuration(lo)
	most, err2 := time.ParseDuration(hi)
	switch {
	case err != nil || err2 != nil || least < 0:
		return provider.Latencies{}, fmt.Errorf("--provider-latency must be a duration like 2s or a range like 1s-5s, got %q", text)
	case least > most:
		return provider.Latencies{}, fmt.Errorf("--provider-latency %q begins after its end; swap the two", text)
	case most > upLatencyMax:
		return provider.Latencies{}, fmt.Errorf("--provider-latency must be at most %v, got %q", upLatencyMax, text)
	}
	l := provider.Latency{Min: least, Max: most}
	return provider.Latencies{Create: l, Configure: l, Drain: l, Delete: l}, nil
}
