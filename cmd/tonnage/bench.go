package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/internal/world"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	rung, regime string
	output       string
	profile      string
	cycles       int
	workers      int
	seed         uint64
	verify       bool
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
  steady     everything is bound; before each cycle 1 % of the Needs and 1 % of the
             machines change, after it the plan is carried out at once
  burst      a tenth of the Needs double and gangs of 64 to 256 machines arrive
  shrink     half of a tenth of the clusters' demand vanishes
  contended  demand is 130 % of supply, at five priorities

Only the cycle is measured, not what brings its input about. Percentiles are exact
(nearest rank): of fewer than 100 cycles, p99 is the slowest. The checksum is a
function of rung, regime and seed, in the steady regime also of --cycles; it is the
same on every machine. A plan that differs from what --verify compares it with, or
from that of another cycle on the same input, ends the run with exit code 3.`,
		Example: `  tonnage bench
  tonnage bench --rung 50k --regime steady --cycles 200 -o table
  tonnage bench --rung 5k --regime contended --verify -o json | jq .planChecksum
  tonnage bench --rung 500k --cpuprofile cpu.out && go tool pprof -tagfocus measured cpu.out`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return bench(cmd.Context(), s, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.rung, "rung", "tiny", "the workload: "+strings.Join(workload.Names(), ", "))
	flags.StringVar(&f.regime, "regime", "cold", "what happens to it: "+strings.Join(regimeNames(), ", "))
	flags.IntVar(&f.cycles, "cycles", measure.CyclesDefault, "cycles to measure")
	flags.IntVar(&f.workers, "workers", 0, "workers of the cycle, 0 = all cores; no effect yet, a cycle is one sequential pass")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the workload and of its changes")
	flags.BoolVar(&f.verify, "verify", false, "compare plans with the reference's; on large rungs with those of one worker")
	flags.StringVar(&f.profile, "cpuprofile", "", "write a CPU profile; what is measured has the label bench=measured")
	outputFlag(cmd, &f.output)
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
	cfg = measure.Config{Cycles: f.cycles, Workers: f.workers, Seed: f.seed, Verify: f.verify}
	if cfg.Rung, err = workload.ByName(f.rung); err != nil {
		return cfg, badInput(fmt.Errorf("--rung: %w", err))
	}
	if cfg.Regime, err = workload.ParseRegime(f.regime); err != nil {
		return cfg, badInput(fmt.Errorf("--regime: %w", err))
	}
	if f.cycles < 1 || f.cycles > measure.CyclesMax {
		return cfg, badInput(fmt.Errorf("--cycles must be between 1 and %d, got %d", measure.CyclesMax, f.cycles))
	}
	if f.workers < 0 || f.workers > world.WorkersMax {
		return cfg, badInput(fmt.Errorf("--workers must be between 0 and %d, got %d", world.WorkersMax, f.workers))
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
	p := newBenchProgress(s.err)
	cfg.Progress = p.show
	stop, err := startProfile(f.profile)
	if err != nil {
		return err
	}
	result, err := measure.Run(ctx, cfg)
	p.clear()
	if err = errors.Join(benchError(err), stop()); err != nil {
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

// startProfile begins a CPU profile, if a file is named; stop ends it.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, badInput(fmt.Errorf("--cpuprofile: %w", err))
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
