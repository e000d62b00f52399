package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tonnage/tonnage/internal/commandline"
	"github.com/tonnage/tonnage/internal/contexts"
)

// rivals are flags of which a command takes one: if one is given, the others are not read
// from the environment or a context.
var rivals = map[string]string{"file": "shard", "shard": "file"}

// rivalGiven tells whether the rival of a flag is given.
func rivalGiven(flags *pflag.FlagSet, name string) bool {
	rival := flags.Lookup(rivals[name])
	return rival != nil && rival.Changed
}

// hereOnly tells whether a flag has a meaning of its own in its command.
func hereOnly(flag *pflag.Flag) bool { return flag.Annotations[annotationHereOnly] != nil }

// takeEnvironment sets the flags of a command that the environment gives and the command line does not.
func takeEnvironment(cmd *cobra.Command) error {
	err := commandline.TakeEnvironment(cmd, func(flag *pflag.Flag) bool { return hereOnly(flag) || rivalGiven(cmd.Flags(), flag.Name) })
	if err != nil {
		return badInput(err)
	}
	return nil
}

// takeContext sets the flags that neither the command line nor the environment gives and a context does. They do not
// count as given. What is secret goes with the context's addresses only.
func takeContext(cmd *cobra.Command) error {
	named := cmd.Flags().Lookup(contextFlag)
	if named == nil || rivalGiven(cmd.Flags(), "shard") { // it asks a file
		return nil
	}
	all, err := loadContexts()
	if err != nil {
		return err
	}
	c, err := all.Get(named.Value.String())
	if err != nil {
		return badInput(fmt.Errorf("--%s: %w", contextFlag, err))
	}
	own := true // the addresses are the context's
	for _, s := range contexts.Settings {
		flag := cmd.Flags().Lookup(s.Flag)
		if s.Address && flag != nil && flag.Changed && flag.Value.String() != all.Value(c, s.Flag) {
			own = false
		}
	}
	for _, s := range contexts.Settings {
		flag, value := cmd.Flags().Lookup(s.Flag), all.Value(c, s.Flag)
		if flag == nil || flag.Changed || value == "" || hereOnly(flag) || s.Secret && !own {
			continue
		}
		if err := flag.Value.Set(value); err != nil {
			return badInput(fmt.Errorf("%s of the context: %w (%s)", s.Flag, err, all.Path))
		}
	}
	return nil
}

// addContextFlag lets a command that asks what is running be told a context.
func addContextFlag(cmd *cobra.Command) {
	for _, s := range contexts.Settings {
		flag := cmd.Flags().Lookup(s.Flag)
		if flag == nil {
			flag = cmd.InheritedFlags().Lookup(s.Flag)
		}
		if flag == nil || !s.Address || hereOnly(flag) {
			continue
		}
		cmd.Flags().String(contextFlag, "", "name of the context that gives addresses, certificates and format (tonnage context list)")
		_ = cmd.RegisterFlagCompletionFunc(contextFlag, contextNames)
		return
	}
}

// fromEnvironment makes all commands below one take the environment and a context, before whatever else they do first.
func fromEnvironment(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		fromEnvironment(sub)
	}
	if cmd.RunE == nil {
		return
	}
	addContextFlag(cmd)
	check := inherited(cmd)
	cmd.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(takeEnvironment(cmd), takeContext(cmd)); err != nil || check == nil {
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
