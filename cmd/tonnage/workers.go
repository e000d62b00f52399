package main

import (
	"cmp"
	"fmt"
	"os"
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

// processors is how many goroutines could run at a time when the process began.
var processors = runtime.GOMAXPROCS(0)

// processorsBeside is how many goroutines of a server may run beside the workers of
// a cycle. While the workers occupy every processor of the Go scheduler, it polls the
// network every 10 ms only, and answers wait for the end of the cycle.
const processorsBeside = 1

// runBeside fixes the number of workers of each of so many shards in the process, and
// lets other goroutines run beside them: the kernel shares the cores out then. A
// GOMAXPROCS in the environment stays as it is.
func runBeside(opts *engine.Options, shards int) {
	opts.Workers = cmp.Or(opts.Workers, max(1, min(processors/shards, engine.WorkersMax)))
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors + processorsBeside)
	}
}

// pinWorkers ties the workers of an engine to CPUs, if they are to be, and their
// own memory to the nodes of these. refused (may be nil) is told of a worker that
// the system leaves untied; it is called by several workers at once. The calling
// goroutine must not be tied itself: the process's CPUs are read off its thread.
func pinWorkers(opts *engine.Options, on bool, refused func(worker int, err error)) error {
	if !on {
		return nil
	}
	host, err := topology.Host()
	if err != nil {
		return badInput(fmt.Errorf("--pin: %w; leave it out here", err))
	}
	pinOn(host, opts, refused)
	return nil
}

// pinOn is pinWorkers on a given machine. The first worker is whoever runs the
// cycle, on any CPU, so that its memory may lie anywhere.
func pinOn(host *topology.Topology, opts *engine.Options, refused func(worker int, err error)) {
	places := host.Workers(cmp.Or(opts.Workers, runtime.GOMAXPROCS(0)))
	opts.Pin = pin.Hook(places, refused)
	opts.Nodes = make([]int, len(places))
	for i, p := range places {
		opts.Nodes[i] = p.Node
	}
	opts.Nodes[0] = topology.AnyNode
}
