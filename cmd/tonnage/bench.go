package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	rung, regime string
	acquire      string
	output       string
	cpuProfile   string
	profileDir   string
	clusters     int
	cycles       int
	workers      int
	seed         uint64
	verify       bool
	full         bool
	pin          bool
}

func newBench(s streams) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure cycles of the engine on a calibrated workload",
		Long: `Bench builds a calibrated workload and measures the engine's cycles on it, one after
another: milliseconds of the cycle and of each phase, processor time, allocations,
memory, and a checksum of what was decided.

Regimes:
  cold       nothing is bound and everything is to be acquired, in each cycle
  steady     everything is bound; from cycle to cycle 1 % of the Needs and 1 % of the
             machines change, among them those for which the plan is carried out
  burst      a tenth of the Needs double and gangs of 64 to 256 machines arrive;
             --changed-clusters 5: in 5 % of the clusters
  shrink     half of a tenth of the clusters' demand vanishes
  contended  demand is 130 % of supply, at five priorities; victims are chosen by gangs

A cycle builds on the one before; fullCycles of the output says how many could not,
and --full lets none. Of small rungs one in a hundred is checked: decided a second time,
from nothing. From 50k on each checks a part of what it builds on.

Between the cycles bench measures the floor: what this machine's memory allows when
every row is read and every machine rewritten and nothing is computed. timesFloor is
how many times that the fastest cycle takes, p50TimesFloor the median one: a figure
that differs much less from machine to machine than milliseconds.

Only the cycle is measured, not what brings its input about. Percentiles are exact
(nearest rank): of fewer than 100 cycles, p99 is the slowest. The checksum is a
function of rung, regime, seed and --acquire, in the steady regime also of --cycles; it
is the same on every machine. A plan that differs from what --verify compares it with,
from that of another cycle on the same input or from its own check ends the run with
exit code 3.`,
		Example: `  tonnage bench
  tonnage bench --rung 50k --regime steady --cycles 200 -o table
  tonnage bench --rung 5k --regime contended --verify -o json | jq .planChecksum
  tonnage bench --rung 500k --cpuprofile cpu.out && go tool pprof -tagfocus measured cpu.out
  tonnage bench --rung 50k --regime steady --profile build/profile`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return bench(cmd.Context(), s, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.rung, "rung", "tiny", rungUsage())
	flags.StringVar(&f.regime, "regime", "cold", "what happens to it: "+strings.Join(regimeNames(), ", "))
	acquireFlag(cmd, &f.acquire, engine.AcquireCheapest)
	flags.IntVar(&f.clusters, "changed-clusters", 0, "of burst and shrink: in how many percent of the clusters that they change (default all)")
	flags.IntVar(&f.cycles, "cycles", measure.CyclesDefault, "cycles to measure")
	workersFlag(cmd, &f.workers, "")
	pinFlag(cmd, &f.pin)
	flags.BoolVar(&f.full, "full", false, "let no cycle build on the one before: what the first cycle of a process takes")
	flags.Uint64Var(&f.seed, "seed", 1, seedUsage)
	flags.BoolVar(&f.verify, "verify", false, "compare the plan of every cycle: on small rungs some with the reference's, the others with that of one worker that builds on nothing")
	flags.StringVar(&f.cpuProfile, "cpuprofile", "", "write a CPU profile; what is measured has the label bench=measured")
	flags.StringVar(&f.profileDir, "profile", "", "write cpu, heap, mutex and block profiles into this folder; it is created")
	_ = cmd.MarkFlagDirname("profile")
	outputFlag(cmd, &f.output)
	alsoCalled(cmd, "clusters", "changed-clusters")
	for flag, values := range map[string][]string{"rung": workload.Names(), "regime": regimeNames()} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

func regimeNames() []string {
	var names []string
	for _, g := range measure.Regimes() {
		names = append(names, g.String())
	}
	return names
}

// config checks the flags.
func (f *benchFlags) config() (cfg measure.Config, err error) {
	cfg = measure.Config{Cycles: f.cycles, ClustersPercent: f.clusters, Workers: f.workers, Seed: f.seed, Full: f.full, Verify: f.verify}
	if cfg.Rung, err = workload.ByName(f.rung); err != nil {
		return cfg, badInput(fmt.Errorf("--rung: %w", err))
	}
	if cfg.Regime, err = workload.ParseRegime(f.regime); err != nil {
		return cfg, badInput(fmt.Errorf("--regime: %w", err))
	}
	if cfg.Acquire, err = parseAcquire(f.acquire); err != nil {
		return cfg, err
	}
	if f.clusters != 0 && (f.clusters < 1 || f.clusters > 100 || cfg.Regime != workload.Burst && cfg.Regime != workload.Shrink) {
		return cfg, badInput(fmt.Errorf("--changed-clusters goes with --regime burst or shrink and is between 1 and 100, got %d", f.clusters))
	}
	if f.cycles < 1 || f.cycles > measure.CyclesMax {
		return cfg, badInput(fmt.Errorf("--cycles must be between 1 and %d, got %d", measure.CyclesMax, f.cycles))
	}
	if f.cpuProfile != "" && f.profileDir != "" {
		return cfg, badInput(errors.New("--cpuprofile and --profile exclude each other; give one"))
	}
	if err := checkWorkers(f.workers); err != nil {
		return cfg, badInput(err)
	}
	return cfg, nil
}

func bench(ctx context.Context, s streams, f *benchFlags) error {
	format, err := formatOf(s, f.output)
	if err != nil {
		return err
	}
	cfg, err := f.config()
	if err != nil {
		return err
	}
	workers := engine.Options{Workers: cfg.Workers}
	err = pinWorkers(&workers, f.pin, func(worker int, err error) {
		fmt.Fprintf(s.err, "tonnage: worker %d is not tied to its CPU: %v\n", worker, err)
	})
	if err != nil {
		return err
	}
	cfg.Pin, cfg.Nodes = workers.Pin, workers.Nodes
	p := newBenchProgress(s.err)
	taken, err := startProfiles(f.cpuProfile, f.profileDir)
	if err != nil {
		return err
	}
	cfg.Progress = func(at measure.Progress) {
		taken.progress(at)
		p.show(at)
	}
	result, err := measure.Run(ctx, cfg)
	p.clear()
	if err = errors.Join(benchError(err), taken.stop()); err != nil {
		return err
	}
	if format == formatTable {
		return result.WriteTable(s.out)
	}
	return result.WriteJSON(s.out)
}

// benchError gives a plan that differs its exit code.
func benchError(err error) error {
	if difference, ok := errors.AsType[*measure.Difference](err); ok {
		return &exitError{exitInvariant, difference}
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}
