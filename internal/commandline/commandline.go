// Package commandline is what the commands of all binaries have in common: flags that the environment gives, one dash or
// two, and the name that a misspelt one is near to.
package commandline

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tonnage/tonnage/internal/world/document"
)

// Variable is the environment variable that gives a flag which the command line does not.
func Variable(flag string) string {
	return "TONNAGE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// TakeEnvironment sets the flags of a command that the environment gives and the command line does not, but for those to
// skip (nil = none). An empty variable gives none. The error lists every variable with a bad value.
func TakeEnvironment(cmd *cobra.Command, skip func(*pflag.Flag) bool) error {
	var given []*pflag.Flag // what the first of them sets must not change what is skipped
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || os.Getenv(Variable(flag.Name)) == "" || flag.Name == "help" || flag.Name == "version" || skip != nil && skip(flag) {
			return
		}
		given = append(given, flag)
	})
	var faults []error
	for _, flag := range given {
		if err := cmd.Flags().Set(flag.Name, os.Getenv(Variable(flag.Name))); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", Variable(flag.Name), err))
		}
	}
	return errors.Join(faults...)
}

// TwoDashes lets long flags be given with one dash, as scripts for the public project's binaries may: -listen=:7780 is
// --listen=:7780. What is no long flag stays as it is, and so does all behind a --.
func TwoDashes(flags *pflag.FlagSet, args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) > 1 && strings.HasPrefix(arg, "-") && (name == "help" || flags.Lookup(name) != nil) {
			out[i] = "-" + arg
		}
	}
	return out
}

// NearestFlag names the flag that a misspelt one is near to, as the end of a sentence; "" when the error is about
// something else, or none is near.
func NearestFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, flag.Name)
		}
	})
	if near := document.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return "; did you mean --" + near + "?"
	}
	return ""
}

// NearestCommands names the commands that a misspelt one is near to, or begins.
func NearestCommands(cmd *cobra.Command, word string) []string {
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return near
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if near := document.Nearest(word, names); near != "" {
		return []string{near}
	}
	return nil
}

// NoArguments refuses arguments that are no flags, and names the command that a misspelt one is near to.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	what, hint := "unexpected argument", ""
	if cmd.HasSubCommands() {
		what = "unknown command"
		if near := NearestCommands(cmd, args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
	}
	return fmt.Errorf("%s %q%s (see `%s --help`)", what, args[0], hint, cmd.CommandPath())
}
