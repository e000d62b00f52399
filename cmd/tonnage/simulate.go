package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/sim"
	"github.com/tonnage/tonnage/internal/world"
)

func newSimulate(s streams) *cobra.Command {
	var file, output string
	cmd := &cobra.Command{
		Use:   "simulate -f FILE",
		Short: "Run many cycles in virtual time, with latencies, faults and events",
		Long: `Simulate runs a shard in virtual time against the built-in provider: a world, how
fast and how reliable the provider is, and what happens when. It prints one JSON
object a line, a line a cycle, then a line with a summary.

The run is a function of the file alone: every random draw comes from its seed.
A file with faults is refused whole with exit code 2. Exit code 3 means that
something happened that must never happen, whatever the file says: a machine
claimed twice, an illegal state change, a machine gone that nobody deleted, a
plan that the sequential pass would not give, a cap passed.`,
		Example: `  tonnage simulate -f run.yaml
  tonnage simulate -f run.yaml -o json | jq -c 'select(.actions != [])'
  tonnage simulate -f - -o table < run.json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return simulate(cmd.Context(), s, file, output)
		},
	}
	fileFlag(cmd, &file, "the run")
	outputFlag(cmd, &output)
	return cmd
}

// printer prints a run as it goes.
type printer interface {
	Cycle(*sim.Cycle) error
	Summary(*sim.Summary) error
}

func simulate(ctx context.Context, s streams, file, output string) error {
	format, err := formatOf(s, output)
	if err != nil {
		return err
	}
	in, err := openFile(s, file)
	if err != nil {
		return err
	}
	scenario, err := world.ReadRun(in)
	in.Close()
	if err != nil {
		return faultsIn(err, file)
	}
	out := bufio.NewWriter(s.out)
	var p printer = world.NewTraceJSON(out)
	if format == formatTable {
		p = world.NewTraceTable(out)
	}
	summary, err := sim.Run(ctx, *scenario, p.Cycle)
	if err == nil {
		err = p.Summary(&summary)
	}
	// What was printed before a failure is what explains it.
	return errors.Join(runError(err), out.Flush())
}

// runError gives a broken invariant its exit code.
func runError(err error) error {
	if violation, ok := errors.AsType[*sim.Violation](err); ok {
		return &exitError{exitInvariant, violation}
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}
