package main

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/pin"
	"github.com/tonnage/tonnage/internal/topology"
)

// workersFlag adds --workers to a command.
func workersFlag(cmd *cobra.Command, workers *int, more string) {
	cmd.Flags().IntVar(workers, "workers", 0, "workers of a cycle, 0 = all cores; the answer never depends on it"+more)
}

// pinFlag adds --pin to a command.
func pinFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "pin", false, "keep each worker but the first on a CPU of its own, spread over sockets; for large fleets: a pinned worker wakes up more slowly")
}

// checkWorkers refuses a number of workers that no engine takes.
func checkWorkers(workers int) error {
	if workers < 0 || workers > engine.WorkersMax {
		return fmt.Errorf("--workers must be between 0 and %d, got %d", engine.WorkersMax, workers)
	}
	return nil
}

// pinned returns what ties workers to CPUs, nil when they are not to be tied.
// refused (may be nil) is told of a worker that the system leaves untied; it is
// called by several workers at once. The calling goroutine must not be tied
// itself: the process's CPUs are read off its thread.
func pinned(on bool, workers int, refused func(worker int, err error)) (func(worker int), error) {
	if !on {
		return nil, nil
	}
	host, err := topology.Host()
	if err != nil {
		return nil, badInput(fmt.Errorf("--pin: %w; leave it out here", err))
	}
	places := host.Workers(cmp.Or(workers, runtime.GOMAXPROCS(0)))
	return pin.Hook(places, refused), nil
}
