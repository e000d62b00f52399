package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/livefleet"
	"github.com/tonnage/tonnage/internal/mtls"
	traces "github.com/tonnage/tonnage/internal/trace"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// The defaults and limits of up's flags.
const (
	upListenDefault    = "127.0.0.1:8080"
	upDataDirDefault   = "./data"
	upCycleDefault     = time.Second
	upLatencyDefault   = "1s-3s"
	upSpeedDefault     = "36000x"
	upTraceListDefault = "default"
	upLatencyMax       = time.Hour
)

// upFlags are the flags of up, as given.
type upFlags struct {
	acquire      string
	maxShare     float64
	rung         string
	start        string
	scenario     string
	list         bool
	file         string
	trace        string
	traceList    string
	traceOffer   string
	speed        string
	arrivalsOnly bool
	clusters     int
	shards       int
	seed         uint64

	listen   string
	access   accessFlags
	tls      mtls.Files
	dataDir  string
	cycle    time.Duration
	workers  int
	pin      bool
	dryRun   bool
	duration time.Duration
	logLevel string

	latency string
	faults  float64

	profileDir  string
	profileOver time.Duration
}

func newUp(s streams) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process, with a live page",
		Long: `Up runs a shard with a provider of its own: machines in memory that take time over
every change. Machines and demand are those of a scenario that has not enough for
everybody, or of a calibrated workload (--rung), a recorded one (--trace), another scenario (--scenario; --list says which there are), or a
world in a file as decide reads it (-f). Such a file is read again when it is
edited: machines that it has no more are lost, new ones join, demand is reported
anew. An edit with faults changes nothing, and its faults are said with their
places. What is decided, and why, is on a live page; /metrics, /healthz,
/readyz and /debug/pprof/ are beside it.

The page is for this machine. From elsewhere it needs the token of --token-file, or
over TLS (the --tls flags) a certificate of an admin or one that may only read.

Stop it with Ctrl-C; it prints a summary.`,
		Example: `  tonnage up --scenario contended
  tonnage up -f world.yaml
  tonnage up --rung 5k --provider-latency 1s-30s --provider-faults 0.01
  tonnage up --rung 5k --shards 3
  tonnage up --trace ../shared/data/openb --speed 3600x`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list || f.scenario == scenarioList {
				return listScenarios(s.out)
			}
			f.defaultSource(cmd.Flags().Changed)
			p, err := f.parse(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			p.source.in = s.in
			return up(cmd.Context(), s, p)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *upFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.rung, "rung", "tiny", rungUsage())
	flags.StringVar(&f.start, "start", "cold", "how the rung's machines are at the start: cold (idle) or steady (bound)")
	flags.StringVar(&f.scenario, "scenario", "", "play this scenario: "+strings.Join(livefleet.ScenarioNames(), ", ")+"; "+scenarioDefault+" when no flag names a source")
	flags.BoolVar(&f.list, "list", false, listUsage+hereMark+"the scenarios")
	fileFlag(cmd, &f.file, "a world to run instead, live; it is read again when it changes")
	flags.StringVar(&f.trace, "trace", "", "replay the recorded demand in this folder instead of a rung")
	flags.StringVar(&f.traceList, "trace-list", upTraceListDefault, "which list of the trace: "+strings.Join(traces.Lists(), ", "))
	flags.StringVar(&f.traceOffer, "trace-offer", traces.OfferDefault.String(), "what can be bought beside the trace's nodes: default, none, or equivalents (also the trace's own GPU models)")
	flags.StringVar(&f.speed, "speed", upSpeedDefault, "how much faster than recorded the trace is replayed")
	flags.BoolVar(&f.arrivalsOnly, "arrivals-only", true, "let nothing that arrived in the trace leave again; with departures the trace is nearly idle")
	flags.IntVar(&f.clusters, "clusters", 1, "how many clusters the trace is split into")
	flags.IntVar(&f.shards, "shards", 1, fmt.Sprintf("how many shards run, at most %d; with more than one a coordinator beside them lets machines change shards", upShardsMax))
	flags.Uint64Var(&f.seed, "seed", 1, seedUsage)
	flags.StringVar(&f.listen, "listen", upListenDefault, listenUsage+hereMark+"for the page and its API; one that other machines reach needs --token-file or the --tls flags")
	f.access.register(cmd)
	flags.StringVar(&f.dataDir, "data-dir", upDataDirDefault, dataDirUsage+hereMark+"it is created")
	flags.DurationVar(&f.cycle, "cycle", upCycleDefault, "time between two cycles; new demand starts one at once")
	workersFlag(cmd, &f.workers, "")
	fitFlags(cmd, &f.acquire, &f.maxShare)
	pinFlag(cmd, &f.pin)
	flags.BoolVar(&f.dryRun, "dry-run", false, dryRunUsage+hereMark+"decide everything and carry out nothing")
	flags.DurationVar(&f.duration, "duration", 0, "stop after this time, 0 = run until stopped")
	flags.StringVar(&f.latency, "provider-latency", upLatencyDefault, "how long each change of a machine takes: 2s, or 1s-5s for anything between")
	flags.Float64Var(&f.faults, "provider-faults", 0, "probability that a call to the provider fails, 0 to 1")
	flags.StringVar(&f.profileDir, "profile-dir", "", "keep execution traces of the slowest cycles in this folder; empty keeps none")
	flags.DurationVar(&f.profileOver, "profile-over", shard.WorstMinDefault, "a cycle that takes as long is slow")
	flags.StringVar(&f.logLevel, "log-level", "warn", "what is logged to standard error: debug, info, warn or error")
	tlsFlags(cmd, &f.tls)
	_ = cmd.RegisterFlagCompletionFunc("rung", cobra.FixedCompletions(workload.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("trace-list", cobra.FixedCompletions(traces.Lists(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(append(livefleet.ScenarioNames(), scenarioList), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("trace")
	_ = cmd.MarkFlagDirname("data-dir")
	_ = cmd.MarkFlagDirname("profile-dir")
}

// upPlan is what up was asked to do, checked.
type upPlan struct {
	source   sourceConfig
	shard    shard.Config
	provider simulated.Latencies
	faults   float64
	latency  string
	listen   string
	access   accessFlags
	tls      mtls.Files
	dataDir  string
	duration time.Duration
	level    slog.Level
	pin      bool
	shards   int
	// Whether the flags of acquisition were given.
	acquireSet, shareSet bool
	// With several shards: the time between reports, and between passes.
	reportGap, rebalanceGap time.Duration
}

// scenarioDefault is played when no source is named: a fleet in which there is not enough for everybody.
const scenarioDefault = "contended"

// defaultSource names the source when no flag does. Several shards need a rung: scenarios run on one.
func (f *upFlags) defaultSource(set func(string) bool) {
	for _, flag := range []string{"rung", "start", "scenario", "file", "trace", "shards"} {
		if set(flag) {
			return
		}
	}
	f.scenario = scenarioDefault
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
	p := &upPlan{latency: f.latency, faults: f.faults, listen: f.listen, access: f.access, tls: f.tls, dataDir: f.dataDir, duration: f.duration, pin: f.pin, shards: f.shards,
		reportGap: upReportGap, rebalanceGap: upRebalanceGap}
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
	note(checkWorkers(f.workers))
	note(checkShare(f.maxShare))
	p.acquireSet, p.shareSet = set("acquire"), set("max-machine-share")
	rule, err := engine.ParseAcquireRule(f.acquire)
	if err != nil {
		note(fmt.Errorf("--acquire: %w", err))
	}
	if f.shards < 1 || f.shards > upShardsMax {
		note(fmt.Errorf("--shards must be between 1 and %d, got %d", upShardsMax, f.shards))
	}
	if f.duration < 0 {
		note(fmt.Errorf("--duration cannot be negative, got %v; 0 runs until stopped", f.duration))
	}
	if f.profileOver <= 0 {
		note(fmt.Errorf("--profile-over must be positive, got %v", f.profileOver))
	}
	if f.dataDir == "" {
		note(errors.New("--data-dir is empty; name a folder"))
	}
	if _, err := f.access.guard(nil); err != nil {
		note(err)
	}
	if _, err := mtls.Load(f.tls, nil); err != nil {
		note(err)
	}
	if err := p.level.UnmarshalText([]byte(f.logLevel)); err != nil {
		note(fmt.Errorf("--log-level must be debug, info, warn or error, got %q", f.logLevel))
	}
	p.shard = shard.DefaultConfig()
	p.shard.Unbounded()
	p.shard.DoubtListings = false // the fleet is in memory
	p.shard.ReclaimCapFraction = shard.ReclaimCapFractionDefault
	p.shard.CycleInterval, p.shard.DryRun = f.cycle, f.dryRun
	p.shard.Engine.Workers, p.shard.Engine.Acquire, p.shard.Engine.MaxMachineShare = f.workers, rule, f.maxShare
	p.shard.Concurrency = upConcurrency
	p.shard.WorstDir, p.shard.WorstMin = f.profileDir, f.profileOver
	if len(faults) > 0 {
		return nil, badInput(errors.Join(faults...))
	}
	return p, p.shard.Validate()
}

// parseSource settles where demand comes from.
func (f *upFlags) parseSource(set func(string) bool) (sourceConfig, error) {
	c := sourceConfig{seed: f.seed}
	if err := f.oneSource(set); err != nil {
		return c, err
	}
	if f.trace == "" {
		for _, name := range []string{"trace-list", "trace-offer", "speed", "arrivals-only", "clusters"} {
			if set(name) {
				return c, fmt.Errorf("--%s belongs to a trace; name its folder with --trace", name)
			}
		}
		if f.scenario != "" || f.file != "" {
			return c, c.setLive(f)
		}
		return c, c.setRung(f.rung, f.start)
	}
	return c, c.setTrace(f)
}

// parseLatency reads "2s" or "1s-5s", for all four changes alike.
func parseLatency(text string) (simulated.Latencies, error) {
	l, err := latencyOf("provider-latency", text)
	return simulated.Latencies{Create: l, Configure: l, Drain: l, Delete: l}, err
}

// latencyOf reads what a flag says of one change.
func latencyOf(flag, text string) (simulated.Latency, error) {
	lo, hi, ranged := strings.Cut(text, "-")
	if !ranged {
		hi = lo
	}
	least, err := time.ParseDuration(lo)
	most, err2 := time.ParseDuration(hi)
	switch {
	case err != nil || err2 != nil || least < 0:
		return simulated.Latency{}, fmt.Errorf("--%s must be a duration like 2s or a range like 1s-5s, got %q", flag, text)
	case least > most:
		return simulated.Latency{}, fmt.Errorf("--%s %q begins after its end; swap the two", flag, text)
	case most > upLatencyMax:
		return simulated.Latency{}, fmt.Errorf("--%s must be at most %v, got %q", flag, upLatencyMax, text)
	}
	return simulated.Latency{Min: least, Max: most}, nil
}
