package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/world"
)

// decideFlags are the flags of decide.
type decideFlags struct {
	file    string
	output  string
	explain bool
	workers int
}

func newDecide(s streams) *cobra.Command {
	var f decideFlags
	cmd := &cobra.Command{
		Use:   "decide -f FILE",
		Short: "Decide once about a world: machines, needs, time",
		Long: `Decide reads a world (machines, needs, options) and prints the plan for it: which
machines to bind, buy, preempt, reclaim and give back, and what stays unmet.

The answer is a function of the file alone. Unmet demand is no error: the exit
code is 0. A file with faults is refused whole, with one line for each fault
(path: what is wrong) and exit code 2.`,
		Example: `  tonnage decide -f world.yaml
  tonnage decide -f world.json -o json --explain
  generate-world | tonnage decide -f - -o table`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return untilDone(cmd.Context(), func() error { return decide(s, f, cmd.Flags().Changed("workers")) })
		},
	}
	fileFlag(cmd, &f.file, "the world")
	outputFlag(cmd, &f.output)
	cmd.Flags().BoolVar(&f.explain, "explain", false, `add why, by need and by machine (key "explain" of the JSON)`)
	workersFlag(cmd, &f.workers, hereMark+"wins over the file")
	return cmd
}

func decide(s streams, f decideFlags, workersSet bool) error {
	format, err := formatOf(s, f.output)
	if err != nil {
		return err
	}
	if err := checkWorkers(f.workers); err != nil {
		return badInput(err)
	}
	in, err := openFile(s, f.file)
	if err != nil {
		return err
	}
	defer in.Close()
	w, err := world.Read(in)
	if err != nil {
		return faultsIn(err, f.file)
	}
	warnOf(s, f.file, w)
	if workersSet {
		w.Options.Engine.Workers = f.workers
	}
	start := time.Now()
	answer, err := w.Decide(f.explain, func() int64 { return int64(time.Since(start)) })
	if err != nil {
		return badInput(err)
	}
	if format == formatTable {
		return answer.WriteTable(s.out)
	}
	return answer.WriteJSON(s.out)
}
