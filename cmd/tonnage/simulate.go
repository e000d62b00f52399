package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/world"
)

func newSimulate(s streams) *cobra.Command {
	var file, output string
	cmd := &cobra.Command{
		Use:   "simulate -f FILE",
		Short: "Run many cycles in virtual time, with latencies, faults and events",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			if _, err := formatOf(s, output); err != nil {
				return err
			}
			in, err := openFile(s, file)
			if err != nil {
				return err
			}
			defer in.Close()
			if _, err := world.ReadRun(in); err != nil {
				return inputError(err)
			}
			return errors.New("not wired")
		},
	}
	fileFlag(cmd, &file, "the run")
	outputFlag(cmd, &output)
	return cmd
}
