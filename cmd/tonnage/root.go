package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tonnage/tonnage/internal/cpu"
	"github.com/tonnage/tonnage/internal/terminal"
)

// The exit codes of every command.
const (
	exitOK        = 0
	exitInternal  = 1 // nothing that the caller could mend
	exitBadInput  = 2 // a bad file, flag or argument
	exitInvariant = 3 // simulate: something happened that must never happen
)

// exitError is an error that names its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// badInput marks an error as the caller's to mend.
func badInput(err error) error { return &exitError{exitBadInput, err} }

// streams are a command's surroundings, passed in so that tests can run it.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	// terminal tells whether out is one.
	terminal bool
	sink     *yamlSink // below out; nil = there is no YAML
}

func processStreams() streams {
	return streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, terminal: term.IsTerminal(int(os.Stdout.Fd()))}
}

// run executes one command line and returns its exit code. Errors go to the
// error stream as they are: for a bad file, one line for each fault. Both streams
// escape control characters, wherever they come from.
func run(ctx context.Context, args []string, s streams) int {
	s.sink = &yamlSink{out: s.out}
	out, err := terminal.NewWriter(s.sink), terminal.NewWriter(s.err)
	defer func() { _, _ = out.Close(), err.Close() }() // at most a torn character is left
	s.out, s.err = out, err
	code := execute(ctx, args, s)
	if failed := errors.Join(out.Close(), s.sink.Close()); failed != nil && code == exitOK {
		fmt.Fprintln(s.err, failed)
		return exitInternal
	}
	return code
}

func execute(ctx context.Context, args []string, s streams) int {
	if w := cpu.Warning(); w != "" {
		fmt.Fprintln(s.err, "tonnage:", w)
	}
	root := newRoot(s)
	root.SetArgs(twoDashes(root, args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(s.err, err)
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	return exitInternal
}

// untilDone does what looks at no context: reads standard input, or decides. A signal ends
// the command all the same, since nothing has to be put in order then.
func untilDone(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
}

// twoDashes lets the servers' long flags be given with one dash, as scripts for
// the public project's binaries may: -listen=:7780 is --listen=:7780. What is no
// long flag of the command stays as it is, and so does all behind a --.
func twoDashes(root *cobra.Command, args []string) []string {
	if len(args) == 0 || args[0] != "shard" && args[0] != "coordinator" {
		return args
	}
	cmd, _, err := root.Find(args[:1])
	if err != nil {
		return args
	}
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) > 1 && strings.HasPrefix(arg, "-") && cmd.Flags().Lookup(name) != nil {
			out[i] = "-" + arg
		}
	}
	return out
}

// newRoot returns the whole command tree.
func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "tonnage",
		Short: "Match the demand of many Kubernetes clusters with one pool of machines",
		Long: `Tonnage compares what many Kubernetes clusters need with one pool of machines,
and decides which machines to bind, buy, preempt, reclaim and give back.

  init         a world with comments, to begin with
  validate     check a file; schema writes its format
  decide       one decision about a world in a file
  simulate     many cycles in virtual time, from a file
  what-if      what a change would do, and what it would cost
  explain      why a need or a machine is as it is
  top          watch a running shard
  up           everything in one process, with a live page
  demand       ask a shard for machines without a cluster
  shard        a shard for a fleet: operators, a provider, decisions
  coordinator  what concerns several shards: domains, shortfalls, moves
  ctl          look at and change what is running
  provider     made-up machines for shards, in a process of its own
  bench        how fast the engine decides, and what it takes

A flag that the command line does not give is taken from the environment: --shard from
TONNAGE_SHARD, --data-dir from TONNAGE_DATA_DIR.`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(versionLine())
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badInput(fmt.Errorf("%w (see `%s --help`)", err, cmd.CommandPath()))
	})
	root.AddCommand(commands(s)...)
	fromEnvironment(root)
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Args, cmd.RunE = noArguments, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range cmd.Commands() {
			shell.Args = noArguments
		}
	}
	return root
}

// commands lists the commands; each has a file of its own.
func commands(s streams) []*cobra.Command {
	return []*cobra.Command{
		newInit(s), newValidate(s), newSchema(s), newDecide(s), newSimulate(s), newWhatIf(s), newExplain(s), newTop(s), newUp(s), newDemand(s),
		newShard(s), newCoordinator(s), newCtl(s), newProvider(s), newBench(s), newVersion(),
	}
}

// newHelp is cobra's help, but for a command that does not exist, which is an
// error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Help about any command", Example: "  tonnage help what-if",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return badInput(err)
			}
			if err := noArguments(about, rest); err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// noArguments refuses arguments that are no flags, and names the command that
// a misspelt one is near to.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	what, hint := "unexpected argument", ""
	if cmd.HasSubCommands() {
		what = "unknown command"
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
	}
	return badInput(fmt.Errorf("%s %q%s (see `%s --help`)", what, args[0], hint, cmd.CommandPath()))
}

// fileFlag adds -f to a command.
func fileFlag(cmd *cobra.Command, path *string, what string) {
	cmd.Flags().StringVarP(path, "file", "f", "", what+`, JSON or YAML; "-" reads standard input`)
	_ = cmd.MarkFlagFilename("file", "json", "yaml", "yml")
}

// openFile opens what -f names.
func openFile(s streams, path string) (io.ReadCloser, error) {
	switch path {
	case "":
		return nil, badInput(errors.New("no file given; name one with -f FILE, or - for standard input"))
	case "-":
		return io.NopCloser(s.in), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, badInput(fmt.Errorf("cannot open the file: %w", err))
	}
	return f, nil
}

// The output formats.
const (
	formatJSON  = "json"
	formatTable = "table"
)

// outputFlag adds -o to a command.
func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "", "json, yaml or table (default: table on a terminal, json elsewhere)")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatJSON, formatYAML, formatTable}, cobra.ShellCompDirectiveNoFileComp))
}

// formatOf settles the output format.
func formatOf(s streams, format string) (string, error) {
	switch {
	case format == formatJSON || format == formatTable:
		return format, nil
	case format == formatYAML && s.sink != nil:
		s.sink.switchOn()
		return formatJSON, nil // which comes out as YAML
	case format != "":
		return "", badInput(fmt.Errorf("unknown output format %q; use -o json, -o yaml or -o table", format))
	case s.terminal:
		return formatTable, nil
	}
	return formatJSON, nil
}
