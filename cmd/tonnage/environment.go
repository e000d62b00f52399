package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variableOf is the environment variable that gives a flag which the command line does not.
func variableOf(flag string) string {
	return "TONNAGE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// takeEnvironment sets the flags of a command that the environment gives and the command line does not. An empty
// variable gives none. The error lists every variable with a bad value.
func takeEnvironment(cmd *cobra.Command) error {
	var faults []error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		name := variableOf(flag.Name)
		value := os.Getenv(name)
		if flag.Changed || value == "" || flag.Name == "help" || flag.Name == "version" {
			return
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	})
	if len(faults) > 0 {
		return badInput(errors.Join(faults...))
	}
	return nil
}

// fromEnvironment makes all commands below one take the environment, before whatever else they do first.
func fromEnvironment(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		fromEnvironment(sub)
	}
	if cmd.RunE == nil {
		return
	}
	check := inherited(cmd)
	cmd.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if err := takeEnvironment(cmd); err != nil || check == nil {
			return err
		}
		return check(cmd, args)
	}
}

// inherited is what a command does first by its own or by the nearest above it.
func inherited(cmd *cobra.Command) func(*cobra.Command, []string) error {
	for c := cmd; c != nil; c = c.Parent() {
		if c.PersistentPreRunE != nil {
			return c.PersistentPreRunE
		}
	}
	return nil
}
